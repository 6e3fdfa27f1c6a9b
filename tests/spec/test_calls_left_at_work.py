"""Calls left at work: a function ends, and a thread or a task that it handed its call to goes on.

Nobody sees those, or hears when they are over. So only the end of the process proves that nothing is to be sent.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import timedelta
from typing import Any

import pytest

import remit
from remit.errors import StoreClosed
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.process import process
from tests.support.till import Order, Receipt, Till, find_out, paying

SECOND = timedelta(seconds=1)
SOON = 0.05  # seconds
NOT_YET = "once its sender is proven dead, which it is not before this process has ended"


class Client:
    """A client with threads of its own: slow once, and it pays then, whoever waits for that. Or its process dies."""

    def __init__(self) -> None:
        self.till, self.let_go, self.is_dead = Till(), threading.Event(), False
        self.pool = ThreadPoolExecutor(4)
        self.threads: list[threading.Thread] = []

    def pay(self, key: str, order: Order) -> Receipt:
        if not self.threads:
            self.threads.append(threading.current_thread())
            assert self.let_go.wait(30)
            if self.is_dead:
                raise ConnectionError("its process died before it sent anything")
        return self.till.pay(key, order)

    def effect(self, send: Any, **declared: Any) -> remit.Effect[Receipt]:
        declare = remit.effect(name="pay", doubt="probe", probe=self.till.probe, lands_within=SECOND, **declared)

        def plain(order: Order, *, key: str) -> Receipt:
            receipt: Receipt = send(self.pool, lambda: self.pay(key, order))
            return receipt

        async def awaited(order: Order, *, key: str) -> Receipt:
            receipt: Receipt = await send(self.pool, lambda: self.pay(key, order))
            return receipt

        return declare(awaited if asyncio.iscoroutinefunction(send) else plain)

    def end(self) -> None:
        self.let_go.set()
        self.pool.shutdown()


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Its threads are let go before the loop waits for them."""
    client = Client()
    yield client
    client.end()


async def in_thread(_pool: ThreadPoolExecutor, call: Callable[[], Receipt]) -> Receipt:
    return await asyncio.to_thread(call)


async def with_a_limit_of_its_own(_pool: ThreadPoolExecutor, call: Callable[[], Receipt]) -> Receipt:
    async with asyncio.timeout(SOON):
        return await asyncio.to_thread(call)


async def with_an_error_of_its_own(_pool: ThreadPoolExecutor, call: Callable[[], Receipt]) -> Receipt:
    paying = asyncio.ensure_future(asyncio.to_thread(call))
    done, _ = await asyncio.wait({paying}, timeout=SOON)
    if not done:
        raise ConnectionError("the bank does not answer")
    return paying.result()


async def beside_one_that_fails(_pool: ThreadPoolExecutor, call: Callable[[], Receipt]) -> Receipt:
    async def audit() -> None:
        await asyncio.sleep(SOON)
        raise ConnectionError("the log of the audit is away")

    receipt, _ = await asyncio.gather(asyncio.to_thread(call), audit())
    return receipt


def plainly_for_so_long(pool: ThreadPoolExecutor, call: Callable[[], Receipt]) -> Receipt:
    return pool.submit(call).result(timeout=SOON)


def plainly_with_an_error_of_its_own(pool: ThreadPoolExecutor, call: Callable[[], Receipt]) -> Receipt:
    sent: Future[Receipt] = pool.submit(call)
    if not wait([sent], SOON).done:
        raise ConnectionError("no acknowledgement in time")
    return sent.result()


SENDS = [
    in_thread,
    with_a_limit_of_its_own,
    with_an_error_of_its_own,
    beside_one_that_fails,
    plainly_for_so_long,
    plainly_with_an_error_of_its_own,
]


def flow_of(client: Client, send: Any) -> remit.Flow[Any]:
    return paying(client.effect(send, timeout=timedelta(seconds=SOON) if send is in_thread else None))


