"""The gate: eight checks on one question, each with the codes that it may find, and the worst of them decides.

Each code stands in a table with the two questions on either side of its line.
"""

from __future__ import annotations

import doctest
import re
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from remit.authority import answers, gate
from remit.authority import describe as descriptions
from remit.authority.answers import bound_faults, faults
from remit.authority.describe import describe
from remit.authority.gate import judge
from remit.facts.judgement import Answer, Basis, Bound, Check, Crossing, Finding, Limit, Need, Question, Who
from remit.facts.kinds import GateJudged
from remit.facts.machine import FORMS

NOW = 1_795_000_000_000_000
HOUR = 3_600_000_000
CHECKS = typing.get_args(Check)

BOUND = Bound(
    connector="c0",
    contract="c1",
    effect="pay",
    evidence={"quote": "e1"},
    material="",
    policy="p1",
    request="r1",
    roles=[["director"]],
    shown="s1",
    version="1",
    within=72 * HOUR,
)
BUYER = Who(known=True, principal="agent:buyer", roles=["buyer"])
DANA = Who(known=True, principal="user:dana", roles=["clerk"])
EVE = Who(known=True, principal="user:eve", roles=["director"])
CEILING = Limit(
    amount=38_000_00,
    currency="GBP",
    field="amount",
    max=50_000_00,
    per="run",
    scope="pay.amount/run",
    source="contract",
    stated="GBP",
    used=12_000_00,
)
QUOTE = Basis(digest="e1", name="quote", until=NOW)
NEED = Need(roles=["director"], source="contract", within=72 * HOUR)
YES = Answer(
    asked_at=NOW - 2 * HOUR,
    ask="ask-1",
    at=NOW - HOUR,
    bound=BOUND,
    by=EVE,
    choice="approve",
    roles=["director"],
    until=NOW,
)
EFFECT = Crossing(bound=BOUND, business="b1", key="k1", name="pay")

# Every line is met exactly: a second later, a penny more or a role less, and it is a no.
GOOD = Question(
    answer=YES,
    authority=7,
    behalf=DANA,
    ceilings=[CEILING],
    effect=EFFECT,
    evidence=[QUOTE],
    executor=BUYER,
    head="ab" * 32,
    needs=[NEED],
    now=NOW,
    resume=[["buyer", "head_buyer"]],
    risk="high",
    seq=9,
    wanted="yes",
    window_end=NOW,
)
REWORDED = replace(GOOD, answer=replace(YES, bound=replace(BOUND, request="r9", shown="s9"), same=True))
REWORDED_NO = replace(REWORDED, answer=replace(YES, bound=replace(BOUND, request="r9"), choice="deny", same=True))
FREE = replace(GOOD, answer=None, needs=[])  # of an effect that nobody has to approve
BACK = replace(FREE, ceilings=[], effect=None, evidence=[], wanted="")  # a plain resume


def asked(**changes: Any) -> Question:
    return replace(GOOD, **changes)


def answered(**changes: Any) -> Question:
    return replace(GOOD, answer=replace(YES, **changes))


def bound_to(**changes: Any) -> Question:
    """As if the answer had been given to something else."""
    return answered(bound=replace(BOUND, **changes))


def limited(**changes: Any) -> Question:
    return asked(ceilings=[replace(CEILING, **changes)])


def resting_on(**changes: Any) -> Question:
    return asked(evidence=[replace(QUOTE, **changes)])


def crossing(**changes: Any) -> Question:
    return asked(effect=replace(EFFECT, **changes))


def decided_by(who: Who, **changes: Any) -> Question:
    return answered(by=who, **changes)


def finding(question: Question, check: str) -> Finding:
    return judge(question).findings[CHECKS.index(check)]


def reworded(**changes: Any) -> Question:
    """The request changed in a field that the rule calls immaterial; what is shown changed with it."""
    then = replace(BOUND, material="m1")
    now = replace(then, request="r2", shown="s2")
    needs = [replace(NEED, immaterial=["note"])]
    return replace(asked(answer=replace(YES, bound=then), effect=replace(EFFECT, bound=now), needs=needs), **changes)


