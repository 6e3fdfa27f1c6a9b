"""Effects whose runtime was closed under them: what they sent may still happen, so nobody calls their sender dead."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

import remit
from remit.errors import StoreClosed
from remit.store.memory import MemoryStore
from remit.store.units import Unit
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.till import Order, Receipt, Till, find_out, paying

SECOND = timedelta(seconds=1)


class Bank:
    """Pays when it is let go, whoever still waits for that, and is asked what became of a key."""

    def __init__(self) -> None:
        self.let_go, self.is_held, self.is_over = threading.Event(), threading.Event(), threading.Event()
        self.paid: list[str] = []

    def transfer(self, key: str, order: Order) -> Receipt:
        self.is_held.set()
        assert self.let_go.wait(30)
        self.paid.append(key)
        self.is_over.set()
        return Receipt(number=len(self.paid), amount=order.amount)

    def effect(self, **declared: Any) -> remit.Effect[Receipt]:
        """A plain effect that is over its time at once, and goes on in its thread."""

        @remit.effect(timeout=timedelta(milliseconds=50), **declared)
        def pay(order: Order, *, key: str) -> Receipt:
            return self.transfer(key, order)

        return pay

    async def probe(self, order: Order, *, key: str) -> Any:
        return remit.Landed(Receipt(number=1, amount=order.amount)) if key in self.paid else remit.NotLanded()

    async def finish(self) -> None:
        self.let_go.set()
        assert await asyncio.to_thread(self.is_over.wait, 30)


async def test_a_closed_runtime_is_no_proof_of_death_while_its_call_goes_on(database: Storage):  # proves: FX-2, OWN-1
    bank, clock = Bank(), MovedClock()
    flow = paying(bank.effect(doubt="probe", probe=bank.probe, lands_within=SECOND))
    try:
        async with database.open(clock=clock) as rt:
            assert (await rt.run(flow, id="r")).status == "in_doubt"
        clock.move(SECOND * 2)
        async with database.open(clock=clock) as rt:
            assert (await rt.run(flow, id="r")).status == "in_doubt", "what was sent has not returned"
    finally:
        await bank.finish()
    async with database.open(clock=clock) as rt:
        assert (await rt.run(flow, id="r")).value == [100]
    assert len(bank.paid) == 1


async def test_nobody_may_say_that_it_did_not_happen_while_a_closed_runtime_s_call_goes_on(
    storage: Storage,
):  # proves: FX-9
    bank = Bank()
    flow = paying(bank.effect())
    try:
        async with storage.open() as rt:
            await rt.grant("user:ann", "clerk", by="user:root")
            assert (await rt.run(flow, id="r")).status == "in_doubt"
        async with storage.open() as rt:
            with pytest.raises(remit.Refused) as refused:
                await rt.resolve("r", "pay", "did_not_happen", by="user:ann", evidence="not at the bank")
            assert refused.value.code == "doubt.under_way"
    finally:
        await bank.finish()
    assert len(bank.paid) == 1


async def test_nobody_may_say_that_it_did_not_happen_while_the_first_of_two_calls_goes_on(
    storage: Storage,
):  # proves: FX-2, FX-9
    bank, calls = Bank(), list[str]()

    @remit.effect(doubt="resend", sink="dedupes", timeout=timedelta(milliseconds=50))
    def pay(order: Order, *, key: str) -> Receipt:
        calls.append(key)
        if len(calls) > 1:
            raise ConnectionError("no answer")
        return bank.transfer(key, order)

    try:
        async with storage.open() as rt:
            await rt.grant("user:ann", "clerk", by="user:root")
            outcome = await rt.run(paying(pay), id="r")
            assert (outcome.status, len(calls)) == ("in_doubt", 2)
            assert "has not returned" in outcome.reason
            with pytest.raises(remit.Refused) as refused:
                await rt.resolve("r", "pay", "did_not_happen", by="user:ann", evidence="not at the bank")
            assert refused.value.code == "doubt.under_way"
            await bank.finish()
            while rt._ready().outstanding:
                await asyncio.sleep(0.005)
            await find_out(rt, "r", "did_not_happen")
    finally:
        bank.let_go.set()


async def test_an_async_call_goes_on_when_its_runtime_is_left(database: Storage):  # proves: FX-2, OWN-1
    till = Till()
    till.next(till.hold)
    flow = paying(till.effect(doubt="probe", lands_within=timedelta(microseconds=1)))
    async with database.open() as rt:
        running = asyncio.create_task(rt.run(flow, id="r"))
        await till.is_held.wait()
    async with database.open() as rt:
        with pytest.raises(remit.LeaseHeld):
            await rt.run(flow, id="r", wait=False)
        till.let_go.set()
        assert (await rt.run(flow, id="r")).value == [100]
        with pytest.raises(StoreClosed):
            await running
    assert till.times == [1]


async def test_a_plain_wrapper_around_an_async_function_has_returned_when_that_has(database: Storage):  # proves: FX-2
    till = Till()
    till.next(till.hold)

    @remit.effect(name="pay")
    def pay(order: Order, *, key: str) -> Receipt:
        return till._answer(order, key)  # type: ignore[return-value]

    async with database.open() as rt:
        running = asyncio.create_task(rt.run(paying(pay), id="r"))
        await till.is_held.wait()
    async with database.open() as rt:
        assert len(rt._ready().outstanding) == 1
        till.let_go.set()
        with pytest.raises(StoreClosed):
            await running
        assert not rt._ready().outstanding


class Closing(MemoryStore):
    """Its runtime is closed just as an intention is on the disk."""

    runtime: remit.Runtime

    async def append(self, unit: Unit) -> None:
        await super().append(unit)
        if unit.fence is not None:
            await self.runtime.close()


@pytest.mark.parametrize("is_plain", [False, True], ids=["async", "plain"])
async def test_nothing_begins_in_a_runtime_that_was_closed(is_plain: bool):  # proves: FX-2, OWN-1
    till, store = Till(), Closing()
    called: list[str] = []

    @remit.effect(name="pay")
    def pay(order: Order, *, key: str) -> Receipt:
        called.append(key)
        return till.pay(key, order)

    store.runtime = remit.open(store)
    await store.runtime.open()
    with pytest.raises(StoreClosed):
        await store.runtime.run(paying(pay if is_plain else till.effect()), id="r")
    assert (called, till.arrived) == ([], [])
    async with remit.open(store) as rt:
        assert [effect.state for effect in await rt.effects("r")] == ["in_doubt"]
        assert not rt._ready().outstanding
