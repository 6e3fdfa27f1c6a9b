"""Calls that a flow makes early and awaits later: each comes behind what its flow was given before it awaited it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import remit
from tests.spec.conftest import Storage
from tests.support.office import answer, staffed
from tests.support.till import OPEN, Order, Till


class Shop:
    """A card network that is down at first, and what is done in its stead."""

    def __init__(self) -> None:
        self.till = Till()
        self.wire = self.till.effect("wire")
        self.ran: Counter[str] = Counter()

        @remit.transaction
        def book(connection: Any, order: Order) -> int:
            self.ran["book"] += 1
            return 1

        self.book = book

    async def card(self) -> int:
        self.ran["card"] += 1
        if self.ran["card"] == 1:
            raise ValueError("down")
        return 1

    async def fallback(self) -> int:
        self.ran["fallback"] += 1
        return 2

    @property
    def did(self) -> list[int]:
        return [self.ran["card"], self.ran["book"] + self.ran["fallback"] + sum(self.till.calls.values())]


Make = Callable[[remit.Run, Shop], Awaitable[Any]]
Wait = Callable[[remit.Run, Awaitable[Any]], Awaitable[Any]]

MADE: dict[str, Make] = {
    "step": lambda run, shop: run.step(shop.fallback),
    "effect": lambda run, shop: run.effect(shop.wire, Order()),
    "transaction": lambda run, shop: run.transact(shop.book, Order()),
    "question": lambda run, shop: run.approve("terms", 1, roles={"director"}, within=timedelta(hours=1)),
    "gather": lambda run, shop: run.gather(run.step(shop.fallback)),
    "race": lambda run, shop: run.first(run.step(shop.fallback)),
}


async def as_it_is(run: remit.Run, call: Awaitable[Any]) -> Any:
    return await call


async def gathered(run: remit.Run, call: Awaitable[Any]) -> Any:
    return await run.gather(call)


async def in_a_race(run: remit.Run, call: Awaitable[Any]) -> Any:
    return await run.first(call)


async def by_asyncio(run: remit.Run, call: Awaitable[Any]) -> Any:
    return await asyncio.gather(call)


async def stays_caught(rt: remit.Runtime, flow: remit.Flow[Any], shop: Shop, *, asks: bool = False) -> None:
    """The failure left the flow behind something that was done in its stead: it stays, and so does that."""
    if asks:
        await staffed(rt)
        assert (await rt.run(flow, id="r")).status == "waiting"
        await answer(rt)
    for _ in range(2):
        with pytest.raises(remit.StepError) as failed:
            await rt.run(flow, id="r")
        assert failed.value.name in ("card", "buying")
        assert (await rt.why("r")).failures == (), "nothing is said to run again"
    assert shop.did == [1, 0 if asks else 1]


@pytest.mark.parametrize("how", [as_it_is, gathered, in_a_race, by_asyncio])
@pytest.mark.parametrize("what", MADE)
async def test_what_was_made_before_a_failure_and_awaited_behind_it_comes_behind_it(
    what: str, how: Wait, tmp_path: Path
):  # proves: RUN-6, RUN-8, FX-2
    """The failure was said to run again, and its flow did not fit its journal any more, for ever."""
    shop = Shop()

    @remit.flow(contract=OPEN)
    async def buying(run: remit.Run) -> None:
        call = MADE[what](run, shop)
        try:
            await run.step(shop.card)
        except remit.StepError:
            await how(run, call)
            raise

    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
        await stays_caught(rt, buying, shop, asks=what == "question")


@pytest.mark.parametrize("how", [as_it_is, gathered, in_a_race])
@pytest.mark.parametrize("what", ["step", "gather", "race"])
async def test_so_does_what_is_awaited_in_the_handler_of_a_task_group(
    what: str, how: Wait, storage: Storage
):  # proves: RUN-6, RUN-8
    shop = Shop()

    @remit.flow(contract=OPEN)
    async def buying(run: remit.Run) -> None:
        call = MADE[what](run, shop)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(run.step(shop.card))
        except* remit.StepError:
            await how(run, call)
            raise

    async with storage.open() as rt:
        await stays_caught(rt, buying, shop)


@pytest.mark.parametrize("is_race", [False, True], ids=["a call", "a race"])
async def test_so_does_what_is_made_there_and_awaited_in_a_task(
    is_race: bool, storage: Storage
):  # proves: RUN-6, RUN-8
    shop = Shop()

    @remit.flow(contract=OPEN)
    async def buying(run: remit.Run) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(run.step(shop.card))
        except* remit.StepError:
            if is_race:
                shop.ran["fallback"] = 1
                await asyncio.create_task(run.first(asyncio.sleep(0), asyncio.sleep(60)))
            else:
                await asyncio.create_task(run.step(shop.fallback))
            raise

    async with storage.open() as rt:
        await stays_caught(rt, buying, shop)


async def test_so_do_calls_of_code_that_a_gather_begins_in_such_a_handler(storage: Storage):  # proves: RUN-6, RUN-8
    shop = Shop()

    @remit.flow(contract=OPEN)
    async def buying(run: remit.Run) -> None:
        async def instead() -> int:
            return int(await run.step(shop.fallback))

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(run.step(shop.card))
        except* remit.StepError:
            await run.gather(instead())
            raise

    async with storage.open() as rt:
        await stays_caught(rt, buying, shop)


async def test_a_race_comes_behind_a_failure_whatever_ran_in_it(storage: Storage):  # proves: RUN-6, RUN-8
    """Its end is recorded, so a flow that went another way had to ask for it."""
    shop = Shop()

    @remit.flow(contract=OPEN)
    async def buying(run: remit.Run) -> None:
        try:
            await run.step(shop.card)
        except remit.StepError:
            await run.first(asyncio.sleep(0), asyncio.sleep(60))
            await shop.fallback()  # a function as any other, which no replay keeps from running
            raise

    async with storage.open() as rt:
        for times in (1, 2):
            with pytest.raises(remit.StepError, match="down"):
                await rt.run(buying, id="r")
            assert shop.did == [1, times]


PLAIN: dict[str, Callable[[remit.SyncRun, Shop], Any]] = {
    "step": lambda run, shop: run.step_call(shop.fallback),
    "effect": lambda run, shop: run.effect_call(shop.wire, Order()),
    "transaction": lambda run, shop: run.transact_call(shop.book, Order()),
    "question": lambda run, shop: run.approve_call("terms", 1, roles={"director"}, within=timedelta(hours=1)),
}


@pytest.mark.parametrize("failed_in", ["the flow's thread", "another thread"])
@pytest.mark.parametrize("how", ["gather", "first"])
@pytest.mark.parametrize("what", PLAIN)
async def test_a_plain_flow_may_make_its_calls_early_too(
    what: str, how: str, failed_in: str, tmp_path: Path
):  # proves: RUN-6, RUN-10, FX-2
    shop = Shop()

    @remit.flow(contract=OPEN)
    def buying(run: remit.SyncRun) -> None:
        call = PLAIN[what](run, shop)
        try:
            if failed_in == "another thread":
                with ThreadPoolExecutor(1) as threads:
                    threads.submit(copy_context().run, lambda: run.step(shop.card)).result()
            run.step(shop.card)
        except remit.StepError:
            getattr(run, how)(call)
            raise

    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
        await stays_caught(rt, buying, shop, asks=what == "question")
