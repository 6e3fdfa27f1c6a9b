"""Rules: of the pinned contract, the code's contract and the policy, the stricter holds, because all of them do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.authority.difference import difference
from remit.authority.moments import microseconds_of
from remit.authority.rules import (
    Cap,
    Demand,
    Rules,
    evidence_until,
    immaterial_of,
    limit_of,
    material_of,
    need_of,
    resume_groups,
    risk_of,
    rules_for,
    scope_end,
    scope_of,
    times_of,
    window_end,
)
from remit.canonical import INTEGER_MAX
from remit.facts.judgement import Limit, Need
from remit.facts.rules import ApprovalPin, CeilingPin, ContractPin, Period, PolicyPin, RulePin

HOUR = 3_600_000_000
NOW = int(
    (datetime(2026, 11, 27, 23, 59, 59, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1)
)

DIRECTOR = ApprovalPin(roles=["director"], within=72 * HOUR)
CFO = ApprovalPin(roles=["cfo"], within=HOUR)
LOW = CeilingPin(currency="GBP", field="amount", max=10, per="effect")
HIGH = CeilingPin(currency="GBP", field="amount", max=20, per="effect")
DAILY = CeilingPin(field="amount", max=50, per="day")


def contract(rule: RulePin | None = None, *, resume: list[str] | None = None, risk: str = "low") -> ContractPin:
    effects = {} if rule is None else {"pay": rule}
    return ContractPin(effects=effects, resume=resume or ["buyer"], risk=risk, version="1", window=24 * HOUR)


def rules(then: RulePin | None = None, now: RulePin | None = None, policy: PolicyPin | None = None) -> Rules:
    return rules_for("pay", pinned=contract(then), coded=contract(now), policy=policy)


def test_without_rules_nothing_is_demanded():
    assert rules() == Rules()
    assert rules(policy=PolicyPin(version="1")) == Rules()


def test_all_three_hold_together_and_each_keeps_its_source():  # proves: GATE-4, GATE-6
    policy = PolicyPin(
        approvals={"pay": CFO, "gift": DIRECTOR}, ceilings={"pay": [DAILY]}, forbid=["pay", "wire"], version="1"
    )
    then = RulePin(approval=ApprovalPin(roles=["board"], within=HOUR), ceilings=[LOW], evidence=["quote"])
    now = RulePin(approval=DIRECTOR, ceilings=[HIGH], evidence=["budget"])
    assert rules(then, now, policy) == Rules(
        needs=(
            Demand("contract", DIRECTOR, ""),
            Demand("pinned contract", ApprovalPin(roles=["board"], within=HOUR), ""),
            Demand("policy", CFO, ""),
        ),
        ceilings=(Cap("contract", HIGH), Cap("pinned contract", LOW), Cap("policy", DAILY)),
        evidence=("budget", "quote"),
        forbidden=True,
    )


def test_a_rule_that_was_dropped_from_the_code_or_from_the_pin_still_holds():  # proves: GATE-4
    rule = RulePin(approval=DIRECTOR, ceilings=[LOW], evidence=["quote"])
    for found, source in [(rules(rule, None), "pinned contract"), (rules(None, rule), "contract")]:
        assert found == Rules(needs=(Demand(source, DIRECTOR, ""),), ceilings=(Cap(source, LOW),), evidence=("quote",))


def test_twins_stand_there_once():
    rule = RulePin(approval=DIRECTOR, ceilings=[LOW, DAILY], evidence=["quote"])
    policy = PolicyPin(approvals={"pay": DIRECTOR}, ceilings={"pay": [LOW]}, version="1")
    assert rules(rule, rule, policy) == Rules(
        needs=(Demand("contract", DIRECTOR, ""),),
        ceilings=(Cap("contract", LOW), Cap("contract", DAILY)),
        evidence=("quote",),
    )


def test_a_predicate_is_asked_of_the_code_and_where_the_code_lost_it_approval_is_needed():
    def asking(predicate: str, roles: str = "director") -> RulePin:
        return RulePin(approval=ApprovalPin(predicate=predicate, roles=[roles], within=HOUR))

    [only] = rules(asking("shop.is_large"), asking("shop.is_large")).needs
    assert (only.source, only.predicate) == ("contract", "shop.is_large")
    both = rules(asking("shop.is_large", "cfo"), asking("shop.is_large")).needs
    assert [need.predicate for need in both] == ["shop.is_large", "shop.is_large"]
    moved = rules(asking("shop.is_large"), asking("shop.is_very_large")).needs
    assert [(need.source, need.predicate) for need in moved] == [
        ("contract", "shop.is_very_large"),
        ("pinned contract", ""),
    ]
    [lost] = rules(asking("shop.is_large"), None).needs
    assert (lost.source, lost.predicate) == ("pinned contract", "")


def test_a_predicate_of_another_version_of_the_contract_may_say_something_else_by_the_same_name():  # proves: GATE-4
    asking = RulePin(approval=ApprovalPin(predicate="shop.<lambda>", roles=["director"], within=HOUR))
    pinned = contract(asking)
    needs = rules_for("pay", pinned=pinned, coded=msgspec.structs.replace(pinned, version="2"), policy=None).needs
    assert [(need.source, need.predicate) for need in needs] == [
        ("contract", "shop.<lambda>"),
        ("pinned contract", ""),
    ]


def test_whether_it_is_still_wanted_is_asked_of_the_code_and_unknown_where_the_code_lost_it():
    asking, other = RulePin(wanted="shop.is_wanted"), RulePin(wanted="shop.is_welcome")
    assert (rules(asking, asking).wanted, rules(asking, asking).wanted_lost) == ("shop.is_wanted", "")
    assert (rules(None, asking).wanted, rules(None, asking).wanted_lost) == ("shop.is_wanted", "")
    assert (rules(asking, other).wanted, rules(asking, other).wanted_lost) == ("shop.is_welcome", "shop.is_wanted")
    assert (rules(asking, None).wanted, rules(asking, None).wanted_lost) == ("", "shop.is_wanted")


@pytest.mark.parametrize(
    ("per", "until"),
    [("day", datetime(2026, 2, 1, tzinfo=UTC)), ("month", datetime(2026, 2, 1, tzinfo=UTC)), ("run", None)],
)
def test_a_day_and_a_month_end_with_their_last_microsecond(per: str, until: datetime | None):  # proves: FX-12
    now = microseconds_of(datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC))
    end = scope_end(per, now)
    assert end == (None if until is None else microseconds_of(until) - 1)
    pin = CeilingPin(field="amount", max=1, per=per)  # type: ignore[arg-type]
    if end is not None:
        assert scope_of("pay", pin, end) == scope_of("pay", pin, now) != scope_of("pay", pin, end + 1)


def test_a_time_in_each_period_is_told_where_clocks_part():  # proves: FX-12
    midnight, second = microseconds_of(datetime(2026, 12, 1, tzinfo=UTC)), 1_000_000
    for per in ("day", "month"):
        assert times_of(per, midnight - 1, midnight) == (midnight - 1, midnight)
        assert times_of(per, midnight - second, midnight - 1) == (midnight - 1,)
    following = midnight + 24 * HOUR
    assert times_of("day", midnight, following) == (midnight, following)
    assert times_of("month", midnight, following) == (following,)
    assert times_of("run", midnight - 1, midnight) == times_of("effect", midnight - 1, midnight) == (midnight,)
    assert times_of("day", midnight, midnight - 1) == (midnight - 1,), "the clock was set back while it was asked"


def test_the_executor_must_satisfy_both_contracts():  # proves: GATE-3, GATE-7
    buyer, clerk, anyone = contract(), contract(resume=["clerk", "cfo"]), contract(resume=["anyone"])
    assert resume_groups(buyer, buyer) == [["buyer"]]
    assert resume_groups(buyer, clerk) == [["clerk", "cfo"], ["buyer"]]
    assert resume_groups(buyer, anyone) == resume_groups(anyone, buyer) == [["buyer"]]
    assert resume_groups(anyone, anyone) == []


def test_the_higher_risk_of_both_holds():
    for then, now, risk in [("low", "high", "high"), ("high", "low", "high"), ("medium", "low", "medium")]:
        assert risk_of(contract(risk=then), contract(risk=now)) == risk
    assert risk_of(contract(risk="high"), contract(risk="grave")) == "grave"


def test_needs_are_facts_and_only_what_none_depends_on_is_immaterial():
    pin = ApprovalPin(alone=True, immaterial=["comment", "note"], predicate="x", roles=["a", "b"], within=HOUR)
    need = need_of("policy", pin)
    assert need == Need(alone=True, immaterial=["comment", "note"], roles=["a", "b"], source="policy", within=HOUR)
    assert immaterial_of([need]) == ["comment", "note"]
    assert immaterial_of([need, need_of("contract", ApprovalPin(immaterial=["note"], roles=["a"], within=1))]) == [
        "note"
    ]
    assert immaterial_of([need, need_of("contract", DIRECTOR)]) == immaterial_of([]) == []


@pytest.mark.parametrize(
    ("request_", "field", "amount", "stated"),
    [
        ({"amount": 5}, "amount", 5, ""),
        ({"amount": 5, "currency": "GBP"}, "amount", 5, "GBP"),
        ({"amount": 5, "currency": "gbp"}, "amount", 5, "gbp"),
        ({"amount": -5}, "amount", -5, ""),
        ({"amount": True}, "amount", None, ""),
        ({"amount": 5.0}, "amount", None, ""),
        ({"amount": "5"}, "amount", None, ""),
        ({"amount": None}, "amount", None, ""),
        ({"amount": [5]}, "amount", None, ""),
        ({"amount": 2**53}, "amount", None, ""),
        ({"amount": -(2**53)}, "amount", None, ""),
        ({"amount": INTEGER_MAX}, "amount", INTEGER_MAX, ""),
        ({}, "amount", None, ""),
        ([{"amount": 5}], "amount", None, ""),
        (None, "amount", None, ""),
        ({"order": {"total": 5, "currency": "EUR"}, "currency": "GBP"}, "order.total", 5, "EUR"),
        ({"order": {"total": 5}, "currency": "USD"}, "order.total", 5, "USD"),
        ({"order": {"total": 5, "currency": None}, "currency": "USD"}, "order.total", 5, "USD"),
        ({"order": 5, "currency": "USD"}, "order.total", None, "USD"),
        ({"order.total": 5}, "order.total", None, ""),
        ({"amount": 5, "currency": ""}, "amount", 5, ""),
        ({"amount": 5, "currency": 826}, "amount", 5, "?"),
        ({"amount": 5, "currency": "G\u0412P"}, "amount", 5, "?"),
        ({"amount": 5, "currency": "say what you like, it is never kept"}, "amount", 5, "?"),
    ],
)
def test_a_limit_holds_what_the_request_states(request_: Any, field: str, amount: int | None, stated: str):
    pin = CeilingPin(currency="GBP", field=field, max=9, per="run")
    assert limit_of(f"pay.{field}/GBP/run", "policy", pin, request_, 3) == Limit(
        amount=amount,
        currency="GBP",
        field=field,
        max=9,
        per="run",
        scope=f"pay.{field}/GBP/run",
        source="policy",
        stated=stated,
        used=3,
    )


def test_more_is_used_than_a_fact_can_hold_and_the_limit_says_as_much_as_it_can():
    assert limit_of("pay.amount/day/2026-11-27", "policy", DAILY, {"amount": 1}, INTEGER_MAX + 5).used == INTEGER_MAX


def test_a_scope_is_shared_by_what_its_ceiling_is_over_in_utc():
    periods: list[Period] = ["effect", "run", "day", "month"]
    scopes = {per: scope_of("pay", CeilingPin(field="amount", max=1, per=per), NOW) for per in periods}
    assert scopes == {
        "effect": "pay.amount/effect",
        "run": "pay.amount/run",
        "day": "pay.amount/day/2026-11-27",
        "month": "pay.amount/month/2026-11",
    }
    second = 1_000_000
    assert scope_of("pay", DAILY, NOW + second) == "pay.amount/day/2026-11-28"
    assert scope_of("pay", DAILY, 0) == "pay.amount/day/1970-01-01"
    assert scope_of("pay", DAILY, INTEGER_MAX) == "pay.amount/day/2255-06-05"


def test_ceilings_over_other_effects_fields_or_currencies_share_nothing():  # proves: FX-12
    """Pence and yen are no sum. A dot in an effect's name would make "pay.order.amount" two things, so it has none."""
    over = [
        (effect, CeilingPin(currency=currency, field=field, max=1, per=per))
        for effect in ("pay", "pay_order")
        for field in ("amount", "order.amount", "GBP", "day")
        for currency in ("", "GBP", "JPY", "day", "run")
        for per in ("effect", "run", "day", "month")
    ]
    scopes = {scope_of(effect, pin, NOW) for effect, pin in over}
    assert len(scopes) == len(over)
    assert {scope for scope in scopes if scope.endswith("/run")} == {
        scope_of(effect, pin, NOW) for effect, pin in over if pin.per == "run"
    }


