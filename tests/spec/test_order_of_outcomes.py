"""Order of outcomes: a flow hears of them in one order, in the turn that wrote them and in each later one.

Where several branches share a queue, a list or a flag, that order decides which of them goes on with what: a branch
that heard earlier than it did would be given what is recorded of another one's order, and pay that.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import queue
import random
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

import remit
from remit.engine.turn import replay, rest
from tests.spec.conftest import Storage
from tests.support.office import answer, staffed
from tests.support.till import Order, Receipt, Till

OPEN = remit.Contract(version="1", resume="anyone")
SEEDS = range(int(os.environ.get("REMIT_EXAMPLES", "2")))


class Failing:
    """The last step of a flow, which is busy in the first turn: all before it is recorded, and the flow goes on."""

    def __init__(self) -> None:
        self.is_up = False

        @remit.step
        async def book() -> None:
            if not self.is_up:
                raise OSError("the books are busy")

        self.step = book


async def twice(storage: Storage, flow: remit.Flow[Any], failing: Failing, *given: Any) -> Any:
    """What it gives in its second turn, in another runtime."""
    async with storage.open() as rt, asyncio.timeout(60):
        with pytest.raises(remit.StepError):
            await rt.run(flow, *given, id="r")
        failing.is_up = True
    async with storage.open() as rt, asyncio.timeout(60):
        return (await rt.run(flow, *given, id="r")).value


# -- any shape ----------------------------------------------------------------------------------------------------


@remit.step
async def step(ms: int) -> int:
    await asyncio.sleep(ms / 1_000)
    return ms


@remit.step
def plain_step(ms: int) -> int:
    time.sleep(ms / 1_000)
    return ms


@remit.step
async def failing_step(ms: int) -> int:
    await asyncio.sleep(ms / 1_000)
    raise OSError("no answer")


@remit.effect
async def effect(ms: int, *, key: str) -> int:
    await asyncio.sleep(ms / 1_000)
    return ms


@remit.effect
def plain_effect(ms: int, *, key: str) -> int:
    time.sleep(ms / 1_000)
    return ms


@remit.effect
async def declined_effect(ms: int, *, key: str) -> int:
    await asyncio.sleep(ms / 1_000)
    raise remit.Declined("no money")


async def in_group(run: remit.Run, ms: int) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(run.step(step, ms))
        group.create_task(run.effect(effect, 1))


async def deep(run: remit.Run, ms: int, depth: int = 3) -> Any:
    if not depth:
        return await run.step(step, ms)
    return await run.gather(deep(run.branch("d"), ms, depth - 1))


async def one_by_one(run: remit.Run, ms: int) -> None:
    waiting = {asyncio.ensure_future(run.branch(f"{n}").step(step, ms * n)) for n in range(3)}
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert len(done) == 1 or ms == 0


SHAPES: dict[str, Callable[[remit.Run, int], Awaitable[Any]]] = {
    "step": lambda run, ms: run.step(step, ms),
    "plain step": lambda run, ms: run.step(plain_step, ms),
    "failing step": lambda run, ms: run.step(failing_step, ms),
    "effect": lambda run, ms: run.effect(effect, ms),
    "plain effect": lambda run, ms: run.effect(plain_effect, ms),
    "declined effect": lambda run, ms: run.effect(declined_effect, ms),
    "run.gather": lambda run, ms: run.gather(run.step(step, ms), run.effect(effect, 1)),
    "asyncio.gather": lambda run, ms: asyncio.gather(run.step(step, ms), run.effect(effect, 1)),
    "gather in gather": deep,
    "task group": in_group,
    "time-out": lambda run, ms: asyncio.wait_for(run.step(step, ms), 20),
    "asyncio.wait": one_by_one,
    "race": lambda run, ms: run.first(run.branch("x").step(step, ms), run.branch("y").effect(effect, 3)),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shapes", [["step"], ["effect"], ["step", "effect"], ["step", "gather in gather"], [*SHAPES]])
async def test_a_flow_hears_in_the_order_of_its_first_turn_however_it_waits(
    shapes: list[str], seed: int, storage: Storage
):  # proves: RUN-4, RUN-8
    chance, heard, failing = random.Random(f"{shapes} {seed}"), list[int](), Failing()
    plan = [[(chance.choice(shapes), chance.choice([0, 0, 1, 2, 2, 5])) for _ in range(3)] for _ in range(4)]

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> list[int]:
        heard.clear()

        async def branch(run: remit.Run, number: int) -> None:
            for shape, ms in plan[number]:
                try:
                    await SHAPES[shape](run, ms)
                except (remit.StepError, remit.EffectDeclined):
                    heard.append(-number)
                heard.append(number)

        await asyncio.gather(*(branch(run.branch(str(n)), n) for n in range(len(plan))))
        first.append(list(heard))
        await run.step(failing.step)
        return list(heard)

    first: list[list[int]] = []
    assert await twice(storage, flow, failing) == first[0]


# -- stories ------------------------------------------------------------------------------------------------------


class Bank:
    """Pays bills; suppliers take their time to send these."""

    def __init__(self, ms: list[int]) -> None:
        self.paid: list[int] = []

        @remit.step
        async def fetch(order: int) -> int:
            await asyncio.sleep(ms[order] / 1_000)
            return order

        @remit.step
        def fetch_slowly(order: int) -> int:
            time.sleep(ms[order] / 1_000)
            return order

        @remit.effect
        async def pay(bill: int, *, key: str) -> str:
            self.paid.append(bill)
            return "paid"

        @remit.effect
        def pay_slowly(bill: int, *, key: str) -> str:
            self.paid.append(bill)
            return "paid"

        self.fetch, self.pay = fetch, pay
        self.fetch_slowly, self.pay_slowly = fetch_slowly, pay_slowly


@pytest.mark.parametrize("is_stopped", ["after all", "between"])
async def test_workers_at_one_queue_pay_each_bill_once(is_stopped: str, storage: Storage):  # proves: RUN-8, FX-3
    bank, failing = Bank([24, 4, 8, 40, 30, 50]), Failing()

    @remit.flow(contract=OPEN)
    async def pay_all(run: remit.Run) -> None:
        orders: asyncio.Queue[int] = asyncio.Queue()
        for order in range(6):
            orders.put_nowait(order)

        async def worker(run: remit.Run) -> None:
            while not orders.empty():
                order = orders.get_nowait()
                bill = await run.step(bank.fetch, order)
                if order == 4 and is_stopped == "between":
                    await run.step(failing.step)
                await run.effect(bank.pay, bill)

        await run.gather(*(worker(run.branch(f"worker-{n}")) for n in range(3)))
        if is_stopped == "after all":
            await run.step(failing.step)

    await twice(storage, pay_all, failing)
    assert sorted(bank.paid) == [0, 1, 2, 3, 4, 5]


def test_workers_in_threads_at_one_queue_pay_each_bill_once(tmp_path: Any):  # proves: RUN-8, FX-3
    bank, failing = Bank([20, 30, 50, 150, 200]), Failing()

    @remit.step
    def screen(bill: int) -> bool:
        time.sleep([80, 170, 300, 300, 10][bill] / 1_000)
        return bill > 1

    taken: list[list[tuple[int, int]]] = []

    @remit.flow(contract=OPEN)
    def pay_all(run: remit.SyncRun) -> None:
        taken.append([])
        orders: queue.Queue[int] = queue.Queue()
        for order in range(5):
            orders.put(order)

        def worker(run: remit.SyncRun, number: int) -> None:
            while True:
                try:
                    order = orders.get_nowait()
                except queue.Empty:
                    return
                taken[-1].append((number, order))
                bill = run.step(bank.fetch_slowly, order)
                fine = all(run.gather(run.step_call(screen, bill))) if order == 0 else run.step(screen, bill)
                if fine:
                    run.effect(bank.pay_slowly, bill)
                time.sleep(0.02 * (2 - number))  # in which nothing of it shows in the loop

        with ThreadPoolExecutor(3) as pool:
            workers = [run.branch(f"worker-{n}") for n in range(3)]
            calls = []
            for number, worker_run in enumerate(workers):
                calls.append(pool.submit(contextvars.copy_context().run, partial(worker, worker_run, number)))
                while sum(map(len, taken[-1:])) <= number:  # each takes its first order before the next begins
                    time.sleep(0.001)
            for call in calls:
                call.result()
        run.step(failing.step)

    with remit.open(f"sqlite:///{tmp_path}/r.db") as rt:
        with pytest.raises(remit.StepError):
            rt.run_sync(pay_all, id="r")
        failing.is_up = True
        rt.run_sync(pay_all, id="r")
    assert sorted(bank.paid) == [2, 3, 4] and taken[0] == taken[1]


async def test_what_one_branch_said_before_another_looked_is_said_before_it_looks_again(
    storage: Storage,
):  # proves: RUN-8, FX-10
    """A deeper wait hears later in turns of the loop: it heard a tenth of a second before."""
    bank, failing = Bank([60]), Failing()

    @remit.step
    async def screen(register: str) -> bool:
        await asyncio.sleep({"sanctions": 0.03, "fraud": 0.01}[register])
        return register != "sanctions"

    @remit.flow(contract=OPEN)
    async def careful(run: remit.Run) -> bool:
        stopped: list[str] = []

        async def screened(run: remit.Run) -> None:
            if not all(await run.gather(*(run.branch(r).step(screen, r) for r in ("sanctions", "fraud")))):
                stopped.append("screening")

        async def paying(run: remit.Run) -> bool:
            bill = await run.step(bank.fetch, 0)
            if not stopped:
                await run.effect(bank.pay, bill)
            return not stopped

        _, is_paid = await run.gather(screened(run.branch("screen")), paying(run.branch("pay")))
        await run.step(failing.step)
        return bool(is_paid)

    assert await twice(storage, careful, failing) is False
    assert bank.paid == []


async def test_a_race_ends_after_what_came_before_its_end_was_heard(storage: Storage):  # proves: RUN-8
    bank, failing = Bank([10, 50]), Failing()

    @remit.flow(contract=OPEN)
    async def buy(run: remit.Run) -> list[int]:
        placed: list[int] = []

        async def order(run: remit.Run) -> None:
            placed.extend(await run.gather(run.step(bank.fetch, 0)))
            await run.step(step, 1_000)

        await run.first(order(run.branch("b")), run.branch("noon").step(bank.fetch, 1))
        if not placed:
            await run.effect(bank.pay, 99)
        await run.step(failing.step)
        return placed

    assert await twice(storage, buy, failing) == [0]
    assert bank.paid == []


@pytest.mark.parametrize("busy", ["computes", "computes beside the flow itself", "waits for itself"])
async def test_nothing_is_given_out_of_turn_beside_a_branch_that_is_busy(busy: str, storage: Storage):  # proves: RUN-8
    bank, failing, turns = Bank([1, 100, 1, 1]), Failing(), list[list[tuple[str, int]]]()

    @remit.flow(contract=OPEN)
    async def pay_all(run: remit.Run) -> None:
        orders, taken = [3, 2], list[tuple[str, int]]()
        turns.append(taken)

        async def take(run: remit.Run, who: str) -> None:
            taken.append((who, orders.pop()))
            await run.effect(bank.pay, await run.step(bank.fetch, taken[-1][1]))

        async def deeply(run: remit.Run) -> None:
            if busy != "waits for itself":
                time.sleep(0.08)  # in which the loop stands still
            else:
                await asyncio.sleep(0.08)
            await deep(run.branch("deep"), 0, 8)
            await take(run, "deeply")

        async def straight(run: remit.Run) -> None:
            await run.step(bank.fetch, 1)
            await take(run, "straight")

        side = asyncio.ensure_future(deeply(run.branch("d")))
        if busy == "computes beside the flow itself":
            await straight(run.branch("s"))
        else:
            await asyncio.gather(straight(run.branch("s")))
        await side
        await run.step(failing.step)

    await twice(storage, pay_all, failing)
    assert turns[1] == turns[0] and len(turns[0]) == 2
    assert sorted(bank.paid) == [2, 3]


@pytest.mark.parametrize("shows", [True, False], ids=["a loop that shows what is ready", "one that does not"])
async def test_whoever_is_woken_by_another_hears_after_that_one_did_all_it_does(
    shows: bool, storage: Storage, monkeypatch: pytest.MonkeyPatch
):  # proves: RUN-8
    """Its call is recorded, and could be answered at once."""
    if not shows:
        monkeypatch.setattr(rest, "_ready", lambda loop: None)
    failing, turns = Failing(), list[list[str]]()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> list[str]:
        woken, heard = asyncio.Event(), list[str]()

        async def deeply(depth: int) -> None:
            if depth:
                await run.gather(deeply(depth - 1))
                return
            await run.branch("deep").step(step, 2)
            woken.set()

        async def first() -> None:
            await deeply(8)
            heard.append("the one that woke")

        async def second() -> None:
            await woken.wait()
            await run.branch("second").step(step, 0)
            heard.append("the one that was woken")

        await asyncio.gather(first(), second())
        turns.append(heard)
        await run.step(failing.step)
        return heard

    assert await twice(storage, flow, failing) == turns[0] == ["the one that woke", "the one that was woken"]


async def test_a_flow_that_turns_in_the_loop_all_the_time_is_given_its_outcomes_all_the_same(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
):  # proves: RUN-8
    monkeypatch.setattr(rest, "BUSY_SECONDS", 0.05)
    failing = Failing()

    @remit.flow(contract=OPEN)
    async def polling(run: remit.Run) -> int:
        calls = [asyncio.ensure_future(run.branch(str(n)).step(step, n)) for n in range(5)]
        while not all(call.done() for call in calls):
            await asyncio.sleep(0)
        await run.step(failing.step)
        return sum(call.result() for call in calls)

    assert await twice(storage, polling, failing) == 10


# -- people, and what is not final --------------------------------------------------------------------------------


@remit.transaction
def book_row(connection: Any, number: int) -> int:
    connection.execute("CREATE TABLE IF NOT EXISTS booked (number INTEGER)")
    connection.execute("INSERT INTO booked VALUES (?)", (number,))
    return number


@remit.transaction
def rolled_back(connection: Any, number: int) -> int:
    raise OSError("the books are full")


@pytest.mark.parametrize("seed", SEEDS)
async def test_answers_of_people_and_rows_have_their_place_among_outcomes(
    seed: int, tmp_path: Any
):  # proves: RUN-8, APR-6
    chance, heard, failing = random.Random(seed), list[str](), Failing()
    ways = [chance.choice(["approve", "deny"]) for _ in range(3)]
    waits = [chance.choice([0, 1, 2, 5]) for _ in range(20)]
    turns: list[list[str]] = []

    @remit.flow(contract=remit.Contract(version="1", resume="anyone", others="free"))
    async def flow(run: remit.Run) -> list[str]:
        heard.clear()

        async def asking(run: remit.Run, number: int) -> None:
            await deep(run.branch("d"), 0, number)
            try:
                await run.approve("terms", number, roles={"director"}, within=timedelta(hours=1))
            except remit.Denied:
                heard.append(f"no {number}")
            heard.append(f"terms {number}")
            await run.step(step, waits[number])
            heard.append(f"after {number}")

        async def booking(run: remit.Run, number: int) -> None:
            for way in ("g", "h"):
                await deep(run.branch(way), waits[number], number)
                with suppress(remit.EffectDidNotHappen):
                    await run.branch(way).transact(book_row if number % 2 else rolled_back, number)
                heard.append(f"booked {number}")

        branches = [asking(run.branch(f"a{n}"), n) for n in range(3)]
        branches += [booking(run.branch(f"b{n}"), n) for n in range(3, 7)]
        await asyncio.gather(*branches)
        turns.append(list(heard))
        await run.step(failing.step)
        return list(heard)

    url = f"sqlite:///{tmp_path}/r.db"
    async with remit.open(url) as rt, asyncio.timeout(60):
        await staffed(rt)
        assert (await rt.run(flow, id="r")).waits_for == "approval"
        for way, ask in zip(ways, await rt.inbox(), strict=True):
            await answer(rt, "approve" if way == "approve" else "deny", ask=ask)
        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")
        failing.is_up = True
    async with remit.open(url) as rt, asyncio.timeout(60):
        assert (await rt.run(flow, id="r")).value == turns[-1]


async def test_what_was_not_the_last_of_a_call_keeps_nobody_waiting(storage: Storage):  # proves: RUN-8, FX-2
    """It is known not to have happened, and its call is made again: others hear of theirs meanwhile."""
    till, heard, turns = Till(), list[str](), list[int]()
    till.next(ConnectionError("no answer"), till.hold)

    async def find(order: Order, *, key: str, epoch: int) -> remit.NotLanded:
        return remit.NotLanded()

    @remit.effect(doubt="probe", probe=find, sink="fences")
    async def pay(order: Order, *, key: str, epoch: int) -> Receipt:
        return await till._answer(order, key)

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        async def paying() -> None:
            await run.effect(pay, Order())
            heard.append("paid")

        turns.append(1)

        async def stepping() -> None:
            if len(turns) == 1:
                return
            for n in range(3):
                await run.branch(f"s{n}").step(step, 20)
            await till.is_held.wait()
            await run.branch("last").step(step, 1)
            heard.append("stepped")
            till.let_go.set()

        await asyncio.gather(paying(), stepping())

    async with storage.open() as rt, asyncio.timeout(10):
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        await rt.run(flow, id="r")
    assert heard == ["stepped", "paid"] and till.times == [1]


async def test_whoever_gives_up_an_outcome_that_waits_for_its_turn_lets_the_others_hear(
    storage: Storage,
):  # proves: RUN-8
    failing = Failing()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> int:
        calls = [asyncio.ensure_future(run.branch(str(n)).step(step, 5)) for n in range(20)]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        for call in calls[1::2]:
            call.cancel()
        await asyncio.wait(calls)
        await run.step(failing.step)
        return 1

    async with storage.open() as rt, asyncio.timeout(20):
        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")


async def test_a_turn_that_ends_leaves_nobody_who_waits_for_its_turn(storage: Storage):  # proves: RUN-8
    """It is ended while the outcomes of others are written and not heard yet."""
    ended = list[str]()

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"))
    async def flow(run: remit.Run) -> None:
        async def stepping(n: int) -> None:
            try:
                await run.branch(str(n)).step(step, 5)
            finally:
                ended.append(str(n))

        async with asyncio.TaskGroup() as group:
            for n in range(20):
                group.create_task(stepping(n))
            await run.step(step, 5)
            await rt.cancel("r", by="user:dora")

    async with storage.open() as rt, asyncio.timeout(20):
        await staffed(rt)
        await rt.run(flow, id="r")
    assert len(ended) == 20


@pytest.mark.parametrize("hops", range(0, 150, 10))
async def test_nothing_begins_while_what_happened_is_on_its_way_up_and_given_up(hops: int):  # proves: FX-10
    sent, has_paid = list[str](), asyncio.Event()

    @remit.effect
    async def pay(order: int, *, key: str) -> str:
        sent.append("pay")
        has_paid.set()
        return "paid"

    @remit.effect
    async def elsewhere(order: int, *, key: str) -> str:
        sent.append("elsewhere")
        return "paid"

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        call: Awaitable[Any] = run.effect(pay, 1)
        for _ in range(25):
            call = run.gather(call)
        paying = asyncio.ensure_future(call)
        await has_paid.wait()
        for _ in range(hops):
            await asyncio.sleep(0)
        if paying.done():
            return "paid"
        paying.cancel()
        return await run.effect(elsewhere, 1)

    async with remit.open("memory:") as rt, asyncio.timeout(30):
        with suppress(remit.DefinitionIncompatible):  # a flow that gives up by the clock is another one the next time
            await rt.run(flow, id="r")
    assert sent == ["pay"]


# -- what begins, ends and fails beside ---------------------------------------------------------------------------


async def taken_twice(
    storage: Storage, flow: Callable[[remit.Run, list[tuple[str, int]]], Awaitable[None]]
) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Who took which order, in the first turn and in the second."""
    failing, turns = Failing(), list[list[tuple[str, int]]]()

    @remit.flow(contract=OPEN, name="flow")
    async def both(run: remit.Run) -> None:
        turns.append([])
        await flow(run, turns[-1])
        await run.step(failing.step)

    await twice(storage, both, failing)
    return turns[0], turns[1]


