"""Branches with work of their own: one that computes between its calls is waited for, on whatever the others wait."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

import remit
from remit import Contract, Rule
from remit.engine.turn.apart import busy
from tests.spec.conftest import Storage
from tests.support.office import DORA, answer, staffed

BUSY_SECONDS = 0.2  # several times what counts as standing still
HOUR = timedelta(hours=1)
OPEN = Contract(version="1", resume="anyone")
BY_DIRECTOR = Contract(version="1", resume="anyone", effects={"pay": Rule(approval=remit.Approval({"director"}, HOUR))})


def test_a_thread_of_a_plain_flow_that_computes_between_its_calls_is_waited_for(storage: Storage):  # proves: RUN-8
    """Another of its threads waits in a new call meanwhile, and the one that runs the flow in none."""
    ran: list[str] = []
    is_down = [True]

    @remit.step
    def look_up(what: str) -> str:
        ran.append(what)
        return what

    @remit.step
    def book() -> str:
        if is_down:
            time.sleep(3 * BUSY_SECONDS)  # as long as the other branch goes on
            is_down.pop()
            raise OSError("the line is down")
        return "booked"

    @remit.flow(contract=OPEN)
    def travel(run: remit.SyncRun) -> list[str]:
        def computes(branch: remit.SyncRun) -> str:
            first: str = branch.step(look_up, "fare")
            time.sleep(BUSY_SECONDS)
            return first + str(branch.step(look_up, "rate"))

        with ThreadPoolExecutor(2) as threads:
            branches = {"a": computes, "b": lambda branch: branch.step(book)}
            calls = [
                threads.submit(contextvars.copy_context().run, work, run.branch(name))
                for name, work in branches.items()
            ]
            return [str(call.result()) for call in calls]

    with storage.open() as rt:
        with pytest.raises(remit.StepError):
            rt.run_sync(travel, id="r")
        for _ in range(2):
            assert rt.run_sync(travel, id="r").value == ["farerate", "booked"]
    assert ran == ["fare", "rate"]


def test_a_plain_flow_that_waits_itself_is_refused_in_a_moment(storage: Storage):  # proves: RUN-4
    """Nothing else of it can come, so it is not given the seconds that its threads are."""

    def fails() -> None:
        raise OSError("the line is down")

    def quick() -> int:
        return 1

    def other() -> int:
        return 2

    def flow_of(*steps: Any) -> remit.Flow[Any]:
        @remit.flow(contract=OPEN, name="flow")
        def flow(run: remit.SyncRun) -> None:
            run.gather(*(run.step_call(step) for step in steps[:-1]))
            run.step(steps[-1])

        return flow

    with storage.open() as rt:
        with pytest.raises(remit.StepError):
            rt.run_sync(flow_of(quick, fails), id="r")
        began = time.monotonic()
        with pytest.raises(remit.DefinitionIncompatible, match="quick"):
            rt.run_sync(flow_of(other, fails), id="r")
        assert time.monotonic() - began < 4, "a fifth of a second, and more where the machine is loaded"


async def test_a_branch_that_computes_before_its_question_is_waited_for(storage: Storage):  # proves: APR-1, RUN-8
    """The question beside it is answered, and its payment is new: it waits until the other question is come to."""
    paid: list[str] = []
    takes = [0.0]

    @remit.effect
    async def pay(invoice: str, *, key: str) -> str:
        paid.append(invoice)
        return "paid"

    @remit.flow(contract=BY_DIRECTOR)
    async def buy(run: remit.Run) -> list[str]:
        async def computes(branch: remit.Run) -> str:
            await asyncio.sleep(takes[0])
            told: str = await branch.effect(pay, "i-2")
            return told

        return await run.gather(run.branch("one").effect(pay, "i-1"), computes(run.branch("two")))

    async with storage.open() as rt:
        await rt.grant("user:dana", "director", by="user:root")
        assert (await rt.run(buy, id="r")).waits_for == "approval"
        takes[0] = BUSY_SECONDS
        for call in ("one/pay", "two/pay"):
            (ask,) = [ask for ask in await rt.inbox() if ask.call == call]
            await rt.decide(ask.id, "approve", by="user:dana", seen=ask.version)
            assert (await rt.run(buy, id="r")).waits_for == ("approval" if call == "one/pay" else "")
        assert (await rt.run(buy, id="r")).value == ["paid", "paid"]
    assert paid == ["i-1", "i-2"]


async def test_a_doubt_behind_some_work_is_asked_about_where_the_run_is_cancelled(storage: Storage):
    # proves: RUN-15, FX-2
    """A turn that only settles what is in doubt waits for the branch that comes to it, whatever else is come to."""
    probed: list[str] = []
    is_cut, takes = [True], [0.0]

    async def find(invoice: str, *, key: str) -> Any:
        probed.append(invoice)
        if is_cut:
            raise ConnectionError("the bank's query is down")
        return remit.Landed("paid")

    @remit.effect(doubt="probe", probe=find)
    async def pay(invoice: str, *, key: str) -> str:
        raise ConnectionError("no answer")

    @remit.flow(contract=OPEN)
    async def buy(run: remit.Run) -> list[Any]:
        async def computes(branch: remit.Run) -> str:
            await asyncio.sleep(takes[0])
            told: str = await branch.effect(pay, "i-1")
            return told

        async def asks(branch: remit.Run) -> str:
            return (await branch.approve("terms", 1, roles={"director"}, within=HOUR)).by

        return await run.gather(computes(run.branch("one")), asks(run.branch("two")))

    async with storage.open() as rt:
        assert (await rt.run(buy, id="r")).status == "in_doubt"
        takes[0] = BUSY_SECONDS
        is_cut.clear()
        probed.clear()
        await rt.cancel("r", by="user:root")
        assert (await rt.run(buy, id="r")).status == "cancelled"
    assert probed == ["i-1"]


@pytest.mark.parametrize("together", ["run.gather", "asyncio.wait", "asyncio.gather"])
async def test_a_branch_that_waits_for_another_that_waits_for_a_person_holds_nothing(storage: Storage, together: str):
    """Its own call never comes, so nothing raises there when the turn is over."""  # proves: APR-8, RUN-8
    done: list[str] = []

    @remit.effect
    async def pay(order: dict[str, int], *, key: str) -> str:
        done.append("paid")
        return "paid"

    @remit.flow(contract=OPEN)
    async def purchase(run: remit.Run) -> str:
        is_allowed = asyncio.Event()

        async def ask() -> None:
            await run.branch("ask").approve("terms", {"days": 30}, roles={"director"}, within=HOUR)
            is_allowed.set()

        async def act() -> None:
            try:
                await is_allowed.wait()
            except asyncio.CancelledError:  # a flow that goes on to wait is told again
                done.append("told")
                await asyncio.sleep(3)
            await run.branch("act").effect(pay, {"amount": 1})

        if together == "run.gather":
            await run.gather(ask(), act())
        elif together == "asyncio.gather":
            await asyncio.gather(ask(), act(), return_exceptions=True)
        else:
            await asyncio.wait([asyncio.ensure_future(ask()), asyncio.ensure_future(act())])
        return "done"

    async with storage.open() as rt:
        await staffed(rt)
        async with asyncio.timeout(20):
            assert (await rt.run(purchase, id="r")).code == "approval_needed"
        assert (await rt.show("r")).row.lease_until == 0 and "paid" not in done
        await answer(rt, "approve", by=DORA)
        assert (await rt.run(purchase, id="r")).status == "completed"
        assert done.count("paid") == 1


@pytest.mark.parametrize("waits", ["main", "a branch"])
async def test_a_run_whose_branch_is_on_its_way_to_its_question_parks_with_both_asked(
    waits: str, storage: Storage
):  # proves: APR-8, RUN-8
    """However many turns of the loop that takes."""

    @remit.flow(contract=OPEN)
    async def buy(run: remit.Run) -> None:
        async def far() -> None:
            came = time.monotonic()
            while time.monotonic() < came + BUSY_SECONDS:
                await asyncio.sleep(0)
            await run.branch("far").approve("terms", 2, roles={"director"}, within=HOUR)

        task = asyncio.create_task(far())
        near = run.branch("near").approve("terms", 1, roles={"director"}, within=HOUR)
        await (near if waits == "main" else asyncio.create_task(near))
        await task

    async with storage.open() as rt:
        await staffed(rt)
        assert (await rt.run(buy, id="r")).code == "approval_needed"
        assert sorted(ask.call for ask in await rt.inbox()) == ["far/terms", "near/terms"]


def test_a_run_of_which_a_thread_is_on_its_way_to_its_question_parks_with_both_asked(storage: Storage):
    # proves: APR-8, RUN-8, RUN-10
    """The thread that runs the flow waits for a person meanwhile."""

    def fetch() -> int:
        return 1

    @remit.flow(contract=OPEN)
    def buy(run: remit.SyncRun) -> None:
        has_begun = threading.Event()

        def far(branch: remit.SyncRun) -> None:
            branch.step(fetch)
            has_begun.set()
            time.sleep(BUSY_SECONDS)
            branch.approve("terms", 2, roles={"director"}, within=HOUR)

        with ThreadPoolExecutor(1) as threads:
            call = threads.submit(contextvars.copy_context().run, far, run.branch("far"))
            has_begun.wait(5)
            run.branch("near").approve("terms", 1, roles={"director"}, within=HOUR)
            call.result()

    with storage.open() as rt:
        assert rt.run_sync(buy, id="r").code == "approval_needed"
        assert sorted(ask.call for ask in rt.inbox_sync()) == ["far/terms", "near/terms"]


@pytest.mark.parametrize("waits", ["main", "a branch"])
async def test_a_run_parks_beside_a_branch_that_turns_in_the_loop_until_it_is_told(
    waits: str, storage: Storage
):  # proves: APR-8
    """It is never at rest, and nobody but the answer would tell it."""

    @remit.flow(contract=OPEN)
    async def buy(run: remit.Run) -> str:
        is_told = False

        async def polls() -> None:
            while not is_told:
                await asyncio.sleep(0)

        async def asks() -> None:
            nonlocal is_told
            await run.approve("terms", 1, roles={"director"}, within=HOUR)
            is_told = True

        async with asyncio.TaskGroup() as group:
            group.create_task(polls())
            await (asks() if waits == "main" else group.create_task(asks()))
        return "bought"

    async with storage.open() as rt:
        await staffed(rt)
        async with asyncio.timeout(20):
            assert (await rt.run(buy, id="r")).code == "approval_needed"
        assert (await rt.show("r")).row.lease_until == 0
        await answer(rt, "approve", by=DORA)
        async with asyncio.timeout(20):
            assert (await rt.run(buy, id="r")).value == "bought"


def test_a_thread_may_come_to_its_next_call_while_it_is_looked_which_are_busy():  # proves: RUN-10
    """It leaves those at work by itself, from outside the loop."""
    threads = set[int]()

    class Leaving(int):
        def __hash__(self) -> int:
            threads.discard(1)
            return 2

    threads |= {1, Leaving(2), 3}
    assert busy(threads) == set()
    assert 1 not in threads
