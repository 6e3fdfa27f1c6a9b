"""Denials and late answers: a no stands whatever moves, and nobody is told that an answer counts which does not."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

import remit
from remit import ApprovalRefused
from remit.authority.directory import Authority
from remit.engine.people import post
from remit.engine.process import standing
from remit.engine.process.host import Host
from remit.store.memory import MemoryStore
from remit.store.protocol import Store
from tests.spec.conftest import Storage
from tests.support.moving import Moving
from tests.support.office import DEREK, DORA, ROOT, answer, asked, staffed

RULE = remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=1)))
CONTRACT = remit.Contract(version="1", resume="anyone", effects={"pay": RULE})


def asks_for(amount: int, sent: list[int]) -> remit.Flow[str]:
    """The flow as one of two releases has it, which take turns."""

    @remit.effect
    async def pay(order: dict[str, int], *, key: str) -> str:
        sent.append(order["amount"])
        return "paid"

    @remit.flow(contract=CONTRACT, name="f")
    async def flow(run: remit.Run) -> str:
        return await run.effect(pay, {"amount": amount})

    return flow


async def test_a_no_to_this_very_request_stands_whatever_was_asked_since(storage: Storage):  # proves: APR-6
    sent: list[int] = []
    async with storage.open() as rt:
        await staffed(rt)
        await rt.run(asks_for(100, sent), id="r")
        await answer(rt, "deny")
        assert (await rt.run(asks_for(200, sent), id="r")).code == "approval_payload"
        newer = await asked(rt)
        outcome = await rt.run(asks_for(100, sent), id="r")
        assert (outcome.status, outcome.code, sent) == ("failed", "denied", [])
        assert (await rt.ask(newer.id)).state == "void" and not await rt.inbox()


async def test_a_no_out_of_a_task_group_ends_the_run_as_one_alone_does(storage: Storage):  # proves: APR-6
    paid = list[int]()

    @remit.effect
    async def pay(order: dict[str, int], *, key: str) -> str:
        paid.append(order["amount"])
        return "paid"

    @remit.flow(contract=CONTRACT)
    async def flow(run: remit.Run) -> None:
        async with asyncio.TaskGroup() as group:
            for amount in (1, 2):
                group.create_task(run.branch(f"order-{amount}").effect(pay, {"amount": amount}))

    async with storage.open() as rt:
        await staffed(rt)
        assert (await rt.run(flow, id="r")).code == "approval_needed"
        first = next(ask for ask in await rt.inbox() if ask.call == "order-1/pay")
        await answer(rt, "deny", ask=first)
        assert (await rt.check("r", flow)).fit == "compatible"
        outcome = await rt.run(flow, id="r")
        assert (outcome.status, outcome.code) == ("failed", "denied")
        assert DORA in outcome.reason
        assert await rt.inbox() == []
    assert paid == []


async def test_a_no_beside_another_failure_is_named_where_the_run_waits_for_repair(storage: Storage):  # proves: RUN-6
    @remit.flow(contract=CONTRACT)
    async def flow(run: remit.Run) -> None:
        failures = []
        for call in (run.effect(pay, {"amount": 1}), run.step(broken)):
            try:
                await call
            except remit.RemitError as error:
                failures.append(error)
        raise ExceptionGroup("not all was done", failures)

    @remit.effect
    async def pay(order: dict[str, int], *, key: str) -> str:
        return "paid"

    @remit.step
    async def broken() -> None:
        raise ValueError("no paper")

    async with storage.open() as rt:
        await staffed(rt)
        await rt.run(flow, id="r")
        (ask,) = await rt.inbox()
        await answer(rt, "deny", ask=ask)
        with pytest.raises(remit.StepError) as refused:
            await rt.run(flow, id="r")
        for words in (refused.value.message, (await rt.why("r")).reason):
            assert "Denied: " in words
            assert DORA in words
            assert "no paper" in words


async def test_a_no_that_came_while_its_question_became_void_is_heard():  # proves: APR-6, LOG-2
    sent, store = list[int](), Moving(MemoryStore())
    async with remit.open(cast(Store, store)) as rt:
        await staffed(rt)
        await rt.set_policy({"version": "1"}, by=ROOT)
        await rt.run(asks_for(100, sent), id="r")
        await rt.set_policy({"version": "2"}, by=ROOT)

        async def turn() -> None:
            assert (await rt.run(asks_for(100, sent), id="r")).code == "approval_needed"

        before = await asked(rt)
        store.meanwhile = turn
        told = await rt.decide(before.id, "deny", by=DORA, seen=before.version)
        assert (told.state, told.decided_by) == ("void", DORA)
        now = await asked(rt)
        with pytest.raises(ApprovalRefused) as refused:
            await rt.decide(now.id, "approve", by=DEREK, seen=now.version)
        assert refused.value.code == "approval.decided" and DORA in refused.value.message
        assert (await rt.run(asks_for(100, sent), id="r")).code == "denied" and not sent
        assert not await rt.inbox()


async def test_a_yes_that_came_while_its_question_became_void_is_told_so():  # proves: APR-2, LOG-2
    sent, store = list[int](), Moving(MemoryStore())
    async with remit.open(cast(Store, store)) as rt:
        await staffed(rt)
        await rt.run(asks_for(100, sent), id="r")

        async def turn() -> None:
            assert (await rt.run(asks_for(200, sent), id="r")).code == "approval_needed"

        before = await asked(rt)
        store.meanwhile = turn
        with pytest.raises(ApprovalRefused) as refused:
            await rt.decide(before.id, "approve", by=DORA, seen=before.version)
        assert refused.value.code == "approval.late"
        assert (await rt.run(asks_for(200, sent), id="r")).code == "approval_needed" and not sent


@pytest.mark.parametrize("choice", ["approve", "deny"])
async def test_an_answer_that_came_while_its_call_passed_without_one_is_told_so(choice: Any):  # proves: APR-2, LOG-2
    sent, store = list[int](), Moving(MemoryStore())
    contract = remit.Contract(version="1", resume="anyone")

    @remit.effect
    async def pay(order: dict[str, int], *, key: str) -> str:
        sent.append(order["amount"])
        return "paid"

    @remit.flow(contract=contract)
    async def buy(run: remit.Run) -> None:
        await run.effect(pay, {"amount": 4500})
        await run.approve("terms", {"days": 30}, roles={"director"}, within=timedelta(hours=1))

    async with remit.open(cast(Store, store)) as rt:
        await staffed(rt)
        asks = {"pay": {"roles": ["director"], "within": "4h"}}
        await rt.set_policy({"version": "1", "approvals": asks}, by=ROOT)
        await rt.run(buy, id="r")
        await rt.set_policy({"version": "2"}, by=ROOT)

        async def turn() -> None:
            await rt.run(buy, id="r")

        before = await asked(rt)
        store.meanwhile = turn
        with pytest.raises(ApprovalRefused) as refused:
            await rt.decide(before.id, choice, by=DORA, seen=before.version)
        assert refused.value.code == "approval.late" and "pay had passed without it" in refused.value.message
        assert sent == [4500]


async def test_who_decides_while_others_act_is_not_told_that_the_directory_was_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):  # proves: GATE-5
    sent, url, acted = list[int](), f"sqlite:///{tmp_path}/a.db", list[str]()
    async with remit.open(url) as desk, remit.open(url) as other:
        await staffed(desk)
        await desk.run(asks_for(100, sent), id="r")
        ask = await asked(desk)

        async def look_and_be_overtaken(host: Host) -> Authority:
            known = await standing.look(host)
            if not acted:
                acted.append("policy")
                await other.set_policy({"version": "1"}, by=ROOT)
                await other.run(asks_for(100, sent), id="r")
            return known

        monkeypatch.setattr(post, "look", look_and_be_overtaken)
        with pytest.raises(ApprovalRefused) as refused:
            await desk.decide(ask.id, "approve", by=DORA, seen=ask.version)
        assert acted and refused.value.code == "approval.void"
