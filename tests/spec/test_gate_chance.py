"""The gate, asked what nobody thought of: it always answers, and worse facts never get a better answer.

The questions come from the types, so a field that is added later is asked about too. Words and
numbers are drawn from small sets, because only facts that meet each other reach the judge's lines.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as some
from msgspec.structs import replace

from remit.authority.answers import faults
from remit.authority.describe import describe
from remit.authority.gate import judge
from remit.facts.judgement import Basis, Bound, Check, Limit, Need, Question
from tests.spec.test_gate import FREE, GOOD, reworded

CHECKS = typing.get_args(Check)
RANK = {"resume": 0, "revalidate": 1, "abandon": 2}

WORDS = some.sampled_from(["", "", "buyer", "director", "user:dana", "user:eve", "agent:buyer", "e1", "high", "\u202e"])
NUMBERS = some.sampled_from([-1, 0, 1, 2, 10**20]) | some.integers() | some.just(-(10**5_000))

Worsening = Callable[[Question], Question]


def some_of(kind: Any) -> some.SearchStrategy[Any]:
    """Any value of a type that a question may hold, its defaults included."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is str:
        return WORDS
    if kind is int:
        return NUMBERS
    if kind is bool:
        return some.booleans()
    if kind is type(None):
        return some.none()
    if origin is typing.Literal:
        return some.sampled_from(arguments)
    if origin in (typing.Union, types.UnionType):
        return some.one_of([some_of(each) for each in arguments])
    if origin is list:
        return some.lists(some_of(arguments[0]), max_size=2)
    if origin is dict:
        return some.dictionaries(some_of(arguments[0]), some_of(arguments[1]), max_size=2)
    assert issubclass(kind, msgspec.Struct), kind
    hints = typing.get_type_hints(kind)
    return some.builds(kind, **{field: some_of(hints[field]) for field in kind.__struct_fields__})


ANY_QUESTION: some.SearchStrategy[Question] = some_of(Question)


@given(ANY_QUESTION)
@settings(max_examples=300)
def test_the_judge_always_answers(question: Question) -> None:  # proves: GATE-2
    verdict = judge(question)

    assert [one.check for one in verdict.findings] == list(CHECKS)
    assert all(one.ok == (one.verdict == "") for one in verdict.findings)
    assert all(one.code or (one.ok and not one.detail) for one in verdict.findings)
    assert RANK[verdict.decision] == max(RANK[one.verdict or "resume"] for one in verdict.findings)
    assert (verdict.code == "") == (verdict.decision == "resume")
    assert judge(question) == verdict
    assert len(set(faults(question))) == len(faults(question))


@given(ANY_QUESTION)
@settings(max_examples=100)
def test_every_finding_can_be_put_in_words_that_can_be_seen(question: Question) -> None:
    for finding in judge(question).findings:
        assert all(text.isprintable() for text in describe(question, finding))


@given(ANY_QUESTION)
@settings(max_examples=100)
def test_what_one_check_finds_never_moves_another(question: Question) -> None:  # proves: GATE-2
    # Of the checks that no answer excuses: only evidence and approval look at the same thing.
    spoilt = replace(question, cancelled=True, forbidden=True, doubts=["order"])

    for at, (before, after) in enumerate(zip(judge(question).findings, judge(spoilt).findings, strict=True)):
        assert CHECKS[at] in ("objective", "policy", "effects") or before == after


def _first(field: str, **changes: Any) -> Worsening:
    """The first of a list, changed."""

    def worsen(question: Question) -> Question:
        items = getattr(question, field)
        return replace(question, **{field: [replace(items[0], **changes), *items[1:]]}) if items else question

    return worsen


def _part(field: str, **changes: Any) -> Worsening:
    """A part that may be absent, changed."""

    def worsen(question: Question) -> Question:
        part = getattr(question, field)
        return question if part is None else replace(question, **{field: replace(part, **changes)})

    return worsen


def _decider(**changes: Any) -> Worsening:
    def worsen(question: Question) -> Question:
        answer = question.answer
        return question if answer is None else _part("answer", by=replace(answer.by, **changes))(question)

    return worsen


def _given_to_another(field: str) -> Worsening:
    """The answer was given to a question that differs in one field."""
    other = {"evidence": {"other": "other"}, "roles": [["other"]], "within": -7}.get(field, "other")

    def worsen(question: Question) -> Question:
        answer = question.answer
        return question if answer is None else _part("answer", bound=replace(answer.bound, **{field: other}))(question)

    return worsen


def _add(field: str, item: Any) -> Worsening:
    return lambda question: replace(question, **{field: [*getattr(question, field), item]})


def _set(**changes: Any) -> Worsening:
    return lambda question: replace(question, **changes)


def _self_decided(question: Question) -> Question:
    return _decider(person=question.executor.principal)(question)


def _unanswered(question: Question) -> Question:
    # A no is no answer that the flow could do without.
    denied = question.answer is not None and question.answer.choice == "deny"
    return question if denied else replace(question, answer=None)


