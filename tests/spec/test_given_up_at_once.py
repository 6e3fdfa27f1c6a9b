"""What a flow gives up and goes on from in the same breath; and what was judged, and then waits to be written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, cast

import apsw
import pytest

import remit
from remit.store.memory import MemoryStore
from remit.store.sqlite.store import SqliteStore
from remit.store.units import Unit
from tests.spec.conftest import Storage
from tests.support.till import OPEN, Order, Till, kinds_of

HOUR = timedelta(hours=1)


async def nested(call: Awaitable[Any], depth: int) -> Any:
    """The call, in tasks within tasks, every second one with a time-out that does not fire."""
    if not depth:
        return await call
    inner = asyncio.create_task(nested(call, depth - 1))
    return await (asyncio.wait_for(inner, 60) if depth % 2 else inner)


async def pay_elsewhere(run: remit.Run, other: remit.Effect[Any]) -> str:
    return f"elsewhere {(await run.effect(other, Order(invoice='i-2'))).number}"


async def ask(run: remit.Run, _: remit.Effect[Any]) -> str:
    await run.approve("terms", {"x": 1}, roles={"boss"}, within=HOUR)
    return "asked"


@pytest.mark.parametrize("then", [pay_elsewhere, ask])
@pytest.mark.parametrize("depth", [0, 1, 8])
async def test_nothing_new_begins_before_what_was_given_up_in_the_same_breath_was_heard(
    depth: int, then: Callable[[remit.Run, Any], Awaitable[str]], storage: Storage
):  # proves: FX-10
    """`cancel` without waiting: the task hears of it later than the flow goes on."""
    till, bank = Till(), Till()
    till.next(till.hold)
    pay, other = till.effect(), bank.effect("other")

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        paying = asyncio.create_task(nested(run.effect(pay, Order()), depth))
        held = asyncio.create_task(till.is_held.wait())
        await asyncio.wait({paying, held}, return_when=asyncio.FIRST_COMPLETED)
        if paying.done():
            return f"paid {paying.result().number}"
        paying.cancel()
        asyncio.get_running_loop().call_later(0.05, till.let_go.set)
        till.is_held = asyncio.Event()
        return await then(run, other)

    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).value == "paid 1"
        assert not {"ApprovalAsked"} & set(await kinds_of(rt, "r"))
    assert (till.times, bank.times) == ([1], [])


async def test_no_transaction_begins_before_what_was_given_up_was_heard(tmp_path: Any):  # proves: FX-10
    till, booked = Till(), []
    till.next(till.hold)
    pay = till.effect()

    @remit.transaction
    def book(connection: apsw.Connection, order: Order) -> int:
        booked.append(order)
        return 1

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        paying = asyncio.create_task(run.effect(pay, Order()))
        held = asyncio.create_task(till.is_held.wait())
        await asyncio.wait({paying, held}, return_when=asyncio.FIRST_COMPLETED)
        if paying.done():
            return "paid"
        paying.cancel()
        asyncio.get_running_loop().call_later(0.05, till.let_go.set)
        till.is_held = asyncio.Event()
        await run.transact(book, Order())
        return "booked"

    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
        assert (await rt.run(flow, id="r")).value == "paid"
    assert (till.times, booked) == ([1], [])


async def test_what_is_being_judged_begins_when_the_flow_has_heard_what_it_gave_up_meanwhile(
    storage: Storage,
):  # proves: FX-10
    till, bank, paid = Till(), Till(), list[list[int]]()
    asked, go = asyncio.Event(), asyncio.Event()
    till.next(till.hold)

    def other_pays(key: str, order: Order) -> Any:
        paid.append(list(till.times))
        return bank.pay(key, order)

    bank.next(other_pays)
    pay, other = till.effect(), bank.effect("other")

    async def wanted(_: Order) -> bool:
        asked.set()
        await go.wait()
        return True

    rules = {"other": remit.Rule(still_wanted=wanted)}

    @remit.flow(contract=remit.Contract(version="1", resume="anyone", effects=rules, others="free"))
    async def flow(run: remit.Run) -> str:
        paying = asyncio.create_task(run.effect(pay, Order()))
        beside = asyncio.create_task(run.effect(other, Order(invoice="i-2")))
        await asked.wait()
        if not go.is_set():
            await till.is_held.wait()
            paying.cancel()
            await asyncio.wait([paying])
            asyncio.get_running_loop().call_later(0.05, till.let_go.set)
            go.set()
        else:
            await paying
        await beside
        return "heard"

    async with storage.open() as rt, asyncio.timeout(30):
        assert (await rt.run(flow, id="r")).value == "heard"
    assert (till.times, paid) == ([1], [[1]])


# -- judged, and waiting to be written ----------------------------------------------------------------------------


class Busy:
    """A store whose settlement of `book` takes until it is let go: what else has conditions waits behind it."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.is_busy, self.let_go = asyncio.Event(), asyncio.Event()

    async def append(self, unit: Unit) -> None:
        settled = (b'"kind":"EffectSettled"', b'"name":"book"')
        if any(all(part in entry.header for part in settled) for entry in unit.entries):
            self.is_busy.set()
            await self.let_go.wait()
        await super().append(unit)  # type: ignore[misc]


