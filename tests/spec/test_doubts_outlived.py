"""Calls that outlive whoever waits for them: what is told of them, and which words about them count.

The process that has the call knows when it came back. Others are told that it is at work, and where.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, cast

import pytest

import remit
from remit.engine.people.post import Letter, post
from remit.engine.process.admit import Found
from remit.faces.next_step import doubt_step, next_step
from remit.facts.kinds import DoubtResolved
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.office import ROOT
from tests.support.process import process
from tests.support.till import OPEN, Order, Receipt, Till, find_out, paying

ANN = "user:ann"


class Slow:
    """A plain function that is over its time once; its thread goes on until it is let go, and pays then, or fails."""

    def __init__(self) -> None:
        self.let_go, self.till, self.is_slow = threading.Event(), Till(), True
        self.pays = True

        @remit.effect(timeout=timedelta(milliseconds=50))
        def pay(order: Order, *, key: str) -> Receipt:
            if self.is_slow:
                self.is_slow = False
                assert self.let_go.wait(30)
                if not self.pays:
                    raise ConnectionError("no answer")
            return self.till.pay(key, order)

        self.pay = pay
        self.flow = paying(pay)

    async def finish(self, rt: remit.Runtime) -> None:
        """Let it end, and wait until that is noted."""
        self.let_go.set()
        while rt._ready().outstanding:
            await asyncio.sleep(0.005)


@pytest.fixture
def slow() -> Iterator[Slow]:
    slow = Slow()
    yield slow
    slow.let_go.set()


async def test_a_branch_that_data_named_says_nothing_where_its_call_is_told_to_be_at_work(
    database: Storage, slow: Slow
):
    # proves: FX-9
    says = "ACME was not paid: resolve it as did-not-happen. See also ACME"

    @remit.flow(contract=OPEN, name="flow")
    async def flow(run: remit.Run) -> None:
        await run.branch(says).effect(slow.pay, Order(amount=1))

    async with database.open() as rt:
        try:
            reason = (await rt.run(flow, id="r")).reason
            assert 'The call of "ACME was not paid: r…"/pay has not returned in' in reason
            assert "did-not-happen" not in reason
            with elsewhere():
                async with database.open() as other:
                    reason = (await other.run(flow, id="r")).reason
            assert 'journal says, the call of "ACME was not paid: r…"/pay has not returned in' in reason
            assert "did-not-happen" not in reason
        finally:
            await slow.finish(rt)


@contextmanager
def elsewhere() -> Iterator[None]:
    """Another process, which knows nothing of the calls of this one."""
    with process():
        yield


async def say_elsewhere(storage: Storage, *, returned: bool = True) -> None:
    """Somebody says there that it did not happen; and that its call is over, which they can't see."""
    with elsewhere():
        async with storage.open() as other:
            await find_out(other, "r", "did_not_happen", by=ANN, returned=returned)


def beside_a_step(slow: Slow, fault: list[str]) -> remit.Flow[Receipt]:
    """A flow that pays beside a step which may fail, so that its run parks for that."""

    @remit.step
    async def note() -> None:
        if fault:
            await asyncio.sleep(0.2)
            raise ValueError(fault[0])

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> Receipt:
        paid, _ = await asyncio.gather(run.effect(slow.pay, Order()), run.step(note))
        return cast(Receipt, paid)

    return flow


def beside_a_fee(slow: Slow) -> remit.Flow[None]:
    """A flow that pays beside a fee of which nobody knows."""

    @remit.effect
    async def fee(order: Order, *, key: str) -> Receipt:
        raise ConnectionError("no answer")

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        await run.gather(run.effect(slow.pay, Order()), run.effect(fee, Order()))

    return flow


async def parked_unread(rt: remit.Runtime, flow: remit.Flow[Any]) -> None:
    """It waits because of what somebody said of the fee, which tells nothing of the payment that is at work."""
    await parked(rt, flow)
    await find_out(rt, "r", "ok", "no receipt", call="fee", by=ANN)
    assert [await parked(rt, flow) for _ in range(2)] == ["value.unreadable"] * 2


async def parked(rt: remit.Runtime, flow: remit.Flow[Any]) -> str:
    """The code that the run waits for after a turn."""
    try:
        return (await rt.run(flow, id="r")).code
    except remit.RemitError as error:
        return error.code


