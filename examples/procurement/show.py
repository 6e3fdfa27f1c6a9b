"""How the story looks: on a terminal, in a log, in 80 columns.

Words that come from the files, the database or an error are shown as plain text: nothing
in them is taken for markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from examples.procurement.claims import Claim, Month
from examples.procurement.payments import pounds

WIDTH_MAX = 100
_EDGE = (0, 0, 0, 2)


def console() -> Console:
    """Where the story goes: as wide as the terminal, 80 columns in a log, never wider than one can read."""
    found = Console(highlight=False)
    return Console(highlight=False, width=min(found.width, WIDTH_MAX))


def month_name(month: str) -> str:
    """ "January 2025" for "2025-01"."""
    return date.fromisoformat(f"{month}-01").strftime("%B %Y")


def title(count: int, licence: str) -> RenderableType:
    words = Text.assemble(
        ("Remit: work that comes back, and decisions that stay what they were\n", "bold"),
        f"{count} payments that HM Treasury published, one run for each, on SQLite.\n"
        "First they are proposed on paper. Then they leave by a bank, and only while\n"
        "they are still allowed.\n",
        (f"Contains public sector information licensed under\nthe {licence}.", "dim"),
    )
    return Panel(words, box=box.ROUNDED, border_style="cyan", padding=(0, 1))


def heading(number: int, words: str) -> RenderableType:
    return Padding(Rule(Text(f"{number}  {words}", "bold cyan"), align="left", style="cyan"), (1, 0, 0, 0))


def told(*parts: str | tuple[str, str]) -> RenderableType:
    """A sentence of the story; (text, style) for a part that stands out."""
    return Padding(Text.assemble(*parts), _EDGE)


class Bar:
    """How far a worker is: purchases that ended, and step bodies that began in it."""

    def __init__(self, shown: Progress, pid: int, payments: int) -> None:
        self._shown = shown
        self._row = shown.add_task(f"worker {pid}", total=payments, steps=0, mark="")

    def move(self, ended: int, steps: int) -> None:
        self._shown.update(self._row, completed=ended, steps=steps)

    def end(self, mark: str) -> None:
        """Say how it ended: "done", "killed"."""
        self._shown.update(self._row, mark=mark)


@contextmanager
def progress(on: Console, pid: int, payments: int) -> Iterator[Bar]:
    """A bar for one worker. In a log it is written once, as it ended."""
    columns = (
        TextColumn("  {task.description}"),
        BarColumn(bar_width=None, complete_style="cyan", finished_style="green"),
        MofNCompleteColumn(),
        TextColumn("purchases, {task.fields[steps]} steps, {task.fields[mark]}"),
    )
    with Progress(*columns, console=on, expand=True, refresh_per_second=20) as shown:
        yield Bar(shown, pid, payments)


def claims(made: Iterable[Claim]) -> RenderableType:
    """Each claim with what was found, and whether it holds."""
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), expand=True)
    table.add_column(width=2)
    table.add_column(ratio=1)
    table.add_column(justify="right", no_wrap=False)
    for claim in made:
        mark = Text("✓", "bold green") if claim.holds else Text("✗", "bold red")
        table.add_row(mark, Text(claim.says), Text(claim.found, "" if claim.holds else "bold red"))
    return Padding(table, (1, 0, 0, 2))


def statement(sql: str, run: str) -> RenderableType:
    """The edit, as it was made."""
    return Padding(Text(sql.replace("?", f"'{run}'"), "yellow"), (0, 0, 0, 4))


def side_by_side(on: Console, left: tuple[str, Text], right: tuple[str, Text]) -> RenderableType:
    """Two answers to the same rows, equally high."""
    inner = (on.width - 1) // 2 - 4
    height = max(len(words.wrap(on, inner)) for _, words in (left, right)) + 2
    grid = Table.grid(expand=True, padding=(0, 1, 0, 0), pad_edge=False)
    grid.add_column(ratio=1)
    grid.add_column(ratio=1)
    grid.add_row(
        *(
            Panel(words, title=Text(name, "bold"), border_style=colour, padding=(0, 1), height=height)
            for (name, words), colour in ((left, "red"), (right, "green"))
        )
    )
    return Padding(grid, (1, 0, 0, 0))


def closing(months: list[Month]) -> RenderableType:
    """The table at the end: one column to a month."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), expand=True, show_edge=False)
    table.add_column("")
    for month in months:
        table.add_column(month_name(month.file.month), justify="right")
    table.add_column("Both", justify="right")

    def row(name: str, values: list[int], *, is_money: bool = False, style: str = "") -> None:
        shown = [pounds(v) if is_money else f"{v:,}" for v in (*values, sum(values))]
        table.add_row(Text(name, style), *(Text(value, style) for value in shown))

    row("Payments published", [len(m.file.rows) for m in months])
    row("  complete", [m.completed for m in months])
    row("  refused, set aside", [len(m.refused) for m in months])
    row("Steps begun", [sum(m.counts.values()) for m in months])
    row("  saved, ran once", [len(m.death.saved) for m in months])
    row("  half-way, ran again", [len(m.again) for m in months])
    table.add_section()
    row("Proposed", [m.sums.proposed for m in months], is_money=True)
    row("Denied", [m.sums.denied for m in months], is_money=True)
    row("Refused", [m.sums.refused for m in months], is_money=True)
    row("Total, as published", [m.sums.total for m in months], is_money=True, style="bold")
    note = Text(
        "A denial is a ruling of this example; it says nothing about a payment or a payee. What an edit like this "
        "one has to be to go unseen, in this version (a run recomputed as a whole, an older database put back), "
        "stands in docs/guarantees.md.",
        "dim",
    )
    return Padding(Group(table, Padding(note, (1, 0, 0, 2))), (1, 0, 0, 0))


def verdict(count: int, broken: list[Claim], took: float, folder: str) -> RenderableType:
    """What all of it comes to."""
    if broken:
        lines = "".join(f"\n  ✗ {claim.says}: {claim.found}" for claim in broken)
        return told((f"{len(broken)} of {count} claims do not hold, after {took:.1f} s:{lines}\n", "bold red"))
    return told(
        (f"\n✓ All {count} claims of this demo hold", "bold green"),
        f"; it took {took:.1f} s.\nWhat it left is in {folder}, until the next one.\n",
    )


def further(on: Console, commands: list[tuple[str, str]]) -> None:
    """Commands to look further, each under what it shows, and never folded: a line that is copied is all of it."""
    for command, why in commands:
        on.print(Text(f"  # {why}", "dim"))
        on.print(Text(f"  {command}"), soft_wrap=True)
