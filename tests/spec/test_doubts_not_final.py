"""Doubts that "it did not land" does not end: what was sent may still land, so what holds for it goes on holding."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import remit
from remit.clock import SystemClock, up_us
from remit.engine.process import hours, liveness
from tests.spec.conftest import Storage, storage_of
from tests.support.clock import MovedClock
from tests.support.office import ROOT
from tests.support.process import process
from tests.support.till import OPEN, Order, Receipt, Till, find_out, kinds_of, paying

LOST = ConnectionError("no answer")
DEDUPES = {"doubt": "probe", "sink": "dedupes", "business_key": "invoice"}
BUYER = "agent:buyer"
PER_DAY = remit.Contract(
    version="1",
    resume={"buyer"},
    effects={"pay": remit.Rule(ceiling=remit.Ceiling("amount", max=150, per="day"))},
)


async def cancel(rt: remit.Runtime) -> None:
    await rt.cancel("r", by=ROOT, reason="the wrong supplier")


async def disable(rt: remit.Runtime) -> None:
    await rt.disable(BUYER, by=ROOT)


async def cut(rt: remit.Runtime) -> None:
    await rt.set_policy({"version": "1", "ceilings": {"pay.amount": 50}}, by=ROOT)


@pytest.mark.parametrize("stop", [cancel, disable, cut])
async def test_what_may_still_land_keeps_its_key_and_its_room_where_nothing_is_sent_again(
    storage: Storage, stop: Callable[[remit.Runtime], Awaitable[None]]
):  # proves: FX-2, FX-11, FX-12
    """The other side deduplicates by this run's key, and by no other: what another run pays is a second payment."""
    till = Till()
    till.next(LOST)
    till.probe_says = LOST
    flow = paying(till.effect(**DEDUPES), contract=PER_DAY)
    async with storage.open() as rt:
        for principal in (BUYER, "agent:other"):
            await rt.grant(principal, "buyer", by=ROOT)
        assert (await rt.run(flow, id="r", by=BUYER)).status == "in_doubt"
        till.probe_says = None
        await stop(rt)
        for _ in range(2):
            outcome = await rt.run(flow, id="r", by=BUYER)
            assert outcome.status == "in_doubt" and "remit resolve" in outcome.reason
        other = paying(till.effect(**DEDUPES), contract=PER_DAY)
        refused = await rt.run(other, id="r-2", by="agent:other")
        assert refused.status == "failed" and "ceiling" in refused.reason and "that of r pay" in refused.reason
        (effect,) = await rt.effects("r")
        assert (effect.state, effect.calls, len(till.arrived)) == ("in_doubt", 1, 1)
        till.pay(till.keys[0], Order())  # it lands late
        await find_out(rt, "r", "ok", {"number": 1, "amount": 100})
        assert (await rt.run(flow, id="r", by=BUYER)).status != "in_doubt"
    assert till.times == [1]


async def test_that_a_second_call_sent_nothing_says_nothing_of_the_first(storage: Storage):  # proves: FX-2, FX-11
    till = Till()
    till.next(LOST, remit.DidNotHappen("no connection"))
    flow = paying(till.effect(doubt="resend", sink="dedupes", business_key="invoice"))
    async with storage.open() as rt:
        outcome = await rt.run(flow, id="r")
        assert outcome.status == "in_doubt" and "no connection" in outcome.reason
        assert "EffectSettled" not in await kinds_of(rt, "r")
        assert (await rt.run(flow, id="r")).value == [100]
    assert len(set(till.keys)) == 1


async def test_no_fence_ends_a_doubt_whose_call_has_not_returned_here(storage: Storage):  # proves: FX-2, FX-9
    let_go, is_over, paid = threading.Event(), threading.Event(), list[str]()

    async def find(order: Order, *, key: str, epoch: int) -> Any:
        return remit.Landed(Receipt(number=1, amount=order.amount)) if key in paid else remit.NotLanded()

    @remit.effect(doubt="probe", probe=find, sink="fences", timeout=timedelta(milliseconds=50))
    def pay(order: Order, *, key: str, epoch: int) -> Receipt:
        assert let_go.wait(30)
        paid.append(key)
        is_over.set()
        return Receipt(number=1, amount=order.amount)

    async with storage.open() as rt:
        try:
            for _ in range(2):
                outcome = await rt.run(paying(pay), id="r")
                assert outcome.status == "in_doubt" and "has not returned" in outcome.reason
        finally:
            let_go.set()
            assert await asyncio.to_thread(is_over.wait, 30)
        assert (await rt.run(paying(pay), id="r")).value == [100]
    assert len(paid) == 1


def together(till: Till) -> Callable[[str, Order], Any]:
    """Loses its answer when two of them are under way, that of the first one first."""

    async def lose(key: str, order: Order) -> None:
        if len(till.arrived) == 2:
            till.let_go.set()
            for _ in range(20):
                await asyncio.sleep(0)
        await till.let_go.wait()
        raise LOST

    return lose


