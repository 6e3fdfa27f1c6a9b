"""Turns of one flow that end where its story says: each but the last is cut there, and given back as it is."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import remit
from remit.engine.declared.sink import Effect
from remit.facts.kinds import StepDone, StepFailed
from tests.spec.conftest import Storage

OPEN = remit.Contract(version="1", resume="anyone")


class Turns:
    """Which turn it is; one is over when its flow comes to what it dies of, and is given back as it is."""

    def __init__(self) -> None:
        self.number = 1
        self.dies = asyncio.Event()

    async def die(self) -> None:
        self.dies.set()
        await asyncio.sleep(60)


async def cut(storage: Storage, flow: Any, turns: Turns) -> None:
    """A turn that ends where it dies, in a runtime of its own."""
    async with storage.open() as rt, asyncio.timeout(60):
        turn = asyncio.ensure_future(rt.run(flow, id="r"))
        await turns.dies.wait()
        turn.cancel()
        with suppress(asyncio.CancelledError):
            await turn
    turns.number, turns.dies = turns.number + 1, asyncio.Event()


async def whole(storage: Storage, flow: Any) -> Any:
    async with storage.open() as rt, asyncio.timeout(60):
        return (await rt.run(flow, id="r")).value


def paying(turns: Turns) -> tuple[list[int], Effect[str], Any]:
    """What was paid, how an order is, and what is noted of one: the first turn dies of that of order 3."""
    paid = list[int]()

    @remit.effect
    async def pay(order: int, *, key: str) -> str:
        paid.append(order)
        return "paid"

    @remit.step
    async def note(order: int) -> None:
        if turns.number == 1 and order == 3:
            await turns.die()

    return paid, pay, note


async def facts_of(storage: Storage) -> dict[str, StepDone | StepFailed]:
    async with storage.open() as rt:
        view = (await rt.show("r")).view
        return {name: call.fact for name, call in view.calls.items() if isinstance(call.fact, StepDone | StepFailed)}
