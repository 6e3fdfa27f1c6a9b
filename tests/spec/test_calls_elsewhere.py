"""Calls from elsewhere: a call of the run is taken where its flow is at work, and an effect is called by nothing else.

A thread of a pool has no context of whoever handed it work, so nothing about it may rest on a mark that is missing.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import remit
from remit import Contract
from tests.spec.conftest import Storage

OPEN = Contract(version="1", resume="anyone")
HOUR = timedelta(hours=1)


@pytest.fixture
def paid() -> list[str]:
    return []


@pytest.fixture
def pay(paid: list[str]) -> remit.Effect[str]:
    @remit.effect
    def pay(invoice: str, *, key: str) -> str:
        paid.append(invoice)
        return "paid"

    return pay


@remit.transaction
def book(connection: Any, invoice: str) -> None: ...


def on_a_pool(work: Callable[..., Any], *args: Any) -> Any:
    """In a thread without any context."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work, *args).result()


async def on_the_loops_own(work: Callable[..., Any], *args: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, work, *args)


def code_of(call: Callable[..., Any], *args: Any) -> str:
    """Why it is refused."""
    with pytest.raises(remit.CallRefused) as refused:
        call(*args)
    return refused.value.code


def test_an_effect_and_a_transaction_are_called_by_nobody_directly(pay: remit.Effect[str], paid: list[str]):
    # proves: GATE-1
    """Neither inside of a run nor outside; and whoever tests their function has it."""
    for call, name in ((lambda: pay("i-1", key="k"), "pay"), (lambda: book(None, "i-1"), "book")):
        with pytest.raises(remit.CallRefused, match=rf"`{name}\.fn\(\.\.\.\)`") as refused:
            call()
        assert refused.value.code == "call.direct"
    assert paid == []
    assert (pay.fn("i-1", key="k"), paid) == ("paid", ["i-1"])


@pytest.mark.parametrize("by", ["the flow", "a step"])
async def test_an_effect_is_not_called_from_a_thread_that_knows_no_run(
    by: str, pay: remit.Effect[str], paid: list[str], storage: Storage
):  # proves: GATE-1
    def directly() -> None:
        pay("i-1", key="k")

    @remit.step
    def pays() -> str:
        return code_of(on_a_pool, directly)

    @remit.flow(contract=OPEN, name="buy")
    def plain(run: remit.SyncRun) -> str:
        return run.step(pays) if by == "a step" else code_of(on_a_pool, directly)

    @remit.flow(contract=OPEN, name="buy")
    async def on_the_loop(run: remit.Run) -> str:
        with pytest.raises(remit.CallRefused) as refused:
            await on_the_loops_own(directly)
        return refused.value.code

    async with storage.open() as rt:
        assert (await rt.run(plain, id="r")).value == "call.direct"
        assert (await rt.run(on_the_loop, id="other")).value == "call.direct"
    assert paid == []


CALLS: dict[str, Callable[[remit.SyncRun, Any], Any]] = {
    "step": lambda run, _: run.step(remit.Step("look", str), 1),
    "step_call": lambda run, _: run.step_call(remit.Step("look", str), 1),
    "effect": lambda run, pay: run.effect(pay, "i-1"),
    "effect_call": lambda run, pay: run.effect_call(pay, "i-1"),
    "transact": lambda run, _: run.transact(book, "i-1"),
    "approve": lambda run, _: run.approve("terms", 1, roles={"director"}, within=HOUR),
    "evidence": lambda run, _: run.evidence("stock", 4, as_of=datetime.now(UTC), fresh_for=HOUR),
    "first": lambda run, _: run.first(),
    "branch": lambda run, _: run.branch("a"),
    "now": lambda run, _: run.now(),
    "random": lambda run, _: run.random(),
    "uuid": lambda run, _: run.uuid(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("by", ["the flow", "a step"])
def test_no_call_of_the_run_comes_from_a_thread_that_knows_no_flow(
    by: str, call: str, pay: remit.Effect[str], paid: list[str]
):  # proves: RUN-4, FX-1
    """From a step's body no replay would make it again; and nobody knows whether it is a thread of the flow's own."""

    @remit.flow(contract=OPEN)
    def buy(run: remit.SyncRun) -> str:
        def from_there() -> str:
            return code_of(on_a_pool, CALLS[call], run, pay)

        return run.step(from_there) if by == "a step" else from_there()

    with remit.open("memory:") as rt:
        assert rt.run_sync(buy, id="r").value == "call.outside"
        assert set(rt.show_sync("r").view.calls) <= {"from_there"}
    assert paid == []


def test_a_step_that_fans_its_payments_out_pays_none(pay: remit.Effect[str], paid: list[str], storage: Storage):
    # proves: RUN-4, FX-1
    """They had been paid, and then no code fitted the journal any more."""

    @remit.flow(contract=OPEN, name="buy")
    def in_the_step(run: remit.SyncRun) -> None:
        def pay_all(invoices: list[str]) -> None:
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda invoice: run.effect(pay, invoice), invoices))

        run.step(pay_all, ["i-1", "i-2"])

    @remit.flow(contract=OPEN, name="buy")
    def in_the_flow(run: remit.SyncRun) -> Any:
        return run.gather(*(run.effect_call(pay, invoice) for invoice in ("i-1", "i-2")))

    with storage.open() as rt:
        with pytest.raises(remit.StepError) as raised:
            rt.run_sync(in_the_step, id="r")
        assert isinstance(raised.value.__cause__, remit.CallRefused)
        assert (raised.value.__cause__.code, paid) == ("call.outside", [])
        assert rt.run_sync(in_the_flow, id="r").value == ["paid", "paid"]
    assert sorted(paid) == ["i-1", "i-2"]


