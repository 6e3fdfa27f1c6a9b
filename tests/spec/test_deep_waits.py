"""Waits within waits: a cancellation takes turns of the loop to come down to the call, however deep that stands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

import remit
from tests.spec.conftest import Storage
from tests.support.office import DORA, answer, staffed
from tests.support.till import OPEN

DEPTHS = [5, 13, 60]
Wait = Callable[[remit.Run, Awaitable[Any]], Awaitable[Any]]


async def _grouped(run: remit.Run, call: Awaitable[Any]) -> Any:
    async with asyncio.TaskGroup() as group:
        task: asyncio.Task[Any] = group.create_task(call)  # type: ignore[arg-type]
    return task.result()


async def _waited(run: remit.Run, call: Awaitable[Any]) -> Any:
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait([task])
    finally:
        task.cancel()
    return await task


WAITS: list[Wait] = [lambda run, call: run.gather(call), _grouped, _waited]


@pytest.mark.parametrize("wait", WAITS, ids=["run.gather", "task group", "asyncio.wait"])
@pytest.mark.parametrize("depth", DEPTHS)
async def test_what_was_given_up_above_many_waits_is_heard_before_anything_new_begins(depth: int, wait: Wait):
    # proves: FX-10
    sent, has_begun, may_return = list[str](), asyncio.Event(), asyncio.Event()

    @remit.effect
    async def pay(order: int, *, key: str) -> str:
        has_begun.set()
        await may_return.wait()
        sent.append("pay")
        return "paid"

    @remit.effect
    async def elsewhere(order: int, *, key: str) -> str:
        sent.append("elsewhere")
        return "paid"

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        has_begun.clear()
        call: Awaitable[Any] = run.branch("a").effect(pay, 1)
        for _ in range(depth):
            call = wait(run, call)
        paying = asyncio.ensure_future(call)
        await asyncio.wait({paying, asyncio.ensure_future(has_begun.wait())}, return_when=asyncio.FIRST_COMPLETED)
        if paying.done():
            return "paid"
        asyncio.get_running_loop().call_later(0.05, may_return.set)
        paying.cancel()
        return await run.effect(elsewhere, 1)

    async with remit.open("memory:") as rt, asyncio.timeout(30):
        assert (await rt.run(flow, id="r")).value == "paid"
    assert sent == ["pay"]


@pytest.mark.parametrize("wait", WAITS, ids=["run.gather", "task group", "asyncio.wait"])
@pytest.mark.parametrize("depth", DEPTHS)
async def test_what_is_given_up_again_above_many_waits_does_not_begin_behind_the_replay(
    depth: int, wait: Wait, storage: Storage
):  # proves: FX-10, RUN-4
    """Nobody had answered when it was given up. By the next turn somebody has."""
    sent, archives = list[str](), [OSError("closed")]
    rule = remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=1)))

    @remit.effect
    async def pay(order: int, *, key: str) -> str:
        sent.append("pay")
        return "paid"

    @remit.effect
    async def elsewhere(order: int, *, key: str) -> str:
        sent.append("elsewhere")
        return "paid"

    @remit.step
    async def check() -> None:
        await asyncio.sleep(0.1)
        raise OSError("no line")

    @remit.step
    async def archive() -> None:
        if archives:
            raise archives.pop()

    contract = remit.Contract(version="1", resume="anyone", effects={"pay": rule}, others="free")

    @remit.flow(contract=contract)
    async def flow(run: remit.Run) -> None:
        call: Awaitable[Any] = run.branch("a").effect(pay, 1)
        for _ in range(depth):
            call = wait(run, call)
        paying = asyncio.ensure_future(call)
        for _ in range(2 * depth + 4):
            await asyncio.sleep(0)
        try:
            await run.step(check)
        except remit.StepError:
            paying.cancel()
        await run.effect(elsewhere, 1)
        await asyncio.wait([paying])
        await run.step(archive)

    async with storage.open() as rt, asyncio.timeout(30):
        await staffed(rt)
        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")
        await answer(rt, "approve", by=DORA)
        await rt.run(flow, id="r")
    assert sent == ["elsewhere"]