@dataclass(frozen=True)
class Line:
    """A code, a question just behind its line and one just before it."""

    code: str
    bad: Question
    good: Question
    decision: str
    outcome: str


def no(code: str, bad: Question, good: Question = GOOD, outcome: str = "") -> Line:
    return Line(code, bad, good, "abandon", outcome or code.replace(".", "_"))


def again(code: str, bad: Question, good: Question = GOOD) -> Line:
    return Line(code, bad, good, "revalidate", code.replace(".", "_"))


UNKNOWN_DANA = Who(principal="user:dana")
ALONE = replace(NEED, alone=True)

LINES = [
    no("objective.cancelled", asked(cancelled=True), outcome="cancelled"),
    no("objective.window_over", asked(window_end=NOW - 1), outcome="window_over"),
    no("objective.unwanted", asked(wanted="no"), outcome="unwanted"),
    again("objective.unknown", asked(wanted="unknown"), asked(wanted="")),
    no("identity.disabled", asked(executor=replace(BUYER, disabled=True)), outcome="resume_denied"),
    no("identity.disabled", asked(behalf=replace(DANA, disabled=True)), asked(behalf=None), outcome="resume_denied"),
    no("identity.disabled", asked(behalf=replace(DANA, disabled=True), resume=[]), outcome="resume_denied"),
    no("identity.unknown", asked(executor=replace(BUYER, known=False)), outcome="resume_denied"),
    no("identity.unknown", asked(behalf=UNKNOWN_DANA), asked(behalf=UNKNOWN_DANA, resume=[]), outcome="resume_denied"),
    no("authority.role", asked(executor=replace(BUYER, roles=["clerk"])), asked(resume=[]), outcome="resume_denied"),
    no("authority.role", asked(resume=[["buyer"], ["head_buyer"]]), outcome="resume_denied"),
    no("ceiling.amount", limited(amount=None), limited(amount=0), outcome="ceiling_exceeded"),
    no("ceiling.negative", limited(amount=-1), limited(amount=0), outcome="ceiling_exceeded"),
    no("ceiling.currency", limited(stated="USD"), limited(stated=""), outcome="ceiling_exceeded"),
    no("ceiling.uncounted", limited(uncounted="pay#2"), outcome="ceiling_exceeded"),
    no("ceiling.exceeded", limited(amount=38_000_01), limited(amount=38_000_00), outcome="ceiling_exceeded"),
    no("ceiling.exceeded", limited(used=12_000_01), outcome="ceiling_exceeded"),
    no("ceiling.exceeded", asked(ceilings=[CEILING, replace(CEILING, max=1)]), outcome="ceiling_exceeded"),
    again("evidence.missing", resting_on(digest="")),
    again("evidence.unreadable", resting_on(digest="", failed="TimeoutError")),
    again("evidence.unreadable", resting_on(failed="TimeoutError")),
    again("evidence.expired", resting_on(until=NOW - 1)),
    again("evidence.changed", replace(resting_on(relied="e0"), answer=None, needs=[]), resting_on(relied="e1")),
    again("evidence.changed", replace(resting_on(relied="e0"), needs=[])),  # nobody asked for this yes
    no("policy.forbids", asked(forbidden=True)),
    no("policy.forbids", asked(forbidden=True, unnamed=True)),
    again("policy.unnamed", asked(unnamed=True)),
    again("effects.in_doubt", asked(doubts=["order"])),
    no("idempotency.conflict", crossing(rival="po-17"), crossing(business="")),
    again("duplicates.missing", crossing(lost="pay"), crossing(business="")),
    again("duplicates.settled", crossing(own="ok")),
    again("duplicates.settled", crossing(own="failed")),
    again("duplicates.in_doubt", crossing(own="in_doubt")),
    again("approval.needed", asked(answer=None), FREE),
    again("approval.needed", replace(FREE, unanswered="KeyError"), FREE),
    no("approval.denied", answered(choice="deny", same=True), outcome="denied"),
    no(
        "approval.denied",
        replace(answered(choice="deny", same=True), needs=[]),
        replace(GOOD, needs=[]),
        outcome="denied",
    ),
    no(
        "approval.denied", answered(choice="deny", same=True, until=NOW - 1), GOOD, outcome="denied"
    ),  # a no is over for nothing
    no(
        "approval.denied", answered(choice="deny", same=True, bound=replace(BOUND, policy="p9")), GOOD, outcome="denied"
    ),
    again("approval.payload", answered(choice="deny", bound=replace(BOUND, request="r9", shown="s9"))),
    no("approval.denied", replace(REWORDED_NO, needs=[]), replace(REWORDED, needs=[]), outcome="denied"),
    again("approval.binding", answered(binding=False)),
    again("approval.used", answered(used=True)),
    again("approval.expired", answered(until=NOW - 1)),
    again("approval.expired", answered(at=NOW + 1), answered(at=NOW)),
    again("approval.connector", bound_to(connector="c9")),
    again("approval.contract", bound_to(contract="c9")),
    again("approval.effect", bound_to(effect="refund")),
    again("approval.evidence", bound_to(evidence={"quote": "e9"})),
    again("approval.policy", bound_to(policy="p9")),
    again("approval.material", bound_to(material="m9")),
    again("approval.payload", bound_to(request="r9"), reworded()),
    again("approval.payload", reworded(needs=[NEED]), reworded()),
    again("approval.payload", reworded(needs=[replace(NEED, immaterial=["note"]), NEED]), reworded()),
    again("approval.roles", bound_to(roles=[["cfo"]])),
    again("approval.shown", bound_to(shown="s9")),
    again("approval.version", bound_to(version="9")),
    again("approval.window", bound_to(within=1)),
    again("approval.disabled", decided_by(replace(EVE, disabled=True))),
    again("approval.disabled", answered(disabled_since=True)),
    again("approval.decider", decided_by(replace(EVE, principal="agent:eve"))),
    again("approval.decider", decided_by(replace(EVE, principal="service:mail", person="user:eve"))),
    again("approval.role", answered(roles=["clerk"]), answered(roles=["clerk", "director"])),
    again("approval.role", asked(needs=[NEED, replace(NEED, roles=["cfo"])]), asked(needs=[NEED, NEED])),
    again("approval.role", replace(GOOD, needs=[], unanswered="KeyError"), asked(unanswered="KeyError")),
    again("approval.role_lost", decided_by(replace(EVE, roles=["clerk"]))),
    again("approval.role_lost", answered(lost=["director"]), answered(lost=["clerk"])),
    again("approval.role_new", answered(granted_after=True), replace(answered(granted_after=True), risk="medium")),
    again("approval.role_new", replace(answered(granted_after=True), risk="dire"), GOOD),
    again("approval.self", asked(behalf=EVE), asked(behalf=EVE, needs=[ALONE])),
    again("approval.self", asked(behalf=EVE, needs=[ALONE, NEED]), asked(behalf=EVE, needs=[ALONE, ALONE])),
    again("approval.self", asked(executor=replace(EVE, roles=["buyer"]))),
    again("approval.self", asked(executor=replace(BUYER, person="user:eve"))),
    again("approval.self", decided_by(replace(EVE, person="user:dana"))),
    again(
        "approval.self",
        asked(behalf=replace(DANA, person="user:x"), answer=replace(YES, by=replace(EVE, person="user:x"))),
    ),
]

