"""A question of the flow's own: `await run.approve("terms", payload, roles={"director"}, within=...)`.

It passes the same gate as an effect: the answer counts only if it would be good for one. Its
payload is bound byte for byte, and the decision is the recorded outcome of the call.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from remit.authority.rule import Approval
from remit.authority.rules import need_of
from remit.engine.crossing import cross, denied
from remit.engine.draw import EPOCH
from remit.engine.outcome import detail_of
from remit.engine.question import Wish
from remit.engine.signals import AttemptClosed
from remit.engine.turn import Turn
from remit.errors import Tampered
from remit.facts.boundary import Decided
from remit.facts.entry import SALT_BYTES
from remit.facts.kinds import ApprovalUsed, EffectRefused
from remit.facts.value import Codec, codec_for
from remit.facts.view import Recorded

_PLAIN: Codec[Any] = codec_for(Any)


@dataclass(frozen=True, slots=True)
class Yes:
    """A person's approval. by: "user:dana". at: aware, UTC."""

    by: str
    at: datetime
    reason: str


async def perform(turn: Turn, name: str, payload: Any, approval: Approval, rests_on: tuple[str, ...]) -> Yes:
    """The answer to a question, recorded or new. Raises Denied, ValueRefused, or AttemptClosed."""
    attempt = turn.attempt
    attempt.unbegun.pop(name, None)
    with attempt.parking.open_call():
        recorded = await attempt.recall(name)
        if recorded is not None:
            return _recorded(turn, recorded)
        kind = type(payload)
        codec = _PLAIN if kind in (dict, list, tuple, str, int, float, bool, type(None)) else codec_for(kind)
        data, _ = codec.write(payload, where=name)
        ask = attempt.boundary.last_ask_of(name)
        need = need_of("flow", approval.pin())
        salt = os.urandom(SALT_BYTES) if ask is None else ask.salt
        wish = Wish(name, None, data, salt, rests_on, (need,), is_whole=attempt.replay.is_whole())
        attempt.meet(wish)
        decided = await cross(turn, wish)
        assert isinstance(decided, Decided)
        return _yes(decided)


def _yes(decided: Decided) -> Yes:
    return Yes(decided.by, EPOCH + timedelta(microseconds=decided.at), detail_of(decided.reason))


def _recorded(turn: Turn, recorded: Recorded) -> Yes:
    fact = recorded.fact
    if isinstance(fact, EffectRefused):
        raise denied(fact, detail_of(recorded.value), recorded.name)
    decided = turn.attempt.boundary.asks[fact.ask].decided if isinstance(fact, ApprovalUsed) else None
    if decided is None:
        what = f"{recorded.name!r} of run {turn.attempt.run_id!r} is recorded as {recorded.kind}"
        turn.attempt.close(Tampered(f"{what}, and the flow asks a person."))
        raise AttemptClosed
    return _yes(decided)
