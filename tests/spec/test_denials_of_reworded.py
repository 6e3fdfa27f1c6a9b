"""Denials of what is reworded: a no is to its matter as it was asked, whatever the rules ask of whom today."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any, cast

import pytest

import remit
from remit.store.memory import MemoryStore
from remit.store.protocol import Store
from tests.spec.conftest import Storage
from tests.support.moving import Moving
from tests.support.office import BUYER, DEREK, DORA, ORDER, ROOT, Office, answer, asked, staffed

HOURS = timedelta(hours=4)


def by_director(*immaterial: str, when: Callable[[Any], bool] | None = None) -> remit.Rule:
    return remit.Rule(approval=remit.Approval({"director"}, HOURS, immaterial=immaterial, when=when))


def is_polite(order: dict[str, Any]) -> bool:
    return bool(order["note"])


def is_never(order: dict[str, Any]) -> bool:
    return False


ASKED = by_director("note")
NOW: dict[str, tuple[remit.Rule, remit.Rule, str]] = {  # as it was asked, as it is today, and how it is found
    "no rule asks": (ASKED, remit.Rule(), "denied"),
    "fewer fields are immaterial": (ASKED, by_director(), "denied"),
    "others are immaterial": (ASKED, by_director("payee"), "denied"),
    "more fields are immaterial": (by_director("payee"), by_director("note", "payee"), "denied"),
    "the predicate says no": (by_director("note", when=is_polite), by_director("note", when=is_polite), "denied"),
    "the predicate is another one": (by_director("note", when=is_polite), by_director(when=is_never), "denied"),
    "more fields, and the predicate says no": (by_director(), by_director("note", when=is_never), "denied"),
    "it was material, and is": (by_director("payee"), by_director("payee"), "approval_contract"),
}


@pytest.mark.parametrize("moved", NOW)
async def test_a_no_stands_for_a_rewording_whatever_the_rules_ask_today(
    moved: str, storage: Storage
):  # proves: APR-6, GATE-1
    then, now, code = NOW[moved]
    office = Office(remit.Rule(), version="1")
    opened, office.rule = office.flow, then
    async with storage.open() as rt:
        await staffed(rt)
        await rt.start(opened, id="r", by=BUYER)  # under a contract that asks nobody
        assert (await rt.resume("r", office.flow)).code == "approval_needed"
        assert (await answer(rt, "deny")).state == "denied"
        office.rule, office.order = now, ORDER | {"note": ""}
        office.contract["version"] = "2"
        judged = await rt.judge("r", office.flow)
        assert judged.verdict.code == code
        outcome = await rt.resume("r", office.flow)
        assert (outcome.code, office.sent) == (code, [])


async def test_a_no_stands_for_a_rewording_when_the_policy_that_asked_is_gone(
    storage: Storage,
):  # proves: APR-6, GATE-1
    office, policy = Office(remit.Rule()), {"roles": ["director"], "within": "4h", "immaterial": ["note"]}
    async with storage.open() as rt:
        await staffed(rt)
        await rt.set_policy({"version": "1", "approvals": {"pay": policy}}, by=ROOT)
        await office.go(rt)
        await answer(rt, "deny")
        await rt.set_policy({"version": "2"}, by=ROOT)
        office.order |= {"note": "pretty please"}
        outcome = await office.go(rt)
        assert (outcome.status, outcome.code, office.sent) == ("failed", "denied", [])
        assert outcome.reason.endswith("that nobody said no to it, also where no rule asks for a yes any more.")


@pytest.mark.parametrize("fields", [(), ("note",)], ids=["fewer fields", "more fields"])
@pytest.mark.parametrize("of", ["an effect", "a question"])
async def test_a_no_to_a_rewording_is_heard_again_by_the_same_code(
    of: str, fields: Collection[str], storage: Storage
):  # proves: APR-6, APR-10, RUN-4
    office, broken = Office(), [True]
    before: Collection[str] = () if fields else ("note",)
    roles, immaterial = ["director"], before

    def late() -> str:
        if broken:
            raise OSError("not now")
        return "another way"

    def release(rule: remit.Rule) -> remit.Flow[str]:
        @remit.flow(contract=remit.Contract(effects={"pay": rule}, **office.contract), name="careful")
        async def careful(run: remit.Run) -> str:
            with pytest.raises(remit.Denied):
                if of == "an effect":
                    await run.effect(office.pay, office.order)
                else:
                    await run.approve("terms", office.order, roles=roles, within=HOURS, immaterial=immaterial)
            outcome: str = await run.step(late)
            return outcome

        return careful

    async with storage.open() as rt:
        await staffed(rt)
        await rt.start(release(remit.Rule()), id="r", by=BUYER)
        await rt.resume("r", release(by_director(*before)))
        await answer(rt, "deny")
        immaterial, office.order = fields, ORDER | {"note": "many thanks"}
        roles[:] = ["requester"]
        for _ in range(2):
            with pytest.raises(remit.StepError, match="not now"):
                await rt.resume("r", release(by_director(*fields)))
        broken.clear()
        assert (await rt.resume("r", release(by_director(*fields)))).value == "another way"
    assert office.sent == []


async def test_nobody_may_say_yes_to_the_rewording_of_what_was_denied_meanwhile():  # proves: APR-6
    office, store = Office(by_director("note")), Moving(MemoryStore())
    async with remit.open(cast(Store, store)) as rt:
        await staffed(rt)
        await office.go(rt)
        before = await asked(rt)

        async def turn() -> None:
            office.rule, office.order = by_director(), ORDER | {"note": "many thanks"}
            assert (await office.go(rt)).code == "approval_needed"

        store.meanwhile = turn
        assert (await rt.decide(before.id, "deny", by=DORA, seen=before.version)).state == "void"
        now = await asked(rt)
        with pytest.raises(remit.ApprovalRefused) as refused:
            await rt.decide(now.id, "approve", by=DEREK, seen=now.version)
        assert refused.value.code == "approval.decided" and DORA in refused.value.message
        assert (await office.go(rt)).code == "denied" and not office.sent