async def test_two_that_are_sent_again_do_not_wait_for_each_other(storage: Storage):  # proves: FX-2, FX-11
    till = Till()
    till.next(together(till), together(till), LOST)
    pay = till.effect(doubt="resend", sink="dedupes")

    @remit.flow(contract=OPEN)
    async def both(run: remit.Run) -> list[int]:
        one, other = Order(invoice="one"), Order(invoice="other")
        return [receipt.amount for receipt in await run.gather(run.effect(pay, one), run.effect(pay, other))]

    async with storage.open() as rt:
        assert (await rt.run(both, id="r")).status == "in_doubt"
        assert (await rt.run(both, id="r")).value == [100, 100]
    assert (till.times, till.calls) == ([1, 1], {"one": 3, "other": 2})


async def test_one_that_is_sent_again_waits_for_an_earlier_doubt(storage: Storage):  # proves: FX-2, FX-11
    till = Till()
    till.next(together(till), together(till))
    tell, pay = till.effect("tell"), till.effect(doubt="resend", sink="dedupes")

    @remit.flow(contract=OPEN)
    async def both(run: remit.Run) -> list[int]:
        calls = run.effect(tell, Order(invoice="one")), run.effect(pay, Order(invoice="other"))
        return [receipt.amount for receipt in await run.gather(*calls)]

    async with storage.open() as rt:
        outcome = await rt.run(both, id="r")
        assert outcome.status == "in_doubt" and "remit resolve" in outcome.reason
        assert till.calls == {"one": 1, "other": 1}
        await find_out(rt, "r", "ok", {"number": 1, "amount": 100}, call="tell")
        assert (await rt.run(both, id="r")).value == [100, 100]
    assert till.calls == {"one": 1, "other": 2}


MINUTE = timedelta(minutes=1)


async def test_the_time_to_land_is_counted_from_when_the_sender_was_proven_dead(
    database: Storage, clock: MovedClock
):  # proves: FX-2, FX-5
    """It may have worked at it for long before it sent: when it intended to says nothing of when it sent."""
    till = Till()
    till.next(LOST)
    flow = paying(till.effect(doubt="probe", lands_within=MINUTE))
    with process():
        async with database.open(clock=clock) as rt:
            outcome = await rt.run(flow, id="r")
            assert "once its sender is proven dead, which it is not before this process has ended" in outcome.reason
    clock.move(timedelta(hours=1))
    for _ in range(2):
        async with database.open(clock=clock) as rt:
            outcome = await rt.run(flow, id="r")
            assert outcome.status == "in_doubt" and "may still land until 2026-01-05 10:01:00 UTC" in outcome.reason
            clock.move(MINUTE / 2)
    clock.move(timedelta(microseconds=1))
    async with database.open(clock=clock) as rt:
        assert (await rt.run(flow, id="r")).value == [100]
        dead = [each.dead for each in (await rt.show("r")).view.attempts]
    assert ([len(each) for each in dead], len(till.arrived)) == ([0, 1, 0], 2)