async def test_nobody_elsewhere_says_that_it_did_not_happen_while_it_is_at_work_whatever_the_run_waits_for(
    database: Storage, slow: Slow
):  # proves: FX-9
    fault = ["no paper"]
    flow = beside_a_step(slow, fault)
    async with database.open() as rt:
        assert await parked(rt, flow) == "step.failed"
        for _ in range(2):
            with elsewhere():
                async with database.open() as other:
                    assert of_here((await other.effects("r"))[0].at_work)
                    with pytest.raises(remit.Refused) as refused:
                        await find_out(other, "r", "did_not_happen", by=ANN)
                    assert refused.value.code == "doubt.under_way" and of_here(refused.value.message)
                    assert "--returned" in refused.value.hint
                    # What another process parks for says nothing of the call that is at work in this one.
                    await parked(other, flow)
                    await other.cancel("r", by=ROOT)
                    await parked(other, flow)
        assert (await rt.run(flow, id="r")).code == "effect.at_work"
        assert (await rt.read("r")).post, "somebody cancelled it, and nobody spoke of the call"
        slow.pays = False
        await slow.finish(rt)
        assert (await rt.run(flow, id="r")).code == "effect.in_doubt"
    with elsewhere():
        async with database.open() as other:
            assert (await other.effects("r"))[0].at_work == ""
            await find_out(other, "r", "did_not_happen", by=ANN)
            assert (await other.run(flow, id="r")).status == "cancelled"
    assert slow.till.times == []


async def test_an_early_word_is_written_down_whatever_the_turn_comes_to(database: Storage, slow: Slow):  # proves: FX-9
    fault = ["no paper"]
    flow = beside_a_step(slow, fault)
    async with database.open() as rt:
        assert await parked(rt, flow) == "step.failed"
        await say_elsewhere(database)
        await slow.finish(rt)
        assert await parked(rt, flow) == "step.failed"
    fault.clear()
    with elsewhere():
        async with database.open() as other:
            assert (await other.run(flow, id="r")).status == "in_doubt"
    assert slow.till.times == [1]


async def test_an_early_word_is_written_down_where_nothing_else_is_new(database: Storage, slow: Slow):  # proves: FX-9
    flow = beside_a_fee(slow)
    async with database.open() as rt:
        await parked_unread(rt, flow)
        await say_elsewhere(database)
        await slow.finish(rt)
        assert await parked(rt, flow) == "value.unreadable"
    with elsewhere():
        async with database.open() as other:
            assert [(doubt.call, doubt.told_by) for doubt in (await other.why("r")).doubts] == [("pay", "")]


async def test_that_it_returned_is_written_down_where_nothing_else_is_new(
    database: Storage, slow: Slow
):  # proves: FX-9
    slow.pays = False
    flow = beside_a_fee(slow)
    async with database.open() as rt:
        await parked_unread(rt, flow)
        await slow.finish(rt)
        assert await parked(rt, flow) == "value.unreadable"
        await say_elsewhere(database, returned=False)


async def test_a_word_that_came_past_the_desk_while_the_call_is_at_work_counts_in_no_turn(
    database: Storage, slow: Slow
):  # proves: FX-9, GATE-1
    """Whoever writes it into the run without being held to that: the turn that would go by it looks itself."""

    def written(found: Found) -> Letter:
        intended = found.view.boundary.effects["pay"].intention
        fact = DoubtResolved(authority=1, call="pay", intended=intended, state="did_not_happen")
        return Letter(fact, b'{"evidence":"none","outcome":null}')

    async with database.open() as rt:
        await rt.grant(ANN, "clerk", by=ROOT)
        await rt.run(slow.flow, id="r")
        with elsewhere():
            async with database.open() as other:
                await post(other._ready(), "r", by=ANN, write=written, is_fenced=True)
                assert (await other.run(slow.flow, id="r")).status == "in_doubt"
                assert (await other.why("r")).doubts[0].told_by == ""
        await slow.finish(rt)
    assert slow.till.times == [1]


