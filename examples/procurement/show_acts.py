"""How the acts at the bank look: what changed, for which reasons, and how a month ended.

Words that come from requests and files are shown as plain text, as in `show`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Protocol

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

import remit
from examples.procurement.claims import Played
from examples.procurement.payments import pounds

_EDGE = (1, 0, 0, 2)


class ReasonShown(Protocol):
    """Why something may not go on."""

    @property
    def check(self) -> str: ...
    @property
    def codes(self) -> tuple[str, ...]: ...
    @property
    def then(self) -> str: ...
    @property
    def now(self) -> str: ...


class Bar:
    """How far a payer is: runs that ended or wait for somebody."""

    def __init__(self, shown: Progress, words: str, total: int) -> None:
        self._shown = shown
        self._row = shown.add_task(words, total=total, mark="")

    def move(self) -> None:
        self._shown.advance(self._row)

    def end(self, mark: str) -> None:
        self._shown.update(self._row, mark=mark)


@contextmanager
def bar(on: Console, words: str, total: int) -> Iterator[Bar]:
    """A bar for one process. In a log it is written once, as it ended."""
    columns = (
        TextColumn("  {task.description}"),
        BarColumn(bar_width=None, complete_style="cyan", finished_style="green"),
        MofNCompleteColumn(),
        TextColumn("payments, {task.fields[mark]}"),
    )
    with Progress(*columns, console=on, expand=True, refresh_per_second=20) as shown:
        yield Bar(shown, words, total)


def asked_anew(ask: remit.Ask) -> RenderableType:
    """What a director sees who is asked again."""
    words = Text.assemble(
        ("Wednesday: ", "bold"),
        f"the figure of {ask.run} is edited in the flow's code. A director said yes to what she saw; that was another "
        "request. So she is asked anew, and sees the difference since she last looked:",
    )
    lines = [words]
    if ask.difference is not None:
        for change in ask.difference.changes:
            lines.append(
                Text.assemble(
                    (f"\n  {change.path}  ", "bold"),
                    (change.old or "nothing", "red"),
                    "  ->  ",
                    (change.new or "nothing", "green"),
                    (f"    that is {_pence(change.old)} -> {_pence(change.new)}", "dim"),
                )
            )
        lines.append(Text(f"  {ask.difference.unchanged} other fields are as they were. She says no.", "dim"))
    return Padding(Group(*lines), _EDGE)


def reasons(run: str, then: datetime, now: datetime, found: Sequence[ReasonShown]) -> RenderableType:
    """The table of what changed between two days."""
    words = Text.assemble(
        ("Friday: ", "bold"),
        f"{run} is edited as well, its quote is over, and the operators have cut the ceiling. A director says yes. "
        "What the gate finds, and what an approver would see of it:",
    )
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), expand=True, show_edge=False)
    table.add_column("Check")
    table.add_column("Found")
    table.add_column(f"On {then:%A}", ratio=1)
    table.add_column(f"On {now:%A}", ratio=1)
    for reason in found:
        code = next((c for c in reason.codes if c == "approval.payload"), reason.codes[0])
        table.add_row(Text(reason.check), Text(code, "bold red"), Text(reason.then), Text(reason.now, "bold"))
    return Padding(Group(words, Text(""), table), _EDGE)


def told_to(who: str, words: str) -> RenderableType:
    """What somebody who waits finds, once they are told that the run has stopped."""
    return Padding(Text.assemble((f"To {who}: ", "bold"), (words, "yellow")), _EDGE)


class MonthShown(Protocol):
    """How a month ended."""

    @property
    def runs(self) -> int: ...
    @property
    def published(self) -> int: ...
    @property
    def ends(self) -> dict[str, int]: ...
    @property
    def pence(self) -> dict[str, int]: ...


_WHY = {
    "": "Paid",
    "denied": "Denied by a director",
    "ceiling_exceeded": "Above the ceiling",
    "idempotency_conflict": "Paid by another run already",
}


def month(found: MonthShown) -> RenderableType:
    """Every payment of the file, by what became of it."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), expand=True, show_edge=False)
    table.add_column("January 2025, at the bank", ratio=1)
    table.add_column("Outcome")
    table.add_column("Payments", justify="right")
    table.add_column("Amount", justify="right")
    for code in sorted(found.ends, key=lambda code: (code != "", code)):
        table.add_row(_WHY.get(code, code), code or "completed", str(found.ends[code]), pounds(found.pence[code]))
    table.add_section()
    table.add_row(Text("Total, as published", "bold"), "", str(found.runs), pounds(found.published), style="bold")
    return Padding(table, (1, 0, 0, 0))


def closing(acts: Sequence[Played], counters: Mapping[str, Any]) -> RenderableType:
    """The table at the end: an act to a line, and below them the bank's own count."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), expand=True, show_edge=False)
    table.add_column("")
    table.add_column("Wanted", justify="right")
    table.add_column("Paid", justify="right")
    table.add_column("Not paid, because", ratio=1)
    for act in acts:
        why = "\n".join(f"{count:2} {code}" for code, count in sorted(act.ends.items()) if code)
        table.add_row(act.name, str(act.ends.total()), str(act.paid), why)
    table.add_section()
    wanted, paid = sum(act.ends.total() for act in acts), sum(act.paid for act in acts)
    table.add_row("All acts", str(wanted), str(paid), "", style="bold")
    requests, payments, above = (counters[name] for name in ("requests", "payments", "above_one"))
    count = f"{requests} requests, {above} keys paid twice"
    table.add_row("The bank's own count", "", str(payments), count)
    note = "Who is denied, refused or revoked here is so by this example; it says nothing about a payment or a payee."
    return Padding(Group(table, Padding(Text(note, "dim"), (1, 0, 0, 2))), (1, 0, 0, 0))


def _pence(text: str | None) -> str:
    """A whole number of pence, as it stands in a request, for people."""
    return pounds(int(text)) if text is not None and text.isdigit() else "no amount"
