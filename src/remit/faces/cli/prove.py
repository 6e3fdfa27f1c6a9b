"""Proving: which journals verify, what was looked at, and what a chain can't see."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from remit.errors import JournalNewer, RemitError, Tampered
from remit.faces.cli.inert import cell
from remit.faces.cli.say import Grid, Shown, facts, stack
from remit.faces.runtime import Runtime

CHECKED = ("each hash and link", "both lanes and their ends", "each move", "the columns of the run's row")
NOT_COVERED = (
    "a run recomputed as a whole with its row",
    "a run deleted with its row",
    "an older database put back",
)


@dataclass(slots=True)
class Proof:
    """What became of each journal, by its name."""

    verified: list[str] = field(default_factory=list)
    wrong: dict[str, Tampered] = field(default_factory=dict)
    unknown: dict[str, RemitError] = field(default_factory=dict)  # a newer Remit wrote them; their chains hold
    aside: list[str] = field(default_factory=list)  # verified, and still in quarantine

    @property
    def exit_status(self) -> int:
        for found in (*self.wrong.values(), *self.unknown.values()):
            return found.exit_status
        return 0


async def prove(rt: Runtime, names: Iterable[str]) -> Proof:
    """Verify one journal after the other. Raises RunAbsent for a name that has none."""
    proof = Proof()
    for name in names:
        try:
            problem = await rt.verify(name)
        except JournalNewer as exc:
            proof.unknown[name] = exc
            continue
        if problem is not None:
            proof.wrong[name] = problem
            continue
        proof.verified.append(name)
        if (await rt.read(name)).row.quarantined:
            proof.aside.append(name)
    return proof


def document(proof: Proof) -> dict[str, Any]:
    """The answer for --json."""
    return {
        "verified": len(proof.verified),
        "wrong": _told(proof.wrong),
        "unknown": _told(proof.unknown),
        "quarantined": proof.aside,
        "checked": CHECKED,
        "not_covered": NOT_COVERED,
    }


def proven(proof: Proof) -> Shown:
    """The same for people: what is wrong first, then how much is right, then what none of it can show."""
    grid = Grid("run", "code", "what is wrong")
    for name, exc in (proof.wrong | proof.unknown).items():
        grid.row(cell(name, "bold red"), exc.code, exc.message)
    for name in proof.aside:
        grid.row(
            cell(name, "yellow"),
            "",
            f"Nothing; it is still set aside, until `remit lift {shlex.quote(name)} --by user:YOU --reason WHY`.",
        )
    count = len(proof.verified) + len(proof.wrong) + len(proof.unknown)
    style = "bold red" if proof.wrong else "bold green"
    lines = facts(
        ("verified", cell(f"{len(proof.verified):,} of {count:,}", style)),
        ("checked", "; ".join(CHECKED)),
        ("not covered", "; ".join(NOT_COVERED)),
    )
    has_rows = bool(proof.wrong or proof.unknown or proof.aside)
    return stack(grid.made() if has_rows else None, lines)


def _told(found: dict[str, Any]) -> list[dict[str, str]]:
    return [{"run": name, "code": exc.code, "message": exc.message} for name, exc in found.items()]
