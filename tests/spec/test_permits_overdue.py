"""Permits that are overdue: what was judged held when the intention was written, and not any more when it is called."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import remit
from remit.errors import LeaseLost, StoreClosed
from remit.store.memory import MemoryStore
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.moving import Moving
from tests.support.office import Office, answer, staffed
from tests.support.till import OPEN, Order, Receipt, Till, kinds_of, paying

HOUR = timedelta(hours=1)
LOST = ConnectionError("no answer")


class Late:
    """A commit that waits for an hour: for a file that is held, or a slow server."""

    def __init__(self) -> None:
        self.clock, self.store = MovedClock(), Moving(MemoryStore())

    def open(self) -> remit.Runtime:
        return remit.open(self.store, clock=self.clock)

    async def wait(self) -> None:
        self.clock.move(HOUR)


async def test_nothing_is_sent_when_the_window_was_over_before_the_call():  # proves: GATE-2, FX-11
    late, till = Late(), Till()
    contract = remit.Contract(version="1", resume="anyone", window=HOUR / 2)
    async with late.open() as rt:
        late.store.meanwhile = late.wait
        assert (await rt.run(paying(till.effect(), contract=contract), id="r")).status == "expired"
        (effect,) = await rt.effects("r")
        assert (effect.state, effect.found) == ("did_not_happen", "unsent")
    assert till.arrived == []


async def test_nothing_is_sent_when_the_yes_was_over_before_the_call():  # proves: GATE-2, APR-6, FX-11
    late, office = Late(), Office(remit.Rule(approval=remit.Approval({"director"}, HOUR / 2)))
    async with late.open() as rt:
        await office.go(await staffed(rt))
        asked = await answer(rt)
        late.store.meanwhile = late.wait
        outcome = await office.go(rt)
        assert (outcome.status, outcome.waits_for, office.sent) == ("waiting", "approval", [])
        (ask,) = await rt.inbox()
        assert ask.id != asked.id
        await answer(rt)
        assert (await office.go(rt)).status == "completed"
    assert len(office.sent) == 1


@pytest.mark.parametrize("is_taken_again", [True, False])
async def test_nothing_is_sent_on_what_was_stale_before_the_call(is_taken_again: bool):  # proves: GATE-2, FX-11
    late, till = Late(), Till()

    def now() -> datetime:
        return datetime.fromtimestamp(late.clock.now() / 1e6, UTC)

    def quote() -> Any:
        return 120

    @remit.flow(contract=remit.Contract(version="1", resume="anyone", window=HOUR * 48))
    async def quoted(run: remit.Run) -> int:
        again = quote if is_taken_again else None
        run.evidence("quote", 120, as_of=now(), fresh_for=HOUR / 2, again=again)
        return (await run.effect(till.effect(), Order(), rests_on=["quote"])).amount

    async with late.open() as rt:
        late.store.meanwhile = late.wait
        outcome = await rt.run(quoted, id="r")
        assert outcome.status == ("completed" if is_taken_again else "waiting")
        assert [effect.calls for effect in await rt.effects("r")] == [2 if is_taken_again else 1]
        if is_taken_again:
            assert (await rt.run(quoted, id="r")).value == 100
    assert len(till.arrived) == is_taken_again


async def test_what_was_sent_before_stays_in_doubt_where_it_is_not_sent_again():  # proves: GATE-2, FX-2
    late, till = Late(), Till()

    async def lose(key: str, order: Order) -> None:
        late.store.meanwhile = late.wait
        raise LOST

    till.next(lose)
    contract = remit.Contract(version="1", resume="anyone", window=HOUR / 2)
    async with late.open() as rt:
        flow = paying(till.effect(doubt="resend", sink="dedupes"), contract=contract)
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        assert "EffectSettled" not in await kinds_of(rt, "r")
    assert len(till.arrived) == 1


class Queue:
    """A runtime with one thread, which is busy until it is let go, and a payment that waits for that."""

    def __init__(self, storage: Storage, monkeypatch: pytest.MonkeyPatch, **declared: Any) -> None:
        self.storage, self.let_go, self.paid = storage, threading.Event(), list[str]()
        monkeypatch.setattr("remit.faces.opened.THREADS_MAX", 1)

        @remit.step
        def busy() -> None:
            assert self.let_go.wait(30)

        @remit.effect(**declared)
        def pay(order: Order, *, key: str) -> Receipt:
            self.paid.append(key)
            return Receipt(number=1, amount=order.amount)

        @remit.flow(contract=OPEN)
        async def both(run: remit.Run) -> int:
            _, receipt = await run.gather(run.step(busy), run.effect(pay, Order()))
            return int(receipt.amount)

        self.flow = both

    @asynccontextmanager
    async def waiting(self, rt: remit.Runtime) -> AsyncIterator[asyncio.Task[remit.Outcome]]:
        """The run, with its payment intended and not begun."""
        running = asyncio.create_task(rt.run(self.flow, id="r"))
        try:
            while not rt._ready().outstanding:
                await asyncio.sleep(0)
            yield running
        finally:
            self.let_go.set()


async def test_what_waited_for_a_thread_until_its_runtime_was_closed_never_begins(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
):  # proves: FX-2, OWN-1
    queue = Queue(storage, monkeypatch)
    async with storage.open() as rt, queue.waiting(rt) as running:
        await rt.close()
        queue.let_go.set()
        with pytest.raises(StoreClosed):
            await running
    assert queue.paid == []


async def test_what_waited_for_a_thread_until_its_run_was_lost_never_begins(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
):  # proves: FX-2, OWN-1
    queue = Queue(storage, monkeypatch)
    async with storage.open() as rt:
        async with queue.waiting(rt) as running:
            for lease in rt._ready().keeper._leases.values():
                lease.deadline_ms = 0  # as of a process that was frozen for longer than its lease
            queue.let_go.set()
            with pytest.raises(LeaseLost):
                await running
        assert queue.paid == []
        (effect,) = await rt.effects("r")
        assert (effect.state, effect.found) == ("did_not_happen", "unsent"), "which could still be written"
        assert (await rt.run(queue.flow, id="r")).value == 100
    assert len(queue.paid) == 1


async def test_what_was_over_its_time_before_it_had_a_thread_leaves_no_doubt(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
):  # proves: FX-2, FX-13
    queue = Queue(storage, monkeypatch, timeout=timedelta(milliseconds=20))
    async with storage.open() as rt:
        async with queue.waiting(rt) as running:
            while [effect.state for effect in await rt.effects("r")] != ["did_not_happen"] or rt._ready().outstanding:
                await asyncio.sleep(0)
        outcome = await running
        assert outcome.status in ("completed", "waiting", "in_doubt"), "it may have had the thread in the end"
        assert len(queue.paid) == (outcome.status != "waiting"), "and no doubt is left of what never had it"
