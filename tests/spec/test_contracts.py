"""Contracts: what may be demanded of an effect, what is refused at once, and what is pinned of it."""

from __future__ import annotations

import enum
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
import pytest

import remit
from remit import Approval, Ceiling, Contract, Rule
from remit.authority.contract import digest
from remit.authority.named import function_text, qualified_name
from remit.authority.policy import policy_from
from remit.authority.written import contract_from_toml
from remit.facts.rules import ApprovalPin, CeilingPin, ContractPin, RulePin

HOUR = timedelta(hours=1)
HOUR_US = 3_600_000_000
YES = {"roles": {"director"}, "within": HOUR}


def is_large(order: Any) -> bool:
    return bool(order["amount"] > 100)


async def is_wanted(order: Any) -> bool:
    return True


def contract(**effects: Rule) -> Contract:
    return Contract(version="3", resume={"buyer"}, effects=effects)


def test_a_contract_says_of_each_effect_what_it_demands_and_pins_it():  # proves: GATE-12
    declared = contract(
        pay=Rule(
            approval=Approval({"director", "cfo"}, HOUR, when=is_large, immaterial={"note"}, alone=True),
            evidence=["quote", "budget"],
            ceiling=[Ceiling("amount", max=9, per="month"), Ceiling("amount", max=5, currency="GBP", per="day")],
            still_wanted=is_wanted,
        ),
        notify=Rule(),
    )
    assert declared.pin().effects == {
        "notify": RulePin(),
        "pay": RulePin(
            approval=ApprovalPin(
                alone=True,
                immaterial=["note"],
                predicate=f"{__name__}.is_large",
                roles=["cfo", "director"],
                within=HOUR_US,
            ),
            ceilings=[
                CeilingPin(currency="GBP", field="amount", max=5, per="day"),
                CeilingPin(field="amount", max=9, per="month"),
            ],
            evidence=["budget", "quote"],
            wanted=f"{__name__}.is_wanted",
        ),
    }


def test_a_contract_without_effects_has_the_bytes_and_the_digest_that_it_always_had():  # proves: GATE-12
    pin = Contract(version="1", resume="anyone").pin()
    raw = b'{"resume":["anyone"],"risk":"low","version":"1","window":86400000000}'
    assert msgspec.json.encode(pin) == raw
    assert msgspec.json.decode(raw, type=ContractPin) == pin
    assert digest(pin) == "11d2a5e7c88ef851df16da37cfa7ca4de37fc4f68d96c188679cc26b8da18d51"


def test_the_digest_follows_every_rule_and_not_the_order_in_which_it_was_written():  # proves: GATE-12
    ceilings = [Ceiling("amount", max=9, per="month"), Ceiling("amount", max=5)]
    same = [
        contract(a=Rule(evidence=["q", "b"], ceiling=ceilings), b=Rule()),
        contract(b=Rule(), a=Rule(evidence={"b", "q"}, ceiling=ceilings[::-1])),
    ]
    assert len({digest(each.pin()) for each in same}) == 1
    others = [
        contract(),
        contract(a=Rule()),
        contract(a=Rule(evidence=["q"])),
        contract(a=Rule(ceiling=Ceiling("amount", max=5))),
        contract(a=Rule(ceiling=Ceiling("amount", max=6))),
        contract(a=Rule(ceiling=Ceiling("amount", max=5, per="run"))),
        contract(a=Rule(ceiling=Ceiling("amount", max=5, currency="GBP"))),
        contract(a=Rule(approval=Approval({"x"}, HOUR))),
        contract(a=Rule(approval=Approval({"x", "y"}, HOUR))),
        contract(a=Rule(approval=Approval({"x"}, 2 * HOUR))),
        contract(a=Rule(approval=Approval({"x"}, HOUR, alone=True))),
        contract(a=Rule(approval=Approval({"x"}, HOUR, immaterial=["note"]))),
        contract(a=Rule(approval=Approval({"x"}, HOUR, when=is_large))),
        contract(a=Rule(still_wanted=is_wanted)),
    ]
    assert len({digest(each.pin()) for each in others}) == len(others)


