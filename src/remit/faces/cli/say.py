"""Saying: one answer per command, as a person reads it or as one JSON document."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import IO, Any, Literal, TypeVar

from rich.console import Console, ConsoleRenderable, Group
from rich.progress import track
from rich.table import Table
from rich.text import Text

from remit.errors import RemitError
from remit.faces.cli.inert import Cut, cell

T = TypeVar("T")

Part = Text | Cut | str
Shown = ConsoleRenderable

STATUS_STYLES = {
    "completed": "green",
    "running": "cyan",
    "queued": "cyan",
    "waiting": "yellow",
    "in_doubt": "bold yellow",
    "failed": "red",
    "abandoned": "red",
    "expired": "red",
    "cancelled": "red",
    "quarantined": "bold white on red",
}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WIDTH_OF_A_PIPE = 160  # nobody sees it, and what reads it wants whole lines


class Voice:
    """Where answers go: the terminal, or standard output as JSON."""

    def __init__(self, *, is_json: bool, is_colored: bool = True, out: IO[str] | None = None) -> None:
        self.is_json = is_json
        self._out = out or sys.stdout
        self._console = _console(self._out, is_colored)
        self._complaints = _console(sys.stderr, is_colored)

    def answer(self, document: Any, *shown: Shown) -> None:
        """The answer of a command: `document` with --json, `shown` without."""
        if self.is_json:
            return self._dump(document)
        for part in shown:
            _print(self._console, part)

    def complain(self, error: RemitError) -> None:
        """An error: its code, what was done, what to do next."""
        self.object(error.code, error.message, error.hint)

    def object(self, code: str, message: str, hint: str) -> None:
        """The same of what is no error of Remit's: a command that can't be read, an interrupt."""
        if self.is_json:
            return self._dump({"error": {"code": code, "message": message, "hint": hint}})
        _print(self._complaints, Group(cell(f"error: {code}", "bold red"), cell(message), cell(hint, "dim")))

    def progress(self, things: Sequence[T], what: str) -> Iterable[T]:
        """`things`, one after the other, with a bar on the terminal while many are gone through."""
        if self.is_json or not self._complaints.is_terminal or len(things) < 100:
            return things
        return track(things, what, console=self._complaints, transient=True)

    def _dump(self, document: Any) -> None:
        text = json.dumps(document, ensure_ascii=True, indent=2, default=_plain)
        self._out.write(f"{text}\n")


class Grid:
    """A table. What is given as `str` is made inert here; columns that stay empty are left out."""

    def __init__(self, *columns: str, fold: str = "") -> None:
        """fold: the column that gives way, and in which a long text goes on in the next line; else the last one."""
        self._columns, self._fold = columns, fold or columns[-1]
        self._rows: list[tuple[Part, ...]] = []

    def row(self, *cells: Part) -> None:
        self._rows.append(cells)

    def made(self, *, is_headed: bool = True) -> Table:
        table = Table(box=None, pad_edge=False, show_header=is_headed, header_style="bold")
        kept = [place for place in range(len(self._columns)) if any(not _is_empty(row[place]) for row in self._rows)]
        for place in kept:
            is_folded = self._columns[place] == self._fold
            overflow: Literal["fold", "ellipsis"] = "fold" if is_folded else "ellipsis"
            table.add_column(cell(self._columns[place]), overflow=overflow, no_wrap=not is_folded)
        for row in self._rows:
            table.add_row(*(cell(row[place]) if isinstance(row[place], str) else row[place] for place in kept))
        return table


def facts(*pairs: tuple[str, Part]) -> Table:
    """What is so, line by line: name and value. Empty ones are left out."""
    grid = Grid("name", "value")
    for name, value in pairs:
        if not _is_empty(value):
            grid.row(cell(name, "dim"), value)
    return grid.made(is_headed=False)


def stack(*parts: Shown | None) -> Group:
    """Parts below each other, with an empty line in between; None is left out."""
    return Group(*_spaced([part for part in parts if part is not None]))


def _spaced(parts: list[Shown]) -> Iterator[Shown]:
    for place, part in enumerate(parts):
        if place:
            yield cell("")
        yield part


def status_of(status: str) -> Text:
    """A status in its colour."""
    return cell(status, STATUS_STYLES.get(status, ""))


def time_of(at: int) -> str:
    """Microseconds UTC as ISO 8601, to the second."""
    return moment(at).strftime("%Y-%m-%dT%H:%M:%SZ") if at else ""


def hour_of(at: int) -> str:
    """The same without its date."""
    return moment(at).strftime("%H:%M:%S") if at else ""


def moment(at: int) -> datetime:
    """Microseconds UTC as an aware datetime; the end of time where it lies beyond."""
    try:
        return _EPOCH + timedelta(microseconds=at)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def span(us: int) -> str:
    """A length of time in microseconds, for people: `1.2 s`, `3 min 20 s`, `2 d 4 h`."""
    if us < 1_000:
        return f"{us} µs"
    if us < 1_000_000:
        return f"{us / 1_000:.1f} ms"
    if us < 60_000_000:
        return f"{us / 1_000_000:.1f} s"
    seconds = us // 1_000_000
    for size, name, part, part_name in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // part
            return f"{seconds // size:,} {name} {rest} {part_name}" if rest else f"{seconds // size:,} {name}"
    raise AssertionError(us)


def _is_empty(part: Part) -> bool:
    return not (part if isinstance(part, str) else part.text if isinstance(part, Cut) else part.plain)


def _console(file: IO[str], is_colored: bool) -> Console:
    is_seen = file.isatty() or "COLUMNS" in os.environ
    width = None if is_seen else _WIDTH_OF_A_PIPE
    return Console(
        file=file, width=width, highlight=False, markup=False, emoji=False, no_color=True if not is_colored else None
    )


def _print(console: Console, part: Shown) -> None:
    """On a terminal sentences are folded between words, and a lone line is not, so that a value is copied in one piece.

    In a pipe no sentence is folded, so that it can be searched, and no line ends in blanks.
    """
    if console.is_terminal:
        return console.print(part, soft_wrap=isinstance(part, Text))
    with console.capture() as captured:
        for each in _lines(part):
            console.print(each, soft_wrap=isinstance(each, Text))
    for text in captured.get().splitlines():
        console.file.write(f"{text.rstrip()}\n")


def _lines(part: Any) -> Iterator[Any]:
    if isinstance(part, Group):
        for each in part.renderables:
            yield from _lines(each)
    else:
        yield part


def _plain(value: Any) -> Any:
    """What `json` does not know by itself."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, bytes):
        return value.hex()
    return str(value)
