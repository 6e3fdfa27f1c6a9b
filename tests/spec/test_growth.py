"""The cost of a step does not grow with the length of its run: counted, not timed.

calls      of the store, and bytes handed to it: the same for the last 500 steps as for the first
SQLite     instructions of its machine for each statement, as the library itself counts them
Postgres   rows of old entries that were read, as the server itself counts them
"""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

import remit
from remit import Contract
from remit.store.units import Unit
from tests.spec.conftest import Storage

OPEN = Contract(version="1", resume="anyone")
STEPS, WINDOW = 5_000, 500
NOTE = "n" * 1_000
BYTES_MAX = STEPS * 40 * 1024 * 1024 // 10_000  # 40 MB for 10,000
RESUME_BYTES_MAX = 60 * 1024 * 1024


class Ledgered:
    """A store, seen from outside: which calls came at which step, and how many bytes each append brought."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.step = 0
        self.calls: list[tuple[int, str]] = []
        self.sizes: list[int] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name in ("ledger", "url", "counters") or name.startswith("_") or not callable(found):
            return found

        def noted(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((self.step, name))
            if name == "append":
                (unit,) = args
                self.sizes.append(size(unit))
            return found(*args, **kwargs)

        return noted


def size(unit: Unit) -> int:
    return sum(len(e.header) + len(e.body) + len(e.value or b"") for e in unit.entries)


class Growing:
    """A flow of many small steps that waits at its end until it is let through."""

    def __init__(self, steps: int = STEPS) -> None:
        self.ran = 0
        self.is_open = False
        self.at_step: Any = lambda n: None

        async def note(n: int) -> str:
            self.ran += 1
            self.at_step(n)
            return NOTE

        async def gate() -> None:
            if not self.is_open:
                raise PermissionError

        @remit.flow(contract=OPEN, name="growing")
        async def growing(run: remit.Run) -> int:
            for n in range(steps):
                await run.step(note, n)
            await run.step(gate)
            return steps

        self.flow = growing


@pytest.mark.slow
async def test_a_step_costs_the_same_at_the_end_of_a_long_run_and_the_run_goes_on_in_bounded_memory(  # proves: RUN-13
    database: Storage,
):
    """Case C46. One run serves for all, because 5,000 synced commits take their time."""
    growing = Growing()
    seen, effort = await grow(database, growing)

    within = [(step, call) for step, call in seen.calls if 0 < step < STEPS]
    assert within == [(step, "append") for step in range(1, STEPS)]  # one append for each step, and nothing is read
    assert sum(seen.sizes[-WINDOW - 1 : -2]) <= 1.05 * sum(seen.sizes[1:WINDOW])  # a few digits more of seq and name
    if database.kind == "sqlite":
        assert 0 < effort[-1] - effort[-WINDOW] <= 1.05 * (effort[WINDOW] - effort[1])
        assert Path(database.make(None).removeprefix("sqlite:///")).stat().st_size < BYTES_MAX
    else:
        told = await told_by_postgres(database.make(None))
        assert told["n_tup_ins"] == STEPS + 5  # remit:authority; opened, attempt, gate failed, parked
        # The one entry of remit:authority, when the runtime first looked; none of the run's.
        assert (told["read"], told["n_tup_upd"], told["n_tup_del"]) == (1, 0, 0)
        assert told["size"] < BYTES_MAX

    growing.is_open = True
    async with database.open(lease_ms=600_000) as rt:
        tracemalloc.start()
        try:
            outcome = await rt.run(growing.flow, id="r")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (outcome.value, growing.ran) == (STEPS, STEPS)  # nothing ran again
    assert peak < RESUME_BYTES_MAX


async def grow(database: Storage, growing: Growing) -> tuple[Ledgered, list[int]]:
    """Run it up to its gate; the calls of the store, and SQLite's instructions up to each step."""
    effort: list[int] = []
    total = 0

    def count(event: dict[str, Any]) -> None:
        nonlocal total
        total += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def at_step(n: int) -> None:
        seen.step = n + 1
        effort.append(total)

    growing.at_step = at_step
    async with database.open(lease_ms=600_000) as rt:
        assert rt._host is not None
        store: Any = rt._store
        seen = Ledgered(store)
        object.__setattr__(rt._host, "store", seen)
        connections = [store._writer._connection, store._reader] if database.kind == "sqlite" else []
        for connection in connections:
            connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, count)
        with pytest.raises(remit.StepError):
            await rt.run(growing.flow, id="r")
        for connection in connections:
            connection.trace_v2(0, None)
    assert len(effort) == growing.ran == STEPS
    return seen, effort


async def told_by_postgres(url: str) -> Any:
    """What the server counted for the table of entries; counts are handed in when a backend ends, and ours have."""
    server: Any = await asyncpg.connect(url)
    try:
        return await server.fetchrow(
            "SELECT n_tup_ins, n_tup_upd, n_tup_del, seq_tup_read + coalesce(idx_tup_fetch, 0) AS read,"
            " pg_total_relation_size(relid) AS size FROM pg_stat_user_tables"
            " WHERE schemaname = 'remit' AND relname = 'entry'"
        )
    finally:
        await server.close()