@pytest.mark.parametrize("send", SENDS, ids=lambda send: send.__name__)
async def test_what_a_call_left_in_a_thread_is_not_sent_beside(
    send: Any, client: Client, database: Storage
):  # proves: FX-2, OWN-1
    """Its runtime is closed, and its run taken over; the time in which it lands does not begin before it is sent."""
    clock, flow = MovedClock(), flow_of(client, send)
    for _ in range(3):
        async with database.open(clock=clock) as rt:
            outcome = await rt.run(flow, id="r")
            assert outcome.status == "in_doubt" and NOT_YET in outcome.reason
            assert not [worker for each in (await rt.show("r")).view.attempts for worker in each.dead]
        clock.move(SECOND * 2)
    assert len(client.threads) == 1 and not client.till.paid
    client.let_go.set()
    while not client.till.paid:
        await asyncio.sleep(0.005)
    async with database.open(clock=clock) as rt:
        assert (await rt.run(flow, id="r")).value == [100]
    assert client.till.times == [1]


@pytest.mark.parametrize("keep", [asyncio.shield, lambda task: asyncio.wait({task})], ids=["shield", "wait"])
async def test_what_a_call_left_in_a_task_of_its_loop_is_not_sent_beside(
    keep: Callable[[asyncio.Task[Any]], Any], database: Storage
):  # proves: FX-2
    """Its time is over, and the task goes on; the time in which it lands does not begin before its process ended."""
    till, clock, tasks = Till(), MovedClock(), list[asyncio.Task[Receipt]]()

    async def pay(order: Order, *, key: str) -> Receipt:
        tasks.append(asyncio.create_task(till.hold(key, order)))
        await keep(tasks[-1])
        return tasks[-1].result()

    soon = timedelta(seconds=SOON)
    flow = paying(remit.effect(doubt="probe", probe=till.probe, lands_within=SECOND, timeout=soon)(pay))
    for _ in range(3):
        async with database.open(clock=clock) as rt:
            outcome = await rt.run(flow, id="r")
            assert outcome.status == "in_doubt" and NOT_YET in outcome.reason
        clock.move(SECOND * 2)
    assert len(tasks) == 1 and not till.paid
    till.let_go.set()
    await tasks[0]
    async with database.open(clock=clock) as rt:
        assert (await rt.run(flow, id="r")).value == [100]
    assert till.times == [1]


@pytest.mark.parametrize("send", [in_thread, plainly_for_so_long], ids=lambda send: send.__name__)
async def test_with_its_process_ends_all_that_it_left(
    send: Any, client: Client, database: Storage
):  # proves: FX-2, OWN-1
    clock, flow = MovedClock(), flow_of(client, send)
    with process():
        async with database.open(clock=clock) as rt:
            assert (await rt.run(flow, id="r")).status == "in_doubt"
        client.is_dead = True
        client.let_go.set()
    async with database.open(clock=clock) as rt:
        outcome = await rt.run(flow, id="r")
        assert outcome.status == "in_doubt" and "may still land until" in outcome.reason
        clock.move(SECOND * 2)
        assert (await rt.run(flow, id="r")).value == [100]
    assert client.till.times == [1]


async def test_a_loop_that_ends_under_a_call_leaves_its_thread_at_it_too(
    client: Client, database: Storage
):  # proves: FX-2, OWN-1
    clock = MovedClock()

    async def in_pool(pool: ThreadPoolExecutor, call: Callable[[], Receipt]) -> Receipt:
        return await asyncio.get_running_loop().run_in_executor(pool, call)  # the loop's own it would wait for

    flow = flow_of(client, in_pool)

    async def left_alone() -> asyncio.Task[remit.Outcome]:
        async with database.open(clock=clock) as rt:
            running = asyncio.create_task(rt.run(flow, id="r"))
            while not client.threads:
                await asyncio.sleep(0.005)
        return running

    running = await asyncio.to_thread(asyncio.run, left_alone())
    assert running.cancelled() or isinstance(running.exception(), StoreClosed)
    for _ in range(3):
        async with database.open(clock=clock) as rt:
            outcome = await rt.run(flow, id="r")
            assert outcome.status == "in_doubt" and NOT_YET in outcome.reason
        clock.move(SECOND * 2)
    assert len(client.threads) == 1 and not client.till.paid


async def test_whoever_says_what_became_of_it_is_believed_while_the_process_lives(storage: Storage):  # proves: FX-9
    """Whether a thread is at it nobody can know. Most clients leave none, and their doubts wait for no restart."""
    till = Till()
    till.next(till.hold)
    flow = paying(till.effect(timeout=timedelta(seconds=SOON)))
    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        await find_out(rt, "r", "did_not_happen")
        assert (await rt.run(flow, id="r")).value == [100]
    assert (len(till.arrived), till.times) == (2, [1])
