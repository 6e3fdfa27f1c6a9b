"""Witnesses: who may say what became of an effect that nobody knows of.

    objection    why somebody may not say so now
    counts       whether what they said stands: they may, and might all the while since

"It did not happen" is as good as a yes to a second call, so whoever says so is held to what a yes is
held to, when they say it and again when their word is taken up: a person whom the directory knows,
none of those for whom the run acts, and with a role of each rule that asked for a yes. Of a call
that was sent again, each sending may be the one that happened: they are held to the rules of all of
them, and to who held the roles before the first. A word whose
speaker lost the role or the account since is lost for good, as a yes is: what is given back to them
lets them say it anew.
"""

from __future__ import annotations

import shlex

from remit.authority.answers import is_high
from remit.authority.directory import Authority
from remit.errors import Refused
from remit.facts.calls import EffectView, Resolved
from remit.facts.judgement import Need
from remit.facts.kinds import RunOpened


def objection(authority: Authority, opened: RunOpened, effect: EffectView, by: str) -> Refused | None:
    """Why `by` may not say what became of the effect, as of this version of the directory; None where they may.

    Its code is `doubt.decider` (no person, unknown or disabled), `doubt.self` or `doubt.role`.
    """
    return (
        _of_person(authority, by) or _of_self(authority, opened, effect, by) or _of_roles(authority, opened, effect, by)
    )


def counts(authority: Authority, opened: RunOpened, effect: EffectView, told: Resolved) -> bool:
    """Whether the word about an effect stands by this version of the directory, which is none before it was said."""
    return objection(authority, opened, effect, told.by) is None and not _has_lapsed(authority, effect, told)


def _has_lapsed(authority: Authority, effect: EffectView, told: Resolved) -> bool:
    """Whether they were disabled since, or lost each role that served a rule, whatever they were given back."""
    since = told.fact.authority
    if authority.enabled_at(told.by) > since:
        return True
    return not _serves_since(authority, effect, told.by, since)


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
    if all(terms.needs and all(need.alone for need in terms.needs) for terms in effect.terms):
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
    held = authority.who(by).roles
    for need in _needs(effect):
        if not any(role in held for role in need.roles):
            one = " or ".join(need.roles)
            return Refused(
                f"{by!r} does not hold {one}, as a yes to this effect would need; nothing was done.",
                code="doubt.role",
                hint=f"A holder of {one} says what they found out; `remit who` names them.",
            )
    # At high risk nobody is made a witness after the matter, while there is one from before it.
    if not any(is_high(terms.risk) for terms in effect.terms) or _is_senior(authority, effect, by):
        return None
    seniors = [who for who in sorted(authority.directory) if _may_as_senior(authority, opened, effect, who)]
    if not seniors:
        return None
    return Refused(
        f"{by!r} was given a role that it takes after the effect was intended; nothing was done.",
        code="doubt.role",
        hint=f"Who held them before says what they found out: {', '.join(seniors)}.",
    )


def _is_senior(authority: Authority, effect: EffectView, by: str) -> bool:
    """Whether they held a role that serves each rule that asked for a yes since before it was first intended."""
    return _serves_since(authority, effect, by, effect.authority)


def _serves_since(authority: Authority, effect: EffectView, by: str, version: int) -> bool:
    """Whether they hold, without a break since this version, a role that serves each rule that asked for a yes."""
    return all(
        any((authority.granted_at(by, role) or version + 1) <= version for role in need.roles)
        for need in _needs(effect)
    )


def _needs(effect: EffectView) -> list[Need]:
    """What each of its sendings was asked a yes by."""
    return [need for terms in effect.terms for need in terms.needs]


def _may_as_senior(authority: Authority, opened: RunOpened, effect: EffectView, by: str) -> bool:
    is_senior = _is_senior(authority, effect, by)
    return is_senior and not (_of_person(authority, by) or _of_self(authority, opened, effect, by))
