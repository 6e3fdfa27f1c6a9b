"""Resolving: a person found out what became of an effect in doubt, and says so, once.

Nothing is called. The word is posted with the evidence for it; the next attempt takes it up
and settles the effect by it.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from remit.engine.admit import Found, is_holder_dead
from remit.engine.host import Host
from remit.engine.post import Letter, post
from remit.engine.standing import refresh
from remit.errors import Refused
from remit.facts.kinds import DoubtResolved
from remit.facts.value import codec_for
from remit.store.marks import Announce

_PLAIN = codec_for(object)


async def resolve(
    host: Host, run: str, call: str, state: Literal["ok", "did_not_happen"], *, by: str, evidence: str, outcome: Any
) -> None:
    """Say what became of an effect. outcome: of one that happened, plain JSON types.

    Raises Refused: `doubt.absent` (no such effect, or it is settled), `doubt.under_way` (a living worker is at it),
    `doubt.resolved` (somebody said so already), `doubt.evidence`, `doubt.decider`; ValueRefused: nothing was written.
    """
    await refresh(host)
    if not evidence.strip():
        raise Refused("How is that known? Nothing was done.", code="doubt.evidence", hint="State the evidence.")
    data, _ = _PLAIN.write({"evidence": evidence, "outcome": outcome}, where=f"the outcome of {call}")
    row = await host.store.read_row(host.tenant, run)
    is_held = row is not None and row.worker is not None and not await is_holder_dead(host, row.worker)

    def write(found: Found) -> Letter:
        if not by.startswith("user:") or host.standing.authority.who(by).disabled:
            raise Refused(f"{by!r} is no person who may say so; nothing was done.", code="doubt.decider", hint=_WHO)
        effect = found.view.boundary.effects.get(call)
        if effect is None or effect.settled is not None:
            state_now = "was never intended" if effect is None else f"is settled: {effect.state}"
            raise Refused(f"{call!r} of run {run!r} {state_now}; nothing was done.", code="doubt.absent", hint=_SEE)
        if effect.intention in found.view.boundary.resolved:
            told = found.view.boundary.resolved[effect.intention]
            raise Refused(f"{told.by} said so already; nothing was done.", code="doubt.resolved", hint=_SEE)
        if is_held and found.row.worker is not None:
            raise Refused(f"A worker is at {call!r}; nothing was done.", code="doubt.under_way", hint="Wait for it.")
        fact = DoubtResolved(call=call, intended=effect.intention, state=state)
        told_ = msgspec.json.encode({"by": by, "call": call, "run": run, "state": state})
        return Letter(fact, data, (Announce("doubt.resolved", told_),), is_fenced=True)

    await post(host, run, by=by, write=write)


_WHO = "A person who is not disabled says what they found out."
_SEE = "See `remit effects RUN`."
