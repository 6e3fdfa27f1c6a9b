"""The writer: one connection, one transaction at a time, on a thread of its own or the caller's.

Code of the caller's is lent another connection for its transaction, and never this one; see `guest.py`.

A batch is written optimistically: all rows are moved by three statements run many times,
and the number of changed rows says whether every unit won. Only when one lost is the
batch rolled back and written again row by row, to find out who and why. So the usual case
asks nothing and the rare case costs twice.

The write-ahead log starts over only at a moment without readers. Many short reads that
overlap leave no such moment, so beyond a size the writer waits for one, holding the write
lock: readers that come then read the file itself and don't count.

A crash before COMMIT leaves frames without a valid end, which recovery drops; a crash
after it leaves the batch. Nothing lies between.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import apsw

from remit.clock import Clock
from remit.errors import StoreUnavailable
from remit.store.batch import Answers
from remit.store.damage import DAMAGE, damaged
from remit.store.sqlite.connection import IN_USE, PATIENCE_S, WAL_BYTES_MAX, Busy, transact, unavailable
from remit.store.sqlite.file import connect_again
from remit.store.sqlite.guest import Build, Guest, refuse_under_way
from remit.store.sqlite.lent import Lent
from remit.store.sqlite.place import Place
from remit.store.sqlite.units import Move, SomeLost, move_all, move_each, write_batch
from remit.store.tables import is_large
from remit.store.units import Loss, Opening, Unit

T = TypeVar("T")

_LOG_LOOKED_AT_EVERY = 32  # commits
_LOG_WAIT_MS = 200  # for the readers to leave
_LOG_PAUSE_S = 5.0  # after a wait in vain


class _Unwritten(Exception):
    """The unit lost, and the caller's rows with it."""

    def __init__(self, unit: Unit, lost: Loss) -> None:
        super().__init__(lost)
        self.unit, self.lost = unit, lost


class SqliteWriter:
    """Writes batches and single statements. The lock keeps thread and caller apart."""

    inline_max = 2

    def __init__(self, connection: apsw.Connection, path: str, clock: Clock) -> None:
        self._connection, self._path, self._clock = connection, path, clock
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="remit-sqlite-writer")
        self.place = Place(path)
        self._commits, self._log_rest_until = 0, 0.0
        self._spare: Lent | None = None  # for the next guest

    async def commit(self, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        return await self.run(lambda: self._commit(units, openings, PATIENCE_S))

    def commit_now(self, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        """On the calling thread; raises Busy where that would have to wait, so that the thread does it instead."""
        if any(is_large(entry) for u in units for entry in u.entries):
            raise Busy
        if not self._lock.acquire(blocking=False):
            raise Busy
        try:
            return self._commit(units, openings, 0)
        finally:
            self._lock.release()

    async def write(self, act: Callable[[apsw.Connection, int], T]) -> T:
        """Run `act(connection, now)` in a transaction of its own, on the writer's thread."""

        def write() -> T:
            try:
                return act(self._connection, self._clock.now())
            except apsw.Error as exc:
                raise unavailable(exc, self._connection) from exc
            except DAMAGE as exc:
                raise damaged(exc) from exc

        return await self.run(lambda: self._transaction(self._connection, write, PATIENCE_S))

    async def transact(self, build: Build, limit_ms: int) -> tuple[Unit, Loss | None]:
        """Write a unit and the caller's own rows in one transaction; with a reason where neither was written."""
        context = contextvars.copy_context()
        return await self.run(lambda: context.run(self._transact, build, limit_ms))

    async def run(self, act: Callable[[], T]) -> T:
        """Run `act` on the writer's thread, alone with the connection."""

        def alone() -> T:
            with self._lock:
                return act()

        return await asyncio.get_running_loop().run_in_executor(self._thread, alone)

    def close(self) -> None:
        """Wait for what is being written, then close."""
        self._thread.shutdown(wait=True)
        self._connection.close()
        if self._spare is not None:
            self._spare.close()

    def _commit(self, units: Sequence[Unit], openings: Sequence[Opening], patience_s: float) -> Answers:
        connection = self._connection
        try:
            answers = self._transaction(connection, lambda: self._write(units, openings, move_all), patience_s)
        except SomeLost:
            answers = self._transaction(connection, lambda: self._write(units, openings, move_each), patience_s)
        self._note_commit()
        return answers

    def _transaction(self, connection: apsw.Connection, write: Callable[[], T], patience_s: float) -> T:
        """As `transact`, and only where it can be found again. Raises StoreUnavailable `store.moved`, CommitUnknown."""

        def placed() -> T:
            written = write()
            self.place.check()  # at the end: waiting for the lock may have taken long
            return written

        written = transact(connection, placed, patience_s=patience_s)
        self.place.check_committed()
        return written

    def _transact(self, build: Build, limit_ms: int) -> tuple[Unit, Loss | None]:
        if self._spare is None:
            self.place.check()  # the file is opened once more, by its name
            lent = connect_again(self._path, kind=Lent)
            assert isinstance(lent, Lent)
            self._spare = lent
        guest, self._spare = Guest(self._spare, limit_ms), None

        def write() -> Unit:
            unit = guest.build_unit(build)
            (lost,) = write_batch(guest.connection, [unit], [], self._clock.now(), move_each).lost
            if lost is not None:
                raise _Unwritten(unit, lost)
            return unit

        try:
            unit = self._transaction(guest.connection, write, PATIENCE_S)
        except BaseException as exc:
            guest.close()
            if isinstance(exc, _Unwritten):
                return exc.unit, exc.lost
            if isinstance(exc, StoreUnavailable) and guest.is_over and isinstance(exc.__cause__, IN_USE):
                refuse_under_way(exc)
            raise
        self._spare = guest.leave()
        self._note_commit()
        return unit, None

    def _note_commit(self) -> None:
        self._commits += 1
        if self._commits % _LOG_LOOKED_AT_EVERY == 0 and self._is_log_long():
            self._thread.submit(self._restart_log)

    def _write(self, units: Sequence[Unit], openings: Sequence[Opening], move: Move) -> Answers:
        # The clock is read under the lock: a lease can't run out in the queue.
        return write_batch(self._connection, units, openings, self._clock.now(), move)

    def _is_log_long(self) -> bool:
        if time.monotonic() < self._log_rest_until:
            return False
        try:
            return os.stat(self._path + "-wal").st_size > WAL_BYTES_MAX
        except OSError:
            return False

    def _restart_log(self) -> None:
        with self._lock:
            if not self._is_log_long():
                return
            self._connection.setbusytimeout(_LOG_WAIT_MS)
            try:
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except apsw.Error:  # somebody reads for long, or another process is at it: the log grows on for a while
                self._log_rest_until = time.monotonic() + _LOG_PAUSE_S
