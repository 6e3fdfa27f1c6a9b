"""Resolving: a person found out what became of an effect in doubt, and says so, once.

Nothing is called. The word is posted with the evidence for it; the next attempt takes it up
and settles the effect by it. "It did not happen" is as good as a yes to a second call, so that
whoever says so is held to what a yes is held to: a person whom the directory knows, none of
those for whom the run acts, and with a role that the effect's approval was asked of.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, Literal

from remit.authority.directory import Authority
from remit.authority.gate import is_high
from remit.engine.people.post import Letter, post
from remit.engine.process.admit import Found, is_holder_dead
from remit.engine.process.host import Host
from remit.errors import Refused
from remit.facts.announced import DoubtTold
from remit.facts.boundary import EffectView
from remit.facts.judgement import Need
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

    def write(found: Found) -> Letter:
        authority = host.standing.authority
        _check_person(authority, by)
        effect = found.view.boundary.effects.get(call)
        if effect is None or effect.settled is not None:
            state_now = "was never intended" if effect is None else f"is settled: {effect.state}"
            raise Refused(f"{call!r} of run {run!r} {state_now}; nothing was done.", code="doubt.absent", hint=_SEE)
        if effect.intention in found.view.boundary.resolved:
            told = found.view.boundary.resolved[effect.intention]
            raise Refused(f"{told.by} said so already; nothing was done.", code="doubt.resolved", hint=_SEE)
        if found.row.worker not in (None, dead):  # as of the journal that this is judged by, in which a call may begin
            raise Refused(f"A worker is at {call!r}; nothing was done.", code="doubt.under_way", hint="Wait for it.")
        if effect.intention in host.outstanding:
            raise Refused(
                f"The call of {call!r} has not returned in this process; nothing was done.",
                code="doubt.under_way",
                hint="It may still happen: wait until it returned, or end this process.",
            )
        _check_decider(authority, found, effect, by)
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


def _check_person(authority: Authority, by: str) -> None:
    who = authority.who(by)
    if by.startswith("user:") and who.known and not who.disabled:
        return
    hint = _WHO
    if by.startswith("user:") and not any(principal.startswith("user:") for principal in authority.directory):
        hint = (
            f"The directory knows nobody yet: `remit grant {shlex.quote(by)} ROLE --by user:SOMEBODY` makes them known."
        )
    raise Refused(f"{by!r} is no person who may say so; nothing was done.", code="doubt.decider", hint=hint)


def _check_decider(authority: Authority, found: Found, effect: EffectView, by: str) -> None:
    """What a yes to this effect would be held to. alone: where they may approve themselves, they may say this."""
    opened, needs = found.view.opened, effect.judged.question.needs
    person, is_alone = authority.person_of(by), bool(needs) and all(need.alone for need in needs)
    if not is_alone and person in [authority.person_of(p) for p in (opened.by, opened.behalf) if p is not None]:
        raise Refused(
            f"{by!r} would say what became of its own run; nothing was done.",
            code="doubt.self",
            hint="Somebody for whom the run does not act says what they found out.",
        )
    held = authority.who(by).roles
    for need in needs:
        serving = [role for role in need.roles if role in held]
        if not serving:
            raise _no_role(f"{by!r} does not hold {' or '.join(need.roles)}, as a yes to this effect would need", need)
        if is_high(effect.judged.question.risk) and not _held_before(authority, by, serving, effect):
            raise _no_role(f"{by!r} was given {' and '.join(serving)} after the effect was intended", need)


def _held_before(authority: Authority, by: str, serving: Sequence[str], effect: EffectView) -> bool:
    """Whether one of the roles was held when the effect was intended: at high risk nobody is made a witness after."""
    seqs = [at for role in serving if (at := authority.granted_at(by, role)) is not None]
    return bool(seqs) and min(seqs) <= effect.intended.authority


def _no_role(what: str, need: Need) -> Refused:
    hint = f"A holder of {' or '.join(need.roles)} says what they found out; `remit who` names them."
    return Refused(f"{what}; nothing was done.", code="doubt.role", hint=hint)


_WHO = "A person says so whom the directory knows and who is not disabled."
_SEE = "See `remit effects RUN`."