NOTES = [
    ("clock.regressed", "objective", asked(regressed=True), ""),
    ("evidence.approved", "evidence", resting_on(relied="e0"), "quote"),
    ("policy.moved", "policy", asked(pinned_contract="c0"), "contract"),
    ("policy.moved", "policy", asked(pinned_policy="p0"), "policy"),
    ("policy.moved", "policy", asked(pinned_contract="c0", pinned_policy="p0"), "contract, policy"),
    ("approval.alone", "approval", asked(behalf=EVE, needs=[ALONE]), "approval.alone"),
    ("approval.reworded", "approval", reworded(), "approval.reworded"),
]


def _titled(rows: list[Any], code_of: Callable[[Any], str]) -> list[Any]:
    """Each row as a case named for its code, numbered where a code has several."""
    names = [code_of(row) for row in rows]
    return [
        pytest.param(row, id=name if names.count(name) == 1 else f"{name}-{names[:at].count(name) + 1}")
        for at, (row, name) in enumerate(zip(rows, names, strict=True))
    ]


@pytest.mark.parametrize("line", _titled(LINES, lambda line: line.code))
def test_each_code_has_a_line_that_it_stands_behind(line: Line) -> None:  # proves: GATE-2, APR-1, APR-2, APR-3, APR-4
    verdict = judge(line.bad)

    failed = [one for one in verdict.findings if not one.ok]
    assert [one.code for one in failed] == [line.code]
    assert (verdict.decision, verdict.code) == (line.decision, line.outcome)
    assert failed[0].verdict == line.decision
    assert judge(line.good).decision == "resume"