def test_of_flow_contracts_and_policy_the_one_that_trusts_evidence_least_long_counts():  # proves: GATE-2
    def until(now: int, then: int, policy: int, stated: int = 10 * HOUR) -> int:
        def rule(cap: int) -> RulePin:
            return RulePin(evidence=["quote"], fresh_for={"quote": cap} if cap else {})

        pin = PolicyPin(evidence={"quote": policy} if policy else {}, version="1")
        return evidence_until(rules(rule(then), rule(now), pin), "quote", 5, stated)

    assert until(0, 0, 0) == 10 * HOUR
    assert until(3 * HOUR, 2 * HOUR, HOUR) == until(HOUR, 2 * HOUR, 0) == until(0, HOUR, 2 * HOUR) == 5 + HOUR
    assert until(3 * HOUR, 2 * HOUR, HOUR, stated=7) == 7
    of_the_flows_own = rules_for(
        "", pinned=contract(), coded=contract(), policy=PolicyPin(evidence={"a": 1}, version="1")
    )
    assert of_the_flows_own == Rules(fresh_for={"a": 1})


def test_policy_caps_evidence_and_windows_and_never_lengthens_them():  # proves: GATE-8
    policy = PolicyPin(evidence={"quote": HOUR}, version="1", windows={"high": HOUR})
    capped, free = rules(policy=policy), rules()
    assert evidence_until(capped, "quote", 5, 10 * HOUR) == 5 + HOUR
    assert evidence_until(capped, "quote", 5, HOUR) == HOUR
    assert evidence_until(capped, "budget", 5, 10 * HOUR) == evidence_until(free, "quote", 5, 10 * HOUR) == 10 * HOUR
    assert window_end(5, 10 * HOUR, ["high", "high"], policy) == 5 + HOUR
    assert window_end(5, HOUR, ["high", "high"], policy) == HOUR
    assert window_end(5, 10 * HOUR, ["low", "low"], policy) == 10 * HOUR
    assert window_end(5, 10 * HOUR, ["high", "high"], None) == 10 * HOUR


