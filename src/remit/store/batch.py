"""Group commit: everything of this process that waits goes into one transaction.

One writer per process and database takes whatever is waiting, writes it in one commit and
answers each unit by itself. A thousand runs that each wait for the disk share one sync.
While one batch is being written the next one gathers, so a batch grows with the load and
a lone run never waits for company.

    one unit per run, lane and batch   entries of a run that come while its unit waits join it, with their notes
    a unit with conditions of its own  is never joined: it stands in line, and is in the batch after that
    a losing unit                      matches no row and gets its own answer; the others commit
    an unexpected error                the batch is rolled back and each unit is tried alone
    a transaction of the caller's      is alone: after the batch that waits, before the one that gathers meanwhile

A very small batch on an embedded database is written on the calling thread: two hops
between threads would cost more than they free.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple, Protocol

from remit.errors import CommitUnknown, LeaseLost, Moved, StoreClosed, StoreUnavailable
from remit.store.protocol import Counters
from remit.store.rows import RunRow
from remit.store.units import Loss, Made, Opening, Unit


class Answers(NamedTuple):
    """What became of a batch that was committed, in the order in which it was given."""

    lost: list[Loss | None]  # per unit: None where it was written, or why nothing of it was
    opened: Sequence[Made]  # per opening


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


Alone = Callable[[], Awaitable[tuple[Unit, Loss | None]]]  # writes a unit in a transaction of its own
Done = tuple[Unit, Loss | None] | BaseException


@dataclass(slots=True)
class _Waiting:
    unit: Unit
    futures: list[asyncio.Future[Loss | None]]
    told: Loss | BaseException | Literal["", "written"] = ""  # what became of it; "" until that is known


@dataclass(slots=True)
class _WaitingAlone:
    write: Alone
    context: contextvars.Context  # of the caller, whose code it runs
    future: asyncio.Future[Done]


@dataclass(slots=True)
class _Batch:
    units: list[_Waiting] = field(default_factory=list)
    openings: list[tuple[Opening, asyncio.Future[Made]]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.units) + len(self.openings)


class GroupCommit:
    """The queue in front of a committer. Belongs to the event loop that made it."""

    def __init__(self, committer: Committer, counters: Counters) -> None:
        self._committer, self._counters = committer, counters
        self._loop = asyncio.get_running_loop()
        self._lines: dict[tuple[int, str], list[_Waiting]] = {}  # by run and lane; the first of each is written next
        self._openings: list[tuple[Opening, asyncio.Future[Made]]] = []
        self._alone: list[_WaitingAlone] = []
        self._is_scheduled = False
        self._was_small = True
        self._writing: asyncio.Task[None] | None = None
        self._is_closed = False

    async def append(self, unit: Unit) -> None:
        """Write a unit; returns when it is durable. Raises as Store.append says.

        A unit that was handed over is written or not, whoever stopped waiting. Who is cancelled, however often, is told
        so when that is known, and where it was not written, that instead: what comes after it would lose as well.
        """
        self._check_open()
        line = self._lines.get((unit.run_key, unit.lane))
        future: asyncio.Future[Loss | None] = self._loop.create_future()
        if line is None:
            waiting = _Waiting(unit, [future])
            self._lines[unit.run_key, unit.lane] = [waiting]
        elif unit.is_conditional or line[-1].unit.is_conditional:
            # What it follows may yet be refused: it is written on its own, and the store says what became of it.
            waiting = _Waiting(unit, [future])
            line.append(waiting)
        elif line[-1].unit.head_after == unit.head_before:
            waiting = line[-1]
            _join(waiting.unit, unit)
            waiting.futures.append(future)
        else:
            # Both extend the same head and one of them loses; it hears so when the winner is written.
            await asyncio.wait(line[-1].futures)
            raise _loss(unit, "lease")
        self._schedule()
        try:
            lost = await future
        except asyncio.CancelledError:
            await self._hear(waiting)
            raise
        if lost is not None:
            raise _loss(unit, lost)

    async def _hear(self, waiting: _Waiting) -> None:
        """Wait for what becomes of a unit whose caller was cancelled. Raises what says that it was not written."""
        if not waiting.told:
            future: asyncio.Future[Loss | None] = self._loop.create_future()
            waiting.futures.append(future)
            while not future.done():
                with suppress(asyncio.CancelledError):  # its place in the line is taken until it is answered
                    await asyncio.wait([future])
            lost = future.result()
        else:
            if isinstance(waiting.told, BaseException):
                raise waiting.told from None
            lost = None if waiting.told == "written" else waiting.told
        if lost is not None:
            raise _loss(waiting.unit, lost) from None

    async def transact(self, write: Alone) -> None:
        """Let `write` have the committer's connection to itself. Raises what it raises, and as Store.append says.

        Once begun it is not stopped: a caller who goes away does not hear how it ended.
        """
        self._check_open()
        waiting = _WaitingAlone(write, contextvars.copy_context(), self._loop.create_future())
        self._alone.append(waiting)
        self._schedule()
        done = await waiting.future
        if isinstance(done, BaseException):
            raise done
        unit, lost = done
        if lost is not None:
            raise _loss(unit, lost)

    async def open_run(self, opening: Opening) -> RunRow | None:
        """Make a run; None where its id is taken. Raises Moved where its ground is not as it says."""
        self._check_open()
        future: asyncio.Future[Made] = self._loop.create_future()
        self._openings.append((opening, future))
        self._schedule()
        opened = await future
        if isinstance(opened, str):
            raise Moved(opened)
        return opened

    async def close(self) -> None:
        """Write what waits, then refuse everything."""
        self._is_closed = True
        while self._is_anything_waiting() or self._writing is not None:
            if self._writing is not None:
                await asyncio.wait([self._writing])
            else:
                self._flush()

    def _is_anything_waiting(self) -> bool:
        return bool(self._lines or self._openings or self._alone)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreClosed("Nothing was written: the store is closed.")
        if asyncio.get_running_loop() is not self._loop:
            raise StoreClosed("Nothing was written: the store was opened in another event loop.", code="store.loop")

    def _schedule(self) -> None:
        """Flush when the tasks that are ready now have had their turn, so that they share the commit."""
        if self._writing is None and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._flush, context=contextvars.Context())  # it is of all who wait

    def _flush(self) -> None:
        self._is_scheduled = False
        if self._writing is not None or not self._is_anything_waiting():
            return
        lines, openings = self._lines, self._openings
        try:
            batch = self._take()
            is_small = len(batch) <= self._committer.inline_max
            if is_small and self._was_small and not self._alone:
                self._write_now(batch)
            else:
                self._was_small = is_small
                self._begin_to_write(batch)
        except BaseException:  # a signal, whose handler raises wherever it meets us: the loop ends, and waits for all
            _fail(_Batch([waiting for line in lines.values() for waiting in line], openings), CommitUnknown(_MET))
            raise

    def _take(self) -> _Batch:
        """All that waits, one unit of each line; from here on a new batch gathers."""
        lines, batch = self._lines, _Batch(openings=self._openings)
        self._lines, self._openings = {}, []
        for place, line in lines.items():
            batch.units.append(line[0])
            if len(line) > 1:
                self._lines[place] = line[1:]
        if any(waiting.unit.is_conditional for waiting in batch.units):
            # What others may rest on goes first: who judged by what this batch changes judges again.
            batch.units.sort(key=lambda waiting: (waiting.unit.is_conditional, waiting.unit.lane == "main"))
        return batch

    def _write_now(self, batch: _Batch) -> None:
        units, openings = [w.unit for w in batch.units], [o for o, _ in batch.openings]
        try:
            answers = self._committer.commit_now(units, openings)
        except (StoreUnavailable, CommitUnknown) as exc:
            _fail(batch, exc)
        except Exception:
            self._begin_to_write(batch)
        else:
            self._answer(batch, answers)
            if self._lines:  # somebody stood in line behind one of them
                self._schedule()

    def _begin_to_write(self, batch: _Batch) -> None:
        self._writing = self._loop.create_task(self._write(batch))
        self._writing.add_done_callback(partial(self._never_begun, batch))

    def _never_begun(self, batch: _Batch, task: asyncio.Task[None]) -> None:
        """A loop that ends cancels what runs in it, also before its first turn: nobody else would say so."""
        if self._writing is task:
            self._writing = None
            _fail(batch, StoreUnavailable(_ENDED))
            if self._is_anything_waiting():
                self._schedule()

    async def _write(self, batch: _Batch) -> None:
        """Write a batch, and then those that gathered meanwhile; small ones for the calling thread go by `_flush`."""
        try:
            await self._write_whole(batch)
            await self._write_alone()
            await asyncio.sleep(0)  # who was answered has a turn, so that what it does next shares a commit
            while self._alone or len(self._lines) + len(self._openings) > self._committer.inline_max:
                await self._write_whole(self._take())
                await self._write_alone()
                await asyncio.sleep(0)
        finally:
            self._writing = None
            if self._is_anything_waiting():
                self._schedule()

    async def _write_alone(self) -> None:
        """Each that waits now; what comes meanwhile waits for the next batch, so that neither kind starves."""
        turn, self._alone = self._alone, []
        for waiting in turn:
            if waiting.future.cancelled():
                continue  # its caller went away before it began
            try:
                done = await self._loop.create_task(_done(waiting.write), context=waiting.context)
            except BaseException:  # before its first turn; once it has begun it says itself what became of it
                for left in turn:
                    if not left.future.done():
                        left.future.set_result(StoreUnavailable(_ENDED))
                raise
            if not isinstance(done, BaseException):
                self._count([done[0]], [done[1]])
                self._counters.commits += 1
            if not waiting.future.done():
                waiting.future.set_result(done)

    async def _write_whole(self, batch: _Batch) -> None:
        """Write a batch, and answer each of it whatever ends the loop meanwhile."""
        try:
            await self._write_or_split(batch)
        except BaseException:
            _fail(batch, CommitUnknown(_MET))
            raise

    async def _write_or_split(self, batch: _Batch) -> None:
        if not batch:
            return
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
        self._counters.commits += 1
        self._count([waiting.unit for waiting in batch.units], answers.lost)
        for waiting, lost in zip(batch.units, answers.lost, strict=True):
            waiting.told = lost or "written"
            for future in waiting.futures:
                if not future.done():  # its task may have been cancelled; what it wrote stays written
                    future.set_result(lost)
        for (_, opened), row in zip(batch.openings, answers.opened, strict=True):
            self._counters.units += 1
            self._counters.entries += isinstance(row, RunRow)
            if not opened.done():
                opened.set_result(row)

    def _count(self, units: Sequence[Unit], losses: Sequence[Loss | None]) -> None:
        written = [len(unit.entries) for unit, lost in zip(units, losses, strict=True) if lost is None]
        self._counters.units += len(units)
        self._counters.entries += sum(written)
        self._counters.lost += len(units) - len(written)


_ENDED = "Nothing was written: the loop ended before it began."
_MET = "The loop ended while this was written; nobody knows whether it was."


async def _done(write: Alone) -> Done:
    """Its answer, or what it raised: it runs code of the caller's, so even an exit belongs to the caller alone."""
    try:
        return await write()
    except BaseException as exc:
        return exc


def _loss(unit: Unit, lost: Loss) -> LeaseLost | Moved:
    if lost != "lease":
        return Moved(lost)
    held = "no longer as it was read" if unit.epoch is None else f"not held under epoch {unit.epoch}, or went back"
    return LeaseLost(f"Nothing was written: run key {unit.run_key} is {held}.")


def _join(first: Unit, later: Unit) -> None:
    """Let a later unit of the same run ride on one that still waits."""
    assert later.epoch == first.epoch, "an attempt has one epoch"
    assert first.quarantine is None and later.quarantine is None, "incidents are written one at a time"
    first.entries.extend(later.entries)
    first.head_after, first.seq_after = later.head_after, later.seq_after
    first.move = later.move or first.move
    if later.marks:
        first.marks = (*first.marks, *later.marks)


def _fail(batch: _Batch, exc: BaseException) -> None:
    """Answer all of a batch that were not answered yet."""
    for waiting in batch.units:
        waiting.told = waiting.told or exc
        for future in waiting.futures:
            if not future.done():
                future.set_exception(exc)
    for _, opened in batch.openings:
        if not opened.done():
            opened.set_exception(exc)
