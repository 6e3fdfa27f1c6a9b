"""Doubts of calls that are at work in another process: what each other one is told, and what stays of a note of that.

The journal says where a call may be at work. Whatever takes that away leaves behind which words rested on it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from datetime import timedelta

import pytest

import remit
from remit.engine.people import resolving
from remit.engine.people.post import Letter, post
from remit.engine.process import liveness
from remit.engine.process.admit import Found
from remit.engine.process.at_work import listed
from remit.engine.process.liveness import place_of
from remit.faces.next_step import next_step
from remit.facts.kinds import DoubtResolved
from tests.spec.conftest import Storage
from tests.spec.test_doubts_outlived import ANN, Slow, elsewhere, of_here, say_elsewhere
from tests.support.clock import MovedClock
from tests.support.office import DORA, ROOT
from tests.support.till import Order, Receipt, Till, find_out, kinds_of, paying

LOST = ConnectionError("no answer")
RECEIPT = {"number": 1, "amount": 100}
HERE = socket.gethostname()


@pytest.fixture
def slow() -> Iterator[Slow]:
    slow = Slow()
    yield slow
    slow.let_go.set()


async def say_past_the_desk(storage: Storage, *, clock: MovedClock | None = None) -> None:
    """Somebody's word that it did not happen is in the run, who was not held to what the journal says of the call."""

    def written(found: Found) -> Letter:
        intended = found.view.boundary.effects["pay"].intention
        fact = DoubtResolved(authority=1, call="pay", intended=intended, state="did_not_happen")
        return Letter(fact, b'{"evidence":"none","outcome":null}')

    with elsewhere():
        async with storage.open(clock=clock) as other:
            await other.grant(ANN, "clerk", by=ROOT)
            await post(other._ready(), "r", by=ANN, write=written, is_fenced=True)


async def run_elsewhere(storage: Storage, flow: remit.Flow[list[int]]) -> remit.Outcome:
    with elsewhere():
        async with storage.open() as other:
            return await other.run(flow, id="r")


@pytest.mark.parametrize("is_read", [True, False], ids=["read meanwhile", "read since"])
async def test_a_word_from_past_the_desk_counts_in_no_process_when_the_call_came_back(
    database: Storage, slow: Slow, is_read: bool
):  # proves: FX-9, GATE-1
    async with database.open() as rt:
        assert (await rt.run(slow.flow, id="r")).code == "effect.at_work"
        await say_past_the_desk(database)
        if is_read:
            assert (await run_elsewhere(database, slow.flow)).code == "effect.at_work"
        await slow.finish(rt)
        assert (await rt.run(slow.flow, id="r")).code == "effect.told_early"
        for _ in range(2):
            assert (await run_elsewhere(database, slow.flow)).code == "effect.told_early"
    assert slow.till.times == [1]


async def test_a_word_from_past_a_desk_whose_clock_is_ahead_counts_in_no_process_when_the_call_came_back(
    database: Storage, slow: Slow
):  # proves: FX-9, GATE-1
    clock, ahead = MovedClock(), MovedClock()
    async with database.open(clock=clock) as rt:
        await rt.run(slow.flow, id="r")
        ahead.move(timedelta(minutes=4))
        await say_past_the_desk(database, clock=ahead)
        await slow.finish(rt)
        assert (await rt.run(slow.flow, id="r")).status == "in_doubt"
        with elsewhere():
            async with database.open(clock=clock) as other:
                for _ in range(2):
                    assert (await other.run(slow.flow, id="r")).code == "effect.told_early"
    assert slow.till.times == [1]


async def test_a_word_from_past_the_desk_counts_in_no_process_when_the_call_s_own_is_dead(
    database: Storage, slow: Slow
):  # proves: FX-9, GATE-1
    """It came back, and may have done it, in a process that died before it could write down what it knew."""
    with elsewhere():
        async with database.open() as rt:
            assert (await rt.run(slow.flow, id="r")).code == "effect.at_work"
            await say_past_the_desk(database)
            await slow.finish(rt)
    for _ in range(2):
        assert (await run_elsewhere(database, slow.flow)).code == "effect.told_early"
    await say_elsewhere(database, returned=False)
    assert (await run_elsewhere(database, slow.flow)).value == [100]


async def test_whoever_goes_on_with_it_elsewhere_or_cancels_it_is_told_which_process_is_still_at_it(
    database: Storage, slow: Slow
):  # proves: FX-9
    async with database.open() as rt:
        await rt.run(slow.flow, id="r")
        with elsewhere():
            async with database.open() as other:
                told = await other.run(slow.flow, id="r")
                assert told.code == "effect.at_work" and of_here(told.reason)
                before = await kinds_of(other, "r")
                assert (await other.run(slow.flow, id="r")).reason == told.reason
                assert await kinds_of(other, "r") == before, "that said nothing new"
                told = await other.cancel("r", by=ROOT)
                assert told.code == "effect.at_work" and of_here(told.reason)
                assert (await other.why("r")).code == "effect.at_work"


async def test_a_process_that_is_dead_is_told_to_nobody(database: Storage, slow: Slow):  # proves: FX-9
    with elsewhere():
        async with database.open() as rt:
            await rt.run(slow.flow, id="r")
            assert (await run_elsewhere(database, slow.flow)).code == "effect.at_work"
            await slow.finish(rt)
    told = await run_elsewhere(database, slow.flow)
    assert told.code == "effect.in_doubt" and "process" not in told.reason