@pytest.mark.parametrize("note", _titled(NOTES, lambda note: note[0]))
def test_what_is_allowed_but_worth_a_word_is_noted(note: tuple[str, str, Question, str]) -> None:  # proves: GATE-2
    code, check, question, detail = note

    assert finding(question, check) == Finding(check=typing.cast(Check, check), code=code, detail=detail)
    assert judge(question).decision == "resume"
    assert judge(question).code == ""


def test_no_code_of_the_judge_is_missing_from_these_tables() -> None:
    sources = [Path(str(module.__file__)).read_text(encoding="utf-8") for module in (gate, answers)]
    written = {code for source in sources for code in re.findall(r'"([a-z]+\.[a-z_]+)"', source)}
    proven = {line.code for line in LINES} | {note[0] for note in NOTES}

    assert written - proven == set()
    assert len(proven) > 40


def test_all_eight_checks_answer_in_order_whatever_one_of_them_finds() -> None:  # proves: GATE-2
    everything = replace(
        answered(used=True),
        cancelled=True,
        doubts=["order"],
        effect=replace(EFFECT, own="ok"),
        evidence=[replace(QUOTE, failed="TimeoutError")],
        executor=replace(BUYER, known=False, roles=[]),
        forbidden=True,
    )

    assert [one.check for one in judge(everything).findings] == list(CHECKS)
    assert [one.ok for one in judge(everything).findings] == [False] * 8
    assert judge(GOOD).findings == [Finding(check=check) for check in CHECKS]


def test_the_worst_finding_decides_and_among_equals_the_first() -> None:  # proves: GATE-2
    doubtful_and_forbidden = replace(resting_on(failed="TimeoutError"), forbidden=True)
    two_to_ask_again = replace(resting_on(failed="TimeoutError"), doubts=["order"])
    two_to_abandon = asked(forbidden=True, executor=replace(BUYER, roles=[]))

    assert judge(doubtful_and_forbidden).code == "policy_forbids"
    assert judge(two_to_ask_again).code == "evidence_unreadable"
    assert judge(two_to_abandon).code == "resume_denied"


def test_all_that_is_wrong_is_listed_and_the_first_names_it() -> None:  # proves: GATE-2
    poor = replace(GOOD, executor=replace(BUYER, roles=[]), ceilings=[CEILING, replace(CEILING, max=1, scope="day")])
    stale = asked(evidence=[QUOTE, replace(QUOTE, name="rate", until=0), replace(QUOTE, name="stock", digest="")])
    gone = asked(executor=replace(BUYER, disabled=True), behalf=UNKNOWN_DANA)

    assert finding(poor, "authority").code == "authority.role"
    assert finding(poor, "authority").detail == "authority.role agent:buyer, ceiling.exceeded day"
    assert finding(stale, "evidence").detail == "evidence.expired rate, evidence.missing stock"
    assert finding(gone, "identity").detail == "identity.disabled agent:buyer, identity.unknown user:dana"


