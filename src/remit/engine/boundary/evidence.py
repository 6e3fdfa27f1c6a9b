"""Evidence: facts that effects rest on, each with the time until which it may be relied on.

    take        the flow states a fact; it is recorded, and a replay states the same
    take_again  before a crossing, where a fetcher was given: after a pause, or when the time is over

Branches that state the same name state two facts: a call rests on the one that is nearest to it.
A fact taken again keeps its salt, so that equal values have equal digests: the same means
refreshed, another one is for the gate to judge. A fetcher that fails is a no.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from remit.authority.durations import MICROSECOND
from remit.authority.moments import microseconds_of
from remit.authority.named import takes
from remit.authority.rules import Rules, evidence_until
from remit.canonical import INTEGER_MAX
from remit.engine.boundary.heard import heard
from remit.engine.declared.flow import Step
from remit.engine.process.salt import draw_salt
from remit.engine.turn.step import in_thread, type_name
from remit.engine.turn.turn import Turn
from remit.engine.turn.wish import Wish
from remit.engine.turn.writer import Conditions, JournalWriter
from remit.errors import CallRefused
from remit.errors.called import called
from remit.facts.calls import EvidenceView
from remit.facts.entry import value_digest
from remit.facts.kinds import EvidenceTaken
from remit.facts.names import check_id
from remit.facts.value import write_own

AHEAD_US = 5_000_000  # clocks of suppliers may run ahead by less; nothing is fresh for longer by it


def take(
    turn: Turn,
    call: str,
    name: str,
    value: Any,
    *,
    as_of: datetime,
    fresh_for: timedelta,
    again: Callable[..., Any] | None,
) -> None:
    """Record a fact that rides on the next append. Raises CallRefused, ValueRefused, AttemptClosed."""
    attempt = turn.attempt
    attempt.check_open()
    check_id(name, "name of evidence")
    _check_times(name, as_of, fresh_for)
    if again is not None and not takes(again.fn if isinstance(again, Step) else again):
        raise CallRefused(
            f"The evidence {name!r} can't be taken again by {again!r}, which needs to be told something; "
            "nothing was recorded.",
            code="evidence.again",
            hint="Give a function without arguments: `again=lambda: fetch_quote(sku)`.",
        )
    data = write_own(value, where=called(call))
    recorded = attempt.ridden.get(call)
    if recorded is not None:
        if recorded.value != data:
            attempt.disagree((call,), (f"{call} with another value",))
        if _is_older(recorded.fact, as_of, fresh_for):
            attempt.disagree((call,), (f"{call} of an earlier date",))
        _stated(turn, call, name, again)
        return
    fact = _fact(name, as_of, fresh_for, attempt.writer)
    salt = draw_salt()
    attempt.writer.ride_draft(attempt.writer.draft(fact, name=call, value=data, salt=salt))
    digest = value_digest(salt, data)
    attempt.boundary.state(EvidenceView(name, call, salt, digest, digest, data, fact, attempt.lease.epoch))
    _stated(turn, call, name, again)


def _is_older(fact: object, as_of: datetime, fresh_for: timedelta) -> bool:
    """Whether what is stated now may be relied on for less long than what is recorded. A later date extends nothing."""
    assert isinstance(fact, EvidenceTaken), "names of evidence are its own"
    at = max(microseconds_of(as_of), -INTEGER_MAX)
    return at < fact.as_of or min(at + fresh_for // MICROSECOND, INTEGER_MAX) < fact.until


def _stated(turn: Turn, call: str, name: str, again: Callable[..., Any] | None) -> None:
    """The statement stands: calls that are named from here on rest on it."""
    turn.stated.add(call, name)
    if again is not None:
        turn.fetchers[call] = again


def view_of(turn: Turn, wish: Wish, name: str) -> EvidenceView | None:
    """The evidence of this name that a call rests on; None where nothing was stated before it was named."""
    stated = turn.stated.last(wish.name, name, by=wish.rests_on.by)
    return None if stated is None else turn.attempt.boundary.evidence[stated]


def names_of(rules: Rules, wish: Wish) -> Sequence[str]:
    """Names of the evidence that a call rests on, in order: what is demanded, and what it names itself."""
    demanded, named = rules.evidence, wish.rests_on.names
    return sorted({*demanded, *named}) if demanded or named else ()


async def take_again(turn: Turn, wish: Wish) -> None:
    """Refresh what this crossing rests on. Not within the attempt that took it, while its time is not over."""
    attempt = turn.attempt
    rules = turn.rules(wish.declared)
    for name in names_of(rules, wish):
        view = view_of(turn, wish, name)
        fetcher = turn.fetchers.get(view.call) if view is not None else None
        if view is None or fetcher is None:
            continue
        until = evidence_until(rules, name, view.fact.as_of, view.fact.until)
        if view.epoch == attempt.lease.epoch and attempt.writer.now() <= until:
            continue
        span = view.fact.until - view.fact.as_of
        # Since then it is so: the answer takes its time, and may be as old as the question.
        now = attempt.writer.begin(min(span, rules.fresh_for.get(name, span)))
        data = await heard(partial(_fetched, turn, fetcher, name))
        if isinstance(data, BaseException):
            # Whatever it raised: what can't be read counts for nothing, and the question says why.
            turn.unreadable[view.call] = type_name(data)
            continue
        turn.unreadable.pop(view.call, None)
        until = min(now + span, INTEGER_MAX)
        fact = EvidenceTaken(again=True, as_of=now, evidence=name, until=until)
        draft = attempt.writer.draft(fact, name=view.call, value=data, salt=view.salt)
        await attempt.append_if([draft], Conditions())


async def _fetched(turn: Turn, fetcher: Callable[..., Any], name: str) -> bytes:
    """The bytes of the value as it is now. Raises what the fetcher raises, and ValueRefused."""
    fn = fetcher.fn if isinstance(fetcher, Step) else fetcher
    value = await (fn() if inspect.iscoroutinefunction(fn) else in_thread(turn.host.threads, partial(fn)))
    value = await value if inspect.isawaitable(value) else value
    return write_own(value, where=called(name))


def _check_times(name: str, as_of: Any, fresh_for: Any) -> None:
    if not isinstance(as_of, datetime) or as_of.tzinfo is None or as_of.utcoffset() is None:
        raise CallRefused(
            f"The evidence {name!r} is as of {as_of!r}, which states no zone; nothing was recorded.",
            code="time.naive",
            hint="Give an aware datetime: `run.now()`, or `datetime(..., tzinfo=UTC)`.",
        )
    if not isinstance(fresh_for, timedelta) or fresh_for <= timedelta(0):
        raise CallRefused(
            f"The evidence {name!r} can be relied on for {fresh_for!r}; nothing was recorded.",
            code="evidence.fresh_for",
            hint="Give the time for which it may be relied on: `fresh_for=timedelta(hours=48)`.",
        )


def _fact(name: str, as_of: datetime, fresh_for: timedelta, writer: JournalWriter) -> EvidenceTaken:
    """Its time counts from what is stated, and never from later than what begins now.

    Raises CallRefused `evidence.as_of`.
    """
    at, span = microseconds_of(as_of), fresh_for // MICROSECOND
    if at > writer.now() + AHEAD_US:
        raise CallRefused(
            f"The evidence {name!r} is as of {as_of.isoformat()}, which has not come yet; nothing was recorded.",
            code="evidence.as_of",
            hint="State since when it is so; whoever wrote a date in the future may not extend its time by it.",
        )
    at = max(min(at, writer.begin(span)), -INTEGER_MAX)
    return EvidenceTaken(as_of=at, evidence=name, until=min(at + span, INTEGER_MAX))