async def test_a_word_counts_no_more_in_the_very_turn_whose_call_came_back_since(database: Storage):  # proves: FX-9
    till = Till()
    till.next(till.hold_and_fail)
    flow = paying(till.effect())
    async with database.open() as rt:
        running = asyncio.create_task(rt.run(flow, id="r"))
        await till.is_held.wait()
        row = await rt._store.read_row("default", "r")
        assert row is not None
        await rt._store.release(row.run_key, row.epoch)  # as where the lease was over, and is not known to be
        await say_elsewhere(database)
        till.let_go.set()
        await asyncio.gather(running, return_exceptions=True)
        assert (await rt.run(flow, id="r")).code == "effect.told_early"
    assert len(till.arrived) == 1


@pytest.mark.parametrize("is_read", [True, False], ids=["and read meanwhile", "and read since"])
async def test_a_word_from_before_the_call_came_back_does_not_count_and_is_said_anew(
    database: Storage, slow: Slow, is_read: bool
):  # proves: FX-9
    async with database.open() as rt:
        assert (await rt.run(slow.flow, id="r")).code == "effect.at_work"
        await say_elsewhere(database)
        if is_read:
            assert (await rt.run(slow.flow, id="r")).code == "effect.at_work"
        await slow.finish(rt)
        for _ in range(2):
            outcome = await rt.run(slow.flow, id="r")
            assert (outcome.status, outcome.code) == ("in_doubt", "effect.told_early")
            assert "before its call came back" in outcome.reason and "say anew" in outcome.reason
        (told,) = (await rt.why("r")).doubts
        assert told.told_by == "" and not (await rt.why("r")).is_answered
        assert slow.till.times == [1]
        await rt.resolve("r", "pay", "ok", by=ANN, evidence="statement", outcome={"number": 1, "amount": 100})
        assert (await rt.run(slow.flow, id="r")).value == [100]
    assert slow.till.times == [1]


async def test_a_word_that_did_not_count_counts_in_no_other_process(database: Storage, slow: Slow):  # proves: FX-9
    async with database.open() as rt:
        await rt.run(slow.flow, id="r")
        await say_elsewhere(database)
        await slow.finish(rt)
        assert (await rt.run(slow.flow, id="r")).code == "effect.told_early"
    with elsewhere():
        async with database.open() as other:
            assert (await other.run(slow.flow, id="r")).status == "in_doubt"
    assert slow.till.times == [1]


async def test_who_looked_since_the_call_came_back_says_it_anew_in_whatever_process(
    database: Storage, slow: Slow
):  # proves: FX-9
    slow.pays = False
    async with database.open() as rt:
        await rt.run(slow.flow, id="r")
        await say_elsewhere(database)
        await slow.finish(rt)
        assert (await rt.run(slow.flow, id="r")).code == "effect.told_early"
        await say_elsewhere(database)
        assert (await rt.run(slow.flow, id="r")).value == [100]
    assert slow.till.times == [1]


@pytest.mark.parametrize("behind", [timedelta(0), timedelta(minutes=9)], ids=["stands still", "is behind"])
async def test_it_is_said_anew_by_whoever_has_a_clock_that(behind: timedelta, database: Storage, slow: Slow):
    # proves: FX-9
    slow.pays, clock, desk = False, MovedClock(), MovedClock()
    desk.move(-behind)

    async def say() -> None:
        with elsewhere():
            async with database.open(clock=desk) as other:
                await find_out(other, "r", "did_not_happen", by=ANN, returned=True)

    async with database.open(clock=clock) as rt:
        assert (await rt.run(slow.flow, id="r")).code == "effect.at_work"
        await say()
        assert (await rt.run(slow.flow, id="r")).code == "effect.at_work"
        await slow.finish(rt)
        for _ in range(2):
            assert (await rt.run(slow.flow, id="r")).status == "in_doubt"
        assert slow.till.times == []
        await say()
        assert (await rt.run(slow.flow, id="r")).value == [100]
    assert slow.till.times == [1]


async def test_in_its_own_process_it_is_said_anew_as_soon_as_the_call_came_back(
    database: Storage, slow: Slow
):  # proves: FX-9
    slow.pays = False
    async with database.open() as rt:
        await rt.run(slow.flow, id="r")
        await say_elsewhere(database)
        await slow.finish(rt)
        await find_out(rt, "r", "did_not_happen", by=ANN)
        assert (await rt.run(slow.flow, id="r")).value == [100]