def test_a_single_fault_names_what_it_is_about() -> None:  # proves: GATE-2
    about = [
        (finding(asked(behalf=UNKNOWN_DANA), "identity"), "user:dana"),
        (finding(limited(amount=None), "authority"), "pay.amount/run"),
        (finding(resting_on(failed="TimeoutError"), "evidence"), "quote"),
        (finding(asked(forbidden=True), "policy"), "pay"),
        (finding(asked(doubts=["order", "order#2"]), "effects"), "order, order#2"),
        (finding(crossing(rival="po-17"), "duplicates"), "po-17"),
        (finding(crossing(own="ok"), "duplicates"), "pay"),
        (finding(asked(answer=None, needs=[NEED, replace(NEED, source="policy")]), "approval"), "contract, policy"),
        (finding(asked(answer=None, unanswered="KeyError"), "approval"), "unanswered: KeyError"),
        (finding(answered(choice="deny", same=True), "approval"), "user:eve"),
    ]

    assert [one.detail for one, _ in about] == [detail for _, detail in about]


def test_a_plain_resume_asks_only_what_bears_on_it() -> None:  # proves: GATE-2
    laden = replace(BACK, ceilings=[limited(amount=None).ceilings[0]], doubts=["order"], needs=[NEED])
    laden = replace(
        laden, evidence=[replace(QUOTE, failed="TimeoutError")], unanswered="KeyError", answer=replace(YES, used=True)
    )

    assert judge(laden).findings == [Finding(check=check) for check in CHECKS]
    for answer in (None, replace(YES, choice="deny")):
        assert judge(replace(laden, answer=answer)) == judge(laden)
    assert judge(replace(laden, executor=replace(BUYER, roles=[]))).code == "resume_denied"
    assert judge(replace(laden, window_end=NOW - 1)).code == "window_over"


def test_of_a_run_that_was_overtaken_all_three_reasons_are_named() -> None:  # proves: GATE-2
    edited = replace(BOUND, request="r2", shown="s2")
    friday = asked(
        ceilings=[replace(CEILING, max=25_000_00, source="policy", used=0)],
        effect=replace(EFFECT, bound=edited),
        evidence=[replace(QUOTE, until=NOW - 1)],
    )

    verdict = judge(friday)

    assert [one.code for one in verdict.findings if not one.ok] == [
        "ceiling.exceeded",
        "evidence.expired",
        "approval.payload",
    ]
    assert (verdict.decision, verdict.code) == ("abandon", "ceiling_exceeded")


def test_the_faults_of_an_answer_are_all_told() -> None:  # proves: APR-1, APR-3, APR-4
    spoilt = answered(
        binding=False,
        bound=Bound(effect="refund", request="r9"),
        by=Who(disabled=True, person="agent:buyer", principal="service:mail", roles=["clerk"]),
        granted_after=True,
        until=0,
        used=True,
    )

    assert faults(spoilt) == [
        "approval.binding",
        "approval.used",
        "approval.expired",
        "approval.connector",
        "approval.contract",
        "approval.effect",
        "approval.evidence",
        "approval.policy",
        "approval.payload",
        "approval.roles",
        "approval.shown",
        "approval.version",
        "approval.window",
        "approval.disabled",
        "approval.decider",
        "approval.role_lost",
        "approval.role_new",
        "approval.self",
    ]
    assert finding(spoilt, "approval").code == "approval.binding"
    assert finding(spoilt, "approval").detail == ", ".join(faults(spoilt))


def test_an_answer_that_counts_has_no_faults_and_nor_has_none_at_all() -> None:  # proves: APR-1
    assert faults(GOOD) == faults(reworded()) == faults(FREE) == faults(BACK) == []
    assert faults(replace(GOOD, needs=[])) == []  # nobody has to be asked any more
    assert faults(replace(answered(used=True), effect=None)) == []


@pytest.mark.parametrize("field", Bound.__struct_fields__)
def test_each_field_that_an_approval_is_bound_to_voids_it_by_name(field: str) -> None:  # proves: APR-1
    # Every field there is, so that one which is added later can't be forgotten by the judge.
    value = getattr(BOUND, field)
    other = {str: "other", int: 1, dict: {}, list: [] if value else ["other"]}[type(value)]
    named = {"immaterial": "material", "policy_set": "policy", "request": "payload", "within": "window"}.get(
        field, field
    )

    assert other != value
    for question in (bound_to(**{field: other}), crossing(bound=replace(BOUND, **{field: other}))):
        assert faults(question) == [f"approval.{named}"]
        assert judge(question).decision == "revalidate"