@pytest.mark.parametrize("way", ["gather", "task group", "task of its own"])
async def test_what_was_begun_before_the_first_outcome_comes_to_its_calls_before_it(
    way: str, storage: Storage
):  # proves: RUN-8
    """The flow's own call is recorded, and could be answered before the tasks that it made have had their turn."""

    async def flow(run: remit.Run, taken: list[tuple[str, int]]) -> None:
        orders = [3, 2, 1]

        async def side(run: remit.Run) -> None:
            for _ in range(2):
                taken.append(("side", orders.pop()))
                await run.step(step, 30)

        async def own() -> None:
            await run.step(step, 2)
            taken.append(("own", orders.pop()))

        if way == "gather":
            await run.gather(own(), side(run.branch("s")))
        elif way == "task group":
            async with asyncio.TaskGroup() as group:
                group.create_task(side(run.branch("s")))
                await own()
        else:
            beside = asyncio.ensure_future(side(run.branch("s")))
            await own()
            await beside

    first, second = await taken_twice(storage, flow)
    assert first == second == [("side", 1), ("own", 2), ("side", 3)]


async def test_a_body_that_cleans_up_for_a_while_is_waited_for(storage: Storage):  # proves: RUN-8
    """In the later turn it is not at work any more, and the loser of the race goes on at once."""

    @remit.step
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.1)

    async def flow(run: remit.Run, taken: list[tuple[str, int]]) -> None:
        orders = [3, 2, 1]

        async def raced() -> None:
            await run.first(run.branch("x").step(slow), run.branch("y").step(step, 5))
            taken.append(("raced", orders.pop()))

        async def other(run: remit.Run) -> None:
            await run.step(step, 40)
            taken.append(("other", orders.pop()))
            await run.step(step, 40)
            taken.append(("other", orders.pop()))

        await run.gather(raced(), other(run.branch("o")))

    first, second = await taken_twice(storage, flow)
    assert first == second


