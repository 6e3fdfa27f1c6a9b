"""A question of the flow's own: `await run.approve("terms", payload, roles={"director"}, within=...)`.

It passes the same gate as an effect: the answer counts only if it would be good for one. Its
payload is bound byte for byte, and the decision is the recorded outcome of the call.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from remit.authority.denials import is_refused
from remit.authority.moments import datetime_of
from remit.authority.rule import Approval
from remit.authority.rules import immaterial_of, is_same_matter, need_of
from remit.engine.boundary.crossing import HeardOrVoid, cross, denied
from remit.engine.process.outcome import detail_of
from remit.engine.process.salt import draw_salt
from remit.engine.turn.race import has_lost
from remit.engine.turn.turn import Turn
from remit.engine.turn.wish import RestsOn, Wish
from remit.errors import Denied
from remit.errors.called import called
from remit.facts.calls import Decided
from remit.facts.kinds import ApprovalUsed, EffectRefused
from remit.facts.value import write_own
from remit.facts.view import Recorded


@dataclass(frozen=True, slots=True)
class Yes:
    """A person's approval. by: "user:dana". at: aware, UTC."""

    by: str
    at: datetime
    reason: str


async def perform(turn: Turn, name: str, data: bytes, approval: Approval, rests_on: RestsOn) -> Yes:
    """The answer to a question, recorded or new. Raises Denied, ValueRefused, or AttemptClosed."""
    attempt = turn.attempt
    attempt.unbegun.begin(name)
    with attempt.parking, HeardOrVoid(turn, name, data):
        recorded = await attempt.recall(name, "question")
        if recorded is not None:
            return _recorded(turn, recorded, data, approval)
        ask = attempt.boundary.last_ask_of(name)
        need = need_of("flow", approval.pin())
        salt = draw_salt() if ask is None else ask.salt
        wish = Wish(name, None, data, salt, rests_on, (need,), is_whole=attempt.replay.is_whole())
        await attempt.meet(wish)
        try:
            try:
                decided = await cross(turn, wish)
            except Denied:
                await attempt.delivery.turn(name)
                raise
            await attempt.delivery.turn(name)
        except asyncio.CancelledError:
            if wish.is_committed and not has_lost():
                attempt.let_go[name] = attempt.writer.rides  # its answer is recorded, and the flow did not hear it
            raise
        assert isinstance(decided, Decided)
        return _yes(decided)


def _yes(decided: Decided) -> Yes:
    return Yes(decided.by, datetime_of(decided.at), detail_of(decided.reason))


def _recorded(turn: Turn, recorded: Recorded, data: bytes, approval: Approval) -> Yes:
    """The recorded answer, to the very question that the code asks now: no answer is given to another one.

    A no is to its matter, whoever is asked today and about whatever else.
    """
    fact = recorded.fact
    assert isinstance(fact, EffectRefused | ApprovalUsed)  # `recall` saw to it
    boundary = turn.attempt.boundary
    ask, need = boundary.asks[fact.ask], need_of("flow", approval.pin())
    if isinstance(fact, EffectRefused):
        is_same = is_refused(boundary, recorded.name, fact, data)
    else:
        # What was immaterial then and is not now, or the other way round, is material.
        immaterial = immaterial_of([need, *boundary.asked_for[fact.ask].question.needs])
        is_same = is_same_matter(ask.request, data, immaterial) and ask.asked.bound.roles == [need.roles]
    if not is_same:
        turn.attempt.disagree((recorded.name,), (f"{recorded.name} about something else",))
    if isinstance(fact, EffectRefused):
        raise denied(fact, detail_of(recorded.value), recorded.name)
    assert ask.decided is not None  # the fold saw to it
    return _yes(ask.decided)


def payload_of(name: str, payload: Any) -> bytes:
    """The bytes of what a person is shown. Raises ValueRefused: nobody was asked."""
    return write_own(payload, where=called(name))