def test_a_field_that_moves_with_another_is_told_once_and_only_where_it_is_not_excused() -> None:  # proves: APR-1
    then, now = replace(BOUND, material="m1"), replace(BOUND, material="m2", request="r2", shown="s2")
    lenient = asked(needs=[replace(NEED, immaterial=["note"])])

    def codes(then: Bound, now: Bound, question: Question = lenient) -> list[str]:
        return faults(replace(question, answer=replace(YES, bound=then), effect=replace(EFFECT, bound=now)))

    assert codes(then, replace(now, material="m1")) == []
    assert codes(then, now) == ["approval.payload", "approval.shown"]
    assert codes(replace(then, material=""), replace(now, material="")) == ["approval.payload", "approval.shown"]
    assert codes(then, replace(then, shown="s2")) == ["approval.shown"]
    assert codes(then, replace(now, material="m1"), asked(needs=[])) == ["approval.payload", "approval.shown"]


def test_a_question_that_nobody_answered_yet_is_stale_for_the_same_reasons() -> None:  # proves: APR-1
    then = replace(BOUND, material="m1")

    assert bound_faults(then, then) == bound_faults(then, replace(then, request="r2", shown="s2")) == []
    assert bound_faults(then, replace(then, shown="s2")) == ["approval.shown"]
    assert bound_faults(then, replace(then, material="m2", request="r2")) == ["approval.payload"]
    assert bound_faults(BOUND, replace(BOUND, request="r2")) == ["approval.payload"]
    assert bound_faults(BOUND, replace(BOUND, contract="c9", policy="p9")) == ["approval.contract", "approval.policy"]


def test_a_decider_is_told_only_what_is_wrong_with_them() -> None:  # proves: APR-3, APR-4
    assert faults(answered(roles=["clerk"])) == ["approval.role"]  # never held, so not lost either
    assert faults(decided_by(replace(EVE, roles=[]))) == ["approval.role_lost"]
    assert faults(asked(behalf=EVE, needs=[])) == ["approval.self"]  # no rule is left that allows it
    both = asked(needs=[replace(NEED, roles=["cfo", "director"])])
    held = replace(YES, roles=["cfo", "director"])  # either would have done
    assert faults(replace(both, answer=held)) == []


def test_a_rewording_excuses_nothing_but_the_words() -> None:  # proves: APR-1, APR-5
    effect = reworded().effect
    assert effect is not None

    for field, other in (("contract", "c9"), ("evidence", {}), ("material", "m9"), ("roles", []), ("version", "9")):
        moved = reworded(effect=replace(effect, bound=replace(effect.bound, **{field: other})))
        assert judge(moved).decision == "revalidate", field


def test_evidence_that_changed_is_only_excused_by_a_yes_to_its_present_value() -> None:  # proves: APR-1, GATE-2
    moved = resting_on(digest="e2", relied="e1")

    assert finding(moved, "evidence").code == "evidence.changed"
    assert finding(replace(resting_on(relied="e1"), answer=None), "evidence") == Finding(check="evidence")
    assert finding(resting_on(relied="e0"), "evidence").code == "evidence.approved"
    for void in (replace(YES, used=True), replace(YES, choice="deny")):
        assert finding(replace(resting_on(relied="e0"), answer=void), "evidence").code == "evidence.changed"


def test_a_ceiling_without_a_currency_counts_any() -> None:
    assert judge(limited(currency="", stated="USD")).decision == "resume"


def test_a_rival_is_told_before_what_became_of_the_call_itself() -> None:
    assert judge(crossing(own="ok", rival="po-17")).code == "idempotency_conflict"


def test_the_journaled_question_gets_the_journaled_verdict() -> None:  # proves: GATE-2
    for line in LINES:
        written = FORMS["GateJudged"].write(GateJudged(question=line.bad, verdict=judge(line.bad)))
        read = FORMS["GateJudged"].read(written)

        assert isinstance(read, GateJudged)
        assert judge(read.question) == read.verdict


