"""Work that stood beside other work when it was recorded is told apart also where nothing stands beside it now.

A thread or a background task may come later than it did, and of two workers one may be left: what is recorded of
either is given to no other work.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

import remit
from remit.facts.kinds import StepDone, StepFailed
from tests.spec.conftest import Storage
from tests.support.turns import OPEN, Turns, cut, facts_of, paying


@pytest.mark.parametrize("how", ["fewer", "late"])
async def test_a_worker_that_is_alone_now_is_given_nothing_of_what_it_did_beside_another(how: str, storage: Storage):
    # proves: RUN-4, FX-3
    turns, is_as_before = Turns(), [True]
    paid, pay, note = paying(turns)
    begins = asyncio.Event()

    @remit.step
    async def fetch(order: int) -> int:
        if turns.number == 1 and order == 0:
            begins.set()
            await asyncio.sleep(0.05)  # until the other one is at work
        if turns.number == 1 and order == 1:
            await asyncio.sleep(60)
        return order

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        orders = list(range(6))

        async def worker(run: remit.Run) -> None:
            while orders:
                order = await run.step(fetch, orders.pop(0))
                await run.effect(pay, order)
                await run.step(note, order)

        async def other(run: remit.Run) -> None:
            await begins.wait()
            await worker(run)

        async with asyncio.TaskGroup() as group:
            if is_as_before[0] or how == "late":
                group.create_task(other(run.branch("other")))
            await worker(run)
            begins.set()

    await cut(storage, flow, turns)
    assert paid == [0, 2, 3]
    recorded = await facts_of(storage)
    assert recorded["fetch"].beside and recorded["fetch#2"].beside
    is_as_before[0] = False
    async with storage.open() as rt, asyncio.timeout(60):
        begins.clear()
        assert (await rt.check("r", flow)).fit == "incompatible"
        begins.clear()
        with pytest.raises(remit.DefinitionIncompatible, match=r"'fetch#2'.*stood beside.*other arguments"):
            await rt.run(flow, id="r")
    assert paid == [0, 2, 3]


@pytest.mark.parametrize("fails", [True, False])
def test_a_plain_flows_own_thread_is_given_nothing_of_what_it_did_beside_one_that_is_late(fails: bool, tmp_path: Any):
    # proves: RUN-4, FX-3
    turn, paid, is_over = [1], list[int](), threading.Event()

    @remit.step
    def fetch(order: int) -> int:
        if order == 0:
            raise OSError("no answer")
        if fails and order == 1:
            raise ValueError("no such order")
        return order

    @remit.effect
    def pay(order: int, *, key: str) -> str:
        paid.append(order)
        return "paid"

    @remit.step
    def book() -> None:
        if turn[0] == 1:
            raise OSError("the books are busy")

    @remit.flow(contract=OPEN)
    def flow(run: remit.SyncRun) -> None:
        orders = list(range(4))

        def one(run: remit.SyncRun, order: int) -> None:
            with suppress(remit.StepError):
                run.effect(pay, run.step(fetch, order))

        def late(run: remit.SyncRun) -> None:
            if turn[0] == 2:
                is_over.wait(30)
            one(run, orders.pop(0))

        with ThreadPoolExecutor(1) as pool:
            beside = pool.submit(contextvars.copy_context().run, late, run.branch("beside"))
            if turn[0] != 2:
                beside.result()
            try:
                while orders:
                    one(run, orders.pop(0))
            finally:
                is_over.set()
        run.step(book)

    with remit.open(f"sqlite:///{tmp_path}/runs.db") as rt:
        with pytest.raises(remit.StepError):
            rt.run_sync(flow, id="r")
        facts = {name: call.fact for name, call in rt.show_sync("r").view.calls.items()}
        fact = facts["fetch"]
        assert isinstance(fact, StepFailed if fails else StepDone) and fact.beside
        done, turn[0] = list(paid), 2
        is_over.clear()
        with pytest.raises(remit.DefinitionIncompatible, match=r"'fetch'.*other arguments"):
            rt.run_sync(flow, id="r")
        assert paid == done == ([2, 3] if fails else [1, 2, 3])
        turn[0] = 3  # as it was: the other thread is first
        assert rt.run_sync(flow, id="r").status == "completed" and paid == done


@pytest.mark.parametrize("is_plain", [True, False])
def test_an_argument_that_changed_before_anything_stood_beside_it_goes_on(is_plain: bool, tmp_path: Any):
    # proves: RUN-4
    turn = [1]

    @remit.step
    def fetch(order: int) -> int:
        return order

    @remit.step
    def book(order: int) -> int:
        if turn[0] == 1 and order == 2:
            raise OSError("the books are busy")
        return order

    def plain(run: remit.SyncRun) -> list[int]:
        first: int = run.step(fetch, turn[0])
        return [first, *run.gather(run.step_call(book, 1), run.step_call(book, 2))]

    async def looping(run: remit.Run) -> list[int]:
        first: int = await run.step(fetch, turn[0])
        return [first, *(await run.gather(run.step(book, 1), run.step(book, 2)))]

    flow = remit.flow(contract=OPEN, name="flow")(plain if is_plain else looping)
    with remit.open(f"sqlite:///{tmp_path}/runs.db") as rt:
        with pytest.raises(remit.StepError):
            rt.run_sync(flow, id="r")
        assert not getattr(rt.show_sync("r").view.calls["fetch"].fact, "beside", True)
        turn[0] = 2
        assert rt.run_sync(flow, id="r").value == [1, 1, 2]
