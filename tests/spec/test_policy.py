"""Policy: what operators may write, what is refused at its place, and what a change is said to be."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import fields, replace

from remit.authority.policy import policy_difference, policy_digest, policy_from, policy_from_toml
from remit.errors import Refused
from remit.facts.rules import ApprovalPin, CeilingPin, PolicyPin

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US

WRITTEN = {
    "version": "4",
    "ceilings": {
        "pay.amount": 2_500_000,
        "refund.order.total": [{"max": 5, "currency": "GBP"}, {"max": 90, "currency": "GBP", "per": "day"}],
    },
    "windows": {"high": "30m", "low": timedelta(days=2)},
    "approvals": {"pay": {"roles": ["director", "cfo"], "within": "72h"}},
    "evidence": {"quote": "24h", "exchange rate": "90s"},
    "forbid": ["wire", "gift"],
}
POLICY = PolicyPin(
    approvals={"pay": ApprovalPin(roles=["cfo", "director"], within=72 * HOUR_US)},
    ceilings={
        "pay": [CeilingPin(field="amount", max=2_500_000, per="effect")],
        "refund": [
            CeilingPin(currency="GBP", field="order.total", max=90, per="day"),
            CeilingPin(currency="GBP", field="order.total", max=5, per="effect"),
        ],
    },
    evidence={"exchange rate": 90_000_000, "quote": 24 * HOUR_US},
    forbid=["gift", "wire"],
    version="4",
    windows={"high": 30 * MINUTE_US, "low": 48 * HOUR_US},
)
TOML = """
version = "4"
forbid = ["wire", "gift"]
windows = {high = "30m", low = "2d"}

[ceilings]
pay.amount = 2_500_000
refund.order.total = [{max = 5, currency = "GBP"}, {max = 90, currency = "GBP", per = "day"}]

[approvals.pay]
roles = ["director", "cfo"]
within = "72h"

