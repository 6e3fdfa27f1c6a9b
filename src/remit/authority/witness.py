"""Witnesses: who may say what became of an effect that nobody knows of.

"It did not happen" is as good as a yes to a second call, so whoever says so is held to what a yes is
held to, when they say it and again when their word is taken up: a person whom the directory knows,
none of those for whom the run acts, and with a role of each rule that asked for a yes.
"""

from __future__ import annotations

import shlex

from remit.authority.directory import Authority
from remit.authority.gate import is_high
from remit.errors import Refused
from remit.facts.calls import EffectView
from remit.facts.judgement import Need
from remit.facts.kinds import RunOpened


def objection(authority: Authority, opened: RunOpened, effect: EffectView, by: str) -> Refused | None:
    """Why `by` may not say what became of the effect, as of this version of the directory; None where they may.

    Its code is `doubt.decider` (no person, unknown or disabled), `doubt.self` or `doubt.role`.
    """
    return (
        _of_person(authority, by) or _of_self(authority, opened, effect, by) or _of_roles(authority, opened, effect, by)
    )


def _of_person(authority: Authority, by: str) -> Refused | None:
    who = authority.who(by)
    if by.startswith("user:") and who.known and not who.disabled:
        return None
    hint = "A person says so whom the directory knows and who is not disabled."
    if by.startswith("user:") and not any(principal.startswith("user:") for principal in authority.directory):
        hint = (
            f"The directory knows nobody yet: `remit grant {shlex.quote(by)} ROLE --by user:SOMEBODY` makes them known."
        )
    return Refused(f"{by!r} is no person who may say so; nothing was done.", code="doubt.decider", hint=hint)


def _of_self(authority: Authority, opened: RunOpened, effect: EffectView, by: str) -> Refused | None:
    needs = effect.judged.question.needs
    if needs and all(need.alone for need in needs):
        return None  # where they may approve themselves, they may say this
    person = authority.person_of(by)
    if person not in [authority.person_of(p) for p in (opened.by, opened.behalf) if p is not None]:
        return None
    return Refused(
        f"{by!r} would say what became of its own run; nothing was done.",
        code="doubt.self",
        hint="Somebody for whom the run does not act says what they found out.",
    )


def _of_roles(authority: Authority, opened: RunOpened, effect: EffectView, by: str) -> Refused | None:
    question, held = effect.judged.question, authority.who(by).roles
    for need in question.needs:
        serving = [role for role in need.roles if role in held]
        if not serving:
            return _no_role(f"{by!r} does not hold {' or '.join(need.roles)}, as a yes to this effect would need", need)
        # At high risk nobody is made a witness after the matter, while there is one from before it.
        if is_high(question.risk) and not _is_senior(authority, effect, need, by):
            seniors = _seniors(authority, opened, effect, need)
            if seniors:
                what = f"{by!r} was given {' and '.join(serving)} after the effect was intended"
                return _no_role(what, need, hint=f"Who held it before says what they found out: {', '.join(seniors)}.")
    return None


def _is_senior(authority: Authority, effect: EffectView, need: Need, by: str) -> bool:
    """Whether they held a role that serves since before the effect was intended."""
    since = [at for role in need.roles if (at := authority.granted_at(by, role)) is not None]
    return min(since, default=effect.intended.authority + 1) <= effect.intended.authority


def _seniors(authority: Authority, opened: RunOpened, effect: EffectView, need: Need) -> list[str]:
    """Who could say so of those that held the role before."""
    return sorted(
        who
        for who in authority.directory
        if _is_senior(authority, effect, need, who)
        and _of_person(authority, who) is None
        and _of_self(authority, opened, effect, who) is None
    )


def _no_role(what: str, need: Need, *, hint: str = "") -> Refused:
    holder = f"A holder of {' or '.join(need.roles)} says what they found out; `remit who` names them."
    return Refused(f"{what}; nothing was done.", code="doubt.role", hint=hint or holder)