async def test_a_flow_that_is_at_work_for_many_turns_of_the_loop_is_at_work(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
):  # proves: RUN-8
    monkeypatch.setattr(rest, "BUSY_SECONDS", 30.0)  # so that a slow machine's turns are not taken for polling

    async def flow(run: remit.Run, taken: list[tuple[str, int]]) -> None:
        orders = [3, 2, 1]

        async def summing(run: remit.Run) -> None:
            await run.step(step, 2)
            rows: asyncio.Queue[int] = asyncio.Queue(maxsize=1)

            async def read() -> None:
                for row in range(2_000):
                    await rows.put(row)

            reading = asyncio.ensure_future(read())
            for _ in range(2_000):
                await rows.get()
            await reading
            taken.append(("summing", orders.pop()))

        async def other(run: remit.Run) -> None:
            await run.step(step, 300)
            taken.append(("other", orders.pop()))

        await run.gather(summing(run.branch("s")), other(run.branch("o")))

    first, second = await taken_twice(storage, flow)
    assert first == second and len(first) == 2


async def test_a_loser_goes_on_until_the_flow_hears_that_it_lost(storage: Storage):  # proves: RUN-8
    """It heard of its own outcome before, and gives back what it took when it is let go: in each turn then."""

    async def flow(run: remit.Run, taken: list[tuple[str, int]]) -> None:
        orders, wakes = [5, 4, 3, 2, 1], asyncio.Event()

        async def loser(run: remit.Run) -> None:
            order = orders.pop()
            try:
                await deep(run.branch("d"), 10, 4)
                wakes.set()
                await run.step(step, 1_000)
            except asyncio.CancelledError:
                orders.append(order)
                raise

        async def winner(run: remit.Run) -> None:
            await run.step(step, 10)

        async def third(run: remit.Run) -> None:
            await wakes.wait()
            taken.append(("third", orders.pop()))
            await run.step(step, 1)
            taken.append(("third", orders.pop()))

        async def race() -> None:
            await run.first(loser(run.branch("l")), winner(run.branch("w")))
            taken.append(("race", orders.pop()))

        third_call = asyncio.ensure_future(third(run.branch("t")))
        await race()
        wakes.set()
        await third_call

    first, second = await taken_twice(storage, flow)
    assert first == second


