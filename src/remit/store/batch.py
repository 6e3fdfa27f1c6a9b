"""Group commit: everything of this process that waits goes into one transaction.

One writer per process and database takes whatever is waiting, writes it in one commit and
answers each unit by itself. A thousand runs that each wait for the disk share one sync.
While one batch is being written the next one gathers, so a batch grows with the load and
a lone run never waits for company.

    one unit per run, lane and batch   entries of a run that come while its unit waits join that unit
    a losing unit                      matches no row and gets its own answer; the others commit
    an unexpected error                the batch is rolled back and each unit is tried alone

A very small batch on an embedded database is written on the calling thread: two hops
between threads would cost more than they free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from remit.errors import CommitUnknown, LeaseLost, StoreClosed, StoreUnavailable
from remit.store.protocol import Counters, Opening, RunRow, Unit


class Answers(NamedTuple):
    """What became of a batch that was committed, in the order in which it was given."""

    written: list[bool]  # per unit: False where head, epoch or lease were not as it said
    opened: list[RunRow | None]  # per opening: its row, or None where the id is taken


class Committer(Protocol):
    """Writes a batch in one transaction.

    Raises StoreUnavailable where nothing was written, CommitUnknown where that can't be known,
    anything else where the batch was rolled back for a reason of its own.
    """

    inline_max: int  # batches of up to so many units are written by `commit_now`; 0 for a store that can't

    async def commit(self, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers: ...

    def commit_now(self, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        """The same on the calling thread."""
        ...


@dataclass(slots=True)
class _Waiting:
    unit: Unit
    futures: list[asyncio.Future[bool]]


@dataclass(slots=True)
class _Batch:
    units: list[_Waiting] = field(default_factory=list)
    openings: list[tuple[Opening, asyncio.Future[RunRow | None]]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.units) + len(self.openings)


class GroupCommit:
    """The queue in front of a committer. Belongs to the event loop that made it."""

    def __init__(self, committer: Committer, counters: Counters) -> None:
        self._committer, self._counters = committer, counters
        self._loop = asyncio.get_running_loop()
        self._units: dict[tuple[int, str], _Waiting] = {}
        self._openings: list[tuple[Opening, asyncio.Future[RunRow | None]]] = []
        self._is_scheduled = False
        self._was_small = True
        self._writing: asyncio.Task[None] | None = None
        self._is_closed = False

    async def append(self, unit: Unit) -> None:
        """Write a unit; returns when it is durable. Raises as Store.append says."""
        self._check_open()
        key = (unit.run_key, unit.lane)
        waiting = self._units.get(key)
        future: asyncio.Future[bool] = self._loop.create_future()
        if waiting is None:
            self._units[key] = _Waiting(unit, [future])
        elif waiting.unit.head_after == unit.head_before:
            _join(waiting.unit, unit)
            waiting.futures.append(future)
        else:
            # Both extend the same head and one of them loses; it hears so when the winner is written.
            await asyncio.wait(waiting.futures)
            raise _lost(unit)
        self._schedule()
        if not await future:
            raise _lost(unit)

    async def open_run(self, opening: Opening) -> RunRow | None:
        """Make a run; None where its id is taken."""
        self._check_open()
        future: asyncio.Future[RunRow | None] = self._loop.create_future()
        self._openings.append((opening, future))
        self._schedule()
        return await future

    async def close(self) -> None:
        """Write what waits, then refuse everything."""
        self._is_closed = True
        while self._units or self._openings or self._writing is not None:
            if self._writing is not None:
                await asyncio.wait([self._writing])
            else:
                self._flush()

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreClosed("Nothing was written: the store is closed.")
        if asyncio.get_running_loop() is not self._loop:
            raise StoreClosed("Nothing was written: the store was opened in another event loop.", code="store.loop")

    def _schedule(self) -> None:
        """Flush when the tasks that are ready now have had their turn, so that they share the commit."""
        if self._writing is None and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_scheduled = False
        if self._writing is not None or not (self._units or self._openings):
            return
        batch = self._take()
        is_small = len(batch) <= self._committer.inline_max
        if is_small and self._was_small:
            self._write_now(batch)
        else:
            self._was_small = is_small
            self._writing = self._loop.create_task(self._write(batch))

    def _take(self) -> _Batch:
        """All that waits; from here on a new batch gathers."""
        batch = _Batch(list(self._units.values()), self._openings)
        self._units, self._openings = {}, []
        return batch

    def _write_now(self, batch: _Batch) -> None:
        units, openings = [w.unit for w in batch.units], [o for o, _ in batch.openings]
        try:
            answers = self._committer.commit_now(units, openings)
        except (StoreUnavailable, CommitUnknown) as exc:
            _fail(batch, exc)
        except Exception:
            self._writing = self._loop.create_task(self._write(batch))
        else:
            self._answer(batch, answers)

    async def _write(self, batch: _Batch) -> None:
        """Write a batch, and then those that gathered meanwhile; small ones for the calling thread go by `_flush`."""
        try:
            await self._write_or_split(batch)
            await asyncio.sleep(0)  # who was answered has a turn, so that what it does next shares a commit
            while len(self._units) + len(self._openings) > self._committer.inline_max:
                await self._write_or_split(self._take())
                await asyncio.sleep(0)
        finally:
            self._writing = None
            if self._units or self._openings:
                self._schedule()

    async def _write_or_split(self, batch: _Batch) -> None:
        try:
            answers = await self._committer.commit([w.unit for w in batch.units], [o for o, _ in batch.openings])
        except (StoreUnavailable, CommitUnknown) as exc:
            _fail(batch, exc)
        except Exception as exc:
            # Rolled back as a whole: find the one that the database will not take, and let the others through.
            if len(batch) == 1:
                _fail(batch, exc)
                return
            for waiting in batch.units:
                await self._write_or_split(_Batch([waiting], []))
            for opening in batch.openings:
                await self._write_or_split(_Batch([], [opening]))
        else:
            self._answer(batch, answers)

    def _answer(self, batch: _Batch, answers: Answers) -> None:
        counters = self._counters
        counters.commits += 1
        counters.units += len(batch)
        for waiting, is_written in zip(batch.units, answers.written, strict=True):
            if is_written:
                counters.entries += len(waiting.unit.entries)
            else:
                counters.lost += 1
            for future in waiting.futures:
                if not future.done():  # its task may have been cancelled; what it wrote stays written
                    future.set_result(is_written)
        for (_, opened), row in zip(batch.openings, answers.opened, strict=True):
            counters.entries += row is not None
            if not opened.done():
                opened.set_result(row)


def _lost(unit: Unit) -> LeaseLost:
    held = "extended by somebody else" if unit.epoch is None else f"no longer held under epoch {unit.epoch}"
    return LeaseLost(f"Nothing was written: run key {unit.run_key} is {held}.")


def _join(first: Unit, later: Unit) -> None:
    """Let a later unit of the same run ride on one that still waits."""
    assert later.epoch == first.epoch, "an attempt has one epoch"
    assert first.quarantine is None and later.quarantine is None, "incidents are written one at a time"
    first.entries.extend(later.entries)
    first.head_after, first.seq_after = later.head_after, later.seq_after
    first.move = later.move or first.move


def _fail(batch: _Batch, exc: BaseException) -> None:
    for waiting in batch.units:
        for future in waiting.futures:
            if not future.done():
                future.set_exception(exc)
    for _, opened in batch.openings:
        if not opened.done():
            opened.set_exception(exc)
