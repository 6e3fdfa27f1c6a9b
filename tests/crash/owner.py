"""A process that works at one run, and says what it does: `python -m tests.crash.owner PLAN`, PLAN as JSON.

It opens the store, says "ready", and begins on a line of input. In its long step it goes by the plan: it
computes without a pause, waits for another line, or returns at once. Each body that is executed leaves
a line in a file outside Remit. The store is wrapped from here, so that the product needs no hooks.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import msgspec

import remit
from remit.errors import RemitError
from remit.store.protocol import Renewer, Store
from remit.store.rows import RunRow
from remit.store.units import Claim, Opening, Renewal
from remit.store.url import store_for
from tests.support.journal import TENANT, Hand

RUN = "po-1"
OPEN = remit.Contract(version="1", resume="anyone")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What this process is to do.

    is_waiting: the run is waited for where somebody else holds it. is_held: the long step waits for a line of input.
    busy_s: seconds that the long step computes, never giving the loop back. is_stopped: SIGSTOP to itself after
    its first renewal inside the long step, so that it holds no lock of the database while it is stopped.
    """

    url: str
    bodies: str
    lease_ms: int = 60_000
    is_waiting: bool = True
    is_held: bool = False
    busy_s: float = 0
    is_stopped: bool = False


class Watched:
    """A store that says who got the run, and may stop its own process behind a renewal."""

    def __init__(self, store: Store, plan: Plan) -> None:
        self.inner, self.plan = store, plan
        self.worker = ""  # of this process, as the store knows it
        self.is_long = False  # the long step is under way

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def open_run(self, opening: Opening) -> RunRow | None:
        self.worker = opening.worker or ""
        return await self.inner.open_run(opening)

    async def claim(self, claim: Claim) -> RunRow | None:
        row = await self.inner.claim(claim)
        say("not mine" if row is None else "claimed")
        return row

    async def renewer(self) -> Renewer:
        return _Stopping(await self.inner.renewer(), self)


class _Stopping:
    def __init__(self, renewer: Renewer, store: Watched) -> None:
        self.inner, self.store, self.has_stopped = renewer, store, False

    async def renew(self, worker: str, leases: Sequence[Renewal], *, lease_ms: int) -> dict[int, bytes]:
        held = await self.inner.renew(worker, leases, lease_ms=lease_ms)
        if self.store.plan.is_stopped and self.store.is_long and not self.has_stopped:
            self.has_stopped = True
            os.kill(os.getpid(), signal.SIGSTOP)
        return held

    async def close(self) -> None:
        await self.inner.close()


async def main(plan: Plan) -> None:
    store = Watched(store_for(plan.url, clock=None), plan)
    async with remit.open(cast(Store, store), lease_ms=plan.lease_ms) as rt:
        say("ready")
        await word()
        try:
            outcome = await rt.run(purchase(plan, store), id=RUN, wait=plan.is_waiting)
        except RemitError as exc:
            say("raised", code=exc.code)
        else:
            say("ended", value=outcome.value)
        if plan.is_stopped:
            say("tried", **await try_all(store))


def purchase(plan: Plan, store: Watched) -> Any:
    """Three steps. What is recorded of them is the same whoever executes them."""

    async def first() -> int:
        execute(plan, "first")
        return 1

    async def long() -> int:
        execute(plan, "long")
        store.is_long = True
        say("begun")
        compute(plan.busy_s)
        if plan.is_held:
            await word()
        store.is_long = False
        return 2

    async def last() -> int:
        execute(plan, "last")
        return 3

    @remit.flow(contract=OPEN)
    async def purchase(run: remit.Run) -> list[int]:
        return [await run.step(first), await run.step(long), await run.step(last)]

    return purchase


async def try_all(store: Watched) -> dict[str, Any]:
    """What the store answers to a worker whose lease is over, even where it knows the newest head and epoch."""
    row = await store.inner.read_row(TENANT, RUN)
    assert row is not None
    appended = "written"
    try:
        await store.inner.append(Hand(store.inner, replace(row, epoch=1, worker=store.worker)).step())
    except RemitError as exc:
        appended = exc.code
    renewer = await store.inner.renewer()
    wishes = [[Renewal(row.run_key, 1)], [Renewal(row.run_key, row.epoch)]]
    renewed = [sorted(await renewer.renew(store.worker, wish, lease_ms=60_000)) for wish in wishes]
    await renewer.close()
    return {"append": appended, "renewed": renewed, "released": await store.inner.release(row.run_key, 1)}


def compute(seconds: float) -> None:
    """Pure Python that never gives the loop back."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1_000))


def execute(plan: Plan, name: str) -> None:
    """One line for each body that is executed; the kernel keeps appended lines of several processes apart."""
    file = os.open(plan.bodies, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(file, f"{name} {os.getpid()}\n".encode())
    os.close(file)


async def word() -> None:
    """Wait for a line of input."""
    await asyncio.to_thread(sys.stdin.readline)


def say(word: str, **more: Any) -> None:
    os.write(1, f"{json.dumps([word, more])}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Plan)))