async def test_whatever_a_look_at_the_loop_raises_nobody_is_left_waiting(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
):  # proves: RUN-8
    """What is ready in the loop may change while it is looked at: a collection of garbage calls something."""

    class Changing(list[Any]):
        times = 0

        def __iter__(self) -> Any:
            Changing.times += 1
            if Changing.times % 3 == 1:
                raise RuntimeError("deque mutated during iteration")
            return super().__iter__()

    failing, look = Failing(), rest._ready

    class Loop:
        def __init__(self, ready: Any) -> None:
            self._ready = Changing(ready)

    monkeypatch.setattr(rest, "_ready", lambda loop: look(Loop(loop._ready)))  # type: ignore[arg-type]

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> int:
        found = await run.gather(*(run.branch(str(n)).step(step, n) for n in range(5)))
        await run.step(failing.step)
        return sum(found)

    assert await twice(storage, flow, failing) == 10
    assert Changing.times > 5


@pytest.mark.parametrize("way", ["semaphore", "wider"])
async def test_a_failed_call_that_holds_what_the_others_wait_for_is_named_with_the_way_out(
    way: str, storage: Storage, monkeypatch: pytest.MonkeyPatch
):  # proves: RUN-4, RUN-6
    monkeypatch.setattr(replay, "STILL_SECONDS_OF_TASKS", 0.5)
    failing, width, paid = Failing(), [1], list[int]()

    @remit.effect
    async def pay(order: int, *, key: str) -> str:
        paid.append(order)
        return "paid"

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        slots = asyncio.Semaphore(width[0])

        async def one(run: remit.Run, order: int) -> None:
            async with slots:
                if order == 0:
                    await run.step(failing.step)
                await run.effect(pay, order)

        await run.gather(*(one(run.branch(str(order)), order) for order in range(3)))

    async with storage.open() as rt, asyncio.timeout(60):
        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")
        failing.is_up = True
        if way == "semaphore":
            with pytest.raises(remit.DefinitionIncompatible) as refused:
                await rt.run(flow, id="r")
            assert refused.value.begun == ("0/book",)
            assert "'0/book' was begun before" in refused.value.hint
            assert "be wider, until the run is over" in refused.value.hint
        width[0] = 2
        await rt.run(flow, id="r")
    assert sorted(paid) == [0, 1, 2]


async def test_a_loser_that_swallows_that_it_lost_is_told_again_at_its_next_call(storage: Storage):  # proves: RUN-8
    told = list[str]()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> int:
        async def deaf(run: remit.Run) -> None:
            for n in range(3):
                try:
                    await run.branch(str(n)).step(step, 1_000)
                except asyncio.CancelledError:
                    told.append(str(n))

        won: int = await run.first(deaf(run.branch("x")), run.branch("y").step(step, 5))
        return won

    async with storage.open() as rt, asyncio.timeout(20):
        assert (await rt.run(flow, id="r")).value == 5
    assert told == ["0", "1", "2"]