def test_people_are_told_what_was_seen_and_what_was_required() -> None:  # proves: GATE-2
    assert [describe(GOOD, one) for one in judge(GOOD).findings] == [
        ("2026-11-18 11:06:40 UTC; still wanted", "not cancelled; still wanted; until 2026-11-18 11:06:40 UTC"),
        ("executor agent:buyer is known; on behalf of user:dana is known", "known and not disabled"),
        (
            "agent:buyer holds buyer; 3,800,000 minor units of GBP with 1,200,000 used",
            "one of: buyer, head_buyer; at most 5,000,000 minor units of GBP per run (contract)",
        ),
        (
            "quote: fresh until 2026-11-18 11:06:40 UTC",
            "as the flow relied on it, or as a person approved it since, and fresh when it is relied on",
        ),
        ("not forbidden", "allowed by the contracts and the policy that hold now"),
        ("no other effect is in doubt", "no other effect of this run in doubt"),
        ("not performed before", "not performed before, and its business key free"),
        (
            "approved by user:eve as director on 2026-11-18 10:06:40 UTC",
            "a yes from one of: director within 3 d (contract)",
        ),
    ]


TOLD = [
    ("objective.cancelled", asked(cancelled=True), "cancelled"),
    ("objective.unwanted", asked(wanted="no"), "not wanted any more"),
    (
        "objective.unknown",
        asked(wanted="unknown", unwanted_by="KeyError"),
        "nobody can say whether it is wanted (KeyError)",
    ),
    (
        "objective.unknown",
        asked(wanted="unknown", unwanted_by="LookupError", wanted_lost="shop.wanted"),
        "nobody can say whether it is wanted: the code no longer has shop.wanted, which the run was opened with",
    ),
    ("clock.regressed", asked(regressed=True), "the clock stands behind the last entry"),
    ("identity.disabled", asked(behalf=replace(DANA, disabled=True)), "on behalf of user:dana is disabled"),
    ("identity.unknown", asked(executor=replace(BUYER, known=False)), "executor agent:buyer is unknown"),
    ("authority.role", asked(executor=replace(BUYER, roles=[])), "agent:buyer holds no role"),
    ("ceiling.amount", limited(amount=None), "no whole number at amount"),
    ("ceiling.negative", limited(amount=-1), "-1 minor units of GBP"),
    ("ceiling.currency", limited(stated="USD"), "3,800,000 minor units of USD"),
    ("ceiling.uncounted", limited(uncounted="pay#2"), "and nobody can count what pay#2 took"),
    ("evidence.missing", resting_on(digest=""), "quote: missing"),
    ("evidence.unreadable", resting_on(failed="TimeoutError"), "quote: could not be taken again (TimeoutError)"),
    ("evidence.expired", resting_on(until=0), "quote: expired on 1970-01-01 00:00:00 UTC"),
    ("evidence.approved", resting_on(relied="e0"), "quote: changed, fresh until"),
    ("policy.forbids", asked(forbidden=True), "forbidden"),
    ("policy.unnamed", asked(unnamed=True), "no rule is about pay, and the contract has rules for others"),
    ("policy.moved", asked(pinned_contract="c0" * 32), "opened under another contract (c0c0c0c0c0c0)"),
    ("policy.moved", asked(pinned_policy="p0" * 32), "opened under another policy (p0p0p0p0p0p0)"),
    ("effects.in_doubt", asked(doubts=["order", "order#2"]), "in doubt: order, order#2"),
    ("duplicates.settled", crossing(own="failed"), "settled before: failed"),
    ("duplicates.in_doubt", crossing(own="in_doubt"), "in doubt itself"),
    ("duplicates.missing", crossing(lost="pay#2"), "held by pay#2 of this run, whose entries are missing"),
    ("idempotency.conflict", crossing(rival="po-17"), "its business key is that of po-17"),
    ("approval.needed", asked(answer=None), "no answer"),
    ("approval.denied", answered(choice="deny", same=True), "denied by user:eve as director"),
    ("approval.payload", bound_to(request="r9"), "the request changed"),
    ("approval.contract", bound_to(contract="c9"), "the contract changed"),
    ("approval.role_lost", decided_by(replace(EVE, roles=[])), "the decider lost the role since"),
]


