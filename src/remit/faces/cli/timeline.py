"""The timeline as people and programs read it: what happened, and what the run was opened under."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from rich.console import Group
from rich.text import Text

from remit.faces.cli.inert import Cut, cell
from remit.faces.cli.say import Grid, Shown, hour_of, moment, span, stack, time_of
from remit.faces.cli.show import executor, run_document, value_document, words_of
from remit.faces.explain import Explanation
from remit.facts.timeline import Line


def timeline(told: Explanation) -> Shown:
    """Every entry, the run's own lane first; then the pins, and what is wrong where something is."""
    grid = Grid("seq", "at (UTC)", "+", "entry", "call", "what")
    before, day = 0, ""
    for one in told.timeline.lines:
        after = span(one.at - before) if before and one.at >= before else ""
        before = one.at or before
        style = "" if one.is_verified else "red"
        if one.at and day != (day := time_of(one.at)[:10]):
            grid.row("", cell(day, "dim"), "", "", "", "")
        seq = cell(f"{'' if one.lane == 'main' else 'post '}{one.seq}", style)
        grid.row(seq, hour_of(one.at), cell(after, "dim"), cell(one.kind, style), one.name, _what(one, style))
    return stack(grid.made(), pins(told), _problem(told))


def document(told: Explanation) -> dict[str, Any]:
    """The same for --json. `opened_under` is null where the journal does not verify."""
    problem = told.timeline.problem
    return {
        "run": run_document(told.row),
        "problem": None if problem is None else {"code": problem.code, "message": problem.message},
        "opened_under": None if told.view is None else msgspec.to_builtins(told.view.opened),
        "entries": [line_document(one) for one in told.timeline.lines],
    }


def line_document(one: Line) -> dict[str, Any]:
    """An entry for --json."""
    return {
        "lane": one.lane,
        "seq": one.seq,
        "at": moment(one.at).isoformat() if one.at else None,
        "kind": one.kind,
        "name": one.name or None,
        "by": one.by,
        "epoch": one.epoch,
        "body": one.body,
        "is_verified": one.is_verified,
        **value_document(one.value),
    }


def pins(told: Explanation) -> Shown | None:
    """What the run was opened under, beside what is known of today without looking at any code."""
    view = told.view
    if view is None:
        return None
    opened, contract = view.opened, view.opened.contract
    last = view.attempts[-1] if view.attempts else None
    left = opened.window_end - told.now
    grid = Grid("", "opened under", "now")
    grid.row("flow", opened.flow, "")
    grid.row("contract", contract.version, f"{last.version} at the last attempt" if last else "no attempt yet")
    grid.row("risk", contract.risk, "")
    grid.row("who may resume", ", ".join(contract.resume), "")
    grid.row("window ends", time_of(opened.window_end), f"{span(left)} left" if left > 0 else "over")
    grid.row("executor", executor(view), "not looked up")
    return grid.made()


def _problem(told: Explanation) -> Shown | None:
    problem = told.timeline.problem
    if problem is None:
        return None
    what = cell(f"The journal does not verify: {problem.code}. {problem.message}", "bold red")
    if all(one.is_verified for one in told.timeline.lines):
        return Group(what, cell("Each entry is as it was written.", "dim"))
    return Group(what, cell("What is marked unverified is what the store says now, not what was written.", "red"))


def _what(one: Line, style: str) -> Cut | Text:
    """What an entry says besides its name. Of one that is not verified only its value is shown, as it stands."""
    say = _SAID.get(one.kind)
    if say is None or not one.is_verified:
        return Cut("" if one.is_verified else "unverified:", one.value, style)
    try:
        before, is_said = say(one)
    except (KeyError, TypeError):  # a newer version wrote it, with other facts
        before, is_said = "", False
    return Cut(before, None if is_said else one.value, style)


def _took(one: Line) -> tuple[str, bool]:
    return f"({span(one.body['took'])})", False


def _words(before: str) -> Callable[[Line], tuple[str, bool]]:
    def said(one: Line) -> tuple[str, bool]:
        words = words_of(one.value)
        start = before.format(**one.body)
        return (start, False) if words is None else (f"{start}: {words}", True)

    return said


def _ended(one: Line) -> tuple[str, bool]:
    if one.body["status"] == "completed":
        return "completed:", False
    return _words("{status}")(one)


# What is told of each kind, and whether that tells its value already.
_SAID: dict[str, Callable[[Line], tuple[str, bool]]] = {
    "AttemptStarted": lambda one: (f"worker {one.body['worker']}, attempt {one.epoch}", True),
    "StepDone": _took,
    "StepFailed": _words("{error}"),
    "RaceWon": lambda one: (f"call {one.body['winner'] + 1} of {one.body['of']} was first", False),
    "RunParked": _words("for {reason}, {code}"),
    "RunEnded": _ended,
    "RunQuarantined": _words("{run}"),
    "QuarantineLifted": _words("{run}"),
}