class Word(str, enum.Enum):  # noqa: UP042 (a StrEnum prints as its text)
    """Prints as "Word.GBP", and is the text "GBP" wherever it is compared."""

    GBP, DAY, AMOUNT, PAY, QUOTE, NOTE, DIRECTOR = "GBP", "day", "amount", "pay", "quote", "note", "director"
    V1, MEDIUM, FREE = "1", "medium", "free"


def kinds_in(fact: Any) -> set[type]:
    """Types of all that a fact holds, of its keys as well."""
    if isinstance(fact, msgspec.Struct):
        return set().union(*(kinds_in(getattr(fact, name)) for name in fact.__struct_fields__))
    if isinstance(fact, dict):
        return set().union(*map(kinds_in, fact), *map(kinds_in, fact.values()))
    return set().union(*map(kinds_in, fact)) if isinstance(fact, list | tuple) else {type(fact)}


def test_a_member_of_an_enum_is_the_text_that_it_is_wherever_a_rule_takes_text():  # proves: GATE-12, FX-10
    """What counts together is named by text: a ceiling in "Word.GBP" would count in a drawer of its own."""
    yes = Approval({Word.DIRECTOR}, HOUR, immaterial={Word.NOTE})
    bound = Ceiling(Word.AMOUNT, max=5, currency=Word.GBP, per=Word.DAY)  # type: ignore[arg-type]
    rule = Rule(approval=yes, evidence={Word.QUOTE: HOUR}, ceiling=bound)
    declared = Contract(
        version=Word.V1,
        resume={Word.DIRECTOR},
        risk=Word.MEDIUM,  # type: ignore[arg-type]
        effects={Word.PAY: rule},
        others=Word.FREE,  # type: ignore[arg-type]
    )
    assert kinds_in(declared.pin()) <= {str, int, bool, type(None)}
    ceiling = {"max": 5, "currency": Word.GBP, "per": Word.DAY}
    for ceilings in ({Word.PAY: {Word.AMOUNT: ceiling}}, {"pay.amount": ceiling}):
        policy = policy_from(
            {
                "version": Word.V1,
                "ceilings": ceilings,
                "forbid": [Word.PAY],
                "windows": {Word.MEDIUM: HOUR},
                "evidence": {Word.QUOTE: HOUR},
                "approvals": {Word.PAY: {"roles": [Word.DIRECTOR], "within": "1h", "immaterial": [Word.NOTE]}},
            }
        )
        assert kinds_in(policy) <= {str, int, bool, type(None)}
        assert list(policy.ceilings) == ["pay"] and policy.ceilings["pay"] == list(
            declared.pin().effects["pay"].ceilings
        )


def above(limit: int, order: Any) -> bool:
    return bool(order["amount"] > limit)


def abroad(home: str, order: Any) -> bool:
    return bool(order["country"] != home)


def logged(function: Any) -> Any:
    def asked(order: Any) -> Any:
        return function(order)

    return asked


@pytest.mark.parametrize(
    ("one", "other"),
    [(partial(above, 1_000), partial(abroad, "GB")), (logged(is_large), logged(is_wanted))],
    ids=["partial", "decorated"],
)
def test_predicates_made_of_two_functions_are_two(one: Any, other: Any):  # proves: GATE-2
    """A predicate of before that is gone is demanded without asking: another one must not pass for it."""
    for use, first, second in (
        ("when", Rule(approval=Approval({"x"}, HOUR, when=one)), Rule(approval=Approval({"x"}, HOUR, when=other))),
        ("still_wanted", Rule(still_wanted=one), Rule(still_wanted=other)),
    ):
        pin = first.pin()
        name = pin.approval.predicate if pin.approval is not None else pin.wanted
        assert name == function_text(one)
        assert first.predicate(name, use) is one  # type: ignore[arg-type]
        assert second.predicate(name, use) is None  # type: ignore[arg-type]