@pytest.mark.parametrize("when", ["between two turns", "in the turn that proved it", "and another container goes on"])
async def test_a_clock_that_is_set_forward_ends_no_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
):  # proves: FX-2, FX-5
    """The store's clock is the machine's, so nothing else tells time but how long that has been up."""
    database, till, is_forward = storage_of("sqlite", tmp_path, lambda: ""), Till(), False
    till.next(LOST)
    pay = till.effect(doubt="probe", lands_within=MINUTE)
    now = SystemClock.now
    monkeypatch.setattr(SystemClock, "now", lambda self: now(self) + is_forward * 90_000_000)

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> int:
        nonlocal is_forward
        if when == "in the turn that proved it" and till.arrived:
            is_forward = True
            await rt.run(paying(Till().effect(name="other")), id="other")  # which looks at the store's clock anew
        return (await run.effect(pay, Order())).amount

    with process():
        async with database.open(lease_ms=600_000) as rt:
            await rt.run(flow, id="r")
    async with database.open(lease_ms=600_000) as rt:
        assert (await rt.run(flow, id="r")).status == "in_doubt"
    is_forward = True
    if when == "and another container goes on":
        monkeypatch.setattr(liveness, "_host", lambda: f"{liveness.boot_of(host())}/1")
    async with database.open(lease_ms=600_000) as rt:
        outcome = await rt.run(flow, id="r")
        assert outcome.status == "in_doubt" and "more: the clock was set forward since" in outcome.reason
    assert len(till.arrived) == 1

    monkeypatch.setattr(hours.Hours, "up", lambda self: (up_us() or 0) + MINUTE // timedelta(microseconds=1))
    async with database.open(lease_ms=600_000) as rt:
        assert (await rt.run(flow, id="r")).value == 100


host = liveness._host


async def test_after_a_restart_of_the_machine_the_clocks_alone_tell(
    database: Storage, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
):  # proves: FX-2, FX-5
    """It has been up for less than the time that was noted, and by another boot that says nothing."""
    till = Till()
    till.next(LOST)
    flow = paying(till.effect(doubt="probe", lands_within=MINUTE))
    ups = [3_600_000_000]
    monkeypatch.setattr(hours.Hours, "up", lambda self: ups[-1])
    with process():
        async with database.open(clock=clock) as rt:
            await rt.run(flow, id="r")
    async with database.open(clock=clock) as rt:
        assert (await rt.run(flow, id="r")).status == "in_doubt"
    ups.append(5_000_000)
    monkeypatch.setattr(liveness, "_host", lambda: "another boot/1")
    clock.move(2 * MINUTE)
    async with database.open(clock=clock) as rt:
        assert (await rt.run(flow, id="r")).value == [100]


async def test_each_who_was_to_send_it_has_to_be_dead(database: Storage, clock: MovedClock):  # proves: FX-2, FX-5, FX-8
    """What was sent again was sent twice, and the first request may land when the second sender is long dead."""
    till = Till()
    till.next(LOST, LOST)
    flow = paying(till.effect(lands_within=MINUTE, **DEDUPES))
    with process():
        async with database.open(clock=clock) as alive:
            till.probe_says = LOST
            assert (await alive.run(flow, id="r")).status == "in_doubt"
            till.probe_says = None
            with process():
                async with database.open(clock=clock) as dies:
                    assert (await dies.run(flow, id="r")).status == "in_doubt"
            assert len(till.arrived) == 2
            with process():
                async with database.open(clock=clock) as rt:
                    await rt.cancel("r", by=ROOT, reason="the wrong supplier")
                    for _ in range(2):
                        assert (await rt.run(flow, id="r")).status == "in_doubt"
                        clock.move(timedelta(hours=1))
    async with database.open(clock=clock) as rt:
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        clock.move(MINUTE + timedelta(microseconds=1))
        assert (await rt.run(flow, id="r")).status == "cancelled"
        (effect,) = await rt.effects("r")
        assert (effect.state, effect.found) == ("did_not_happen", "probe")


async def test_a_death_is_written_down_where_nothing_else_is_new(
    database: Storage, clock: MovedClock
):  # proves: FX-2, FX-5
    till = Till()
    till.next(LOST)
    till.probe_says = OSError("the bank's query is down")
    flow = paying(till.effect(doubt="probe", lands_within=MINUTE))
    with process():
        async with database.open(clock=clock) as rt:
            await rt.run(flow, id="r")
            known = await rt.run(flow, id="r")
    for entries in (2, 0):
        before = await kinds_of_stored(database, "r")
        async with database.open(clock=clock) as rt:
            assert (await rt.run(flow, id="r")).reason == known.reason
        assert len(await kinds_of_stored(database, "r")) == len(before) + entries
    clock.move(2 * MINUTE)
    till.probe_says = None
    async with database.open(clock=clock) as rt:
        assert (await rt.run(flow, id="r")).value == [100]


async def test_what_lands_while_the_other_side_answers_is_not_in_its_answer(
    database: Storage, clock: MovedClock
):  # proves: FX-2
    """It looked within the time in which what was sent may land, and says so when that is over."""
    till = Till()

    async def find_slowly(order: Order, *, key: str) -> Any:
        said = await till.probe(order, key=key)
        if len(till.probed) == 2:
            till.pay(key, order)  # after it looked
            clock.move(2 * MINUTE)
        return said

    till.next(LOST)
    flow = paying(till.effect(doubt="probe", probe=find_slowly, lands_within=MINUTE))
    with process():
        async with database.open(clock=clock) as rt:
            assert (await rt.run(flow, id="r")).status == "in_doubt"
    async with database.open(clock=clock, lease_ms=600_000) as rt:
        outcome = await rt.run(flow, id="r")
        assert outcome.status == "in_doubt" and "may still land until" in outcome.reason
        assert (await rt.run(flow, id="r")).value == [100]
    assert (len(till.arrived), till.times) == (1, [1])


async def test_a_call_that_returns_while_the_other_side_answers_may_have_landed_since(
    storage: Storage,
):  # proves: FX-2, FX-9
    let_go, paid = threading.Event(), list[str]()

    async def find(order: Order, *, key: str, epoch: int) -> Any:
        is_there = key in paid
        if not let_go.is_set() and epoch > 1:
            let_go.set()
            while rt._ready().outstanding:
                await asyncio.sleep(0.005)
        return remit.Landed(Receipt(number=1, amount=order.amount)) if is_there else remit.NotLanded()

    @remit.effect(doubt="probe", probe=find, sink="fences", timeout=timedelta(milliseconds=50))
    def pay(order: Order, *, key: str, epoch: int) -> Receipt:
        assert let_go.wait(30)
        paid.append(key)
        return Receipt(number=1, amount=order.amount)

    async with storage.open() as rt:
        try:
            for _ in range(2):
                assert (await rt.run(paying(pay), id="r")).status == "in_doubt"
        finally:
            let_go.set()
        assert (await rt.run(paying(pay), id="r")).value == [100]
    assert len(paid) == 1


async def kinds_of_stored(storage: Storage, run: str) -> list[str]:
    async with storage.open() as rt:
        return await kinds_of(rt, run)
