"""Calls that are cut short: an async function that handed its call to a thread ends, and its thread goes on.

Nobody hears when that is over, so only the end of the process proves that nothing of it is still to be sent.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

import remit
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.till import Order, Receipt, Till, find_out, paying

SECOND = timedelta(seconds=1)
SOON = timedelta(milliseconds=50)
Send = Callable[[Callable[[], Receipt]], Awaitable[Receipt]]


class Client:
    """A client with threads of its own: slow once, and it pays then, whoever waits for that."""

    def __init__(self) -> None:
        self.till, self.let_go = Till(), threading.Event()
        self.threads: list[threading.Thread] = []

    def pay(self, key: str, order: Order) -> Receipt:
        if not self.threads:
            self.threads.append(threading.current_thread())
            assert self.let_go.wait(30)
        return self.till.pay(key, order)

    def effect(self, send: Send, **declared: Any) -> remit.Effect[Receipt]:
        @remit.effect(doubt="probe", probe=self.till.probe, lands_within=SECOND, **declared)
        async def pay(order: Order, *, key: str) -> Receipt:
            return await send(lambda: self.pay(key, order))

        return pay


async def in_thread(call: Callable[[], Receipt]) -> Receipt:
    return await asyncio.to_thread(call)


async def with_a_limit_of_its_own(call: Callable[[], Receipt]) -> Receipt:
    async with asyncio.timeout(SOON.total_seconds()):
        return await asyncio.to_thread(call)


async def with_an_error_of_its_own(call: Callable[[], Receipt]) -> Receipt:
    try:
        return await with_a_limit_of_its_own(call)
    except TimeoutError:
        raise ConnectionError("the bank does not answer") from None


async def in_a_group(call: Callable[[], Receipt]) -> Receipt:
    async with asyncio.TaskGroup() as group:
        paying = group.create_task(with_a_limit_of_its_own(call))
    return paying.result()


@pytest.mark.parametrize(
    "send", [in_thread, with_a_limit_of_its_own, with_an_error_of_its_own, in_a_group], ids=lambda send: send.__name__
)
async def test_what_a_call_that_was_cut_short_left_in_a_thread_is_not_sent_beside(
    send: Send, database: Storage
):  # proves: FX-2, OWN-1
    """Its runtime is closed, and its run taken over; the time in which it lands does not begin before it is sent."""
    client, clock = Client(), MovedClock()
    flow = paying(client.effect(send, timeout=SOON if send is in_thread else None))
    try:
        for _ in range(3):
            async with database.open(clock=clock) as rt:
                outcome = await rt.run(flow, id="r")
                assert outcome.status == "in_doubt" and "it was cut short, and a thread" in outcome.reason
                assert not [worker for each in (await rt.show("r")).view.attempts for worker in each.dead]
            clock.move(SECOND * 2)
        assert not client.till.paid
    finally:
        client.let_go.set()
    while not client.till.paid:
        await asyncio.sleep(0.005)
    async with database.open(clock=clock) as rt:
        assert (await rt.run(flow, id="r")).value == [100]
    assert client.till.times == [1]


async def test_a_loop_that_ends_under_a_call_leaves_its_thread_at_it_too(database: Storage):  # proves: FX-2, OWN-1
    client, clock = Client(), MovedClock()
    pool = ThreadPoolExecutor(1)  # else the loop waits for it

    async def in_pool(call: Callable[[], Receipt]) -> Receipt:
        return await asyncio.get_running_loop().run_in_executor(pool, call)

    flow = paying(client.effect(in_pool))

    async def left_alone() -> asyncio.Task[remit.Outcome]:
        async with database.open(clock=clock) as rt:
            running = asyncio.create_task(rt.run(flow, id="r"))
            while not client.threads:
                await asyncio.sleep(0.005)
        return running

    try:
        running = await asyncio.to_thread(asyncio.run, left_alone())
        assert running.cancelled() or running.exception() is not None
        for _ in range(3):
            async with database.open(clock=clock) as rt:
                outcome = await rt.run(flow, id="r")
                assert outcome.status == "in_doubt" and "it was cut short, and a thread" in outcome.reason
            clock.move(SECOND * 2)
        assert len(client.threads) == 1 and not client.till.paid
    finally:
        client.let_go.set()
        pool.shutdown()
    assert client.till.times == [1]


async def test_a_plain_function_has_returned_when_its_thread_is_over_whatever_it_raised(
    database: Storage,
):  # proves: FX-2, OWN-1
    """A time-out of its own socket is such an end. Its thread is Remit's, and nothing of it goes on."""
    till, clock = Till(), MovedClock()
    raised: list[BaseException] = [TimeoutError("the socket's")]

    @remit.effect(doubt="probe", probe=till.probe, lands_within=SECOND)
    def pay(order: Order, *, key: str) -> Receipt:
        if raised:
            raise raised.pop()
        return till.pay(key, order)

    for _ in range(2):
        async with database.open(clock=clock) as rt:
            outcome = await rt.run(paying(pay), id="r")
            assert outcome.status == "in_doubt" and "cut short" not in outcome.reason
        clock.move(SECOND * 2)
    async with database.open(clock=clock) as rt:
        assert (await rt.run(paying(pay), id="r")).value == [100]


async def test_what_a_plain_function_gave_to_await_is_cut_short_like_an_async_one(
    database: Storage,
):  # proves: FX-2, OWN-1
    client, clock = Client(), MovedClock()

    @remit.effect(doubt="probe", probe=client.till.probe, lands_within=SECOND)
    def pay(order: Order, *, key: str) -> Any:
        return with_a_limit_of_its_own(lambda: client.pay(key, order))

    try:
        for _ in range(3):
            async with database.open(clock=clock) as rt:
                assert (await rt.run(paying(pay), id="r")).status == "in_doubt"
            clock.move(SECOND * 2)
        assert len(client.threads) == 1 and not client.till.paid
    finally:
        client.let_go.set()


@pytest.mark.parametrize("says", [remit.Declined, remit.DidNotHappen])
async def test_whoever_is_over_its_time_and_says_what_became_of_it_is_believed(
    says: type[Exception], storage: Storage
):  # proves: FX-2
    async def sure(call: Callable[[], Receipt]) -> Receipt:
        try:
            async with asyncio.timeout(0):
                await asyncio.sleep(1)
        except TimeoutError as exc:
            raise says("nothing was sent yet") from exc
        raise AssertionError("it was over its time")

    client = Client()
    async with storage.open() as rt:
        with pytest.raises(remit.EffectFailed):
            await rt.run(paying(client.effect(sure)), id="r")
        (effect,) = await rt.effects("r")
        assert effect.key not in rt._ready().lock.cut


async def test_of_a_call_that_was_cut_short_a_person_is_told_so_and_believed(storage: Storage):  # proves: FX-9
    """Whether a thread is at it nobody can know. Most clients leave none, and their doubts wait for no restart."""
    till = Till()
    till.next(till.hold)
    flow = paying(till.effect(timeout=SOON))
    async with storage.open() as rt:
        outcome = await rt.run(flow, id="r")
        assert outcome.status == "in_doubt" and "it was cut short, and a thread" in outcome.reason
        await find_out(rt, "r", "did_not_happen")
        assert (await rt.run(flow, id="r")).value == [100]
    assert (len(till.arrived), till.times) == (2, [1])
