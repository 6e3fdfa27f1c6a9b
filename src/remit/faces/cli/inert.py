"""Inert text: nothing that was stored may steer the terminal, a log, or the eye of the reader.

Ids, names, reasons and values were written by others. Control characters and terminal
escapes, line ends, invisible and direction-changing characters are shown as escapes; markup
is never interpreted, because only `rich.text.Text` is ever handed to the console. Text is
made here and nowhere else, and a test looks that it stays so.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

from remit.faces.there import There
from remit.facts.unseen import is_unseen

_BLANKS = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

_CUT_CHARACTERS_MAX = 400  # no terminal shows more of a line that is cut to its width
_CUT_WIDTH_MIN = 12
_SIZE_TOLD_BYTES_MIN = 200


def inert(stored: object) -> str:
    """`stored` as one line of visible text: a line end is shown as \\n, a bidi override as \\u202e."""
    text = str(stored)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(character) if is_unseen(character) else character for character in text)


def whole(value: bytes | None) -> str:
    """A stored value, all of it; bytes that are no text are shown as \\xff."""
    return "" if value is None else inert(value.decode("utf-8", "backslashreplace"))


def cell(stored: object, style: str = "") -> Text:
    """A table's cell, or a line, that holds stored text."""
    return Text(inert(stored), style=style)


def name_cell(named: str, style: str = "") -> Text:
    """A table's cell that holds a name. One in quotes is cut, and never folded: no line begins with what data says."""
    text = cell(named, style)
    if named.startswith('"'):
        text.no_wrap, text.overflow = True, "ellipsis"
    return text


def line(*parts: Text | str) -> Text:
    """One line out of several pieces, each with its own style."""
    return Text.assemble(*(part if isinstance(part, Text) else cell(part) for part in parts))


class Cut:
    """Stored text cut to the width that there is, and how much it is altogether: `{"sku":"A-1","pri… 12,345 bytes`.

    told: how the beginning of the value is shown, where that is not as it is stored.
    """

    def __init__(self, before: str, value: bytes | None, style: str = "", *, told: str = "") -> None:
        if not told and value is not None:
            told = value[: _CUT_CHARACTERS_MAX * 4].decode("utf-8", "backslashreplace")
        text = inert(" ".join(part for part in (before, told) if part))
        self.text, self._style = text[:_CUT_CHARACTERS_MAX], style
        self._is_cut = len(text) > _CUT_CHARACTERS_MAX or (value is not None and len(value) > _CUT_CHARACTERS_MAX * 4)
        self._size = f" {len(value):,} bytes" if value is not None and len(value) >= _SIZE_TOLD_BYTES_MIN else ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.max_width
        if self._is_cut or cell_len(self.text) > room:
            end = f"…{self._size}" if room >= _CUT_WIDTH_MIN * 2 else "…"
            yield Text(set_cell_size(self.text, max(0, room - cell_len(end))) + end, style=self._style, no_wrap=True)
        else:
            yield Text(self.text, style=self._style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        wide = cell_len(self.text) + (len(self._size) + 1 if self._is_cut else 0)
        return Measurement(min(wide, _CUT_WIDTH_MIN), wide).with_maximum(options.max_width)


class Quoted:
    """Lines that others wrote, whole, each piece behind a bar: nothing of it can pass for a line of ours.

    A line too long for the width goes on in the next one, behind its own bar.
    """

    def __init__(self, lines: Sequence[str], bar: str = "│ ", style: str = "") -> None:
        self._lines, self._bar, self._style = [inert(line) for line in lines], bar, style
        self.text = bar + max(self._lines, key=cell_len, default="") if any(self._lines) else ""  # its widest line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = max(_CUT_WIDTH_MIN, options.max_width - cell_len(self._bar))
        for text in self._lines:
            for piece in chop_cells(text, room) or [""]:
                yield Text.assemble((self._bar, "dim"), (piece, self._style), no_wrap=True, end="\n")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        wide = cell_len(self.text)
        return Measurement(min(wide, _CUT_WIDTH_MIN), wide).with_maximum(options.max_width)


class InertFormatter(logging.Formatter):
    """A line of the log, as inert as an answer. there: what the command names that it tells to type."""

    def __init__(self, there: There) -> None:
        super().__init__()
        self._there = there

    def format(self, record: logging.LogRecord) -> str:
        return inert(f"{record.levelname.lower()}: {self._there.told(record.getMessage())}")


def _escaped(character: str) -> str:
    point = ord(character)
    if character in _BLANKS:
        return _BLANKS[character]
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
