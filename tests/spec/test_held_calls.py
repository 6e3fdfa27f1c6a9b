"""Calls that the gate holds: what they wait for is written down once, however often the run is gone on with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import remit
from remit.store.rows import OutboxRow
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock

ASKED = remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=1)))


@remit.effect
async def pay(order: dict[str, int], *, key: str) -> str:
    return f"paid {order['amount']}"


def contract(**rules: remit.Rule) -> remit.Contract:
    return remit.Contract(version="1", resume="anyone", effects=rules)


@remit.flow(contract=contract(pay=ASKED), name="two")
async def two_at_once(run: remit.Run) -> None:
    await run.gather(run.branch("a").effect(pay, {"amount": 1}), run.branch("b").effect(pay, {"amount": 2}))


@remit.flow(contract=contract(other=ASKED), name="unnamed")
async def no_rule_names_it(run: remit.Run) -> None:
    await run.effect(pay, {"amount": 1})


@remit.flow(contract=contract(pay=remit.Rule(evidence={"quote"})), name="stale")
async def rests_on_an_old_quote(run: remit.Run) -> None:
    run.evidence("quote", 120, as_of=datetime(2020, 1, 1, tzinfo=UTC), fresh_for=timedelta(hours=1))
    await run.effect(pay, {"amount": 1})


@pytest.mark.parametrize("flow", [two_at_once, no_rule_names_it, rests_on_an_old_quote], ids=lambda flow: flow.name)
async def test_what_holds_a_call_is_written_once_however_often_it_is_come_to(
    storage: Storage, flow: remit.Flow[Any]
):  # proves: GATE-2, C25
    async with storage.open() as rt:
        first = await rt.run(flow, id="r")
        assert first.status == "waiting"
        entries = len((await rt.read("r")).main)
        for _ in range(3):
            again = await rt.run(flow, id="r")
            assert (again.status, again.code, again.waits_for) == (first.status, first.code, first.waits_for)
        assert len((await rt.read("r")).main) == entries


def cannot_say(request: dict[str, int]) -> bool:
    raise ConnectionError("no answer")


@remit.flow(contract=contract(pay=remit.Rule(still_wanted=cannot_say)), name="unsure")
async def nobody_says_whether_it_is_wanted(run: remit.Run) -> None:
    await run.effect(pay, {"amount": 1})


async def announced(rt: remit.Runtime) -> list[OutboxRow]:
    return await rt._ready().store.read_outbox("default", 0, 100)


HELD = [two_at_once, no_rule_names_it, rests_on_an_old_quote, nobody_says_whether_it_is_wanted]


@pytest.mark.parametrize("flow", HELD, ids=lambda flow: flow.name)
async def test_time_that_goes_by_is_no_news_of_a_run_that_waits(
    storage: Storage, flow: remit.Flow[Any]
):  # proves: GATE-2
    clock = MovedClock(datetime.now(UTC))
    async with storage.open(clock=clock) as rt:
        first = await rt.run(flow, id="r")
        assert first.status == "waiting"
        entries, told = (await rt.read("r")).main, await announced(rt)
        for _ in range(3):
            clock.move(timedelta(seconds=61))
            assert (await rt.run(flow, id="r")).reason == first.reason
        assert (await rt.read("r")).main == entries
        assert await announced(rt) == told


async def test_what_holds_a_call_is_written_again_where_something_else_does(storage: Storage):  # proves: GATE-2
    async with storage.open() as rt:
        await rt.run(rests_on_an_old_quote, id="r")
        entries = len((await rt.read("r")).main)
        await rt.set_policy(
            {"version": "1", "approvals": {"pay": {"roles": ["director"], "within": "1h"}}}, by="user:ops"
        )
        assert (await rt.run(rests_on_an_old_quote, id="r")).code == "evidence_expired"
        assert len((await rt.read("r")).main) > entries, "it needs a yes as well"