class BusyMemory(Busy, MemoryStore): ...


class BusySqlite(Busy, SqliteStore): ...


def booking(run: remit.Run, book: remit.Effect[Any]) -> Awaitable[Any]:
    async def go() -> str:
        try:
            await run.effect(book, Order())
        except remit.EffectFailed:
            pass
        return "declined"

    return go()


def declined(_: str, __: Order) -> Any:
    raise remit.Declined("full")


async def test_a_doubt_that_comes_up_while_a_judged_call_waits_holds_it():  # proves: FX-2
    """Nothing new begins in a run while an effect of it is in doubt."""
    store, till, wires = BusyMemory(), Till(), Till()
    till.next(declined)
    wires.next(wires.hold_and_fail)
    book, pay, wire = till.effect("book", business_key="invoice"), till.effect(), wires.effect("wire")

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> list[Any]:
        async def paying() -> Any:
            await store.is_busy.wait()
            asyncio.get_running_loop().call_later(0.02, wires.let_go.set)
            asyncio.get_running_loop().call_later(0.06, store.let_go.set)
            return await run.effect(pay, Order())

        return list(await run.gather(run.effect(wire, Order()), booking(run, book), paying()))

    async with remit.open(store) as rt, asyncio.timeout(30):
        outcome = await rt.run(flow, id="r")
        assert (outcome.status, outcome.waits_for) == ("in_doubt", "doubt")
    assert till.keys == till.keys[:1], "the booking alone"


@pytest.mark.parametrize("way", ["race", "time-out"])
async def test_what_lost_or_was_given_up_while_it_waited_to_be_written_never_begins(way: str):  # proves: FX-1, RUN-8
    store, till = BusyMemory(), Till()
    till.next(declined)
    book, pay = till.effect("book", business_key="invoice"), cast("remit.Effect[Any]", till.effect())

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        async def deciding() -> str:
            await asyncio.sleep(0.02)
            asyncio.get_running_loop().call_later(0.04, store.let_go.set)
            return "not to pay"

        async def going() -> str:
            await store.is_busy.wait()
            if way == "race":
                return str(await run.first(run.effect(pay, Order()), deciding()))
            asyncio.get_running_loop().call_later(0.06, store.let_go.set)
            try:
                return str(await asyncio.wait_for(run.effect(pay, Order()), 0.02))
            except TimeoutError:
                return "not to pay"

        return str((await run.gather(booking(run, book), going()))[1])

    async with remit.open(store) as rt, asyncio.timeout(30):
        assert (await rt.run(flow, id="r")).value == "not to pay"
        assert "pay" not in {effect.call for effect in await rt.effects("r")}
    assert len(till.arrived) == 1, "the booking alone"


async def test_no_transaction_of_a_lost_side_is_written_that_waited(tmp_path: Any):  # proves: FX-6, RUN-8
    store, till, rows = BusySqlite(tmp_path / "a.db"), Till(), []
    till.next(declined)
    book = till.effect("book", business_key="invoice")

    @remit.transaction
    def write(connection: apsw.Connection, order: Order) -> int:
        rows.append(order)
        return 1

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        async def deciding() -> str:
            await asyncio.sleep(0.02)
            asyncio.get_running_loop().call_later(0.04, store.let_go.set)
            return "not to write"

        async def writing() -> str:
            await store.is_busy.wait()
            return str(await run.first(run.transact(write, Order()), deciding()))

        return str((await run.gather(booking(run, book), writing()))[1])

    async with remit.open(store) as rt, asyncio.timeout(30):
        assert (await rt.run(flow, id="r")).value == "not to write"
        assert (await rt.run(flow, id="r")).value == "not to write"
    assert rows == []


# -- races of tasks -----------------------------------------------------------------------------------------------


async def test_a_task_is_refused_in_a_race(storage: Storage):  # proves: RUN-8
    """It began before the race, so nothing in it would know that it lost."""
    till = Till()
    pay = till.effect()

    @remit.step
    async def quick() -> str:
        return "quick"

    async def patient(run: remit.Run) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await run.effect(pay, Order())
        return "paid"

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> list[str]:
        codes = []
        for tasks in (
            lambda: asyncio.create_task(patient(run)),
            lambda: asyncio.gather(run.step(quick), run.step(quick)),
        ):
            try:
                await run.first(tasks(), run.step(quick))
            except remit.CallRefused as refused:
                codes.append(refused.code)
            await asyncio.sleep(0)  # what was cancelled before its first turn has it
        return codes

    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).value == ["call.begun"] * 2
    assert till.arrived == []
