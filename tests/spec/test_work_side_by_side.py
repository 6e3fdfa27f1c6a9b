"""Work side by side: branches that share a queue, a list or a number of slots take the same work in each turn.

Where they do not, because code or settings changed or a thread was slower, what is recorded of one branch's work is
never given to another one: nothing is paid twice, and the run waits for repair.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

import remit
from remit.engine.turn import rest
from remit.facts.kinds import StepDone
from tests.spec.conftest import Storage
from tests.support.office import DORA, staffed
from tests.support.turns import OPEN, Turns, cut, facts_of, paying, whole

# -- unchanged code takes the same work -----------------------------------------------------------------------------


async def test_a_lone_recorded_outcome_waits_for_those_who_begin_beside_it(storage: Storage):  # proves: RUN-8, FX-3
    turns, paid = Turns(), list[int]()

    @remit.step
    async def fetch(order: int) -> int:
        if turns.number == 1 and order == 3:
            await turns.die()  # the first one heard of order 0, and took order 3
        if turns.number < 3 and order:
            await asyncio.sleep(0.05 if order == 1 else 0.5)
        return order

    @remit.effect
    async def pay(order: int, *, key: str) -> str:
        paid.append(order)
        return "paid"

    @remit.step
    async def note(order: int) -> None:
        if turns.number == 2:
            await turns.die()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        orders = list(range(4))

        async def worker(run: remit.Run) -> None:
            while orders:
                order = await run.step(fetch, orders.pop(0))
                if order:  # order 0 needs no payment
                    await run.effect(pay, order)
                    await run.step(note, order)

        await run.gather(*(worker(run.branch(f"w{n}")) for n in range(3)))

    await cut(storage, flow, turns)
    assert not paid
    await cut(storage, flow, turns)
    await whole(storage, flow)
    assert sorted(paid) == [1, 2, 3]


async def test_the_first_outcome_of_a_turn_waits_for_those_who_begin_beside_it(storage: Storage):  # proves: RUN-8, FX-3
    turns, paid = Turns(), list[int]()

    @remit.step
    async def fetch(order: int) -> int:
        if order and turns.number == 1:
            await asyncio.sleep(0.05 if order == 1 else 5)
        return order

    @remit.step
    async def note(order: int) -> None:
        if turns.number == 1:
            await turns.die()

    @remit.effect
    async def pay(order: int, *, key: str) -> str:
        paid.append(order)
        return "paid"

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        orders = [0, 1, 2]

        async def worker(run: remit.Run) -> None:
            while orders:
                order = await run.step(fetch, orders.pop(0))
                if order:
                    await run.effect(pay, order)
                    await run.step(note, order)

        async def region(run: remit.Run, depth: int) -> None:
            if not depth:
                return await worker(run)
            sum(range(100_000))  # reads what it was given, and keeps the loop for a moment
            await run.gather(region(run.branch("r"), depth - 1))

        await run.gather(worker(run.branch("flat")), region(run.branch("regions"), 5))

    await cut(storage, flow, turns)
    await whole(storage, flow)
    assert sorted(paid) == [1, 2]


async def test_what_people_said_of_two_doubts_is_given_in_the_order_of_each_later_turn(
    storage: Storage,
):  # proves: RUN-8, FX-2
    turn, paid, taken = [1], list[int](), list[list[tuple[str, int]]]()

    @remit.effect
    async def pay(order: int, *, key: str) -> str:
        paid.append(order)
        if turn[0] < 3:
            await asyncio.sleep(0.05 if order == 0 else 0)
            raise OSError("no answer")
        return "paid"

    @remit.step
    async def fetch(order: int) -> int:
        return order

    @remit.step
    async def audit(order: int) -> None: ...

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        orders = list(range(4))
        taken.append([])

        async def worker(run: remit.Run, name: str) -> None:
            while orders:
                taken[-1].append((name, orders[0]))
                order = await run.step(fetch, orders.pop(0))
                if order:
                    await run.effect(pay, order)
                else:
                    await run.gather(run.effect(pay, order), run.step(audit, order))

        await run.gather(*(worker(run.branch(name), name) for name in ("w0", "w1")))

    async with storage.open() as rt, asyncio.timeout(60):
        await staffed(rt)
        while (outcome := await rt.run(flow, id="r")).status == "in_doubt":
            for effect in await rt.effects("r", in_doubt=True):
                await rt.resolve("r", effect.call, "ok", by=DORA, evidence="seen", outcome="paid")
            turn[0] += 1
        assert outcome.status == "completed"
    assert sorted(paid) == [0, 1, 2, 3]
    assert taken[1][2:] == taken[2][2:] == [("w0", 2), ("w1", 3)]


async def test_a_flow_has_its_turns_of_the_loop_while_others_hold_it(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
):  # proves: RUN-8
    monkeypatch.setattr(rest, "BUSY_SECONDS", 0.05)
    failing, heard, is_known = [True], list[str](), asyncio.Event()

    @remit.step
    async def slow() -> None:
        while len(heard) < 2:
            until = time.perf_counter() + 0.01
            while time.perf_counter() < until:
                pass
            await asyncio.sleep(0)

    @remit.step
    async def fetch(name: str) -> str:
        if name == "deep":
            is_known.set()
        else:
            await is_known.wait()
        return name

    @remit.step
    async def book() -> None:
        if failing[0]:
            raise OSError("the books are busy")

    @remit.flow(contract=OPEN)
    async def other(run: remit.Run) -> None:
        await run.step(slow)

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> list[str]:
        heard.clear()

        async def deep(run: remit.Run, depth: int) -> None:
            if depth:
                await run.gather(deep(run.branch("d"), depth - 1))
            else:
                await run.step(fetch, "deep")

        async def thorough(run: remit.Run) -> None:
            await deep(run, 10)
            heard.append("deep")

        async def quick(run: remit.Run) -> None:
            await run.step(fetch, "late")
            heard.append("late")

        await run.gather(thorough(run.branch("a")), quick(run.branch("b")))
        await run.step(book)
        return heard

    async with storage.open() as rt, asyncio.timeout(60):
        beside = asyncio.ensure_future(rt.run(other, id="other"))
        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")
        await beside
    live, failing[0] = list(heard), False
    assert await whole(storage, flow) == live == ["deep", "late"]


async def test_a_background_task_that_backs_off_is_waited_for_while_the_flows_own_one_waits(
    storage: Storage,
):  # proves: RUN-8, FX-3
    turns, paid = Turns(), list[int]()

    @remit.step
    async def fetch(order: int, is_again: bool) -> int:
        if order == 0 and not is_again:
            raise OSError("busy")
        if turns.number == 1:
            await asyncio.sleep({0: 0, 1: 0.6, 2: 0.4, 3: 5}[order])
        return order

    @remit.step
    async def check(order: int) -> None:
        if turns.number == 1 and order == 2:
            await turns.die()

    @remit.effect
    async def pay(order: int, *, key: str) -> str:
        paid.append(order)
        return "paid"

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        orders = list(range(4))

        async def fetched(run: remit.Run, order: int) -> Any:
            try:
                return await run.step(fetch, order, False)
            except remit.StepError:
                await asyncio.sleep(0.4)
                return await run.step(fetch, order, True)

        async def worker(run: remit.Run) -> None:
            while orders:
                order = await fetched(run, orders.pop(0))
                await run.step(check, order)
                await run.effect(pay, order)

        beside = asyncio.create_task(worker(run.branch("beside")))
        await asyncio.sleep(0)
        await worker(run)
        await beside

    await cut(storage, flow, turns)
    await whole(storage, flow)
    assert sorted(paid) == [0, 1, 2, 3]


# -- changed code is refused before anything is called --------------------------------------------------------------


class Invoice(msgspec.Struct):
    number: int

    async def fetch(self) -> int:
        return self.number


@dataclass
class Scan:
    number: int
    page: object  # has no JSON


AS_ARGUMENT = ("argument", "in part")


@pytest.mark.parametrize("how", [*AS_ARGUMENT, "method", "closure", "default"])
@pytest.mark.parametrize("width", [2, 4])
async def test_another_number_of_workers_is_given_nothing_of_what_others_did(width: int, how: str, storage: Storage):
    # proves: RUN-4, FX-3
    turns, workers = Turns(), [2]
    paid, pay, note = paying(turns)

    @remit.step
    async def fetch(order: Any) -> int:
        number: int = order.number if isinstance(order, Scan) else order
        return number

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        orders = list(range(8))

        async def fetched(run: remit.Run, number: int) -> int:
            """By a step for this invoice, however its function knows of which."""
            invoice = Invoice(number)

            async def inside() -> int:
                return invoice.number

            async def by_default(invoice: Invoice = invoice) -> int:
                return invoice.number

            ways: dict[str, Any] = {"method": invoice.fetch, "closure": inside, "default": by_default}
            given = Scan(number, object()) if how == "in part" else number
            got: int = await (run.step(fetch, given) if how in AS_ARGUMENT else run.step(ways[how]))
            return got

        async def worker(run: remit.Run) -> None:
            while orders:
                order = await fetched(run, orders.pop(0))
                await run.effect(pay, order)
                await run.step(note, order)

        await run.gather(*(worker(run.branch(f"w{n}")) for n in range(workers[0])))

    await cut(storage, flow, turns)
    done, workers[0] = list(paid), width
    if width == 2:
        await whole(storage, flow)
        assert sorted(paid) == list(range(8))
        return
    async with storage.open() as rt, asyncio.timeout(60):
        assert (await rt.check("r", flow)).fit == "incompatible"
        with pytest.raises(remit.DefinitionIncompatible, match="other arguments") as refused:
            await rt.run(flow, id="r")
        assert "how many of them there are" in refused.value.hint
    assert paid == done
    workers[0] = 2  # as it was
    await whole(storage, flow)
    assert sorted(paid) == list(range(8))


@pytest.mark.parametrize("is_beside", [True, False])
@pytest.mark.parametrize("fails", [False, True])
async def test_arguments_count_beside_other_calls_alone(is_beside: bool, fails: bool, storage: Storage):
    # proves: RUN-4
    given, is_up = [["b"]], [False]

    @remit.step
    async def fetch(items: list[str]) -> str:
        items.append("changed by the step itself")
        if fails:
            raise OSError("no answer")
        return "fetched"

    @remit.step
    async def book() -> None:
        if not is_up[0]:
            raise OSError("the books are busy")

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        async def one(run: remit.Run, items: list[str]) -> None:
            with suppress(remit.StepError):
                await run.step(fetch, items=items)

        if is_beside:
            await run.gather(one(run.branch("a"), ["a"]), one(run.branch("b"), list(given[0])))
        else:
            await one(run.branch("a"), ["a"])
            await one(run.branch("b"), list(given[0]))
        await run.step(book)

    async with storage.open() as rt, asyncio.timeout(60):
        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")
    recorded = await facts_of(storage)
    assert all(recorded[f"{branch}/fetch"].given for branch in "ab")
    given[0], is_up[0] = ["another"], True
    async with storage.open() as rt, asyncio.timeout(60):
        if is_beside:
            with pytest.raises(remit.DefinitionIncompatible, match=r"'b/fetch'.*other arguments"):
                await rt.run(flow, id="r")
            given[0] = ["b"]
        await rt.run(flow, id="r")


async def test_what_has_no_bytes_is_not_compared_and_two_runs_tell_nothing_of_each_other(storage: Storage):
    # proves: RUN-4
    @remit.step
    async def fetch(order: int, lock: Any) -> int:
        return order

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        await run.gather(*(run.branch(f"{n}").step(fetch, 5, threading.Lock()) for n in range(2)))

    async with storage.open() as rt:
        for run in ("r", "r", "s"):
            await rt.run(flow, id=run)
        views = [(await rt.show(run)).view for run in ("r", "s")]
    digests = {call.fact.given for view in views for call in view.calls.values() if isinstance(call.fact, StepDone)}
    assert len(digests) == 4 and all(len(digest) == 16 for digest in digests)


def test_a_plain_flows_own_thread_is_waited_for_beside_its_pool(tmp_path: Any):  # proves: RUN-8, FX-3
    is_first, paid, dies = [True], list[int](), threading.Event()

    @remit.step
    def load() -> int:
        return 3

    @remit.step
    def fetch(order: int) -> int:
        if is_first[0]:
            time.sleep({0: 0.4, 1: 1.5, 2: 0.05}[order])
        return order

    @remit.step
    def check(order: int) -> None:
        if is_first[0]:
            dies.set()
            time.sleep(2)

    @remit.effect
    def pay(order: int, *, key: str) -> str:
        paid.append(order)
        return "paid"

    @remit.flow(contract=OPEN)
    def flow(run: remit.SyncRun) -> None:
        orders = list(range(run.step(load)))

        def worker(run: remit.SyncRun) -> None:
            while orders:
                order = run.step(fetch, orders.pop(0))
                if order:
                    run.step(check, order)
                    run.effect(pay, order)

        with ThreadPoolExecutor(1) as pool:
            beside = pool.submit(contextvars.copy_context().run, worker, run.branch("beside"))
            sum(range(3_000_000))  # a moment of its own
            worker(run.branch("own"))
            beside.result()

    async def first() -> None:
        async with remit.open(f"sqlite:///{tmp_path}/runs.db") as rt:
            turn = asyncio.ensure_future(rt.run(flow, id="r"))
            await asyncio.to_thread(dies.wait, 30)
            turn.cancel()
            with suppress(asyncio.CancelledError):
                await turn

    asyncio.run(first())
    is_first[0] = False
    with remit.open(f"sqlite:///{tmp_path}/runs.db") as rt:
        rt.run_sync(flow, id="r")
    assert sorted(paid) == [1, 2]


def test_calls_that_a_plain_flow_makes_together_are_told_apart(tmp_path: Any):  # proves: RUN-4, FX-3
    paid, invoices, is_up = list[str](), ["a", "b"], [False]

    @remit.step
    def prepare(invoice: str) -> str:
        return invoice

    @remit.step
    def book() -> None:
        if not is_up[0]:
            raise OSError("the books are busy")

    @remit.effect
    def pay(invoice: str, *, key: str) -> str:
        paid.append(invoice)
        return "paid"

    @remit.flow(contract=OPEN)
    def flow(run: remit.SyncRun) -> None:
        prepared = run.gather(*[run.step_call(prepare, invoice) for invoice in invoices])
        run.step(book)
        for invoice in prepared:
            run.effect(pay, invoice)

    with remit.open(f"sqlite:///{tmp_path}/runs.db") as rt:
        with pytest.raises(remit.StepError):
            rt.run_sync(flow, id="r")
        invoices.reverse()
        is_up[0] = True
        with pytest.raises(remit.DefinitionIncompatible, match=r"'prepare'.*other arguments"):
            rt.run_sync(flow, id="r")
        invoices.reverse()
        rt.run_sync(flow, id="r")
    assert paid == ["a", "b"]


def test_what_a_plain_flows_own_thread_took_is_compared_when_another_thread_comes(tmp_path: Any):
    # proves: RUN-4, FX-3
    paid, is_first = list[int](), [True]

    @remit.step
    def fetch(order: int) -> int:
        if is_first[0] and order == 2:
            raise OSError("no answer")
        return order

    @remit.effect
    def pay(order: int, *, key: str) -> str:
        paid.append(order)
        return "paid"

    @remit.flow(contract=OPEN)
    def flow(run: remit.SyncRun) -> None:
        orders = [1, 2]

        def worker(run: remit.SyncRun, order: int) -> None:
            run.effect(pay, run.step(fetch, order))

        with ThreadPoolExecutor(1) as pool:
            first, second = (orders.pop(0), orders.pop(0)) if is_first[0] else (orders.pop(), orders.pop())
            fetched = run.branch("own").step(fetch, first)
            pool.submit(contextvars.copy_context().run, worker, run.branch("beside"), second).result()
            run.branch("own").effect(pay, fetched)

    with remit.open(f"sqlite:///{tmp_path}/runs.db") as rt:
        with pytest.raises(remit.StepError):
            rt.run_sync(flow, id="r")
        is_first[0] = False  # the thread of the pool takes the first order this time
        with pytest.raises(remit.DefinitionIncompatible, match="other arguments"):
            rt.run_sync(flow, id="r")
    assert paid == []


async def test_one_worker_that_becomes_two_is_given_nothing_of_what_it_did_alone(storage: Storage):
    # proves: RUN-4, FX-3
    turns, paid, workers = Turns(), list[int](), [1]

    @remit.step
    async def fetch(order: int) -> int:
        return order

    @remit.step
    async def note(order: int) -> None:
        if turns.number == 1 and order == 2:
            await turns.die()

    @remit.effect
    async def pay(order: int, *, key: str) -> str:
        paid.append(order)
        return "paid"

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        orders = list(range(4))

        async def worker(run: remit.Run) -> None:
            while orders:
                order = await run.step(fetch, orders.pop(0))
                await run.effect(pay, order)
                await run.step(note, order)

        if workers[0] == 1:
            await worker(run.branch("w0"))
        else:
            await run.gather(*(worker(run.branch(f"w{n}")) for n in range(workers[0])))

    await cut(storage, flow, turns)
    workers[0] = 2
    with pytest.raises(remit.DefinitionIncompatible, match="other arguments"):
        await whole(storage, flow)
    assert paid == [0, 1, 2]


async def test_a_list_that_branches_go_on_filling_is_given_as_it_was_when_the_call_was_made(storage: Storage):
    # proves: RUN-4, RUN-8
    is_up = [False]

    @remit.step
    async def fetch(order: int) -> int:
        return order

    @remit.step
    async def save(receipts: list[int]) -> int:
        return len(receipts)

    @remit.step
    async def book() -> None:
        if not is_up[0]:
            raise OSError("the books are busy")

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> list[int]:
        receipts = list[int]()

        async def one(run: remit.Run, order: int) -> Any:
            receipts.append(await run.step(fetch, order))
            return await run.step(save, receipts)

        saved = await run.gather(*(one(run.branch(f"{order}"), order) for order in range(3)))
        await run.step(book)
        return saved

    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")
    is_up[0] = True
    assert len(await whole(storage, flow)) == 3


@pytest.mark.parametrize("is_older", [True, False])
async def test_evidence_of_the_same_value_is_not_found_again_for_an_older_date(is_older: bool, storage: Storage):
    # proves: RUN-4, GATE-2
    is_up, now = [False], datetime.now(UTC)
    as_of = [now - timedelta(hours=1)]

    @remit.step
    async def book() -> None:
        if not is_up[0]:
            raise OSError("the books are busy")

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        run.evidence("quote", 120, as_of=as_of[0], fresh_for=timedelta(hours=48))
        await run.step(book)
        return "booked"

    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")
    is_up[0], as_of[0] = True, now - timedelta(hours=60 if is_older else 0)
    if is_older:
        with pytest.raises(remit.DefinitionIncompatible, match="of an earlier date"):
            await whole(storage, flow)
    else:
        assert await whole(storage, flow) == "booked"


def test_a_turn_that_is_gone_keeps_no_loop_looking_for_it():  # proves: RUN-8
    class Gone: ...

    kept = Gone()
    of_a_turn = rest.Rest(kept)
    assert of_a_turn.see(frozenset({None, kept}), 0.0) == "at work"
    del kept
    assert of_a_turn.see(frozenset({None}), 0.0) == "at rest"  # what is ready there is of no flow
