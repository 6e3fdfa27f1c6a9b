"""Proving, as people read it: what is wrong first, then how much is right, then what none of it can show."""

from __future__ import annotations

import shlex

from remit.faces.cli.inert import cell
from remit.faces.cli.say import Grid, Shown, facts, stack
from remit.faces.proving import CHECKED, NOT_COVERED, Proof
from remit.faces.there import There


def proven(proof: Proof, there: There) -> Shown:
    """Of each journal what became of it."""
    grid = Grid("run", "code", "what is wrong")
    for name, exc in (proof.wrong | proof.unknown).items():
        grid.row(cell(name, "bold red"), exc.code, exc.message)
    for name in proof.aside:
        lift = there.typed(f"remit lift {shlex.quote(name)} --by user:YOU --reason WHY")
        grid.row(cell(name, "yellow"), "", f"Nothing; it is still set aside, until `{lift}`.")
    count = len(proof.verified) + len(proof.wrong) + len(proof.unknown)
    style = "bold red" if proof.wrong else "bold green"
    lines = facts(
        ("verified", cell(f"{len(proof.verified):,} of {count:,}", style)),
        ("checked", "; ".join(CHECKED)),
        ("not covered", "; ".join(NOT_COVERED)),
    )
    has_rows = bool(proof.wrong or proof.unknown or proof.aside)
    return stack(grid.made() if has_rows else None, lines)
