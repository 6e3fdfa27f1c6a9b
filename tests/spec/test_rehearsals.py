"""Rehearsals: `check` and `judge` only read. They ask nobody outside and write nothing, whatever code and journal say.

A race that was lost is the hard case: its loser is begun and let go again on every replay, and
where it left a doubt, a real turn ends that doubt beside the flow.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import remit
from remit import Contract
from remit.store.memory import MemoryStore
from remit.store.protocol import Claim, Store
from remit.store.reading import READS, reading
from tests.spec.conftest import Storage

OPEN = Contract(version="1", resume="anyone")
WRITES = {"append", "claim", "close", "open", "open_run", "put_worker", "release", "renewer", "transact"}


class Race:
    """A payment that loses a race and is left in doubt. probed: how often its probe was called."""

    def __init__(self) -> None:
        self.probed = 0

        async def look(request: int, *, key: str) -> Any:
            self.probed += 1
            raise ConnectionError("no answer")

        @remit.effect(doubt="probe", probe=look)
        async def pay(request: int, *, key: str) -> str:
            self.begun.set()
            await asyncio.sleep(0.01)
            raise ConnectionError("no answer")

        @remit.step
        async def quick() -> int:
            await self.begun.wait()
            return 1

        @remit.flow(contract=OPEN, name="race")
        async def flow(run: remit.Run) -> int:
            return int(await run.first(run.effect(pay, 1), run.step(quick)))

        self.begun, self.flow = asyncio.Event(), flow


async def _settled_down() -> None:
    """What a rehearsal left behind has its turn."""
    for _ in range(50):
        await asyncio.sleep(0.001)


async def test_a_loser_in_doubt_is_neither_asked_about_nor_settled(storage: Storage):  # proves: RUN-17
    race = Race()
    async with storage.open() as rt:
        assert (await rt.run(race.flow, id="r")).status == "in_doubt"
        probed, before = race.probed, await rt.read("r")

        assert (await rt.check("r", race.flow)).fit == "compatible"
        assert (await rt.judge("r", race.flow)).call == ""
        await _settled_down()

        assert race.probed == probed
        assert await rt.read("r") == before


async def test_a_rehearsal_writes_nothing_beside_a_worker_that_holds_the_run(storage: Storage):  # proves: RUN-17, OWN-1
    race = Race()
    async with storage.open() as rt:
        await rt.run(race.flow, id="r")
        await rt.grant("user:dana", "clerk", by="user:root")
        await rt.resolve("r", "pay", "did_not_happen", by="user:dana", evidence="the bank has no such payment")
        row = (await rt.read("r")).row
        assert await rt._ready().store.claim(Claim(row.run_key, row.epoch, "another worker", 60_000)) is not None
        before = (await rt.read("r")).main

        await rt.check("r", race.flow)
        await rt.judge("r", race.flow)
        await _settled_down()

        assert (await rt.read("r")).main == before
        assert await rt.verify("r") is None


async def test_a_rehearsal_says_that_the_run_would_wait_where_an_outcome_was_lost():  # proves: RUN-17
    @remit.effect
    async def pay(request: int, *, key: str) -> str:
        return object()  # type: ignore[return-value]

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        await run.effect(pay, 1)

    async with remit.open("memory:") as rt:
        assert (await rt.run(flow, id="r")).code == "effect.value_lost"
        told = await rt.check("r", flow)

    assert told.fit == "compatible"
    assert told.reason.startswith("it would wait: pay happened and its outcome is lost")


async def test_a_rehearsal_of_code_that_swallows_its_end_leaves_the_loop_to_others():  # proves: RUN-15, RUN-17
    @remit.step
    async def quick() -> int:
        return 1

    async def swallowing(run: remit.Run) -> None:
        while True:
            try:
                await run.step(quick)
            except asyncio.CancelledError:
                raise
            except BaseException:
                pass

    async with remit.open("memory:") as rt:
        flow = remit.flow(contract=OPEN)(swallowing)
        await rt.start(flow, id="r")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await rt.check("r", flow)


async def test_a_store_that_is_only_read_refuses_all_that_is_not_listed_as_reading(tmp_path: Path):  # proves: RUN-17
    methods = {name for name in [*vars(Store), *Store.__annotations__] if not name.startswith("_")}
    assert methods - READS == WRITES | {"exists", "examine"}

    store = reading(MemoryStore())
    for name in methods - READS:
        with pytest.raises(AssertionError, match=name):
            getattr(store, name)