[evidence]
quote = "24h"
"exchange rate" = "90s"
"""


def code_and_text(data: Any) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        policy_from(data)
    assert "nothing was done" in refused.value.message
    return refused.value.code, refused.value.message


def test_a_policy_is_read_from_plain_data_and_from_toml_alike():
    assert policy_from(WRITTEN) == POLICY
    assert policy_from_toml(TOML) == POLICY
    assert policy_from({"version": "1"}) == PolicyPin(version="1")


def test_the_same_policy_has_the_same_digest_in_whatever_order_it_was_written():
    backwards = {key: WRITTEN[key] for key in reversed(WRITTEN)}
    assert policy_digest(policy_from(backwards)) == policy_digest(POLICY)
    assert policy_digest(replace(POLICY, version="5")) != policy_digest(POLICY)


@pytest.mark.parametrize(
    "ceilings",
    [
        {"pay.order.total": 5},
        {"pay": {"order.total": 5}},
        {"pay": {"order": {"total": 5}}},
        {"pay.order": {"total": {"max": 5}}},
        {"pay.order.total": {"max": 5, "per": "effect"}},
        {"pay.order.total": [5]},
    ],
)
def test_toml_makes_tables_of_dotted_keys_and_they_mean_the_same(ceilings: dict[str, Any]):
    assert policy_from({"version": "1", "ceilings": ceilings}).ceilings == {
        "pay": [CeilingPin(field="order.total", max=5, per="effect")]
    }


@pytest.mark.parametrize(
    ("part", "code", "place"),
    [
        ({"version": ""}, "policy.version", "version"),
        ({"version": 4}, "policy.version", "version"),
        ({"ceiling": {}}, "policy.form", "ceiling"),
        ({7: {}}, "policy.form", "7"),
        ({"ceilings": 5}, "policy.ceilings", "ceilings"),
        ({"ceilings": {"pay": 5}}, "policy.ceilings", "ceilings.pay"),
        ({"ceilings": {"pay": {}}}, "policy.ceilings", "ceilings.pay"),
        ({"ceilings": {"pay.amount": []}}, "policy.ceilings", "pay.amount"),
        ({"ceilings": {"pay.amount": {}}}, "policy.ceilings", "pay.amount"),
        ({"ceilings": {"pay.amount": True}}, "policy.ceilings", "pay.amount"),
        ({"ceilings": {"pay.amount": -1}}, "policy.ceilings", "pay.amount"),
        ({"ceilings": {"pay.amount": 1.0}}, "policy.ceilings", "pay.amount"),
        ({"ceilings": {"pay.amount": "5"}}, "policy.ceilings", "pay.amount"),
        ({"ceilings": {"pay.amount": None}}, "policy.ceilings", "pay.amount"),
        ({"ceilings": {"pay.amount": {"max": 1, "per": "week"}}}, "policy.ceilings", "pay.amount"),
        ({"ceilings": {"pay.amount": {"max": 1, "curency": "GBP"}}}, "policy.ceilings", "curency"),
        ({"ceilings": {"pay.amount": [1, 2]}}, "policy.ceilings", "twice"),
        ({"ceilings": {"pay.amount": 1, "pay": {"amount": 2}}}, "policy.ceilings", "twice"),
        ({"ceilings": {"pay.lines[0]": 1}}, "policy.ceilings", "lines[0]"),
        ({"ceilings": {"pay/now.amount": 1}}, "policy.ceilings", "pay/now"),
        ({"windows": {"grave": "1h"}}, "policy.windows", "windows.grave"),
        ({"windows": {"high": 30}}, "policy.windows", "windows.high"),
        ({"windows": {"high": "0m"}}, "policy.windows", "windows.high"),
        ({"windows": {"high": "-5m"}}, "policy.windows", "windows.high"),
        ({"windows": {"high": timedelta(0)}}, "policy.windows", "windows.high"),
        ({"windows": {"high": "4000d"}}, "policy.windows", "windows.high"),
        ({"windows": ["high"]}, "policy.windows", "windows"),
        ({"approvals": {"pay": ["director"]}}, "policy.approvals", "approvals.pay"),
        ({"approvals": {"pay": {"roles": ["a"]}}}, "policy.approvals", "approvals.pay.within"),
        ({"approvals": {"pay": {"within": "1h"}}}, "policy.approvals", "approvals.pay.roles"),
        ({"approvals": {"pay": {"roles": "a", "within": "1h"}}}, "policy.approvals", "approvals.pay.roles"),
        ({"approvals": {"pay": {"roles": ["anyone"], "within": "1h"}}}, "policy.approvals", "approvals.pay.roles"),
        ({"approvals": {"pay": {"roles": ["a"], "within": "1h", "alone": 1}}}, "policy.approvals", "pay.alone"),
        ({"approvals": {"pay": {"roles": ["a"], "within": "1h", "when": "x"}}}, "policy.approvals", "pay.when"),
        ({"approvals": {"": {"roles": ["a"], "within": "1h"}}}, "policy.approvals", "approvals"),
        ({"evidence": {"quote": 5}}, "policy.evidence", "evidence.quote"),
        ({"evidence": {"": "5h"}}, "policy.evidence", "evidence"),
        ({"forbid": "wire"}, "policy.forbid", "forbid"),
        ({"forbid": ["a/b"]}, "policy.forbid", "forbid"),
        ({"forbid": [7]}, "policy.forbid", "forbid"),
    ],
)
def test_what_is_not_understood_is_refused_at_its_place(part: dict[Any, Any], code: str, place: str):
    """A rule that is misspelt and passed over is a rule that does not hold."""
    found, text = code_and_text({"version": "1", **part})
    assert found == code
    assert place in text


PAY_A_DAY = CeilingPin(field="amount", max=5, per="day")
BY_BOSS = ApprovalPin(roles=["boss"], within=1)


@pytest.mark.parametrize(
    ("pin", "code"),
    [
        (PolicyPin(version=1), "policy.form"),  # type: ignore[arg-type]
        (PolicyPin(version="\ud800"), "policy.form"),
        (PolicyPin(version="1", forbid="pay"), "policy.form"),  # type: ignore[arg-type]
        (PolicyPin(version="1", windows={"high": 30 * 60 * 1e6}), "policy.form"),  # type: ignore[dict-item]
        (PolicyPin(version="1", windows={"high": 2**53}), "policy.form"),
        (PolicyPin(version="1", ceilings={"pay": [replace(PAY_A_DAY, max=1.5)]}), "policy.form"),
        (PolicyPin(version="1", ceilings={"pay": [replace(PAY_A_DAY, per="week")]}), "policy.form"),
        (PolicyPin(version=""), "policy.version"),
        (PolicyPin(version="1", windows={"grave": 1}), "policy.windows"),
        (PolicyPin(version="1", windows={"high": 2**52}), "policy.windows"),
        (PolicyPin(version="1", evidence={"quote": 0}), "policy.evidence"),
        (PolicyPin(version="1", forbid=["a/b"]), "policy.forbid"),
        (PolicyPin(version="1", ceilings={"pay": [replace(PAY_A_DAY, field="")]}), "policy.ceilings"),
        (PolicyPin(version="1", ceilings={"pay": [replace(PAY_A_DAY, max=-1)]}), "policy.ceilings"),
        (PolicyPin(version="1", approvals={"pay": replace(BY_BOSS, roles=[])}), "policy.approvals"),
        (PolicyPin(version="1", approvals={"pay": replace(BY_BOSS, roles=["anyone"])}), "policy.approvals"),
        (PolicyPin(version="1", approvals={"pay": replace(BY_BOSS, predicate="shop.never")}), "policy.approvals"),
    ],
)
def test_facts_are_held_to_what_the_plain_form_is_held_to(pin: PolicyPin, code: str):  # proves: GATE-5
    """Nothing looks at their types when they are made, and a policy that can't be read again stops every run."""
    assert code_and_text(pin)[0] == code


