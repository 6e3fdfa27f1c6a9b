"""Saying: one answer per command, as a person reads it or as one JSON document."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, Literal, TypeVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, ConsoleRenderable, Group, RenderResult
from rich.padding import Padding
from rich.progress import track
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from remit.clock import SystemClock
from remit.errors import RemitError
from remit.faces.cli.inert import Cut, Quoted, cell
from remit.faces.documents import error_document, moment
from remit.faces.there import There

T = TypeVar("T")

Part = Text | Cut | Quoted | str
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

_BETWEEN = 2  # blanks from column to column
_GIVEN_WIDTH_MIN = 6  # of a column that gives way
_WIDTH_OF_A_PIPE = 160  # nobody sees it, and what reads it wants whole lines


class Voice:
    """Where answers go: the terminal, or standard output as JSON. there: what the commands name that are told."""

    def __init__(
        self, *, is_json: bool, is_colored: bool = True, out: IO[str] | None = None, there: There | None = None
    ) -> None:
        self.is_json = is_json
        self.there = there or There()
        self._out = out or sys.stdout
        self._console = _console(self._out, is_colored)
        self._complaints = _console(sys.stderr, is_colored)

    def answer(self, document: Any, *shown: Shown) -> None:
        """The answer of a command: `document` with --json, `shown` without."""
        if self.is_json:
            return self._dump(document)
        for part in shown:
            _print(self._console, part)

    def complain(self, error: RemitError, **beside: Any) -> None:
        """An error: its code, what was done, what to do next. beside: what else the document has."""
        self.object(error.code, error.message, error.hint, **beside)

    def object(self, code: str, message: str, hint: str, **beside: Any) -> None:
        """The same of what is no error of Remit's: a command that can't be read, an interrupt."""
        hint = self.there.told(hint)
        if self.is_json:
            return self._dump(error_document(code, message, hint) | beside)
        _print(self._complaints, Group(cell(f"error: {code}", "bold red"), cell(message), cell(hint, "dim")))

    def note(self, text: str) -> None:
        """One line on standard error, with --json too: what was done beside what was asked."""
        _print(self._complaints, cell(f"note: {text}", "dim"))

    @property
    def is_attended(self) -> bool:
        """Whether somebody sees what is shown and can answer."""
        return not self.is_json and sys.stdin.isatty() and self._console.is_terminal

    async def assent(self, question: str) -> bool:
        """Ask the one who sits at the terminal: `y` is yes, all else is no.

        The loop goes on meanwhile, so that Ctrl-C is heard at once.
        """
        self._console.print(cell(f"{question} [y/N] ", "bold"), end="", soft_wrap=True)
        self._out.flush()
        loop, answered = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(sys.stdin.fileno(), answered.set)
        try:
            await answered.wait()
        finally:
            loop.remove_reader(sys.stdin.fileno())
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def progress(self, things: Sequence[T], what: str) -> Iterable[T]:
        """`things`, one after the other, with a bar on the terminal while many are gone through."""
        if self.is_json or not self._complaints.is_terminal or len(things) < 100:
            return things
        return track(things, what, console=self._complaints, transient=True)

    def _dump(self, document: Any) -> None:
        text = json.dumps(document, ensure_ascii=True, indent=2)
        self._out.write(f"{text}\n")


class Grid:
    """A table. What is given as `str` is made inert here; columns that stay empty are left out."""

    def __init__(self, *columns: str, fold: str = "", folds: tuple[str, ...] = ()) -> None:
        """fold, folds: columns that give way, and in which a long text goes on in the next line; else the last one."""
        self._columns, self._folds = columns, (fold or columns[-1], *folds)
        self._rows: list[tuple[Part, ...]] = []

    def row(self, *cells: Part) -> None:
        self._rows.append(cells)

    @property
    def is_filled(self) -> bool:
        return bool(self._rows)

    def made(self, *, is_headed: bool = True) -> Table:
        table = self._table({}, is_headed=is_headed)
        for row in self._rows:
            self._add(table, row)
        return table

    def one_by_one(self, room: int, gives: Sequence[str]) -> Iterator[Table]:
        """Its head, then each row, as tables of the same widths. gives: columns that alone give way, the widest first.

        None of the others is cut for them, nor goes beyond the room: what decides something stands there.
        """
        widths = {
            place: max(cell_len(self._columns[place]), *(_width(row[place]) for row in self._rows))
            for place in self._kept
        }
        giving = [place for place in widths if self._columns[place] in gives]
        over = sum(widths.values()) + _BETWEEN * (len(widths) - 1) - room
        while over > 0 and giving and widths[widest := max(giving, key=widths.__getitem__)] > _GIVEN_WIDTH_MIN:
            widths[widest] -= 1
            over -= 1
        yield self._table(widths, is_headed=True)
        for row in self._rows:
            table = self._table(widths, is_headed=False)
            self._add(table, row)
            yield table

    @property
    def _kept(self) -> list[int]:
        return [place for place in range(len(self._columns)) if any(not _is_empty(row[place]) for row in self._rows)]

    def _table(self, widths: dict[int, int], *, is_headed: bool) -> Table:
        table = Table(box=None, pad_edge=False, show_header=is_headed, header_style="bold")
        for place in self._kept:
            is_folded = self._columns[place] in self._folds
            overflow: Literal["fold", "ellipsis"] = "fold" if is_folded else "ellipsis"
            wide = widths.get(place)
            table.add_column(cell(self._columns[place]), overflow=overflow, no_wrap=not is_folded, width=wide)
        return table

    def _add(self, table: Table, row: tuple[Part, ...]) -> None:
        table.add_row(*(cell(row[place]) if isinstance(row[place], str) else row[place] for place in self._kept))


class Below:
    """A table, and below each row others over the whole width. gives: its columns that give way, and no other does."""

    def __init__(self, grid: Grid, parts: Sequence[Sequence[Part]], *, gives: Sequence[str]) -> None:
        self._grid, self._parts, self._gives = grid, parts, gives

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head, *rows = self._grid.one_by_one(options.max_width, self._gives)
        for table, below in zip((head, *rows), ((), *self._parts), strict=True):
            for row in console.render_lines(table, options, pad=False):
                yield from row
                yield Segment.line()
            yield from (Padding(part, (0, 0, 0, 2)) for part in below)


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


def now() -> int:
    """Microseconds UTC, for how long ago something was."""
    return SystemClock().now()


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


def ago(us: int) -> str:
    """How long ago something was; what is not a second ago is just now, also by a clock that stands behind."""
    return f"{span(us)} ago" if us >= 1_000_000 else "just now"


def whose(groups: Sequence[Sequence[str]]) -> str:
    """Whose yes it takes: `clerk or director`; of several groups, one of each that the same person holds.

    Groups that are the same are said once.
    """
    said = [*dict.fromkeys(" or ".join(group) for group in groups)]
    if len(said) < 2:
        return "".join(said)
    link = " and " if all(" or " not in one for one in said) else ", and "
    return f"one person who is {link.join(said)}"


def _is_empty(part: Part) -> bool:
    return not _text(part)


def _width(part: Part) -> int:
    return cell_len(_text(part))


def _text(part: Part) -> str:
    return part if isinstance(part, str) else part.plain if isinstance(part, Text) else part.text


def _console(file: IO[str], is_colored: bool) -> Console:
    is_seen = file.isatty() or "COLUMNS" in os.environ
    width = None if is_seen else _WIDTH_OF_A_PIPE
    return Console(
        file=file, width=width, highlight=False, markup=False, emoji=False, no_color=True if not is_colored else None
    )


def _print(console: Console, part: Shown) -> None:
    """On a terminal sentences are folded between words, and a lone line or a command is not: it is copied in one piece.

    In a pipe no sentence is folded, so that it can be searched, and no line ends in blanks.
    """
    if console.is_terminal:
        for each in _lines(part):
            console.print(each, soft_wrap=isinstance(each, Text) and (each is part or bool(each.no_wrap)))
        return
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