def _later(question: Question) -> Question:
    return replace(question, now=max(question.now, GOOD.now) + 1)


NOBODY = Need(roles=["nobody"], source="policy", within=1)
SPENT = Limit(amount=1, field="amount", max=0, per="day", scope="pay.amount/day", source="policy")

WORSE: dict[str, Worsening] = {
    "cancelled": _set(cancelled=True),
    "later": _later,
    "window cut": _set(window_end=-(10**30)),
    "not wanted": _set(wanted="no"),
    "executor disabled": _part("executor", disabled=True),
    "executor unknown": _part("executor", known=False),
    "executor without roles": _part("executor", roles=[]),
    "behalf disabled": _part("behalf", disabled=True),
    "behalf unknown": _part("behalf", known=False),
    "another contract's rule": _add("resume", ["nobody"]),
    "ceiling cut": _first("ceilings", max=-1),
    "ceiling used": _first("ceilings", used=10**30),
    "ceiling in another currency": _first("ceilings", currency="XAU", stated="XAG"),
    "no amount": _first("ceilings", amount=None),
    "an amount before that nobody can count": _first("ceilings", uncounted="pay#9"),
    "another ceiling": _add("ceilings", SPENT),
    "evidence unreadable": _first("evidence", failed="TimeoutError"),
    "evidence gone": _first("evidence", digest="", failed=""),
    "evidence stale": _first("evidence", until=-(10**30)),
    "more evidence": _add("evidence", Basis(name="rate")),
    "forbidden": _set(forbidden=True),
    "unnamed": _set(unnamed=True),
    "another doubt": _add("doubts", "order"),
    "a rival": _part("effect", rival="po-17"),
    "in doubt itself": lambda q: q if q.effect and q.effect.rival else _part("effect", own="in_doubt")(q),
    "another need": _add("needs", NOBODY),
    "need of another role": _first("needs", roles=["nobody"]),
    "no answer": _unanswered,
    "denied": _part("answer", choice="deny", same=True),
    "another question's answer": _part("answer", binding=False),
    "answer used": _part("answer", used=True),
    "answer late": _part("answer", until=-(10**30)),
    "decided late": _part("answer", at=10**30),
    "role granted for it": lambda q: _part("answer", granted_after=True)(replace(q, risk="high")),
    "decided without a role": _part("answer", roles=[]),
    "decider's role lost": _decider(roles=[]),
    "decider disabled": _decider(disabled=True),
    "decider a program": _decider(principal="agent:eve"),
    "decider the executor": _self_decided,
    **{f"given to another {field}": _given_to_another(field) for field in Bound.__struct_fields__},
}

MILD: dict[str, Worsening] = {
    # No line is crossed on the good question, so these only stand beside others.
    "may decide alone no longer": _first("needs", alone=False),
    "nothing immaterial": _first("needs", immaterial=[]),
    "rule failed": _set(unanswered="KeyError"),
    "risk high": _set(risk="high"),
    "relied on another": _first("evidence", relied="e0"),
}


@pytest.mark.parametrize("name", WORSE)
def test_one_thing_worse_and_the_good_question_is_no_longer_good(name: str) -> None:  # proves: GATE-2, APR-1
    assert judge(GOOD).decision == "resume"
    assert judge(WORSE[name](GOOD)).decision != "resume"


@some.composite
def nearly_good(draw: some.DrawFn) -> Question:
    """A question a few steps away from a good one, and here and there any value at all."""
    question = draw(some.sampled_from([GOOD, FREE, reworded(), _first("evidence", relied="e0")(GOOD)]))
    for name in draw(some.lists(some.sampled_from(sorted(WORSE)), max_size=2)):
        question = WORSE[name](question)
    anything = draw(ANY_QUESTION)
    fields = draw(some.lists(some.sampled_from(Question.__struct_fields__), max_size=2))
    return replace(question, **{field: getattr(anything, field) for field in fields})


@given(nearly_good(), some.sampled_from(sorted(WORSE | MILD)))
@settings(max_examples=500)
def test_worse_facts_never_get_a_better_verdict(question: Question, name: str) -> None:  # proves: GATE-2
    answer = question.answer
    if name == "given to another request":
        # Where the rule lets words move, what is shown moves with them and can't be told from any other change of it.
        assume(answer is None or not answer.bound.material)
    if name == "another question's answer":
        # A no to another question is none to this one.
        assume(answer is None or answer.choice == "approve")
    if name == "another need":
        # A yes excuses evidence that changed only where somebody was to be asked for it.
        assume(answer is None or question.needs)

    assert RANK[judge((WORSE | MILD)[name](question)).decision] >= RANK[judge(question).decision]


@given(nearly_good(), some.integers(0, 10**18))
def test_later_is_never_better_than_sooner(question: Question, passed: int) -> None:  # proves: GATE-2, APR-2
    later = replace(question, now=question.now + passed)

    assert RANK[judge(later).decision] >= RANK[judge(question).decision]
