"""The table of scenarios: `python -m tests.scenarios.table`. Each row is played anew, with real processes.

Ends with 0 where every row came out as it is known to, open ones among them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.scenarios.scenes import NEEDS_CHECKPOINTS, ONE, REFUSED, SCENES, Row
from tests.scenarios.stage import SMALL, open_stage

WIDTH_MIN, WIDTH_MAX = 110, 140

# What is known of each: payments at the bank, status, code, verdict. A test holds every scene to it.
KNOWN: dict[str, tuple[int, str, str, str]] = {
    "kill inside the effect": (1, "completed", "", ONE),
    "stored field edited": (0, "quarantined", "chain.hash", REFUSED),
    "chain recomputed": (1, "completed", "", NEEDS_CHECKPOINTS),
    "rows cut": (2, "completed", "", NEEDS_CHECKPOINTS),
    "older database restored": (2, "completed", "", NEEDS_CHECKPOINTS),
    "payload changed after approval": (0, "waiting", "approval_payload", REFUSED),
    "role revoked in the pause": (0, "failed", "resume_denied", REFUSED),
    "two workers": (1, "completed", "", ONE),
    "zombie": (1, "completed", "", ONE),
}


def play(name: str, folder: Path) -> Row:
    """One scenario on a stage of its own."""
    with open_stage(folder) as stage:
        return SCENES[name](stage)


def main() -> int:
    found = Console(highlight=False)
    console = Console(highlight=False, width=min(max(found.width, WIDTH_MIN), WIDTH_MAX))
    rows = []
    with tempfile.TemporaryDirectory(prefix="remit-scenarios-") as folder:
        for number, name in enumerate(SCENES):
            with console.status(f"{name} ..."):
                rows.append(play(name, Path(folder) / str(number)))
    console.print(as_table(rows))
    console.print(summary(rows))
    strays = [row.scenario for row in rows if facts(row) != KNOWN[row.scenario]]
    if strays:
        console.print(Text(f"Not as it is known to be: {', '.join(strays)}.", "bold red"))
    return 1 if strays else 0


def facts(row: Row) -> tuple[int, str, str, str]:
    """What a row is held to: payments, status, code, verdict."""
    return row.payments, row.told.status, row.told.code, row.verdict


def as_table(rows: Sequence[Row]) -> Table:
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True)
    made.add_column("scenario", style="bold", ratio=4)
    made.add_column("what was done", ratio=10)
    made.add_column("paid", width=8)
    made.add_column("status, code", width=16)
    made.add_column("verdict", width=18)
    for row in rows:
        made.add_row(row.scenario, row.done, _payments(row), row.ended, _verdict(row))
        made.add_row()
    return made


def summary(rows: Iterable[Row]) -> str:
    """The last line."""
    told = [row.holds for row in rows]
    return f"{sum(told)} of {len(told)} hold, {len(told) - sum(told)} open"


def _payments(row: Row) -> Text:
    strangers = sorted(set(row.paid) - {SMALL.payee})
    told = f"{row.payments}, to {', '.join(strangers)}" if strangers else str(row.payments)
    return Text(told, "bold" if row.holds else "bold red")


def _verdict(row: Row) -> Text:
    return Text(row.verdict, "green" if row.holds else "bold yellow")


if __name__ == "__main__":
    sys.exit(main())