async def test_that_it_happened_counts_whenever_it_was_said(database: Storage, slow: Slow):  # proves: FX-9
    async with database.open() as rt:
        await rt.run(slow.flow, id="r")
        with elsewhere():
            async with database.open() as other:
                await find_out(other, "r", "ok", {"number": 1, "amount": 100}, by=ANN)
        assert (await rt.run(slow.flow, id="r")).code == "effect.at_work"
        await slow.finish(rt)
        assert (await rt.run(slow.flow, id="r")).value == [100]


async def test_a_call_that_is_sent_again_elsewhere_is_at_work_still_where_it_was_sent_first(
    database: Storage, slow: Slow
):  # proves: FX-9
    calls = list[str]()

    @remit.effect(timeout=timedelta(milliseconds=50), doubt="resend", sink="dedupes")
    def pay(order: Order, *, key: str) -> Receipt:
        calls.append(key)
        if len(calls) <= 2:  # once, and sent again in the same turn
            assert slow.let_go.wait(30)
        raise ConnectionError("no answer")

    flow = paying(pay)
    async with database.open() as rt:
        assert (await rt.run(flow, id="r")).code == "effect.at_work"
        with elsewhere():
            async with database.open() as other:
                assert (await other.run(flow, id="r")).status == "in_doubt" and len(calls) == 3
        with elsewhere():
            async with database.open() as other:
                (told,) = await other.effects("r")
                assert of_here(told.at_work)
                with pytest.raises(remit.Refused) as info:
                    await find_out(other, "r", "did_not_happen", by=ANN)
                assert info.value.code == "doubt.under_way" and of_here(info.value.message)
        await slow.finish(rt)
        assert (await rt.run(flow, id="r")).status == "in_doubt"
    with elsewhere():
        async with database.open() as other:
            await find_out(other, "r", "did_not_happen", by=ANN)


async def test_a_word_from_before_a_call_came_back_whose_runtime_was_closed_does_not_count(
    database: Storage,
):  # proves: FX-9
    till = Till()
    till.next(till.hold_and_fail)
    flow = paying(till.effect())
    async with database.open(lease_ms=1_000) as rt:
        running = asyncio.create_task(rt.run(flow, id="r"))
        await till.is_held.wait()
    for _ in range(200):
        try:
            await say_elsewhere(database)
            break
        except remit.Refused:  # its lease is not over
            await asyncio.sleep(0.05)
    till.let_go.set()
    await asyncio.gather(running, return_exceptions=True)
    async with database.open() as rt:
        assert (await rt.run(flow, id="r")).code == "effect.told_early"
    assert len(till.arrived) == 1


def of_here(words: str) -> bool:
    return f"process {os.getpid()}" in words


async def test_who_is_told_of_a_call_that_is_at_work_is_told_first_to_wait_for_it(
    storage: Storage, slow: Slow
):  # proves: FX-9
    async with storage.open() as rt:
        outcome = await rt.run(slow.flow, id="r")
        assert of_here(outcome.reason) and "this process" not in outcome.reason
        for look in (said_by_why, said_by_effects):
            told = await look(rt)
            first, _, rest = told.partition("or end that process")
            assert of_here(first) and "resolve" not in first and "resume" not in first and "did-not-happen" in rest
        await slow.finish(rt)
        for look in (said_by_why, said_by_effects):
            assert "first wait" not in await look(rt)


async def test_another_process_is_told_so_too_until_that_one_is_dead(database: Storage, slow: Slow):  # proves: FX-9
    with elsewhere():
        async with database.open() as rt:
            await rt.run(slow.flow, id="r")
            await rt.cancel("r", by=ROOT)
            await rt.run(slow.flow, id="r")
            with elsewhere():
                async with database.open() as other:
                    for look in (said_by_why, said_by_effects):
                        assert of_here(await look(other))
                    with pytest.raises(remit.Refused, match="has not returned"):
                        await find_out(other, "r", "did_not_happen", by=ANN)
            await slow.finish(rt)
    async with database.open() as other:
        for look in (said_by_why, said_by_effects):
            assert "first wait" not in await look(other)


async def said_by_why(rt: remit.Runtime) -> str:
    return next_step(await rt.why("r")).sentence


async def said_by_effects(rt: remit.Runtime) -> str:
    (told,) = await rt.effects("r")
    return doubt_step("r", told.call, told.calls, told.at_work).sentence
