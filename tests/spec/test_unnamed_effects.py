"""Effects that no rule names: a contract that has rules lets none of them pass, so that a misspelt rule is found."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

import remit
from remit.authority.rules import rules_for
from remit.faces.next_step import next_step
from remit.facts.rules import ApprovalPin, CeilingPin, ContractPin, RulePin
from tests.support.till import Order, Till, paying

HOUR = timedelta(hours=1)
BY_LEAD = remit.Rule(approval=remit.Approval({"lead"}, HOUR))


def contract(*named: str, **parts: Any) -> remit.Contract:
    return remit.Contract(version="1", resume="anyone", effects={name: BY_LEAD for name in named}, **parts)


async def test_a_misspelt_rule_lets_nothing_pass_and_the_run_waits_for_mended_code():  # proves: GATE-7
    till = Till()
    pay = till.effect()
    async with remit.open("memory:") as rt:
        outcome = await rt.run(paying(pay, contract=contract("pays")), id="r")
        assert (outcome.status, outcome.waits_for, outcome.code) == ("waiting", "repair", "policy_unnamed")
        assert "no rule is about pay, and the contract has rules for others" in outcome.reason
        assert (await rt.run(paying(pay, contract=contract("pays")), id="r")).code == "policy_unnamed"
        assert await rt.inbox() == []
        mended = paying(pay, contract=contract("pay"))
        assert (await rt.run(mended, id="r")).code == "approval_needed"
        (ask,) = await rt.inbox()
        await rt.grant("user:lee", "lead", by="user:root")
        await rt.decide(ask.id, "approve", by="user:lee", seen=ask.version)
        assert (await rt.run(mended, id="r")).value == [100]
    assert till.times == [1]


@pytest.mark.parametrize(
    ("given", "passes"),
    [
        (remit.Contract(version="1", resume="anyone"), True),
        (remit.Contract(version="1", resume="anyone", others="free"), True),
        (remit.Contract(version="1", resume="anyone", others="refused"), False),
        (contract("refund"), False),
        (contract("refund", others="refused"), False),
        (contract("refund", others="free"), True),
        (remit.Contract(version="1", resume="anyone", effects={"pay": remit.Rule()}), True),
    ],
)
async def test_what_no_rule_names_passes_where_there_are_none_or_where_the_contract_says_so(
    given: remit.Contract, passes: bool
):  # proves: GATE-7
    till = Till()
    async with remit.open("memory:") as rt:
        outcome = await rt.run(paying(till.effect(), contract=given), id="r")
    assert (outcome.code, till.times) == (("", [1]) if passes else ("policy_unnamed", []))


@pytest.mark.parametrize(
    "policy",
    [
        {"ceilings": {"pay.amount": 500}},
        {"approvals": {"pay": {"roles": ["lead"], "within": "1h"}}},
        {"forbid": ["pay"]},
    ],
    ids=["ceiling", "approval", "forbid"],
)
async def test_what_the_policy_names_is_not_let_pass_by_that(policy: dict[str, Any]):  # proves: GATE-7
    """A policy can only be stricter: setting one must not open what the contract refused."""
    flow = paying(Till().effect(), contract=contract("refund"))
    async with remit.open("memory:") as rt:
        assert (await rt.run(flow, id="r")).code == "policy_unnamed"
        await rt.set_policy({"version": "1", **policy}, by="user:root")
        code = (await rt.run(flow, id="r")).code
    assert code == ("policy_forbids" if "forbid" in policy else "policy_unnamed")


PAY = RulePin(approval=ApprovalPin(roles=["lead"], within=1))
REFUND = RulePin(ceilings=[CeilingPin(field="amount", max=1, per="run")])


def pin(others: str = "", **effects: RulePin) -> ContractPin:
    return ContractPin(effects=effects, others=others, resume=["anyone"], risk="low", version="1", window=1)


@pytest.mark.parametrize(
    ("pinned", "coded", "unnamed"),
    [
        (pin(pay=PAY), pin(refund=REFUND), False),  # the rule of the opening holds on
        (pin(refund=REFUND), pin(pay=PAY), False),  # and the code can mend what nobody had named
        (pin(refund=REFUND), pin(), False),
        (pin(refund=REFUND), pin("free", refund=REFUND), False),
        (pin("free", refund=REFUND), pin(refund=REFUND), True),
        (pin(), pin(refund=REFUND), True),
    ],
)
def test_the_code_s_contract_says_whether_and_a_rule_of_the_opening_counts(
    pinned: ContractPin, coded: ContractPin, unnamed: bool
):
    assert rules_for("pay", pinned=pinned, coded=coded, policy=None).unnamed is unnamed


async def test_a_flow_can_not_go_past_it_another_way():  # proves: GATE-1
    till, went_on = Till(), []
    pay = till.effect()

    @remit.step
    async def after() -> None:
        went_on.append("after")

    @remit.flow(contract=contract("pays"))
    async def stubborn(run: remit.Run) -> None:
        try:
            await run.effect(pay, Order())
        except Exception:
            await run.step(after)

    async with remit.open("memory:") as rt:
        assert (await rt.run(stubborn, id="r")).code == "policy_unnamed"
    assert (till.arrived, went_on) == ([], [])


async def test_a_transaction_is_an_effect(tmp_path: Path):  # proves: GATE-7
    @remit.transaction
    def book(connection: apsw.Connection, order: dict[str, int]) -> None:
        raise AssertionError("nothing let it pass")

    @remit.flow(contract=contract("booked"))
    async def flow(run: remit.Run) -> None:
        await run.transact(book, {"amount": 1})

    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
        assert (await rt.run(flow, id="r")).code == "policy_unnamed"


@pytest.mark.parametrize(
    ("named", "near"),
    [
        (("pays", "refund"), "the rule of pays called pay,"),
        (("Pay",), "the rule of Pay called pay,"),
        (("refund",), "a rule called pay,"),
    ],
)
async def test_what_is_told_first_is_to_mend_the_name_of_the_rule_that_was_meant(named: tuple[str, ...], near: str):
    # proves: GATE-7
    async with remit.open("memory:") as rt:
        outcome = await rt.run(paying(Till().effect(), contract=contract(*named)), id="r")
        step = next_step(await rt.why("r")).sentence
    mend, empty = (
        outcome.reason.index(f"in the contract {near} where one was meant"),
        outcome.reason.index("an empty one"),
    )
    assert mend < empty and 'an empty one, or others="free", lets it pass without any rule' in outcome.reason
    assert step.startswith(
        "mend the name of the rule that was meant for it, or give the contract one, then `remit resume"
    )


async def test_a_dry_judgement_names_it():
    flow = paying(Till().effect(), contract=contract("pays"))
    async with remit.open("memory:") as rt:
        await rt.start(flow, id="r")
        told = await rt.judge("r", flow)
    assert told.verdict.code == "policy_unnamed"
    ((finding, seen, required),) = [each for each in told.told() if not each[0].ok]
    assert (finding.check, finding.code, finding.detail) == ("policy", "policy.unnamed", "pay")
    assert "no rule is about pay" in seen and 'others="free"' in required


def test_what_others_says_is_pinned_and_one_of_two():
    assert contract(others="free").pin().others == "free"
    assert contract("pay").pin().others == ""
    for wrong in ("", "refuse", True, ["free"]):
        with pytest.raises(remit.DeclarationRefused) as refused:
            contract(others=wrong)
        assert refused.value.code == "contract.others"
