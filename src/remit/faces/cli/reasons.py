"""Reasons: why a run stands where it stands, in sentences, and the command that brings it on."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from remit.authority.called import id_name
from remit.engine.people.asks import ROLES_MOVED, Ask
from remit.engine.people.effected import Effected
from remit.engine.process.outcome import done_before
from remit.errors.called import all_called, called
from remit.faces.cli.inert import cell, line
from remit.faces.cli.say import Grid, Shown, ago, span, stack, status_of, time_of, whose
from remit.faces.cli.typed import next_of
from remit.faces.explain import QUARANTINED, Why
from remit.faces.next_step import next_step
from remit.faces.spoken import Spoken
from remit.faces.there import There
from remit.facts.machine import OPEN


def reasons(told: Why, there: There) -> Shown:
    """Why a run stands where it stands, in sentences, and the next command."""
    place = "at the gate" if told.waits_for == "gate" else f"for {told.waits_for}"
    waits = f" {place}" if told.waits_for and told.status == "waiting" else ""
    since = f" since {time_of(told.since)} ({ago(told.now - told.since)})" if told.since else ""
    first = line(
        "Run ", cell(id_name(told.run), "bold"), f" of flow {told.flow} is ", status_of(told.status), f"{waits}{since}."
    )
    parts = [first]
    if told.incident:
        parts.append(cell(f"It was set aside because its journal did not verify: {told.incident}", "red"))
        parts.append(cell("Its bytes verify now." if told.is_whole else "Its bytes still do not verify."))
    if told.missing:
        parts.append(cell(f"By its row of then, entries are missing: {told.missing}.", "bold"))
    for failure in told.failures:
        parts.append(cell(f"{called(failure.call)} raised {failure.error}: {failure.detail}"))
    is_said_below = told.status == "cancelled" and bool(told.spoken)  # by whoever wanted it, with their reason
    is_given = bool(told.reason) and not (told.failures or told.objections or is_said_below or _is_overtaken(told))
    if is_given:
        parts.append(cell(f"{told.code}: {told.reason.removesuffix(done_before(told.done)).rstrip()}"))
    parts += [_unsettled(doubt, told.now) for doubt in told.doubts if _is_news(doubt, told, is_given=is_given)]
    parts += [_asked(ask, told) for ask in told.asks if not ask.decided_by]
    parts += [_said(one) for one in told.spoken]
    if told.done:  # said in the reason too, beside which others may be told instead
        parts.append(cell(done_before(told.done), "bold"))
    if told.is_answered:
        parts.append(cell("The next turn takes that up."))
    if told.failures:
        named = all_called(failure.call for failure in told.failures)
        parts.append(cell(f"All before it is saved; at the next attempt only {named} runs again."))
    elif told.status in OPEN and told.last_call:
        parts.append(cell(f"The newest recorded call is {called(told.last_call)}."))
    if told.holder or told.status in (*OPEN, QUARANTINED):
        parts.append(cell(_holder(told)))
    if told.status in OPEN:
        parts.append(cell(_window(told)))
    return stack(Group(*parts), _objections(told, there), next_of(next_step(told), there))


def _objections(told: Why, there: There) -> Shown | None:
    """What the gate has against it, check by check."""
    if not told.objections:
        return None
    grid = Grid("check", "code", "seen", "required", fold="seen", folds=("required",))
    for one in told.objections:
        if one.check not in _OVERTAKEN or not _is_overtaken(told):
            grid.row(cell(one.check, "bold"), one.code, one.seen, there.told(one.required))
    return grid.made() if grid.is_filled else None


# What an answer of a person may have settled. The rest of what the gate found is not their business.
_OVERTAKEN = ("approval", "effects", "duplicates")


def _is_overtaken(told: Why) -> bool:
    """Whether what the run waited for has been said since: to tell of it beside the answer would be a second story."""
    is_all_said = all(ask.decided_by for ask in told.asks) and all(doubt.told_by for doubt in told.doubts)
    return told.is_answered and is_all_said and bool(told.asks or told.doubts)


def _asked(ask: Ask, told: Why) -> Text:
    roles, call = whose(ask.roles), called(ask.call)
    if told.cancelled_by:
        return cell(f"{call} waits for no yes any more: {id_name(told.cancelled_by)} asked for the run's end.")
    if ROLES_MOVED in ask.moved:
        return cell(
            f"{call} waits for a yes from {roles}, and nobody who held that when it was asked is left; "
            "the next turn asks anew."
        )
    is_open = ask.state == "open"
    left = f" until {time_of(ask.until)} ({span(ask.until - told.now)} left)" if is_open else "; its time is over"
    again = " A yes sends it again." if is_open and ask.sent_before is not None else ""
    return cell(f"{call} waits for a yes from {roles}{left}.{again}")


def _said(one: Spoken) -> Text:
    who, lapsed = id_name(one.by), "" if one.counts else " (which counts no longer)"
    return cell(f"{who} {one.did}{lapsed}: {one.words}" if one.words else f"{who} {one.did}{lapsed}.")


def _is_news(doubt: Effected, told: Why, *, is_given: bool) -> bool:
    """Whether neither the run's own reason nor what somebody said has it already. is_given: whether that reason is."""
    has_it = is_given and told.status == "in_doubt" and doubt.state != "under_way"
    return not doubt.told_by and not has_it


def _unsettled(doubt: Effected, now: int) -> Text:
    since = f"{time_of(doubt.at)} ({ago(now - doubt.at)})"
    often = f"in {doubt.calls} calls, the last of them" if doubt.calls > 1 else "it was called"
    call = called(doubt.call)
    how = f"{call} is under way" if doubt.state == "under_way" else f"Nobody knows whether {call} happened"
    return cell(f"{how}: {often} {since}.")


def _holder(told: Why) -> str:
    if not told.holder:
        at = [(doubt.at_work, called(doubt.call)) for doubt in told.doubts if doubt.at_work]
        left = [f"{process} has not returned from {call}" for process, call in at]
        return f"Nobody holds it, but {' and '.join(left)} as far as is known." if left else "Nobody holds it."
    if told.is_holder_dead:
        free = "" if told.status == QUARANTINED else "; it can be taken over at once"
        return f"Worker {told.holder}, which held it, is dead{free}."
    if told.is_overlong:
        return (
            f"Worker {told.holder} would hold it until {time_of(told.lease_until)}, longer than any lease is granted."
        )
    if told.lease_until <= told.now:
        return f"Worker {told.holder} held it until {time_of(told.lease_until)}; that lease is over."
    return f"Worker {told.holder} holds it until {time_of(told.lease_until)}, or longer if it renews."


def _window(told: Why) -> str:
    if told.window_end <= told.now:
        return f"Its window ended {time_of(told.window_end)}: the next turn ends it as expired and runs no step."
    return f"It may be gone on with until {time_of(told.window_end)} ({span(told.window_end - told.now)} left)."