async def test_of_a_dead_process_it_is_said_before_anybody_went_on_with_the_run(database: Storage, slow: Slow):
    # proves: FX-9
    with elsewhere():
        async with database.open() as rt:
            await rt.run(slow.flow, id="r")
            slow.pays = False
            await slow.finish(rt)
    await say_elsewhere(database, returned=False)
    assert (await run_elsewhere(database, slow.flow)).value == [100]


async def test_a_worker_that_came_to_the_call_while_somebody_spoke_may_be_at_it(
    database: Storage, slow: Slow, monkeypatch: pytest.MonkeyPatch
):  # proves: FX-9
    async def before(host: object, workers: object) -> dict[str, str]:
        return {}

    monkeypatch.setattr(resolving, "places_of", before)
    async with database.open() as rt:
        await rt.run(slow.flow, id="r")
        with pytest.raises(remit.Refused, match="has not returned in process"):
            await say_elsewhere(database, returned=False)
        await slow.finish(rt)


async def test_a_call_that_began_anew_is_at_work_no_more_where_it_was_before(database: Storage, slow: Slow):
    # proves: FX-9
    calls = list[str]()

    @remit.effect(timeout=slow.pay.timeout)
    def pay(order: Order, *, key: str) -> Receipt:
        calls.append(key)
        if len(calls) == 1:
            assert slow.let_go.wait(30)
        raise LOST

    flow = paying(pay)
    async with database.open() as rt:
        assert (await rt.run(flow, id="r")).code == "effect.at_work"
        await say_elsewhere(database)
        told = await run_elsewhere(database, flow)
        assert (told.code, len(calls)) == ("effect.in_doubt", 2)
        await slow.finish(rt)


PLACES = {
    "another boot/1": f"of another machine, or of {HERE} before its last start",
    "{boot}/1": f"of another container on the machine of {HERE}",
    "": "of a machine that nobody can tell",
}


@pytest.mark.parametrize("host", PLACES)
async def test_whoever_looks_where_that_process_is_not_is_told_so(
    database: Storage, slow: Slow, host: str, monkeypatch: pytest.MonkeyPatch
):  # proves: FX-9
    where = host.format(boot=liveness.boot_of(liveness._host()))
    async with database.open() as rt:
        await rt.run(slow.flow, id="r")
        with elsewhere(), monkeypatch.context() as patched:
            patched.setattr(liveness, "_host", lambda: where)
            async with database.open() as other:
                place = f"process {os.getpid()} (worker {rt._ready().worker}) {PLACES[host]}"
                assert (await other.effects("r"))[0].at_work == place
                told = await other.run(slow.flow, id="r")
                assert told.code == "effect.at_work" and place in told.reason
                assert place in next_step(await other.why("r")).sentence
                with pytest.raises(remit.Refused) as refused:
                    await find_out(other, "r", "did_not_happen", by=ANN)
                assert place in refused.value.message and "says nothing of another machine" in refused.value.hint
        await slow.finish(rt)


async def test_processes_of_one_number_on_two_machines_are_two(database: Storage, slow: Slow):  # proves: FX-9

    ours, theirs = liveness._host(), "another boot/1"
    here, there = place_of("7-aaaaaaaaaaaa-1", ours), place_of("7-bbbbbbbbbbbb-1", theirs)
    assert here == f"process 7 on {HERE}" and listed([here, there, here]) == f"{here} and {there}"
    assert place_of("7-cccccccccccc-1", theirs) != there


async def test_whoever_ends_the_process_is_told_of_what_it_started(database: Storage, slow: Slow):  # proves: FX-9
    started = "what it started and still sends"
    async with database.open() as rt:
        await rt.run(slow.flow, id="r")
        for desk in (rt, None):
            with elsewhere():
                async with database.open() as other:
                    at = desk or other
                    assert started in next_step(await at.why("r")).sentence
                    with pytest.raises(remit.Refused) as refused:
                        await find_out(at, "r", "did_not_happen", by=ANN)
                    assert started in refused.value.hint
        await slow.finish(rt)


async def test_of_what_was_said_only_that_counted_by_which_it_was_settled(database: Storage, slow: Slow):
    # proves: FX-9
    """Whoever looks at a run that is over sees which word was void."""
    async with database.open() as rt:
        await rt.run(slow.flow, id="r")
        await say_elsewhere(database)
        await slow.finish(rt)
        assert (await rt.run(slow.flow, id="r")).code == "effect.told_early"
        await find_out(rt, "r", "ok", RECEIPT, by=DORA)
        assert (await rt.run(slow.flow, id="r")).value == [100]
        assert [(one.by, one.counts) for one in (await rt.why("r")).spoken] == [(ANN, False), (DORA, True)]


async def test_a_word_that_counted_stays_so_when_the_call_was_made_anew(storage: Storage):  # proves: FX-9
    till = Till()
    flow = paying(till.effect())
    async with storage.open() as rt:
        till.next(LOST, LOST)
        await rt.run(flow, id="r")
        await find_out(rt, "r", "did_not_happen", by=ANN)
        await rt.run(flow, id="r")
        assert [one.counts for one in (await rt.why("r")).spoken] == [True]
        await find_out(rt, "r", "ok", RECEIPT, by=DORA)
        await rt.run(flow, id="r")
        assert [one.counts for one in (await rt.why("r")).spoken] == [True, True]