def test_of_the_pinned_and_the_coded_risk_the_shorter_window_holds():  # proves: GATE-8
    policy = PolicyPin(version="1", windows={"low": HOUR, "medium": 3 * HOUR})
    for risks in (["low", "medium"], ["medium", "low"], ["low", "high"], ["high", "low"]):
        assert window_end(5, 10 * HOUR, risks, policy) == 5 + HOUR
    assert window_end(5, 10 * HOUR, ["medium", "high"], policy) == 5 + 3 * HOUR


@pytest.mark.parametrize(
    ("request_", "immaterial", "left"),
    [
        (b'{"amount":5,"note":"x"}', ["note"], b'{"amount":5}'),
        (b'{"amount":5,"order":{"id":1,"note":{"a":[1]}}}', ["order.note"], b'{"amount":5,"order":{"id":1}}'),
        (b'{"amount":5,"order":{"note":1}}', ["order.note"], b'{"amount":5}'),
        (b'{"lines":[{"note":1}]}', ["lines.note", "note"], b'{"lines":[{"note":1}]}'),
        (b'{"lines":[{"note":1}]}', ["lines"], b""),
        (b'{"a.b":1,"a":{"b":2}}', ["a.b"], b'{"a.b":1}'),
        (b'{"notes":1}', ["note"], b'{"notes":1}'),
        (b'[1.0,1,"1",null,{},[]]', ["note"], b'[1.0,1,"1",null,{},[]]'),
        (b"null", ["note"], b"null"),
    ],
)
def test_the_material_of_a_request_is_what_is_left_without_its_immaterial_fields(
    request_: bytes, immaterial: list[str], left: bytes
):
    assert material_of(request_, immaterial) == left


keys = st.sampled_from(["a", "b", "note"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0]) | st.sampled_from(["", "1", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
encode = msgspec.json.Encoder(order="sorted").encode


@given(values, values, st.lists(st.sampled_from(["a", "note", "a.b", "b.note"]), max_size=2))
def test_material_bytes_are_the_same_exactly_where_no_material_change_is_shown(
    old: Any, new: Any, immaterial: list[str]
):  # proves: APR-1, APR-5
    one, two = encode(old), encode(new)
    shown = difference(one, two, immaterial)
    assert (material_of(one, immaterial) == material_of(two, immaterial)) is not shown.is_material
    assert material_of(one, []) == one