async def _awaited(call: Any, _run: remit.Run) -> Any:
    return await call


async def _gathered(call: Any, run: remit.Run) -> Any:
    return await run.gather(call)


async def _on_a_pool(call: Any, _run: remit.Run) -> Any:
    loop = asyncio.get_running_loop()

    async def wait() -> Any:
        return await call

    return await on_the_loops_own(lambda: asyncio.run_coroutine_threadsafe(wait(), loop).result())


@pytest.mark.parametrize("what", ["an effect", "a step", "a race", "a question"])
@pytest.mark.parametrize("waited", [_awaited, _gathered, _on_a_pool])
async def test_no_body_awaits_a_call_that_the_flow_made(
    waited: Callable[[Any, remit.Run], Any], what: str, pay: remit.Effect[str], paid: list[str]
):  # proves: RUN-4, FX-1
    """It would be written before the step that holds it, and no replay would wait for it again."""
    calls: dict[str, Callable[[remit.Run], Any]] = {
        "an effect": lambda run: run.effect(pay, "i-1"),
        "a step": lambda run: run.step(remit.Step("look", str), 1),
        "a race": lambda run: run.first(run.effect(pay, "i-1")),
        "a question": lambda run: run.approve("terms", 1, roles={"director"}, within=HOUR),
    }

    @remit.flow(contract=OPEN)
    async def buy(run: remit.Run) -> str:
        call = calls[what](run)

        async def body() -> str:
            with pytest.raises(remit.CallRefused) as refused:
                await waited(call, run)
            return refused.value.code

        told: str = await run.step(body)
        return told

    async with remit.open("memory:") as rt:
        outcome = await rt.run(buy, id="r")
        assert outcome.value == ("call.outside" if waited is _on_a_pool else "call.nested")
        assert (set((await rt.show("r")).view.calls), paid) == ({"body"}, [])


async def test_a_run_s_calls_are_made_by_no_other_run(pay: remit.Effect[str], paid: list[str]):  # proves: FX-1, RUN-4
    """Whose rules would hold? The other run's flow is called in a step of this one, which a replay does not enter."""
    kept: list[remit.Run] = []
    held: list[remit.Runtime] = []

    @remit.flow(contract=OPEN)
    async def strict(_run: remit.Run) -> str:
        with pytest.raises(remit.CallRefused) as refused:
            await kept[0].effect(pay, "i-1")
        return refused.value.code

    @remit.flow(contract=OPEN)
    async def lax(run: remit.Run) -> str:
        async def child() -> str:
            return str((await held[0].run(strict, id="strict")).value)

        kept.append(run)
        return str(await run.step(child))

    async with remit.open("memory:") as rt:
        held.append(rt)
        assert (await rt.run(lax, id="lax")).value == "call.outside"
    assert paid == []


async def test_calls_are_taken_wherever_the_flow_s_context_came(storage: Storage):  # proves: RUN-8, RUN-10
    """Tasks, callbacks, threads of asyncio's and, given a copy of it, threads of a pool."""

    @remit.step
    async def look(where: str) -> str:
        return where

    @remit.flow(contract=OPEN, name="looks")
    async def looks(run: remit.Run) -> list[str]:
        loop = asyncio.get_running_loop()

        def from_thread(where: str) -> Any:
            return asyncio.run_coroutine_threadsafe(run.branch(where).step(look, where), loop).result()

        called = loop.create_future()
        loop.call_soon(lambda: called.set_result(asyncio.ensure_future(run.branch("callback").step(look, "callback"))))
        told = [await asyncio.create_task(run.branch("task").step(look, "task")), await (await called)]
        told.append(await asyncio.to_thread(from_thread, "to_thread"))
        told.append(await on_the_loops_own(contextvars.copy_context().run, from_thread, "pool"))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(run.branch("group").step(look, "group"))
        return [*told, task.result(), await run.first(run.step(look, "race")), *await run.gather(run.step(look, "all"))]

    @remit.flow(contract=OPEN, name="plainly")
    def plainly(run: remit.SyncRun) -> list[str]:
        with ThreadPoolExecutor(1) as pool:
            branch = run.branch("pool")
            told: str = pool.submit(contextvars.copy_context().run, lambda: branch.step(look, "pool")).result()
        return [told, run.first(run.step_call(look, "race")), *run.gather(run.step_call(look, "all"))]

    async with storage.open() as rt:
        outcome = await rt.run(looks, id="r")
        assert outcome.value == ["task", "callback", "to_thread", "pool", "group", "race", "all"]
        assert (await rt.run(plainly, id="plain")).value == ["pool", "race", "all"]