def test_facts_that_hold_stay_what_they_are():
    pin = PolicyPin(
        approvals={"pay": BY_BOSS},
        ceilings={"pay_order": [PAY_A_DAY], "pay": [PAY_A_DAY]},
        evidence={"quote": 1},
        forbid=["wire"],
        version="1",
        windows={"high": 1},
    )
    assert policy_from(pin) == pin


def test_a_policy_is_a_table_with_a_version():
    assert code_and_text({})[0] == "policy.version"
    for data in ("version", 5, None):
        assert code_and_text(data)[0] == "policy.form"
    for text in ("version = ", None, "[" * 2_000):
        with pytest.raises(Refused) as refused:
            policy_from_toml(text)  # type: ignore[arg-type]
        assert refused.value.code == "policy.form"


def test_a_change_is_said_rule_by_rule_before_it_is_set():  # proves: GATE-6
    tighter = policy_from(
        {
            **WRITTEN,
            "version": "5",
            "ceilings": {"pay.amount": 1_000_000, "gift.value": 0},
            "forbid": ["wire"],
            "evidence": {"quote": "24h"},
        }
    )
    assert policy_difference(POLICY, tighter) == [
        "  version: '4' -> '5'",
        "+ ceiling gift.value per effect: at most 0",
        "  ceiling pay.amount per effect: at most 2,500,000 -> at most 1,000,000",
        "- ceiling refund.order.total per day: at most 90 minor units of GBP",
        "- ceiling refund.order.total per effect: at most 5 minor units of GBP",
        "- evidence exchange rate: relied on for at most 90s",
        "- forbid gift: nobody performs it",
    ]
    assert policy_difference(POLICY, POLICY) == []
    assert policy_difference(None, PolicyPin(version="1")) == ["+ version: '1'"]


ANOTHER: dict[str, Any] = {
    "approvals": {"pay": ApprovalPin(roles=["cfo"], within=72 * HOUR_US)},
    "ceilings": {"pay": [CeilingPin(field="amount", max=2_500_001, per="effect")]},
    "evidence": {"quote": 25 * HOUR_US},
    "forbid": ["gift"],
    "version": "5",
    "windows": {"high": 31 * MINUTE_US},
}
ANOTHER_APPROVAL: dict[str, Any] = {
    "alone": True,
    "immaterial": ["note"],
    "predicate": "shop.is_large",
    "roles": ["cfo"],
    "within": 72 * HOUR_US + 1,
}
ANOTHER_CEILING: dict[str, Any] = {"currency": "GBP", "field": "total", "max": 2_500_001, "per": "run"}


def test_no_part_of_a_policy_can_change_unsaid():
    """Each field that a policy has, whatever is added to it later, is in the table above and makes a line."""
    assert {field.name for field in fields(PolicyPin)} == set(ANOTHER)
    assert {field.name for field in fields(ApprovalPin)} == set(ANOTHER_APPROVAL)
    assert {field.name for field in fields(CeilingPin)} == set(ANOTHER_CEILING)
    changed = [replace(POLICY, **{name: value}) for name, value in ANOTHER.items()]
    for name, value in ANOTHER_APPROVAL.items():
        changed.append(replace(POLICY, approvals={"pay": replace(POLICY.approvals["pay"], **{name: value})}))
    for name, value in ANOTHER_CEILING.items():
        ceilings = {**POLICY.ceilings, "pay": [replace(POLICY.ceilings["pay"][0], **{name: value})]}
        changed.append(replace(POLICY, ceilings=ceilings))
    for new in changed:
        assert policy_difference(POLICY, new), new
        assert policy_difference(new, POLICY), new


def test_of_two_rules_under_one_heading_neither_hides_the_other():
    twins = PolicyPin(
        ceilings={
            "a": [CeilingPin(field="b.x", max=1, per="effect")],
            "a.b": [CeilingPin(field="x", max=2, per="effect")],
        },
        version="1",
    )
    assert policy_difference(PolicyPin(version="1"), twins) == ["+ ceiling a.b.x per effect: at most 1; at most 2"]
    reordered = PolicyPin(forbid=["wire", "gift"], version="1")
    assert policy_difference(replace(reordered, forbid=["gift", "wire"]), reordered) == [
        "  the same rules, written in another order"
    ]
