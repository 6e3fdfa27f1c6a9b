"""Remit's own journals: whoever acts is written once, in a row of their own, however many act at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import remit
from remit.facts.names import AUTHORITY
from remit.store.memory import MemoryStore
from remit.store.rows import Peek, RunRow
from tests.spec.conftest import Storage

ROOT = "user:root"


@remit.flow(contract=remit.Contract(version="1", resume="anyone"))
async def nothing(run: remit.Run) -> None: ...


async def test_of_many_that_act_at_once_in_one_process_none_is_turned_away(storage: Storage):  # proves: LOG-10
    async with storage.open() as rt:
        acts = (rt.grant(f"user:{number}", "clerk", by=ROOT) for number in range(20))
        assert sorted(await asyncio.gather(*acts)) == list(range(2, 22))
        assert (await rt.authority()).version == 21
        assert await rt.verify(AUTHORITY) is None


async def test_two_processes_that_act_at_once_both_read_again_until_they_are_written(database: Storage):
    # proves: LOG-10, LOG-4
    async with database.open() as one, database.open() as two:
        acts = (
            rt.grant(f"user:{number}-{name}", "clerk", by=ROOT) for number in range(3) for name, rt in _of(one, two)
        )
        assert sorted(await asyncio.gather(*acts)) == list(range(2, 8))
        assert await one.authority() == await two.authority()
        assert await two.verify(AUTHORITY) is None


async def test_who_looks_for_the_first_time_beside_another_makes_nobody_forget():  # proves: GATE-5
    store, seen = Slow(), list[int]()
    async with remit.open(store) as office:
        await office.grant("user:dana", "clerk", by=ROOT)
    async with remit.open(store) as rt:
        standing = rt._ready().standing
        store.on_peek = lambda: seen.append(standing.authority.version)
        store.is_held = True
        slow = asyncio.create_task(rt.start(nothing, id="r"))
        await store.asked.wait()
        assert (await rt.authority()).version == 2
        store.go.set()
        await slow
    assert seen == [0, 2]


class Slow(MemoryStore):
    """A store that is slow to say, once, where the directory is."""

    def __init__(self) -> None:
        super().__init__()
        self.is_held, self.asked, self.go = False, asyncio.Event(), asyncio.Event()
        self.on_peek: Callable[[], None] = lambda: None

    async def read_row(self, tenant: str, run: str) -> RunRow | None:
        row = await super().read_row(tenant, run)
        if self.is_held:
            self.is_held = False
            self.asked.set()
            await self.go.wait()
        return row

    async def peek(self, run_key: int) -> Peek | None:
        self.on_peek()
        return await super().peek(run_key)


def _of(one: remit.Runtime, two: remit.Runtime) -> tuple[tuple[str, remit.Runtime], ...]:
    return ("one", one), ("two", two)
