"""What the gate would say: its verdict, and check by check what it saw and what it requires."""

from __future__ import annotations

import shlex

from rich.console import Group

from remit.authority.called import id_name
from remit.engine.process.admit import Found
from remit.engine.runs.dry import Judged
from remit.errors.called import called
from remit.faces.cli.inert import cell, line
from remit.faces.cli.say import Grid, Shown, stack, status_of, time_of
from remit.faces.there import There

_DECISIONS = {"resume": "bold green", "revalidate": "bold yellow", "abandon": "bold red"}


def judged(found: Judged, there: There) -> Shown:
    """All eight findings, those that passed as well: what was looked at is part of the answer."""
    verdict = found.verdict
    what = f"at {called(found.call)}" if found.call else "before it goes on"
    head = line(
        "Run ", cell(id_name(found.run), "bold"), f" {what}: ", cell(verdict.decision, _DECISIONS[verdict.decision]),
        _code(found), ".",
    )  # fmt: skip
    grid = Grid("", "check", "code", "seen", "required", fold="seen", folds=("required",))
    for finding, seen, required in found.told():
        mark = cell("ok", "green") if finding.ok else cell(finding.verdict, _DECISIONS[finding.verdict or "revalidate"])
        grid.row(mark, finding.check, finding.code, seen, there.told(required))
    before = [line("First ", cell(words), ".") for words in found.first]
    if found.waits:
        before.append(line("Then it waits: ", cell(found.waits)))
    for each in found.beside:
        said = line(cell(each.verdict.decision, _DECISIONS[each.verdict.decision]), _code(each))
        before.append(line("Beside it ", cell(called(each.call), "bold"), ": ", said, "."))
    foot = f"Directory and policy at version {found.question.authority}; nothing was changed."
    return stack(head, *before, grid.made(), cell(foot, "dim"))


def _code(found: Judged) -> str:
    return f" ({found.verdict.code})" if found.verdict.code else ""


def ended(found: Found, there: There) -> Shown:
    """Of a run that is over there is no verdict: to say that it may go on would be a lie."""
    run, view = found.row.run, found.view
    since = f" since {time_of(view.last_at)}; the gate is not asked any more."
    told = line("Run ", cell(id_name(run), "bold"), " is ", status_of(str(view.status)), since)
    explain = there.typed(f"remit explain {shlex.quote(run)}")
    return Group(told, cell(f"`{explain}` tells what it found when it was asked.", "dim"))
