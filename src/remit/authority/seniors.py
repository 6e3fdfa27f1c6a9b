"""Seniors: who may say yes at high risk, where nobody may be given the role for it.

A question asks those who held a role of each of its groups when it was asked. Where none of them is
left, and others hold those roles by now, nobody could ever answer it: it is void, and is asked anew
under the directory of that day, for everybody to see. Whoever takes the role from all who held it
gains nothing in silence by that: the new question says why the one before is void.
"""

from __future__ import annotations

from collections.abc import Sequence

from remit.authority.answers import is_high
from remit.authority.directory import Authority
from remit.facts.judgement import Need
from remit.facts.kinds import ApprovalAsked, RunOpened

NOBODY_LEFT = "approval.nobody_left"


def seniors(authority: Authority, opened: RunOpened, asked: ApprovalAsked, needs: Sequence[Need]) -> list[str]:
    """Who of today's directory may say yes to a question that was asked at high risk."""
    return _who_may(authority, opened, asked, needs, since=asked.authority)


def is_nobody_left(
    authority: Authority, opened: RunOpened, asked: ApprovalAsked, needs: Sequence[Need], risk: str
) -> bool:
    """Whether nobody may say yes to this question any more, and somebody could, were it asked now.

    needs, risk: as they were when it was asked.
    """
    if not is_high(risk) or asked.authority == authority.version or seniors(authority, opened, asked, needs):
        return False
    return bool(_who_may(authority, opened, asked, needs, since=authority.version))


def _who_may(
    authority: Authority, opened: RunOpened, asked: ApprovalAsked, needs: Sequence[Need], *, since: int
) -> list[str]:
    """Persons who hold a role of each group since this version, and are none of those for whom the run acts."""
    may_alone = bool(needs) and all(need.alone for need in needs)
    selves = [authority.person_of(p) for p in (opened.by, opened.behalf) if p is not None]

    def may(who: str) -> bool:
        if not who.startswith("user:") or authority.who(who).disabled:
            return False
        if not may_alone and authority.person_of(who) in selves:
            return False
        held = authority.directory[who].grants
        return all(any(held.get(role, since + 1) <= since for role in group) for group in asked.bound.roles)

    return [who for who in sorted(authority.directory) if may(who)]
