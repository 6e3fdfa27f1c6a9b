"""What a function brings along tells one work from another where the flow made it, and says nothing where it did not.

A flow may hand its work on by a closure, a step, a wrapper or a helper. What was there before it counts, or keeps what
it fetched, from turn to turn, and unchanged code is not refused for that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import remit
from tests.spec.conftest import Storage, storage_of
from tests.support.turns import OPEN, Turns, cut, paying, whole


@pytest.fixture
def memory(tmp_path: Path) -> Storage:
    return storage_of("memory", tmp_path, str)


def retrying(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    async def again(*args: Any) -> Any:
        try:
            return await fn(*args)
        except OSError:
            return await fn(*args)

    return again


class Retrying:
    """A wrapper that is no function, and names what it wraps."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn

    async def __call__(self) -> Any:
        return await self.fn()


async def numbered(order: int) -> int:
    return order


async def by_a_closure(run: remit.Run, order: int) -> int:
    async def fetched() -> int:
        return order

    got: int = await run.step(fetched)
    return got


async def by_a_lambda_in_a_step(run: remit.Run, order: int) -> int:
    got: int = await run.step(remit.Step("fetched", lambda: order))
    return got


async def by_one_that_is_handed_on(run: remit.Run, order: int) -> int:
    async def fetched() -> int:
        return order

    async def call(fn: Callable[..., Any]) -> int:
        got: int = await run.step(fn)
        return got

    return await call(retrying(fetched))


HELPERS = {
    "a helper's closure": by_a_closure,
    "a helper's lambda": by_a_lambda_in_a_step,
    "a helper's, handed on": by_one_that_is_handed_on,
}
OF_THE_FLOW = (
    "wrapped",
    "wrapped by an object",
    "cached",
    "a step",
    "a step of a wrapper",
    "a step of a partial",
    "a partial",
    "called",
    "called two deep",
    "called by a partial",
    "called as a default",
)


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("how", [*OF_THE_FLOW, *HELPERS])
async def test_work_that_a_function_brings_along_is_told_apart_however_it_is_handed_on(
    how: str, width: int, memory: Storage
):  # proves: RUN-4, FX-3
    turns, workers = Turns(), [2]
    paid, pay, note = paying(turns)

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        orders = list(range(8))

        def way(order: int) -> Callable[..., Any]:
            async def fetched() -> int:
                return order

            def at_once() -> int:
                return order

            async def calling() -> int:
                return await fetched()

            async def called_by_a_partial() -> int:
                return await given()

            async def by_default(fn: Callable[..., Any] = fetched) -> int:
                got: int = await fn()
                return got

            async def twice(add: int) -> int:
                return await calling() + add

            async def plainly(order: int) -> int:
                return order

            given = partial(plainly, order)
            ways: dict[str, Callable[[], Callable[..., Any]]] = {
                "wrapped": lambda: retrying(fetched),
                "wrapped by an object": lambda: Retrying(fetched),
                "cached": lambda: functools.lru_cache(at_once),
                "a step": lambda: remit.step(fetched),
                "a step of a wrapper": lambda: remit.step(retrying(fetched)),
                "a step of a partial": lambda: remit.Step("fetched", partial(numbered, order)),
                "a partial": lambda: remit.Step("fetched", partial(twice, 0)),
                "called": lambda: calling,
                "called two deep": lambda: retrying(calling),
                "called by a partial": lambda: called_by_a_partial,
                "called as a default": lambda: by_default,
            }
            return ways[how]()

        async def worker(run: remit.Run) -> None:
            while orders:
                number = orders.pop(0)
                order = await (run.step(way(number)) if how in OF_THE_FLOW else HELPERS[how](run, number))
                await run.effect(pay, order)
                await run.step(note, order)

        await run.gather(*(worker(run.branch(f"w{n}")) for n in range(workers[0])))

    await cut(memory, flow, turns)
    done, workers[0] = list(paid), width
    if width == 2:
        await whole(memory, flow)
        assert sorted(paid) == list(range(8))
        return
    with pytest.raises(remit.DefinitionIncompatible, match="other arguments"):
        await whole(memory, flow)
    assert paid == done


def counting() -> Callable[[], Any]:
    count = 0

    async def counted() -> int:
        nonlocal count
        count += 1
        return count

    return counted


def of_another_module(helper: Callable[..., Any]) -> Callable[[], Any]:
    kept = keeping()
    kept.__module__, kept.__qualname__ = "elsewhere", f"{helper.__qualname__}.<locals>.kept"
    return kept


async def call(run: remit.Run, fn: Callable[..., Any]) -> None:
    await run.step(fn)