def test_predicates_stay_functions_and_are_found_by_the_name_that_the_pin_has():
    declared = contract(pay=Rule(approval=Approval({"x"}, HOUR, when=is_large), still_wanted=is_wanted))
    pin = declared.pin().effects["pay"]
    assert pin.approval is not None
    assert declared.predicate("pay", pin.approval.predicate, "when") is is_large
    assert declared.predicate("pay", pin.wanted, "still_wanted") is is_wanted
    assert declared.predicate("pay", "another", "when") is None
    assert declared.predicate("refund", pin.wanted, "still_wanted") is None
    assert qualified_name(None) == ""
    assert qualified_name(print) == "builtins.print"

    class Large:
        def __call__(self, order: Any) -> bool:
            return True

    assert qualified_name(Large()).endswith("Large")


def test_what_was_declared_does_not_follow_its_maker():
    effects, roles = {"pay": Rule(evidence=["quote"])}, {"director"}
    declared = Contract(version="1", resume="anyone", effects=effects)
    approval = Approval(roles, HOUR)
    effects.clear()
    roles.add("intern")
    assert list(declared.effects) == ["pay"]
    assert approval.pin().roles == ["director"]
    with pytest.raises(TypeError):
        declared.effects["wire"] = Rule()  # type: ignore[index]


@pytest.mark.parametrize(
    "options",
    [
        {**YES, "roles": set()},
        {**YES, "roles": "director"},
        {**YES, "roles": None},
        {**YES, "roles": {"anyone"}},
        {**YES, "roles": {"Director"}},
        {**YES, "roles": {7}},
        {**YES, "within": timedelta(0)},
        {**YES, "within": -HOUR},
        {**YES, "within": 3_600},
        {**YES, "when": True},
        {**YES, "when": lambda: True},
        {**YES, "when": lambda order, limit: True},
        {**YES, "immaterial": "note"},
        {**YES, "immaterial": {""}},
        {**YES, "immaterial": {"lines[0].note"}},
        {**YES, "immaterial": {"$.note"}},
        {**YES, "immaterial": {"order..note"}},
        {**YES, "alone": 1},
        {**YES, "quorum": 0},
        {**YES, "quorum": True},
    ],
)
def test_an_approval_that_nobody_could_give_is_refused(options: dict[str, Any]):  # proves: APR-2
    with pytest.raises(remit.DeclarationRefused) as refused:
        Approval(**options)
    assert refused.value.code == "contract.approval"


def test_a_quorum_is_not_built_and_says_so():
    with pytest.raises(remit.NotBuilt):
        Approval({"director"}, HOUR, quorum=2)


def test_an_approval_can_not_outlast_the_run():  # proves: APR-2, GATE-8
    day = Rule(approval=Approval({"director"}, 24 * HOUR))
    longer = Rule(approval=Approval({"director"}, 24 * HOUR + timedelta(microseconds=1)))
    contract(pay=day)
    for risk, window, rule in [("low", None, longer), ("high", None, day), ("high", 23 * HOUR, day)]:
        with pytest.raises(remit.DeclarationRefused) as refused:
            Contract(version="1", resume="anyone", risk=risk, window=window, effects={"pay": rule})  # type: ignore[arg-type]
        assert refused.value.code == "contract.approval"
    Contract(version="1", resume="anyone", risk="high", window=24 * HOUR, effects={"pay": day})


@pytest.mark.parametrize(
    "options",
    [
        {"max": -1},
        {"max": True},
        {"max": 1.0},
        {"max": "1"},
        {"max": None},
        {"max": 2**53},
        {"max": 1, "per": "week"},
        {"max": 1, "per": None},
        {"max": 1, "currency": "£"},
        {"max": 1, "currency": "G B"},
        {"max": 1, "currency": None},
        {"max": 1, "field": ""},
        {"max": 1, "field": "lines[0]"},
        {"max": 1, "field": ".amount"},
        {"max": 1, "field": "am\u200bount"},
        {"max": 1, "field": 7},
    ],
)
def test_a_ceiling_that_bounds_nothing_is_refused(options: dict[str, Any]):
    with pytest.raises(remit.DeclarationRefused) as refused:
        Ceiling(**{"field": "amount", **options})
    assert refused.value.code == "contract.ceiling"


