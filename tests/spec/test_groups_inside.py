"""Task groups in the user's code: what one leaves counted of its own cancellation is none of the call's or the run's.

Before Python 3.13 a group whose member fails while it is waited for leaves `cancelling()` at 1, also where the
failure was caught.
"""

from __future__ import annotations

import asyncio
import functools
from datetime import timedelta
from typing import Any

import pytest

import remit
from tests.spec.conftest import Storage
from tests.support.till import OPEN, Order, Till

HOUR = timedelta(hours=1)


async def group() -> None:
    """Cancels the task that it is in, as any group does whose member fails, and lets nobody hear of it."""

    async def fail() -> None:
        await asyncio.sleep(0)
        raise OSError("one of two is down")

    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(fail())
            both.create_task(asyncio.sleep(0.001))
    except* OSError:
        pass


async def cancelled_inside() -> None:
    """Awaits what was cancelled inside: a failure like any other."""
    inner = asyncio.ensure_future(asyncio.sleep(60))
    inner.cancel()
    await inner


class Shop:
    """Pays once the way is free, with a group in one place."""

    def __init__(self, place: str) -> None:
        self.place, self.till, self.looks = place, Till(), 0
        self.is_ready = False

        async def use(at: str) -> None:
            if at == place:
                await group()

        async def probe(order: Order, *, key: str) -> Any:
            await use("probe")
            return remit.Landed(self.till.paid[key][0])

        async def when(_: Order) -> bool:
            await use("when")
            return False

        async def wanted(_: Order) -> bool:
            await use("still_wanted")
            return True

        async def again() -> int:
            await use("again")
            return 1

        @remit.step
        async def gate() -> int:
            if not self.is_ready:
                raise OSError("first turn")
            return 1

        @remit.step
        async def look() -> int:
            self.looks += 1
            await use("step")
            return 120

        if place == "probe":
            self.till.next(self.till.pay_and_raise(ConnectionError("no answer")))
        declared: dict[str, Any] = {"doubt": "probe", "probe": probe} if place == "probe" else {}
        pay = self.till.effect(**declared)
        rule = remit.Rule(
            approval=remit.Approval({"director"}, HOUR, when=when), still_wanted=wanted, evidence={"quote"}
        )

        @remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"pay": rule}))
        async def buying(run: remit.Run) -> int:
            run.evidence("quote", 1, as_of=run.now(), fresh_for=HOUR, again=again)
            await run.step(gate)
            await use("flow")
            seen: int = await run.step(look)
            await run.effect(pay, Order())
            return seen

        self.flow = buying


@pytest.mark.parametrize("place", ["flow", "step", "when", "still_wanted", "again", "probe"])
async def test_a_group_in_code_of_the_user_s_is_not_taken_for_a_cancellation(
    place: str, storage: Storage
):  # proves: RUN-15, RUN-3, FX-4, GATE-2
    shop = Shop(place)
    async with storage.open() as rt:
        with pytest.raises(remit.StepError, match="first turn"):
            await rt.run(shop.flow, id="r")
        shop.is_ready = True
        outcome = await rt.run(shop.flow, id="r")
        if place == "probe" and outcome.status == "in_doubt":
            outcome = await rt.run(shop.flow, id="r")
        assert (outcome.status, outcome.value) == ("completed", 120)
    assert (shop.looks, shop.till.times) == (1, [1])


async def test_a_run_with_a_group_in_it_parks_and_ends_as_any_other(storage: Storage):  # proves: RUN-15, GATE-3
    @remit.flow(contract=OPEN)
    async def asking(run: remit.Run) -> None:
        await group()
        await run.approve("terms", {"x": 1}, roles={"director"}, within=HOUR)

    till = Till()
    pay, rule = till.effect(), remit.Rule(ceiling=remit.Ceiling("amount", max=50, per="effect"))

    @remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"pay": rule}))
    async def paying(run: remit.Run) -> None:
        await group()
        await run.effect(pay, Order(amount=100))

    @remit.flow(contract=OPEN)
    async def failing(run: remit.Run) -> None:
        await group()
        await cancelled_inside()

    async with storage.open() as rt:
        asked = await rt.run(asking, id="asking")
        assert (asked.status, asked.waits_for) == ("waiting", "approval")
        assert (await rt.run(paying, id="paying")).code == "ceiling_exceeded"
        with pytest.raises(remit.StepError):
            await rt.run(failing, id="failing")
        assert (await rt.why("failing")).code == "step.failed"


async def test_a_call_that_met_a_cancellation_inside_failed_and_one_that_was_cancelled_did_not(
    storage: Storage,
):  # proves: RUN-6, FX-2
    """Whatever a group had left counted before."""
    begun = asyncio.Event()

    @remit.step
    async def meets() -> None:
        await group()
        await cancelled_inside()

    @remit.step
    async def swallows() -> int:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await group()
        return 1

    @remit.effect
    async def lost(order: Order, *, key: str) -> None:
        await group()
        await cancelled_inside()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        with pytest.raises(remit.StepError):
            await run.step(meets)
        task = asyncio.ensure_future(run.step(swallows))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await run.effect(lost, Order())
        return "heard"

    async with storage.open() as rt:
        outcome = await rt.run(flow, id="r")
        assert (outcome.status, outcome.waits_for) == ("in_doubt", "doubt")
        (effect,) = await rt.effects("r")
        assert effect.state == "in_doubt"


async def test_what_a_step_sets_in_its_context_stays_there(storage: Storage):  # proves: RUN-2
    """A replay does not run it, so the flow must not see it in the first run either."""
    from contextvars import ContextVar

    colour: ContextVar[str] = ContextVar("colour", default="none")

    @remit.step
    async def paint() -> str:
        colour.set("red")
        return colour.get()

    @remit.step
    async def paint_slowly() -> str:
        await asyncio.sleep(0)
        colour.set("blue")
        return colour.get()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> list[str]:
        return [await run.step(paint), colour.get(), await run.step(paint_slowly), colour.get()]

    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).value == ["red", "none", "blue", "none"]


async def test_a_step_may_wait_whatever_it_is_made_of(storage: Storage):  # proves: RUN-2
    """Only code that awaits nothing runs through without an asyncio task of its own; whatever calls other code may."""

    async def slow(number: int) -> int:
        await group()
        return number

    async def doubled(number: int) -> int:
        return 2 * number

    def wrapped(fn: Any) -> Any:
        @functools.wraps(fn)
        def call(number: int) -> Any:
            return fn(number)

        return call

    class Called:
        async def __call__(self, number: int) -> int:
            return await slow(number)

    made = [slow, doubled, wrapped(slow), wrapped(doubled), functools.partial(slow), Called(), Called().__call__]
    steps = [remit.Step(f"s{at}", fn) for at, fn in enumerate(made)]

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> list[int]:
        return [await run.step(step, 3) for step in steps]

    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).value == [3, 6, 3, 6, 3, 3, 3]


async def test_code_that_awaits_nothing_may_fail_and_exit(storage: Storage):  # proves: RUN-2, RUN-6
    @remit.step
    async def failing() -> None:
        raise OSError("down")

    @remit.step
    async def exiting() -> None:
        raise SystemExit(3)

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        with pytest.raises(remit.StepError, match="down"):
            await run.step(failing)
        await run.step(exiting)

    async with storage.open() as rt:
        with pytest.raises(remit.StepError, match="SystemExit 3"):
            await rt.run(flow, id="r")
