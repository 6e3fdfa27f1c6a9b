"""Resolving: a person found out what became of an effect in doubt, and says so, once.

Nothing is called. The word is posted with the evidence for it; the next attempt takes it up
and settles the effect by it, if whoever said it may still say so. Where they may not any more,
somebody else says it anew.
"""

from __future__ import annotations

import shlex
from typing import Any, Literal

from remit.authority.witness import objection
from remit.engine.people.post import Letter, post
from remit.engine.process.admit import Found, is_holder_dead
from remit.engine.process.host import Host
from remit.errors import Refused
from remit.facts.announced import DoubtTold
from remit.facts.kinds import DoubtResolved
from remit.facts.value import codec_for
from remit.store.marks import Announce

_PLAIN = codec_for(object)


async def resolve(
    host: Host, run: str, call: str, state: Literal["ok", "did_not_happen"], *, by: str, evidence: str, outcome: Any
) -> None:
    """Say what became of an effect. outcome: of one that happened, plain JSON types; `...` where none is said.

    Raises Refused: `doubt.outcome` (it happened and gave nothing), `doubt.absent` (no such effect, or it is settled),
    `doubt.under_way` (a living worker is at it, or its call has not returned), `doubt.resolved` (somebody said so
    already), `doubt.evidence`, `doubt.decider`, `doubt.self`, `doubt.role`; ValueRefused: nothing was written.
    """
    if not evidence.strip():
        raise Refused("How is that known? Nothing was done.", code="doubt.evidence", hint="State the evidence.")
    _check_outcome(call, state, outcome)
    given = None if outcome is ... else outcome
    data, _ = _PLAIN.write({"evidence": evidence, "outcome": given}, where=f"the outcome of {call}")
    row = await host.store.read_row(host.tenant, run)
    holder = row.worker if row is not None else None
    dead = holder if holder is not None and await is_holder_dead(host, holder) else None

    see = f"See `remit effects {shlex.quote(run)}`."

    def write(found: Found) -> Letter:
        authority, opened = host.standing.authority, found.view.opened
        effect = found.view.boundary.effects.get(call)
        if effect is None or effect.settled is not None:
            state_now = "was never intended" if effect is None else f"is settled: {effect.state}"
            raise Refused(f"{call!r} of run {run!r} {state_now}; nothing was done.", code="doubt.absent", hint=see)
        if (refused := objection(authority, opened, effect, by)) is not None:
            raise refused
        told = found.view.boundary.last_word(effect)
        if told is not None and objection(authority, opened, effect, told.by) is None:
            raise Refused(f"{told.by} said so already; nothing was done.", code="doubt.resolved", hint=see)
        if found.row.worker not in (None, dead):  # as of the journal that this is judged by, in which a call may begin
            raise Refused(f"A worker is at {call!r}; nothing was done.", code="doubt.under_way", hint="Wait for it.")
        if effect.intended.key in host.outstanding:
            raise Refused(
                f"The call of {call!r} has not returned in this process; nothing was done.",
                code="doubt.under_way",
                hint="It may still happen: wait until it returned, or end this process.",
            )
        fact = DoubtResolved(call=call, intended=effect.intention, state=state)
        return Letter(fact, data, (Announce(DoubtTold(call=call)),))

    await post(host, run, by=by, write=write, is_fenced=True)


def _check_outcome(call: str, state: str, outcome: Any) -> None:
    """That one that happened gives what the flow is to get, written out: a word is taken once, and never corrected."""
    if state == "ok" and outcome is ...:
        raise Refused(
            f"{call!r} happened and gave what? Nothing was done.",
            code="doubt.outcome",
            hint="Give what the effect's function would have returned, as JSON: `--outcome JSON`, or `--outcome null`.",
        )
    if state != "ok" and outcome is not ...:
        raise Refused(
            "What did not happen has no outcome; nothing was done.",
            code="doubt.outcome",
            hint="Leave the outcome out, or say that it happened: `ok`.",
        )
