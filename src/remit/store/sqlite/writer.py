"""The writer: one connection, one transaction at a time, on a thread of its own or the caller's.

A batch is written optimistically: all rows are moved by three statements run many times,
and the number of changed rows says whether every unit won. Only when one lost is the
batch rolled back and written again row by row, to find out who. So the usual case asks
nothing and the rare case costs twice.

The write-ahead log starts over only at a moment without readers. Many short reads that
overlap leave no such moment, so beyond a size the writer waits for one, holding the write
lock: readers that come then read the file itself and don't count.

A crash before COMMIT leaves frames without a valid end, which recovery drops; a crash
after it leaves the batch. Nothing lies between.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any, TypeVar

import apsw

from remit.clock import Clock
from remit.errors import StoreError, StoreUnavailable, Tampered, ValueRefused
from remit.facts.entry import Entry
from remit.store.batch import Answers
from remit.store.protocol import BLOB_BYTES_MIN, Opening, RunRow, Unit
from remit.store.sqlite.connection import PATIENCE_S, WAL_BYTES_MAX, Busy, transact, unavailable
from remit.store.sqlite.rows import LANES, Q

T = TypeVar("T")

_ADVANCE, _MOVE, _POST = Q["advance"], Q["advance_and_move"], Q["advance_post"]
_INSERT_ENTRY, _INSERT_RUN = Q["insert_entry"], Q["insert_run"]


_LOG_LOOKED_AT_EVERY = 32  # commits
_LOG_WAIT_MS = 200  # for the readers to leave
_LOG_PAUSE_S = 5.0  # after a wait in vain


class _SomeLost(Exception):
    """Fewer rows were moved than there are units: the batch is written again, one by one."""


class SqliteWriter:
    """Writes batches and single statements. The lock keeps thread and caller apart."""

    inline_max = 2

    def __init__(self, connection: apsw.Connection, path: str, clock: Clock) -> None:
        self._connection, self._path, self._clock = connection, path, clock
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="remit-sqlite-writer")
        self._file = _file_id(path)
        self._commits, self._log_rest_until = 0, 0.0

    async def commit(self, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        return await self.run(lambda: self._commit(units, openings, PATIENCE_S))

    def commit_now(self, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        """On the calling thread; raises Busy where that would have to wait, so that the thread does it instead."""
        if any(entry.value is not None and len(entry.value) > BLOB_BYTES_MIN for u in units for entry in u.entries):
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
                raise unavailable(exc) from exc

        def transaction() -> T:
            self._check_file()
            return transact(self._connection, write)

        return await self.run(transaction)

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

    def _commit(self, units: Sequence[Unit], openings: Sequence[Opening], patience_s: float) -> Answers:
        self._check_file()
        connection = self._connection
        try:
            answers = transact(connection, lambda: self._write(units, openings, _move_all), patience_s=patience_s)
        except _SomeLost:
            answers = transact(connection, lambda: self._write(units, openings, _move_each), patience_s=patience_s)
        self._commits += 1
        if self._commits % _LOG_LOOKED_AT_EVERY == 0 and self._is_log_long():
            self._thread.submit(self._restart_log)
        return answers

    def _write(
        self,
        units: Sequence[Unit],
        openings: Sequence[Opening],
        move: Callable[[apsw.Connection, Sequence[Unit], int], list[bool]],
    ) -> Answers:
        connection, now = self._connection, self._clock.now()  # read under the lock: a lease can't run out in the queue
        try:
            written = move(connection, units, now)
            won = units if all(written) else [u for u, is_written in zip(units, written, strict=True) if is_written]
            _insert_entries(connection, [(u.run_key, entry) for u in won for entry in u.entries])
            for unit in won:
                if unit.quarantine is not None:
                    key, flag = unit.quarantine
                    connection.execute(Q["set_quarantine"], (int(flag), key))
            opened = [_open_run(connection, opening, now) for opening in openings]
            _insert_entries(
                connection, [(row.run_key, o.entry) for row, o in zip(opened, openings, strict=True) if row is not None]
            )
        except apsw.Error as exc:
            raise _meaning(exc, units) from exc
        return Answers([None if is_written else "lease" for is_written in written], opened)

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

    def _check_file(self) -> None:
        """A file that was moved or deleted still takes writes, and nobody would ever find them again."""
        if _file_id(self._path) != self._file:
            raise StoreUnavailable(
                f"Nothing was written: {self._path} was moved, deleted or replaced since it was opened.",
                code="store.moved",
                hint="Put the file back while the program is stopped, and start it again.",
            )


def _file_id(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # never open(): closing it would drop SQLite's locks
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _move_all(connection: apsw.Connection, units: Sequence[Unit], now: int) -> list[bool]:
    """Move every row; raises _SomeLost where one did not match."""
    advances: list[tuple[Any, ...]] = []
    moves: list[tuple[Any, ...]] = []
    posts: list[tuple[Any, ...]] = []
    for unit in units:
        if unit.lane == "post":
            posts.append((unit.head_after, unit.seq_after, unit.run_key, unit.head_before))
        elif unit.move is None:
            advances.append((unit.head_after, unit.seq_after, unit.run_key, unit.head_before, unit.epoch, now))
        else:
            moves.append(_move_values(unit, now))
    before = connection.total_changes()
    for sql, rows in ((_ADVANCE, advances), (_MOVE, moves), (_POST, posts)):
        if rows:
            connection.executemany(sql, rows)
    if connection.total_changes() - before != len(units):
        raise _SomeLost
    return [True] * len(units)


def _move_each(connection: apsw.Connection, units: Sequence[Unit], now: int) -> list[bool]:
    written = []
    for unit in units:
        if unit.lane == "post":
            connection.execute(_POST, (unit.head_after, unit.seq_after, unit.run_key, unit.head_before))
        elif unit.move is None:
            values = (unit.head_after, unit.seq_after, unit.run_key, unit.head_before, unit.epoch, now)
            connection.execute(_ADVANCE, values)
        else:
            connection.execute(_MOVE, _move_values(unit, now))
        written.append(connection.changes() == 1)
    return written


def _move_values(unit: Unit, now: int) -> tuple[Any, ...]:
    move = unit.move
    assert move is not None
    head = (unit.head_after, unit.seq_after, unit.run_key, unit.head_before, unit.epoch, now)
    return (*head, move.status, move.code, int(move.release))


def _insert_entries(connection: apsw.Connection, entries: Sequence[tuple[int, Entry]]) -> None:
    rows = []
    for run_key, entry in entries:
        value, digest = entry.value, None
        if value is not None and len(value) > BLOB_BYTES_MIN:
            digest = sha256(value).digest()
            connection.execute(Q["insert_blob"], (digest, value))
            value = None
        rows.append((run_key, LANES[entry.lane], entry.seq, entry.header, entry.body, entry.salt, value, digest))
    if rows:
        connection.executemany(_INSERT_ENTRY, rows)


def _open_run(connection: apsw.Connection, opening: Opening, now: int) -> RunRow | None:
    o = opening
    epoch, lease_until = (0, 0) if o.worker is None else (1, now + o.lease_ms * 1_000)
    values = (o.tenant, o.run, o.gen, o.flow, o.by, o.opened_at, o.window_end, o.head, epoch, o.worker, lease_until)
    key = connection.execute(_INSERT_RUN, values).get
    if key is None:
        return None
    return o.row(key, lease_until=lease_until)


def _meaning(exc: apsw.Error, units: Sequence[Unit]) -> StoreError | Tampered | ValueRefused:
    """What an error inside the transaction means. Nothing was written; a batch is split where it is no StoreError."""
    if isinstance(exc, apsw.ConstraintError):
        keys = ", ".join(str(unit.run_key) for unit in units[:5]) or "that is being opened"
        return Tampered(
            f"Nothing was written: run key {keys} has entries beyond the end of its row.", code="chain.head"
        )
    if isinstance(exc, apsw.TooBigError):
        return ValueRefused("it is larger than the 1,000,000,000 bytes that SQLite takes")
    return unavailable(exc)