def keeping() -> Callable[[], Any]:
    kept = dict[str, int]()

    async def kept_or_fetched() -> int:
        kept[f"{len(kept)}"] = 1
        return len(kept)

    return kept_or_fetched


def counted(fn: Callable[..., Any], calls: tuple[int, ...] = ()) -> Callable[..., Any]:
    async def again() -> Any:
        nonlocal calls
        calls += (1,)
        return await fn()

    again.__dict__["__wrapped__"] = fn
    return again


@dataclass
class Client:
    requests: int = 0

    async def fetched(self) -> int:
        self.requests += 1
        return self.requests


async def plainly() -> int:
    return 1


COUNTED, KEEPING, CLIENT = counting(), keeping(), Client()
BEFORE = {
    "a closure": COUNTED,
    "a closure that keeps": KEEPING,
    "a closure of another module": of_another_module(call),
    "a wrapper": counted(plainly),
    "a wrapped closure": retrying(COUNTED),
    "a step of a closure": remit.Step("counted", COUNTED),
    "a step of a method": remit.Step("fetched", CLIENT.fetched),
    "a step of a partial": remit.Step("fetched", partial(Client.fetched, CLIENT)),
}
IN_THE_FLOW = (
    "calls a closure from before",
    "counts",
    "counts within",
    "calls one that counts",
    "calls one that keeps",
    "keeps",
)


@pytest.mark.parametrize("how", [*BEFORE, *IN_THE_FLOW])
async def test_what_counts_or_keeps_by_itself_is_no_other_work(how: str, memory: Storage):  # proves: RUN-4
    turns = Turns()

    @remit.step
    async def book() -> None:
        if turns.number == 1:
            await turns.die()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> int:
        count, before = 0, COUNTED
        kept = dict[str, int]()

        async def calling() -> int:
            got: int = await before()
            return got

        async def counts() -> int:
            nonlocal count
            count += 1
            return count

        async def counts_within() -> int:
            def add() -> int:
                nonlocal count
                count += 1
                return count

            return add()

        async def calls_one_that_counts() -> int:
            return await counts() + count

        async def keeps() -> int:
            kept[f"{len(kept)}"] = 1
            return len(kept)

        async def calls_one_that_keeps() -> int:
            return await keeps()

        def cached(fn: Callable[..., Any]) -> Callable[..., Any]:
            memo = dict[str, int]()

            @functools.wraps(fn)
            async def again() -> Any:
                memo[f"{len(memo)}"] = 1
                return await fn()

            return again

        ways = (calling, counts, counts_within, calls_one_that_counts, calls_one_that_keeps, cached(calling))
        way: Any = {**BEFORE, **dict(zip(IN_THE_FLOW, ways, strict=True))}[how]

        async def worker(run: remit.Run) -> None:
            for _ in range(3):
                await call(run, way)

        await run.gather(worker(run.branch("a")), worker(run.branch("b")))
        await run.step(book)
        return 1

    await cut(memory, flow, turns)
    assert await whole(memory, flow) == 1


def test_work_that_a_helper_of_a_plain_flow_brings_along_is_told_apart(tmp_path: Path):  # proves: RUN-4, FX-3
    paid, invoices, is_up = list[str](), ["a", "b"], [False]

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
        prepared = run.gather(*[prepared_of(run, invoice) for invoice in invoices])
        run.step(book)
        for invoice in prepared:
            run.effect(pay, invoice)

    with remit.open(f"sqlite:///{tmp_path}/runs.db") as rt:
        with pytest.raises(remit.StepError):
            rt.run_sync(flow, id="r")
        invoices.reverse()
        is_up[0] = True
        with pytest.raises(remit.DefinitionIncompatible, match=r"'prepared'.*other arguments"):
            rt.run_sync(flow, id="r")
        invoices.reverse()
        rt.run_sync(flow, id="r")
    assert paid == ["a", "b"]


def prepared_of(run: remit.SyncRun, invoice: str) -> Any:
    def prepared() -> str:
        return invoice

    return run.step_call(prepared)


async def test_what_is_made_around_a_run_is_of_no_flow(memory: Storage):  # proves: RUN-4
    turns, count = Turns(), 0
    numbers = [7]

    @remit.step
    async def book() -> None:
        if turns.number == 1:
            await turns.die()

    async def reading() -> int:
        return count + numbers[0]

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        await run.gather(run.branch("a").step(reading), run.branch("b").step(remit.step(reading)))
        await run.step(book)

    await cut(memory, flow, turns)
    count += 1
    async with memory.open() as rt:
        await rt.run(flow, id="r")  # in this very task
