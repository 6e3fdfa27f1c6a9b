"""The timeline as people and programs read it: what happened, and what the run was opened under."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from remit.authority.called import id_name
from remit.errors.called import called
from remit.faces.cli.inert import Cut, cell, name_cell
from remit.faces.cli.said import SAID
from remit.faces.cli.say import Grid, Shown, hour_of, span, stack, time_of
from remit.faces.cli.show import executor
from remit.faces.explain import Explanation
from remit.facts.judgement import Who
from remit.facts.machine import POSTED
from remit.facts.timeline import Line

# Never cut: of a policy whoever looks wants each rule, and why a run ended says what was done before.
_WHOLE = (*POSTED, "PolicySet", "RunEnded")


def timeline(told: Explanation) -> Shown:
    """Every entry, the run's own lane first; then the pins, and what is wrong where something is."""
    grid = Grid("seq", "at (UTC)", "+", "entry", "call", "what", folds=("call",))
    before, day = 0, ""
    for one in told.timeline.lines:
        after = span(one.at - before) if before and one.at >= before else ""
        before = one.at or before
        style = "" if one.is_verified else "red"
        if one.at and day != (day := time_of(one.at)[:10]):
            grid.row("", cell(day, "dim"), "", "", "", "")
        seq = cell(f"{'' if one.lane == 'main' else 'post '}{one.seq}", style)
        call = name_cell(called(one.name)) if one.name else ""
        grid.row(seq, hour_of(one.at), cell(after, "dim"), cell(one.kind, style), call, _what(one, style))
    return stack(grid.made(), pins(told), _problem(told))


def pins(told: Explanation) -> Shown | None:
    """What the run was opened under, beside what is known of today without looking at any code."""
    view = told.view
    if view is None:
        return None
    opened, contract = view.opened, view.opened.contract
    last = view.attempts[-1] if view.attempts else None
    grid = Grid("", "opened under", "now")
    grid.row("flow", opened.flow, "")
    grid.row("contract", contract.version, f"{last.version} at the last attempt" if last else "no attempt yet")
    grid.row("risk", contract.risk, "")
    grid.row("who may resume", ", ".join(contract.resume), "")
    grid.row("window ends", time_of(opened.window_end), _window_now(told, opened.window_end))
    grid.row("authority", f"version {opened.authority}", _authority_now(told))
    grid.row("policy", opened.policy[:12] if opened.policy else "none", _policy_now(told, opened.policy))
    grid.row("executor", executor(view), _who_now(told, opened.by, opened.behalf))
    return grid.made()


def _window_now(told: Explanation, pinned: int) -> str:
    end = told.window_end
    left = f"{span(end - told.now)} left" if end > told.now else "over"
    return left if end == pinned else f"{time_of(end)} by the policy, {left}"


def _authority_now(told: Explanation) -> str:
    return "not looked up" if told.authority is None else f"version {told.authority.version}"


def _policy_now(told: Explanation, pinned: str) -> str:
    authority = told.authority
    if authority is None:
        return "not looked up"
    if authority.policy is None:
        return "none"
    same = "the same, " if authority.policy_digest == pinned else f"{authority.policy_digest[:12]}, "
    return f"{same}version {authority.policy.version}"


def _who_now(told: Explanation, *principals: str | None) -> str:
    """What the directory says of them today."""
    if told.authority is None:
        return "not looked up"
    known = [told.authority.who(principal) for principal in principals if principal is not None]
    return "; ".join(f"{id_name(who.principal)}: {_holds(who)}" for who in known)


def _holds(who: Who) -> str:
    if who.disabled:
        return "disabled"
    return ", ".join(who.roles) or ("no role" if who.known else "unknown")


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
    say = SAID.get(one.kind)
    if say is None or not one.is_verified:
        return Cut("" if one.is_verified else "unverified:", one.value, style)
    try:
        before, is_said = say(one)
    except (KeyError, TypeError, AttributeError):  # a newer version wrote it, with other facts
        before, is_said = "", False
    if one.value is None or (is_said and one.kind in _WHOLE):  # words of ours, or a person's, who is to be heard
        return cell(before, style)
    return Cut(before, None if is_said else one.value, style)