@pytest.mark.parametrize("told", _titled(TOLD, lambda told: told[0]))
def test_what_was_seen_says_what_the_code_says(told: tuple[str, Question, str]) -> None:  # proves: GATE-2
    code, question, words = told
    found = [one for one in judge(question).findings if one.code == code]

    assert words in describe(question, found[0])[0]


def test_an_amount_is_never_shown_as_whole_pounds_or_yen() -> None:  # proves: GATE-2
    """How many minor units make a whole one is not known here: 200,000 pence are no 200,000 GBP."""
    for currency in ("GBP", "JPY", "KWD"):
        question = limited(stated=currency, currency=currency, amount=200_000)
        told = " ".join(describe(question, judge(question).findings[2]))
        assert f"200,000 minor units of {currency}" in told and f"200,000 {currency}" not in told
    bare = limited(stated="", currency="", amount=3)
    assert "; 3 with" in describe(bare, judge(bare).findings[2])[0]


def test_of_two_ceilings_each_sum_says_which_rule_counts_it() -> None:  # proves: GATE-2
    contract = replace(limited().ceilings[0], source="contract", used=70_000)
    question = replace(limited(), ceilings=[contract, replace(contract, source="policy", per="day")])
    seen, _ = describe(question, judge(question).findings[2])

    assert "with 70,000 used (per run, contract)" in seen and "with 70,000 used (per day, policy)" in seen


def test_of_several_ceilings_those_are_told_that_refuse_the_first_first() -> None:  # proves: GATE-2
    """A finding that glued all of them together left it to the reader which one was in the way."""
    base = limited().ceilings[0]
    tight, tighter = replace(base, max=1, per="day", source="policy"), replace(base, max=2, per="month")
    question = replace(limited(), ceilings=[base, tight, replace(base, per="effect"), tighter])
    seen, required = describe(question, judge(question).findings[2])
    *told, others = seen.split("; ")
    assert ["(per day, policy)" in told[0], "(per month, contract)" in told[1], len(told)] == [True, True, 2]
    assert others == "the other 2 ceilings hold"
    assert required.split("; ") == [
        "at most 1 minor units of GBP per day (policy)",
        "at most 2 minor units of GBP per month (contract)",
    ]


def test_a_finding_about_ceilings_speaks_of_no_role_and_one_about_roles_of_no_ceiling() -> None:  # proves: GATE-2
    within = replace(limited(), executor=replace(BUYER, roles=[]))
    over = replace(limited(), ceilings=[replace(limited().ceilings[0], max=1)])
    both = replace(within, ceilings=over.ceilings)
    told = [" | ".join(describe(each, judge(each).findings[2])) for each in (over, within, both)]
    assert [("holds" in one, "one of:" in one, "at most" in one) for one in told] == [
        (False, False, True),
        (True, True, False),
        (True, True, True),
    ]


def test_what_a_request_says_can_not_pass_for_words_of_ours() -> None:
    hostile = limited(stated="GBP\u202e; approved by the board")

    assert describe(hostile, judge(hostile).findings[2])[0] == (
        "3,800,000 minor units of 'GBP\\u202e; approved by th' with 1,200,000 used"
    )
    assert "\u202e" not in describe(asked(doubts=["order\u202e"]), Finding(check="effects"))[0]


def test_a_failed_rule_says_that_it_asks_because_it_failed() -> None:
    question = replace(FREE, unanswered="KeyError")

    assert describe(question, judge(question).findings[7]) == (
        "no answer",
        "a yes, because the rule that says whether one is needed failed (KeyError)",
    )


def test_the_examples_in_the_docstrings_run() -> None:
    for module in (gate, descriptions):
        assert doctest.testmod(module) == doctest.TestResults(failed=0, attempted=doctest.testmod(module).attempted)
        assert doctest.testmod(module).attempted > 0


def test_findings_of_one_outcome_code_end_a_run_alike() -> None:  # proves: GATE-2
    ends = set(gate.OUTCOMES.values())
    assert len(ends) == len({end.code for end in ends})
