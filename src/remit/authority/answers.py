"""Answers: whether what a person said counts for a crossing as it is now.

    faults        why an answer does not count
    is_denied     whether it was a no to this very matter, which stands whatever else moved
    bound_faults  what moved since a question was asked that nobody answered yet

An answer is bound to what was shown: one field that is another now, and it counts no longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from remit.facts.judgement import Answer, Bound, Need, Question, Who

# The code of a field that an approval is bound to is `approval.` and its name, but for these.
_BOUND_CODES: Final[dict[str, str]] = {
    "immaterial": "material",
    "material": "payload",
    "policy_set": "policy",
    "request": "payload",
    "within": "window",
}

_BOUND_FIELDS: Final[tuple[tuple[str, str], ...]] = tuple(
    (field, f"approval.{_BOUND_CODES.get(field, field)}") for field in Bound.__struct_fields__
)

_MATERIAL: Final = "approval.material"

_RISKS_WITHOUT_SENIORITY: Final = ("low", "medium")


def faults(question: Question) -> list[str]:
    """Why the answer in `question` does not count: dotted codes, each once, in the order of the checks here.

    Empty where it counts, and where there is none. Whether it was a yes or a no is no fault.
    """
    answer, effect = question.answer, question.effect
    if answer is None or effect is None:
        return []
    codes = []
    if not answer.binding:
        codes.append("approval.binding")
    if answer.used:
        codes.append("approval.used")
    if question.now > answer.until or answer.at > answer.until:
        codes.append("approval.expired")
    codes += _bound_faults(answer.bound, effect.bound, may_reword=_may_reword(question.needs))
    codes += _decider_faults(question, answer)
    return codes


def is_denied(question: Question) -> bool:
    """Whether a person said no to this. To another question, or to another request, a no is none to this one.

    It stands whatever else moved since, and for what was a rewording when it was asked, or is one now: who said no said
    so to the matter.
    """
    answer = question.answer
    return answer is not None and answer.choice == "deny" and answer.binding and answer.same


def bound_faults(then: Bound, now: Bound) -> list[str]:
    """What moved since a question was asked that nobody answered yet: dotted codes, as `faults` has them.

    A rewording moves nothing here: whether the rules of today still allow it is judged with the answer.
    """
    return _bound_faults(then, now, may_reword=True)


def is_high(risk: str) -> bool:
    """Whether nobody who was given a role afterwards may answer; a risk that this version does not know is high."""
    return risk not in _RISKS_WITHOUT_SENIORITY


def is_self(question: Question, answer: Answer) -> bool:
    """Whether the decider is, as a principal or as a person, one of those whom the run acts for."""
    deciders = _selves(answer.by)
    if not deciders.isdisjoint(_selves(question.executor)):
        return True
    return question.behalf is not None and not deciders.isdisjoint(_selves(question.behalf))


def is_reworded(then: Bound, now: Bound) -> bool:
    """Whether the requests differ, and only in fields that the rule calls immaterial."""
    return then.request != now.request and then.is_same_matter(now)


def _bound_faults(then: Bound, now: Bound, *, may_reword: bool) -> list[str]:
    codes: list[str] = []
    is_wording = may_reword and is_reworded(then, now)
    for field, code in _BOUND_FIELDS:
        if getattr(then, field) == getattr(now, field):
            continue
        # What is shown holds the request, so it moves with every rewording that the rule allows.
        if is_wording and field in ("request", "shown"):
            continue
        if field == "material" and then.request == now.request:
            code = _MATERIAL  # it is the rules that moved
        if code not in codes:
            codes.append(code)
    return codes


def _decider_faults(question: Question, answer: Answer) -> list[str]:
    codes = []
    if answer.by.disabled or answer.disabled_since:
        codes.append("approval.disabled")
    if not answer.by.principal.startswith("user:"):
        codes.append("approval.decider")
    served = [[role for role in need.roles if role in answer.roles] for need in question.needs]
    # A predicate that failed without a rule beside it names nobody, and nobody can say yes to it.
    if not all(served) or (not served and question.unanswered):
        codes.append("approval.role")
    kept = [role for role in answer.by.roles if role not in answer.lost]
    if any(roles and not any(role in kept for role in roles) for roles in served):
        codes.append("approval.role_lost")
    if answer.granted_after and is_high(question.risk):
        codes.append("approval.role_new")
    if is_self(question, answer) and not (question.needs and all(need.alone for need in question.needs)):
        codes.append("approval.self")
    return codes


def _selves(who: Who) -> set[str]:
    return {who.principal, who.person} if who.person else {who.principal}


def _may_reword(needs: Sequence[Need]) -> bool:
    return bool(needs) and all(need.immaterial for need in needs)
