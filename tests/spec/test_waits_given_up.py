"""A wait for several calls that is given up when one of them is over: `gather` and `first` alone could hand that on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Literal

import msgspec
import pytest

import remit
from remit.engine.boundary import effect
from remit.engine.boundary.settling import settle
from remit.store.memory import MemoryStore
from remit.store.units import Unit
from tests.spec.conftest import Storage
from tests.support.office import BUYER, answer, staffed
from tests.support.till import OPEN, Order, Till, kinds_of

Wait = Callable[[remit.Run, Any], Coroutine[Any, Any, Any]]
HOPS = range(0, 16, 2)  # turns of the loop; a wait has the outcome for some of them before its flow does


@remit.step
async def never() -> None:
    await asyncio.Event().wait()


WAITS: dict[str, Wait] = {
    "first": lambda run, call: run.first(call, run.step(never)),
    "gather": lambda run, call: run.gather(call),
    "gather with a step": lambda run, call: run.gather(run.step(never), call),
    "gather in first": lambda run, call: run.first(run.gather(call), run.step(never)),
    "first in gather": lambda run, call: run.gather(run.first(call, run.step(never)), run.step(never)),
}

WAITS_FOR_A_PERSON: dict[str, Wait] = {  # beside a step that goes on the run would not wait
    "first": lambda run, call: run.first(call),
    "gather": lambda run, call: run.gather(call),
    "gather in first": lambda run, call: run.first(run.gather(call)),
}


class Impatient:
    """Pays in a wait, and where that is cancelled elsewhere. hops: turns of the loop, in each turn of its run."""

    def __init__(self, wait: Wait, *hops: int) -> None:
        self.till, self.hops, self.waiting = Till(), list(hops), asyncio.Event()
        self.calls: list[asyncio.Future[Any]] = []
        pay, elsewhere = self.till.effect(), self.till.effect("elsewhere")

        @remit.flow(contract=OPEN)
        async def flow(run: remit.Run) -> str:
            self.calls.append(asyncio.ensure_future(wait(run, run.effect(pay, Order()))))
            if len(self.calls) > 1 and self.hops:
                self.give_up(self.hops.pop(0))
            await asyncio.wait(self.calls[-1:])
            if not self.calls[-1].cancelled():
                return "heard" if self.calls[-1].exception() is None else "refused"
            await run.effect(elsewhere, Order(invoice="elsewhere"))
            return "elsewhere"

        self.flow = flow

    def give_up(self, hops: int) -> None:
        if hops:
            asyncio.get_running_loop().call_soon(self.give_up, hops - 1)
        else:
            self.calls[-1].cancel()

    def once_settled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Runs out of patience, so many turns of the loop after what became of the payment is on the disk."""

        async def settled(*args: Any, **options: Any) -> Any:
            told = await settle(*args, **options)
            if self.hops:
                self.give_up(self.hops.pop(0))
            return told

        monkeypatch.setattr(effect, "settle", settled)


@pytest.mark.parametrize("way", [way for way in WAITS if "step" not in way and way != "first in gather"])
@pytest.mark.parametrize("says", [Till().pay, remit.Declined("no funds")], ids=["pays", "declines"])
async def test_what_became_of_a_call_is_heard_where_the_wait_for_several_was_given_up_with_it(
    way: str, says: Any, storage: Storage, monkeypatch: pytest.MonkeyPatch
):  # proves: FX-2, FX-10
    for hops in HOPS:
        impatient = Impatient(WAITS[way], hops)
        impatient.till.next(says)
        impatient.once_settled(monkeypatch)
        async with storage.open() as rt, asyncio.timeout(30):
            value = (await rt.run(impatient.flow, id=f"r{hops}")).value
            assert value == ("refused" if isinstance(says, Exception) else "heard")
        assert [order.invoice for _, order in impatient.till.arrived] == ["i-1"]
        monkeypatch.undo()


@pytest.mark.parametrize("way", WAITS)
async def test_a_wait_that_is_given_up_again_once_it_has_what_was_recorded_lets_nothing_begin(
    way: str, storage: Storage, monkeypatch: pytest.MonkeyPatch
):  # proves: FX-2, FX-10
    for hops in range(3, 17):  # from when all calls in it began
        impatient = Impatient(WAITS[way], 8 if "step" in way or way == "first in gather" else 1, hops)
        impatient.once_settled(monkeypatch)
        async with storage.open() as rt, asyncio.timeout(30):
            outcome = await rt.run(impatient.flow, id=f"r{hops}")
            assert outcome.code == "effect.unheard" or outcome.value == "heard"
            if "step" not in way and way != "first in gather":
                assert (await rt.run(impatient.flow, id=f"r{hops}")).value == "heard"
        assert [order.invoice for _, order in impatient.till.arrived] == ["i-1"]
        monkeypatch.undo()


