"""A caller of a run that goes away: the turn is over before its flow hears of that, and nothing acts on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import remit
from tests.spec.conftest import Storage
from tests.support.till import OPEN, Order, Till, find_out, kinds_of

Going = Callable[[Awaitable[Any], asyncio.Event], Awaitable[None]]


class Stay:
    """Books, asks the price, and pays. Whatever ends the asking makes it cancel the booking."""

    def __init__(self, *, swallows: bool = False) -> None:
        self.hotel, self.bank = Till(), Till()
        self.is_asking, self.may_answer = asyncio.Event(), asyncio.Event()
        book, cancel, pay = self.hotel.effect("book"), self.hotel.effect("cancel"), self.bank.effect()

        @remit.step
        async def price() -> int:
            self.is_asking.set()
            await self.may_answer.wait()
            return 100

        @remit.flow(contract=OPEN, name="stay")
        async def stay(run: remit.Run) -> str:
            await run.effect(book, Order())
            try:
                await run.step(price)
            except BaseException:
                await run.effect(cancel, Order())
                if swallows:
                    return "not booked"
                raise
            await run.effect(pay, Order())
            return "booked"

        self.flow = stay


async def time_out(going: Awaitable[Any], begun: asyncio.Event) -> None:
    async def when_begun() -> None:
        await begun.wait()
        scope.reschedule(0)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as scope:
            beside = asyncio.ensure_future(when_begun())
            await going
    await beside


async def cancel(going: Awaitable[Any], begun: asyncio.Event) -> None:
    task = asyncio.ensure_future(going)
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def fail_beside(going: Awaitable[Any], begun: asyncio.Event) -> None:
    """Another task of its group fails."""

    async def fail() -> None:
        await begun.wait()
        raise OSError("no")

    async def go() -> None:
        await going

    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(go())
            group.create_task(fail())


async def cancel_twice(going: asyncio.Future[Any]) -> None:
    """As who presses the keys again and does not want to wait."""
    for _ in range(2):
        going.cancel()
        for _ in range(10):  # until the flow heard of it
            await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await going


@pytest.mark.parametrize("swallows", [False, True], ids=["raises on", "swallows"])
@pytest.mark.parametrize("go_away", [time_out, cancel, fail_beside])
async def test_a_caller_who_goes_away_makes_its_flow_do_nothing(
    go_away: Going, swallows: bool, storage: Storage
):  # proves: RUN-5, RUN-15, FX-1
    stay = Stay(swallows=swallows)
    async with storage.open() as rt:
        await go_away(rt.run(stay.flow, id="r"), stay.is_asking)
        assert (len(stay.hotel.arrived), (await rt.why("r")).status) == (1, "running")

        stay.may_answer.set()
        assert (await rt.run(stay.flow, id="r")).value == "booked"
    assert (len(stay.hotel.arrived), stay.bank.times) == (1, [1])


def test_a_loop_that_ends_under_a_run_makes_its_flow_do_nothing(database: Storage):  # proves: RUN-5, RUN-15, FX-1
    """`asyncio.run` cancels every task that is left, in whatever order: the flow's own too."""
    stay = Stay()

    async def leave() -> None:
        async def go() -> None:
            async with database.open() as rt:
                await rt.run(stay.flow, id="r")

        left.append(asyncio.ensure_future(go()))
        await stay.is_asking.wait()

    left: list[asyncio.Task[None]] = []
    asyncio.run(leave())
    assert left[0].cancelled() and len(stay.hotel.arrived) == 1

    async def go_on() -> None:
        stay.may_answer = asyncio.Event()
        stay.may_answer.set()
        async with database.open() as rt:
            assert (await rt.run(stay.flow, id="r")).value == "booked"

    asyncio.run(go_on())
    assert (len(stay.hotel.arrived), stay.bank.times) == (1, [1])


async def test_a_payment_that_is_under_way_when_the_caller_goes_away_is_no_other_answer(
    storage: Storage,
):  # proves: RUN-15, FX-10
    till = Till()
    till.next(till.hold)
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        try:
            await run.effect(pay, Order())
        except asyncio.CancelledError:
            return "not paid"
        return "paid"

    async with storage.open() as rt:
        task = asyncio.ensure_future(rt.run(flow, id="r"))
        await till.is_held.wait()
        task.cancel()
        till.let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await rt.run(flow, id="r")).value == "paid"
    assert till.times == [1]


async def test_who_is_cancelled_twice_does_not_wait_and_the_run_is_held_until_its_call_is_over(
    database: Storage,
):  # proves: FX-2, FX-12
    till = Till()
    till.next(till.hold)
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        return str((await run.effect(pay, Order())).number)

    async with database.open() as rt, database.open() as other:
        task = asyncio.ensure_future(rt.run(flow, id="r"))
        await till.is_held.wait()
        await cancel_twice(task)
        with pytest.raises(remit.Refused) as refused:
            await find_out(other, "r", "did_not_happen")
        assert refused.value.code == "doubt.under_way"
        for runtime in (other, rt):
            with pytest.raises(remit.LeaseHeld):
                await runtime.run(flow, id="r", wait=False)

        till.let_go.set()
        await asyncio.wait(rt._ready().outlasting.values())
        assert (await other.resume("r", flow)).value == "1"
        assert (await kinds_of(other, "r")).count("EffectSettled") == 1
    assert till.times == [1]


