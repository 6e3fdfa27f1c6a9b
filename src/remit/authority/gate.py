"""The gate: may this go on, here and now?

    judge    a question in, a verdict out; eight checks, all of them, every time
    end_of   what an abandonment comes to

Nothing but the question decides. There is no clock, no store and no exception here, so that
whoever holds the journaled question can ask again and must get the same verdict. Unknown
means no: what could not be read comes as a fact that fails its check. The worst finding
decides, and among equals the first, so one more yes can never outweigh a no.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from remit.authority.answers import faults, is_denied, is_reworded, is_self
from remit.facts.judgement import Check, Finding, Limit, Question, Verdict, Who


class End(NamedTuple):
    """What a finding comes to. is_told: the flow hears it, and may catch it and go another way."""

    code: str  # outcome code
    ends_as: Literal["abandoned", "failed", "expired", "cancelled"] = "abandoned"  # status of the run
    is_told: bool = False


# The outcome code of a finding is its own with an underscore, and a run that it ends is abandoned, but for these.
OUTCOMES: Final[dict[str, End]] = {
    "objective.cancelled": End("cancelled", "cancelled"),
    "objective.window_over": End("window_over", "expired"),
    "objective.unwanted": End("unwanted"),
    "identity.disabled": End("resume_denied", "failed"),
    "identity.unknown": End("resume_denied", "failed"),
    "authority.role": End("resume_denied", "failed"),
    "ceiling.amount": End("ceiling_exceeded", "failed"),
    "ceiling.currency": End("ceiling_exceeded", "failed"),
    "ceiling.exceeded": End("ceiling_exceeded", "failed"),
    "ceiling.negative": End("ceiling_exceeded", "failed"),
    "ceiling.uncounted": End("ceiling_exceeded", "failed"),
    "approval.denied": End("denied", "failed", is_told=True),
    "idempotency.conflict": End("idempotency_conflict", "failed", is_told=True),
}

_ENDS: Final[dict[str, End]] = {end.code: end for end in OUTCOMES.values()}

_Fault = tuple[str, str]  # dotted code, and the name that it is about


def judge(question: Question) -> Verdict:
    """The verdict on `question`: resume, revalidate (somebody or something has to say more) or abandon.

    Total and pure. All eight findings stand in the verdict in the order of `Check`; a finding's `code` is dotted
    ("ceiling.exceeded"), the verdict's is the outcome code of the finding that decided ("ceiling_exceeded").
    An abandonment ends the run, unless it is for the flow to hear: see `end_of`.

    >>> from remit.facts.judgement import Bound, Crossing, Limit, Question, Who
    >>> cut = Limit(amount=38_000_00, currency="GBP", field="amount", max=25_000_00, per="run",
    ...             scope="pay.amount/GBP/run", source="policy", stated="GBP")
    >>> buyer = Who(known=True, principal="agent:buyer", roles=["buyer"])
    >>> pay = Crossing(bound=Bound(effect="pay", request="ab" * 32), name="pay")
    >>> verdict = judge(Question(authority=7, ceilings=[cut], effect=pay, executor=buyer, head="cd" * 32,
    ...                          now=1_000, resume=[["buyer"]], risk="high", seq=5, window_end=2_000))
    >>> verdict.decision, verdict.code, verdict.findings[2].code, verdict.findings[2].detail
    ('abandon', 'ceiling_exceeded', 'ceiling.exceeded', 'pay.amount/GBP/run')
    """
    findings = [check(question) for check in _CHECKS]
    worst: Finding | None = None
    for finding in findings:
        if finding.verdict and (worst is None or (worst.verdict, finding.verdict) == ("revalidate", "abandon")):
            worst = finding
    if worst is None:
        return Verdict(decision="resume", findings=findings)
    decision: Literal["revalidate", "abandon"] = "abandon" if worst.verdict == "abandon" else "revalidate"
    return Verdict(code=outcome_of(worst.code), decision=decision, findings=findings)


def outcome_of(code: str) -> str:
    """The snake_case outcome code of a dotted finding code: "authority.role" gives "resume_denied"."""
    end = OUTCOMES.get(code)
    return code.replace(".", "_") if end is None else end.code


def end_of(code: str) -> End:
    """What an abandonment under this outcome code comes to."""
    return _ENDS.get(code) or End(code)


def is_over(limit: Limit) -> bool:
    """Whether a ceiling refuses what is asked, for whatever reason."""
    return bool(_limit_faults(limit))


def _objective(question: Question) -> Finding:
    if question.cancelled:
        return _no("objective", "abandon", "objective.cancelled")
    if question.now > question.window_end:
        return _no("objective", "abandon", "objective.window_over")
    if question.wanted == "no":
        return _no("objective", "abandon", "objective.unwanted")
    if question.wanted == "unknown":
        return _no("objective", "revalidate", "objective.unknown", question.wanted_lost or question.unwanted_by)
    # A clock that was set back revives nothing, because `now` is the later of the two; it is said all the same.
    return _OBJECTIVE_REGRESSED if question.regressed else _OBJECTIVE_OK


def _identity(question: Question) -> Finding:
    found = _identity_faults(question.executor, must_be_known=bool(question.resume))
    if question.behalf is not None:
        found += _identity_faults(question.behalf, must_be_known=bool(question.resume))
    return _no_for("identity", "abandon", found) if found else _IDENTITY_OK


def _authority(question: Question) -> Finding:
    executor = question.executor
    is_met = all(any(role in executor.roles for role in group) for group in question.resume)
    found = [] if is_met else [("authority.role", executor.principal)]
    if question.effect is not None:
        for limit in question.ceilings:
            found += _limit_faults(limit)
    return _no_for("authority", "abandon", found) if found else _AUTHORITY_OK


def _evidence(question: Question) -> Finding:
    if question.effect is None or not question.evidence:
        return _EVIDENCE_OK
    found, approved = [], []
    for basis in question.evidence:
        if basis.failed:
            found.append(("evidence.unreadable", basis.name))
        elif not basis.digest:
            found.append(("evidence.missing", basis.name))
        elif question.now > basis.until:
            found.append(("evidence.expired", basis.name))
        elif basis.relied and basis.relied != basis.digest:
            if _was_approved_with(question, basis.name, basis.digest):
                approved.append(basis.name)
            else:
                found.append(("evidence.changed", basis.name))
    if found:
        return _no_for("evidence", "revalidate", found)
    return _noted("evidence", "evidence.approved", ", ".join(approved)) if approved else _EVIDENCE_OK


def _policy(question: Question) -> Finding:
    if question.forbidden:
        return _no("policy", "abandon", "policy.forbids", question.effect.bound.effect if question.effect else "")
    if question.unnamed:
        return _no("policy", "revalidate", "policy.unnamed", question.effect.bound.effect if question.effect else "")
    if question.pinned_contract and question.pinned_policy:
        return _noted("policy", "policy.moved", "contract, policy")
    if question.pinned_contract:
        return _noted("policy", "policy.moved", "contract")
    if question.pinned_policy:
        return _noted("policy", "policy.moved", "policy")
    return _POLICY_OK


def _effects(question: Question) -> Finding:
    # A plain resume replays up to the doubt, which holds it there; a new effect would go past it.
    if question.doubts and question.effect is not None:
        return _no("effects", "revalidate", "effects.in_doubt", ", ".join(question.doubts))
    return _EFFECTS_OK


def _duplicates(question: Question) -> Finding:
    effect = question.effect
    if effect is None:
        return _DUPLICATES_OK
    if effect.rival:
        return _no("duplicates", "abandon", "idempotency.conflict", effect.rival)
    if effect.lost:
        return _no("duplicates", "revalidate", "duplicates.missing", effect.lost)
    if effect.own == "in_doubt":
        return _no("duplicates", "revalidate", "duplicates.in_doubt", effect.name)
    if effect.own:
        return _no("duplicates", "revalidate", "duplicates.settled", effect.name)
    return _DUPLICATES_OK


def _approval(question: Question) -> Finding:
    answer = question.answer
    if question.effect is None:
        return _APPROVAL_OK
    if answer is not None and is_denied(question):
        # Before anything else: a no stays a no, also where a rule was dropped since and nobody would be asked.
        return _no("approval", "abandon", "approval.denied", answer.by.principal)
    if not question.needs and not question.unanswered:
        return _APPROVAL_OK
    if answer is None:
        asks = f"unanswered: {question.unanswered}" if question.unanswered else ", ".join(_sources(question))
        return _no("approval", "revalidate", "approval.needed", asks)
    if codes := faults(question):
        return _no("approval", "revalidate", codes[0], ", ".join(codes))
    notes = []
    if is_self(question, answer):
        notes.append("approval.alone")
    if is_reworded(answer.bound, question.effect.bound):
        notes.append("approval.reworded")
    return _noted("approval", notes[0], ", ".join(notes)) if notes else _APPROVAL_OK


def _identity_faults(who: Who, *, must_be_known: bool) -> list[_Fault]:
    if who.disabled:
        return [("identity.disabled", who.principal)]
    if must_be_known and not who.known:
        return [("identity.unknown", who.principal)]
    return []


def _limit_faults(limit: Limit) -> list[_Fault]:
    if limit.amount is None:
        return [("ceiling.amount", limit.scope)]
    if limit.amount < 0:
        return [("ceiling.negative", limit.scope)]
    if limit.is_of_another:
        return [("ceiling.currency", limit.scope)]
    if limit.uncounted:
        return [("ceiling.uncounted", f"{limit.scope} by {limit.uncounted}")]
    if limit.used + limit.amount > limit.max:
        return [("ceiling.exceeded", limit.scope)]
    return []


def _was_approved_with(question: Question, name: str, digest: str) -> bool:
    """Whether a person who was to be asked said yes to evidence as it stands now."""
    answer = question.answer
    # Where no rule needs a yes, nobody has looked at who gave this one.
    if answer is None or answer.choice != "approve" or not question.needs:
        return False
    return answer.bound.evidence.get(name) == digest and not faults(question)


def _sources(question: Question) -> list[str]:
    return list(dict.fromkeys(need.source for need in question.needs))


def _no(check: Check, verdict: Literal["revalidate", "abandon"], code: str, detail: str = "") -> Finding:
    return Finding(check=check, code=code, detail=detail, ok=False, verdict=verdict)


def _no_for(check: Check, verdict: Literal["revalidate", "abandon"], found: list[_Fault]) -> Finding:
    """The first decides the code. Where it is the only one, the detail is what it is about, else all with theirs."""
    code, about = found[0]
    detail = about if len(found) == 1 else ", ".join(f"{code} {about}" for code, about in found)
    return _no(check, verdict, code, detail)


def _noted(check: Check, code: str, detail: str = "") -> Finding:
    return Finding(check=check, code=code, detail=detail)


# Made once: nearly every finding is a plain yes.
_OBJECTIVE_OK = Finding(check="objective")
_OBJECTIVE_REGRESSED = _noted("objective", "clock.regressed")
_IDENTITY_OK = Finding(check="identity")
_AUTHORITY_OK = Finding(check="authority")
_EVIDENCE_OK = Finding(check="evidence")
_POLICY_OK = Finding(check="policy")
_EFFECTS_OK = Finding(check="effects")
_DUPLICATES_OK = Finding(check="duplicates")
_APPROVAL_OK = Finding(check="approval")

_CHECKS: Final[tuple[Callable[[Question], Finding], ...]] = (
    _objective,
    _identity,
    _authority,
    _evidence,
    _policy,
    _effects,
    _duplicates,
    _approval,
)