def test_a_ceiling_of_nothing_and_the_largest_one_are_ceilings():
    assert Ceiling("order.total", max=0).pin() == CeilingPin(field="order.total", max=0, per="effect")
    assert Ceiling("amount", max=2**53 - 1, currency="GBP").pin().max == 2**53 - 1


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"approval": {"director"}}, "contract.approval"),
        ({"evidence": "quote"}, "contract.evidence"),
        ({"evidence": [""]}, "contract.evidence"),
        ({"evidence": ["a\nb"]}, "contract.evidence"),
        ({"evidence": [7]}, "contract.evidence"),
        ({"evidence": {"quote": 48}}, "contract.evidence"),
        ({"evidence": {"quote": timedelta(0)}}, "contract.evidence"),
        ({"evidence": {"quote": timedelta(days=9999)}}, "contract.evidence"),
        ({"evidence": {7: None}}, "contract.evidence"),
        ({"ceiling": 5}, "contract.ceiling"),
        ({"ceiling": "amount"}, "contract.ceiling"),
        ({"ceiling": [Ceiling("amount", max=1), 5]}, "contract.ceiling"),
        ({"still_wanted": "yes"}, "contract.effects"),
    ],
)
def test_a_rule_is_made_of_approvals_evidence_and_ceilings(options: dict[str, Any], code: str):
    with pytest.raises(remit.DeclarationRefused) as refused:
        Rule(**options)
    assert refused.value.code == code


@pytest.mark.parametrize(
    "effects",
    [{"": Rule()}, {"a/b": Rule()}, {"a#2": Rule()}, {"run.now": Rule()}, {7: Rule()}, {"pay": 5}, ["pay"], None],
)
def test_effects_are_rules_by_name(effects: Any):
    with pytest.raises(remit.DeclarationRefused) as refused:
        Contract(version="1", resume="anyone", effects=effects)
    assert refused.value.code == "contract.effects"


@pytest.mark.parametrize("role", ["Buyer", "", "a b", 7])
def test_a_role_that_nobody_could_hold_resumes_nothing(role: Any):  # proves: GATE-7
    with pytest.raises(remit.DeclarationRefused) as refused:
        Contract(version="1", resume={role})
    assert refused.value.code == "contract.resume"


TOML = """
version = "3"
resume = ["buyer"]
risk = "high"
window = "5d"

[effects.place_order]
evidence = ["quote"]
approval = {roles = ["director"], within = "72h", immaterial = ["note"], alone = true}
ceiling = {field = "amount", max = 2_500_000, currency = "GBP", per = "run"}

[effects.notify]

[[effects.refund.ceiling]]
field = "order.total"
max = 10

[[effects.refund.ceiling]]
field = "order.total"
max = 100
per = "day"
"""


def test_a_contract_in_toml_is_the_same_contract():
    approval = Approval({"director"}, 72 * HOUR, immaterial={"note"}, alone=True)
    ceiling = Ceiling("amount", max=2_500_000, currency="GBP", per="run")
    in_code = Contract(
        version="3",
        resume={"buyer"},
        risk="high",
        window=timedelta(days=5),
        effects={
            "notify": Rule(),
            "place_order": Rule(approval=approval, evidence={"quote"}, ceiling=ceiling),
            "refund": Rule(ceiling=[Ceiling("order.total", max=10), Ceiling("order.total", max=100, per="day")]),
        },
    )
    assert contract_from_toml(TOML).pin() == in_code.pin()
    aged = contract_from_toml("version='1'\nresume='anyone'\n[effects.pay]\nevidence = {quote = '48h', budget = '1h'}")
    assert aged.pin().effects["pay"] == RulePin(
        evidence=["budget", "quote"], fresh_for={"budget": 3_600_000_000, "quote": 172_800_000_000}
    )
    half = {"budget": None, "quote": timedelta(hours=48)}
    assert remit.Rule(evidence=half).pin() == RulePin(
        evidence=["budget", "quote"], fresh_for={"quote": 172_800_000_000}
    )
    assert contract_from_toml('version="1"\nresume="anyone"').pin() == Contract(version="1", resume="anyone").pin()