@pytest.mark.parametrize("is_direct", [True, False])
@pytest.mark.parametrize("hops", range(12))
async def test_a_race_that_is_given_up_as_it_ends_lets_nothing_begin_beside_the_payment_in_it(
    is_direct: bool, hops: int, storage: Storage
):  # proves: FX-2, FX-10
    till, calls = Till(), list[asyncio.Future[Any]]()
    till.next(till.hold)
    pay, elsewhere = till.effect(), till.effect("elsewhere")

    def give_up(hops: int) -> None:
        if hops:
            asyncio.get_running_loop().call_soon(give_up, hops - 1)
        else:
            calls[0].cancel()
            till.let_go.set()

    async def quick() -> str:
        await till.is_held.wait()
        give_up(hops)
        return "quick"

    async def own(run: remit.Run) -> Any:
        return await run.effect(pay, Order())

    @remit.flow(contract=OPEN)
    async def racing(run: remit.Run) -> str:
        payment = run.effect(pay, Order()) if is_direct else own(run)
        calls.append(asyncio.ensure_future(run.first(payment, run.step(quick))))
        await asyncio.wait(calls[-1:])
        if not calls[-1].cancelled():
            return "heard"
        await run.effect(elsewhere, Order(invoice="elsewhere"))
        return "elsewhere"

    async with storage.open() as rt, asyncio.timeout(30):
        assert (await rt.run(racing, id="r")).value == "heard"
    assert [order.invoice for _, order in till.arrived] == ["i-1"]


async def test_a_step_that_was_over_says_nothing_of_the_outside(storage: Storage):  # proves: FX-10
    till, is_over = Till(), asyncio.Event()
    pay = till.effect()

    def quote() -> int:
        is_over.set()
        return 120

    @remit.flow(contract=OPEN)
    async def impatient(run: remit.Run) -> int:
        quotes = asyncio.ensure_future(run.gather(run.step(quote), run.step(never)))
        while "StepDone" not in await kinds_of(rt, "r"):
            await asyncio.sleep(0)
        quotes.cancel()
        await asyncio.wait([quotes])
        return (await run.effect(pay, Order())).amount

    async with storage.open() as rt, asyncio.timeout(30):
        assert (await rt.run(impatient, id="r")).value == 100
        assert (await kinds_of(rt, "r")).count("AttemptStarted") == 1


class Watched(MemoryStore):
    """Its run's flow runs out of patience some turns of the loop after an entry of these kinds is on the disk."""

    def __init__(self, hops: int, *kinds: str) -> None:
        super().__init__()
        self.hops, self.kinds, self.calls = hops, set(kinds), list[asyncio.Future[Any]]()

    async def append(self, unit: Unit) -> None:
        await super().append(unit)
        if self.kinds.intersection(msgspec.json.decode(entry.header)["kind"] for entry in unit.entries):
            self.give_up(self.hops)

    def give_up(self, hops: int) -> None:
        if hops:
            asyncio.get_running_loop().call_soon(self.give_up, hops - 1)
        else:
            self.calls[-1].cancel()


@pytest.mark.parametrize("choice", ["approve", "deny"])
@pytest.mark.parametrize("way", WAITS_FOR_A_PERSON)
@pytest.mark.parametrize("hops", HOPS)
async def test_a_person_s_answer_is_heard_where_the_wait_for_several_was_given_up_with_it(
    choice: Literal["approve", "deny"], way: str, hops: int
):  # proves: FX-10, APR-10
    till, store = Till(), Watched(hops, "ApprovalUsed", "EffectRefused")
    elsewhere = till.effect("elsewhere")

    @remit.flow(contract=OPEN)
    async def impatient(run: remit.Run) -> str:
        asking = run.approve("terms", {"amount": 1}, roles={"director"}, within=timedelta(hours=1))
        store.calls.append(asyncio.ensure_future(WAITS_FOR_A_PERSON[way](run, asking)))
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


async def test_nobody_lost_a_race_that_was_given_up_before_its_end_was_recorded():  # proves: FX-2, FX-10
    till, store = Till(), Watched(0, "StepDone")
    till.next(till.hold_and_raise)
    till.probe_says = ConnectionError("no answer")
    pay, elsewhere = till.effect(doubt="probe"), till.effect("elsewhere")

    async def quick() -> str:
        await till.is_held.wait()
        return "quick"

    async def own(run: remit.Run) -> Any:
        return await run.effect(pay, Order())

    @remit.flow(contract=OPEN)
    async def racing(run: remit.Run) -> str:
        store.calls.append(asyncio.ensure_future(run.first(own(run), run.step(quick))))
        if len(store.calls) == 2:
            store.give_up(8)  # the quick one has what is recorded, and the race waits to say so
        await asyncio.wait(store.calls[-1:])
        till.let_go.set()
        if not store.calls[-1].cancelled():
            return "heard"
        await run.effect(elsewhere, Order(invoice="elsewhere"))
        return "elsewhere"

    async with remit.open(store) as rt, asyncio.timeout(30):
        assert (await rt.run(racing, id="r")).status == "in_doubt"
        assert (await kinds_of(rt, "r")).count("RaceWon") == 0
        till.probe_says = None
        assert (await rt.run(racing, id="r")).value == "heard"
    assert [order.invoice for _, order in till.arrived] == ["i-1"]
