"""Effects that their flow gave up in an odd moment: when they were over and not heard, or when others swallow it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec
import pytest

import remit
from remit.store.memory import MemoryStore
from remit.store.units import Unit
from tests.spec.conftest import Storage
from tests.support.office import BUYER, answer, staffed
from tests.support.till import OPEN, Order, Till, kinds_of

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


class Late:
    """A payment whose flow runs out of patience some turns of the loop after the answer came, and then pays another."""

    def __init__(self, hops: int, answer: Callable[[str, Order], Any] | BaseException) -> None:
        self.till, self.hops, self.answer = Till(), hops, answer
        self.calls: list[asyncio.Future[Any]] = []
        self.till.next(self.answered)
        self.pay, self.elsewhere = self.till.effect(), self.till.effect("elsewhere")

        @remit.flow(contract=OPEN)
        async def impatient(run: remit.Run) -> str:
            self.calls.append(asyncio.ensure_future(run.effect(self.pay, Order())))
            await asyncio.wait(self.calls[-1:])
            if not self.calls[-1].cancelled():
                return "heard" if self.calls[-1].exception() is None else "refused"
            await run.effect(self.elsewhere, Order(invoice="elsewhere"))
            return "elsewhere"

        self.flow = impatient

    def answered(self, key: str, order: Order) -> Any:
        self.give_up(self.hops)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer(key, order)

    def give_up(self, hops: int) -> None:
        if hops:
            asyncio.get_running_loop().call_soon(self.give_up, hops - 1)
        else:
            self.calls[-1].cancel()


@pytest.mark.parametrize("hops", range(5))
async def test_nothing_new_begins_outside_before_the_flow_hears_what_became_of_what_it_gave_up(
    hops: int, storage: Storage
):  # proves: FX-2, FX-10
    late = Late(hops, Till().pay)
    async with storage.open() as rt, asyncio.timeout(30):
        assert (await rt.run(late.flow, id="r")).value == "heard"
        assert [effect.call for effect in await rt.effects("r")] == ["pay"]
        assert (await kinds_of(rt, "r")).count("EffectIntended") == 1
    assert [order.invoice for _, order in late.till.arrived] == ["i-1"]


@pytest.mark.parametrize("hops", range(5))
async def test_a_no_of_the_other_side_is_heard_before_the_flow_goes_elsewhere(
    hops: int, storage: Storage
):  # proves: FX-10
    late = Late(hops, remit.Declined("no funds"))
    async with storage.open() as rt, asyncio.timeout(30):
        assert (await rt.run(late.flow, id="r")).value == "refused"
    assert [order.invoice for _, order in late.till.arrived] == ["i-1"]


async def test_what_was_paid_in_an_earlier_turn_is_not_paid_elsewhere_by_a_flow_that_does_not_wait_to_hear_of_it(
    storage: Storage,
):  # proves: FX-2, FX-10
    till, is_patient, is_broken = Till(), [True], [True]
    pay, elsewhere = till.effect(), till.effect("elsewhere")

    def quote() -> int:
        return 120

    def report() -> str:
        if is_broken:
            raise OSError("mail down")
        return "told"

    @remit.flow(contract=OPEN)
    async def impatient(run: remit.Run) -> Any:
        beside = run.branch("beside")
        if is_patient:
            await beside.step(quote)
            await run.effect(pay, Order())
        else:
            call = asyncio.ensure_future(run.effect(pay, Order()))  # its turn is behind the quote's
            for _ in range(5):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
            await beside.step(quote)
            await run.effect(elsewhere, Order(invoice="elsewhere"))
        return await run.step(report)

    async with storage.open() as rt, asyncio.timeout(30):
        with pytest.raises(remit.StepError, match="mail down"):
            await rt.run(impatient, id="r")
        is_patient.clear()
        is_broken.clear()
        for _ in range(2):
            outcome = await rt.run(impatient, id="r")
            assert (outcome.status, outcome.waits_for, outcome.code) == ("waiting", "repair", "effect.unheard")
        is_patient.append(True)
        assert (await rt.run(impatient, id="r")).value == "told"
    assert [order.invoice for _, order in till.arrived] == ["i-1"]


class Answering(MemoryStore):
    """Its run's flow runs out of patience just as the use of an answer, or a no, is on the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[asyncio.Future[Any]] = []

    async def append(self, unit: Unit) -> None:
        await super().append(unit)
        kinds = [msgspec.json.decode(entry.header)["kind"] for entry in unit.entries]
        if {"ApprovalUsed", "EffectRefused"} & set(kinds):
            self.calls[-1].cancel()


@pytest.mark.parametrize("choice", ["approve", "deny"])
async def test_a_person_s_answer_is_heard_before_anything_begins_outside(
    choice: Literal["approve", "deny"],
):  # proves: FX-10, APR-10
    till, store = Till(), Answering()
    elsewhere = till.effect("elsewhere")

    @remit.flow(contract=OPEN)
    async def impatient(run: remit.Run) -> str:
        asking = run.approve("terms", {"amount": 1}, roles={"director"}, within=timedelta(hours=1))
        store.calls.append(asyncio.ensure_future(asking))
        await asyncio.wait(store.calls[-1:])
        if not store.calls[-1].cancelled():
            return "no" if store.calls[-1].exception() else "yes"
        await run.effect(elsewhere, Order())
        return "elsewhere"

    async with remit.open(store) as rt, asyncio.timeout(30):
        await staffed(rt)
        assert (await rt.run(impatient, id="r", by=BUYER)).status == "waiting"
        await answer(rt, choice)
        assert (await rt.run(impatient, id="r", by=BUYER)).value == {"approve": "yes", "deny": "no"}[choice]
    assert till.arrived == []


@pytest.mark.parametrize("asks", ["predicate", "fetcher"])
async def test_what_was_given_up_does_not_begin_though_what_is_asked_for_it_swallows_that(
    asks: str, storage: Storage
):  # proves: FX-1, FX-10
    till, is_asked = Till(), asyncio.Event()
    pay, elsewhere = till.effect(), till.effect("elsewhere")

    async def yes() -> bool:
        is_asked.set()
        with suppress(BaseException):
            await asyncio.Event().wait()
        return True

    async def wanted(order: Order) -> bool:
        return await yes()

    rules = {"pay": remit.Rule(still_wanted=wanted)} if asks == "predicate" else {}
    contract = remit.Contract(version="1", resume="anyone", effects=rules, others="free" if rules else None)

    @remit.flow(contract=contract)
    async def impatient(run: remit.Run) -> str:
        again = yes if asks == "fetcher" else None
        run.evidence("quote", True, as_of=LONG_AGO, fresh_for=timedelta(hours=1), again=again)
        call = asyncio.ensure_future(run.effect(pay, Order(), rests_on=["quote"] if again else []))
        await is_asked.wait()
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        await run.effect(elsewhere, Order(invoice="elsewhere"))
        return "elsewhere"

    async with storage.open() as rt, asyncio.timeout(30):
        assert (await rt.run(impatient, id="r")).value == "elsewhere"
        assert [effect.call for effect in await rt.effects("r")] == ["elsewhere"]
    assert [order.invoice for _, order in till.arrived] == ["elsewhere"]