async def test_a_runtime_that_is_closed_under_such_a_turn_leaves_a_doubt_and_no_asyncio_task_behind(
    database: Storage,
):  # proves: FX-2, FX-12
    till = Till()
    till.next(till.hold)
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        await run.effect(pay, Order())

    async with database.open() as other:
        async with database.open() as rt:
            task = asyncio.ensure_future(rt.run(flow, id="r"))
            await till.is_held.wait()
            await cancel_twice(task)
            (outlasting,) = rt._ready().outlasting.values()
        assert outlasting.cancelled()
        till.let_go.set()
        for _ in range(10):
            await asyncio.sleep(0)
        assert [effect.state for effect in await other.effects("r")] == ["in_doubt"]
    assert till.times == [1]


async def test_a_flow_that_cancels_itself_is_no_caller_who_went_away(storage: Storage):  # proves: RUN-15
    """As a task group does whose member failed, and leaves behind that it did."""

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        await run.approve("terms", {"x": 1}, roles={"boss"}, within=timedelta(hours=1))

    async with storage.open() as rt:
        outcome = await rt.run(flow, id="r")
        assert (outcome.status, outcome.waits_for) == ("waiting", "approval")


def count_down(tasks: list[asyncio.Future[Any]], hops: int) -> None:
    """Cancel what is in there by then, after so many turns of the loop."""
    if hops:
        asyncio.get_running_loop().call_soon(count_down, tasks, hops - 1)
    else:
        tasks[0].cancel()


@pytest.mark.parametrize("is_first", [True, False], ids=["first in its turn", "after the run"])
@pytest.mark.parametrize("is_new", [True, False], ids=["new", "started"])
async def test_who_goes_away_at_whatever_moment_makes_nothing_happen_and_holds_nothing(
    is_new: bool, is_first: bool, database: Storage
):  # proves: RUN-15, FX-12
    """At each turn of the loop from the call to the flow's first wait, and some beyond."""
    till, stopped = Till(), list[str]()
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        try:
            await run.step(asyncio.sleep, 3600)
        except BaseException:
            stopped.append(run.id)
            await run.effect(pay, Order())
            raise
        return ""

    async with database.open() as rt, database.open() as other, asyncio.timeout(60):
        for hops in range(40):
            run = f"r-{hops}"
            if not is_new:
                await rt.start(flow, id=run)
            tasks: list[asyncio.Future[Any]] = []
            if is_first:
                count_down(tasks, hops + 1)
            tasks.append(asyncio.ensure_future(rt.run(flow, id=run)))
            if not is_first:
                count_down(tasks, hops)
            with pytest.raises(asyncio.CancelledError):
                await tasks[0]
            with suppress(remit.RunAbsent):
                assert (await other.read(run)).row.worker is None, run
    assert till.arrived == []


@pytest.mark.parametrize("is_elsewhere", [False, True], ids=["here", "elsewhere"])
async def test_who_waited_for_a_turn_that_its_caller_left_takes_one_and_is_not_told_what_was_before(
    is_elsewhere: bool, database: Storage
):  # proves: RUN-5, RUN-13
    till, is_asked, may_answer = Till(), asyncio.Event(), asyncio.Event()
    pay = till.effect()

    async def wanted(order: Any) -> bool:
        is_asked.set()
        await may_answer.wait()
        return True

    rule = remit.Rule(still_wanted=wanted, approval=remit.Approval(roles={"director"}, within=timedelta(hours=8)))

    @remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"pay": rule}))
    async def flow(run: remit.Run) -> int:
        return (await run.effect(pay, Order())).number

    async with database.open() as rt, database.open() as other:
        may_answer.set()
        await rt.grant("user:dana", "director", by="user:root")
        assert (await rt.run(flow, id="r")).waits_for == "approval"
        (ask,) = await rt.inbox()
        await rt.decide(ask.id, "approve", by="user:dana", seen=ask.version)

        is_asked.clear()
        may_answer.clear()
        first = asyncio.ensure_future(rt.run(flow, id="r"))
        await is_asked.wait()
        second = asyncio.ensure_future((other if is_elsewhere else rt).run(flow, id="r"))
        while not (is_elsewhere or rt._ready().under_way):
            await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        may_answer.set()
        assert (await second).value == 1
    assert till.times == [1]


_left: list[Any] = []  # as a process has them until it ends


def test_a_loop_that_was_closed_under_a_turn_holds_the_run_no_longer_than_its_lease(
    tmp_path: Path,
):  # proves: OWN-1, OWN-3
    """A web framework's handler that answers before the run is over, in a loop of its own; its runtime stays open."""
    url, is_begun = f"sqlite:///{tmp_path / 'runs.db'}", asyncio.Event()

    @remit.step
    async def slow() -> int:
        if not is_begun.is_set():
            is_begun.set()
            await asyncio.Event().wait()
        return 1

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> int:
        return int(await run.step(slow))

    async def handle() -> None:
        rt = await remit.open(url, lease_ms=1_000).open()
        _left.extend((rt, asyncio.ensure_future(rt.run(flow, id="r"))))
        await is_begun.wait()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(handle())
    loop.close()

    async def take_over() -> None:
        async with remit.open(url) as rt:
            assert (await asyncio.wait_for(rt.run(flow, id="r"), 10)).value == 1

    asyncio.run(take_over())