@pytest.mark.parametrize(
    ("line", "code", "place"),
    [
        ("= 3", "contract.toml", "TOML"),
        ("windw = '5d'", "contract.toml", "windw"),
        ("window = 5", "contract.toml", "window"),
        ("window = '5 days'", "contract.toml", "window"),
        ("window = '0s'", "contract.toml", "window"),
        ("window = '9999d'", "contract.toml", "window"),
        ("effects = 5", "contract.toml", "effects"),
        ("effects.pay.aproval = {}", "contract.toml", "effects.pay.aproval"),
        (
            "effects.pay.approval = {roles = ['a'], within = '1h', when = 'x'}",
            "contract.toml",
            "effects.pay.approval.when",
        ),
        ("effects.pay.still_wanted = 'x'", "contract.toml", "effects.pay.still_wanted"),  # docs/adr/0025
        ("effects.pay.approval = {roles = ['a']}", "contract.toml", "effects.pay.approval.within"),
        ("effects.pay.approval = {roles = 'a', within = '1h'}", "contract.toml", "effects.pay.approval.roles"),
        ("effects.pay.approval = {within = '1h'}", "contract.toml", "effects.pay.approval.roles"),
        ("effects.pay.approval = {roles = ['a'], within = '1h', quorum = 2}", "contract.toml", "quorum"),
        ("effects.pay.ceiling = {field = 'a', max = 1.5}", "contract.toml", "effects.pay.ceiling"),
        ("effects.pay.ceiling = {field = 'a', max = true}", "contract.toml", "effects.pay.ceiling"),
        ("effects.pay.evidence = {quote = 48}", "contract.toml", "effects.pay.evidence.quote"),
        ("effects.pay.ceiling = {max = 1}", "contract.toml", "effects.pay.ceiling.field"),
        ("effects.pay.ceiling = {field = 'a', max = 1, curency = 'GBP'}", "contract.toml", "curency"),
        ("effects.pay.evidence = 'quote'", "contract.toml", "effects.pay.evidence"),
        ("effects.pay.approval = {roles = ['a'], within = '25h'}", "contract.approval", "25:00"),
        ("risk = 'grave'", "contract.risk", "grave"),
        ("effects.'a/b' = {}", "contract.effects", "a/b"),
    ],
)
def test_toml_that_is_not_understood_is_refused_at_its_place(line: str, code: str, place: str):
    with pytest.raises(remit.DeclarationRefused) as refused:
        contract_from_toml(f'version = "1"\nresume = "anyone"\n{line}')
    assert refused.value.code == code
    assert place in refused.value.message.replace("1 day, 1:00", "25:00")


@pytest.mark.parametrize("given", ["quote", b"quote", 5, None, ["quote", 5]])
async def test_what_a_call_rests_on_is_several_names_and_no_text(given: Any):  # proves: GATE-7
    called: list[int] = []

    @remit.effect
    async def pay(request: int, *, key: str) -> str:
        called.append(request)
        return "paid"

    @remit.transaction
    def book(connection: Any, request: int) -> str:
        return "booked"

    @remit.flow(contract=Contract(version="1", resume="anyone"))
    async def flow(run: remit.Run) -> list[str]:
        calls = (
            lambda: run.effect(pay, 1, rests_on=given),
            lambda: run.transact(book, 1, rests_on=given),
            lambda: run.approve("terms", 1, roles={"lead"}, within=timedelta(hours=1), rests_on=given),
        )
        codes = []
        for call in calls:
            with pytest.raises(remit.DeclarationRefused) as refused:
                call()
            codes.append(refused.value.code)
        return codes

    async with remit.open("memory:") as rt:
        assert (await rt.run(flow, id="r")).value == ["contract.evidence"] * 3
    assert not called


def test_toml_must_say_who_may_resume_as_code_must():  # proves: GATE-7
    for text, code in [('version="1"', "resume"), ('version="1"\nresume="buyer"', "resume"), ("", "version")]:
        with pytest.raises(remit.DeclarationRefused) as refused:
            contract_from_toml(text)
        assert refused.value.code == f"contract.{code}"
    with pytest.raises(remit.DeclarationRefused):
        contract_from_toml(None)  # type: ignore[arg-type]
