"""One SQLite connection: made the same way everywhere, and checked.

    WAL, synchronous FULL   a commit is on the disk when it returns; readers and the writer don't wait for each other
    read back               a setting that did not take is refused: a journal without its sync is no journal
    BEGIN IMMEDIATE         no transaction begins as a reader and is then refused as a writer
    own waiting             SQLite's own waiting sleeps up to 100 ms at a time; ours is short and jittered, so that
                            many processes share one file fairly, and `database is locked` reaches nobody

An error before COMMIT wrote nothing. An error of COMMIT itself is unknown, except two. A full
disk: the last frame of a transaction is what makes it valid, and that one did not fit. And a
connection that is still at something else, where SQLite does not begin to commit.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import apsw

from remit.errors import FIND_OUT, CommitUnknown, StoreRefused, StoreUnavailable
from remit.store.room import ROOM_HINT, has_no_room, is_out_of_room
from remit.store.sqlite.forks import check_fork

T = TypeVar("T")

# 3.7.0 to 3.51.2 can lose a commit when two connections race a checkpoint (the "WAL reset" bug).
VERSION_MIN = (3, 51, 3)
PATIENCE_S = 30.0  # how long a busy file is waited for
CHECKPOINT_PAGES = 4_000  # 16 MiB: a fifth more entries per second than SQLite's 1,000
WAL_BYTES_KEPT = 32 * 1024 * 1024  # the write-ahead log is cut back to this when it starts over
WAL_BYTES_MAX = 64 * 1024 * 1024  # beyond this the writer makes it start over, see SqliteWriter
BUSY = (apsw.BusyError, apsw.LockedError, apsw.ProtocolError)  # the last: too many tries in SQLite's own loop
IN_USE = (*BUSY, apsw.ThreadingViolationError)  # of COMMIT: the connection itself is still at something

# Each is set and read back. `fullfsync` matters on macOS, where a plain sync does not reach the disk;
# `foreign_keys` for the tables that an application has in the same file.
PRAGMAS: dict[str, object] = {
    "journal_mode": "wal",
    "synchronous": 2,
    "fullfsync": 1,
    "checkpoint_fullfsync": 1,
    "wal_autocheckpoint": CHECKPOINT_PAGES,
    "journal_size_limit": WAL_BYTES_KEPT,
    "locking_mode": "normal",
    "foreign_keys": 1,
    "trusted_schema": 0,
    "cell_size_check": 1,
    "read_uncommitted": 0,
    "mmap_size": 0,
}


class Busy(Exception):
    """Another connection writes, and this caller can't wait for it."""


def check_version(version: str) -> None:
    """Raises StoreRefused for an SQLite that can lose commits."""
    if tuple(int(part) for part in version.split(".")[:3]) < VERSION_MIN:
        raise StoreRefused(
            f"Nothing was opened: SQLite {version} can lose commits when two connections race a checkpoint.",
            code="store.sqlite_version",
            hint="Install a current `apsw`, which brings SQLite 3.51.3 or later.",
        )


def connect(path: str, *, create: bool = False, kind: type[apsw.Connection] = apsw.Connection) -> apsw.Connection:
    """A connection without any settings yet, which has not written anything. Raises apsw.Error, StoreRefused."""
    check_fork(path)
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    connection = kind(path, flags=flags, statementcachesize=64)
    connection.setbusytimeout(5_000)  # for reads, which wait only while a log is recovered or removed
    return connection


def settle(connection: apsw.Connection, *, read_only: bool = False) -> None:
    """Set and check the pragmas. Raises StoreRefused `store.pragma` where one did not take."""
    for name, wanted in PRAGMAS.items():
        patiently(partial(connection.pragma, name, wanted))
        seen = connection.pragma(name)
        if seen != wanted:
            raise StoreRefused(
                f"Nothing was written: the setting {name} is {seen!r} and must be {wanted!r}.", code="store.pragma"
            )
    if read_only:
        connection.pragma("query_only", 1)


def patiently(act: Callable[[], T], *, patience_s: float = PATIENCE_S) -> T:
    """Do it again while the file is busy. Raises one of BUSY when patience is over."""
    deadline = time.monotonic() + patience_s
    pause_s = 0.0002
    while True:
        try:
            return act()
        except BUSY:
            if time.monotonic() > deadline:
                raise
        time.sleep(pause_s * random.uniform(0.5, 1.5))
        pause_s = min(pause_s * 1.5, 0.005)


def begin(connection: apsw.Connection) -> None:
    """Take the write lock, or raise one of BUSY at once."""
    connection.setbusytimeout(0)
    try:
        connection.execute("BEGIN IMMEDIATE")
    finally:
        connection.setbusytimeout(5_000)


def transact(connection: apsw.Connection, write: Callable[[], T], *, patience_s: float = PATIENCE_S) -> T:
    """Run `write` in a transaction of its own.

    Raises Busy with no patience and StoreUnavailable with some, both with nothing written; CommitUnknown where
    COMMIT failed; whatever `write` raises, rolled back.
    """
    try:
        if patience_s:
            patiently(lambda: begin(connection), patience_s=patience_s)
        else:
            begin(connection)
    except BUSY as exc:
        if not patience_s:
            raise Busy from None
        raise unavailable(exc, connection) from exc
    except apsw.Error as exc:
        raise unavailable(exc, connection) from exc
    try:
        result = write()
    except BaseException:
        rollback(connection)
        raise
    try:
        connection.execute("COMMIT")
    except (apsw.FullError, *IN_USE) as exc:
        rollback(connection)
        raise unavailable(exc, connection) from exc
    except apsw.ConstraintError:  # a foreign key of the caller's that is looked at last: nothing was written
        rollback(connection)
        raise
    except apsw.Error as exc:
        rollback(connection)
        raise CommitUnknown(f"SQLite failed while it committed: {exc}.") from exc
    return result


def rollback(connection: apsw.Connection) -> None:
    """Leave the transaction, if SQLite has not left it by itself. A connection that was closed has.

    One that another thread is at is a guest's, which is closed for that.
    """
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except (apsw.ConnectionClosedError, apsw.ThreadingViolationError):
        pass
    except apsw.Error:
        if connection.in_transaction:
            raise


def unavailable(exc: apsw.Error, connection: apsw.Connection) -> StoreUnavailable:
    """What an SQLite error before a commit means to a caller. connection: which met it."""
    if isinstance(exc, BUSY):
        hint = "Another process has held the write lock for too long; find it with `lsof`."
        return StoreUnavailable(f"Nothing was written: the file is busy: {exc}.", code="store.busy", hint=hint)
    if _is_full(exc, lambda: connection.filename):
        return StoreUnavailable("Nothing was written: the disk is full.", code="store.full", hint=ROOM_HINT)
    if isinstance(exc, apsw.CorruptError | apsw.NotADBError):
        hint = f"Stop the workers; `remit doctor` shows what is broken. {FIND_OUT}; restore the file."
        return StoreUnavailable(f"The file is damaged: {exc}.", code="store.broken", hint=hint)
    return StoreUnavailable(f"Nothing was written: {type(exc).__name__}: {exc}.")


def refusal(path: str, exc: apsw.Error | OSError) -> StoreRefused:
    """What an SQLite error while opening means to a caller.

    It is asked before what was opened is closed, which makes room again.
    """
    if isinstance(exc, apsw.CorruptError | apsw.NotADBError | apsw.FormatError):
        return StoreRefused(f"{path} is not an SQLite database, or a damaged one: {exc}.", code="store.broken")
    if isinstance(exc, BUSY):
        return StoreRefused(f"{path} stayed busy for {PATIENCE_S:.0f} s: {exc}.", code="store.busy")
    if os.path.isdir(path):
        return StoreRefused(f"{path} is a folder.", code="store.unwritable", hint="Name a file inside it.")
    if _is_full(exc, lambda: path):
        return StoreRefused(
            f"{path} can't be opened: its disk is full, and SQLite writes beside the file also in order to read.",
            code="store.full",
            hint=ROOM_HINT,
        )
    return StoreRefused(
        f"{path} can't be opened for writing: {type(exc).__name__}: {exc}.",
        code="store.unwritable",
        hint="Check who owns the file and its folder; SQLite writes beside the file as well.",
    )


def _is_full(exc: apsw.Error | OSError, path_of: Callable[[], str]) -> bool:
    """Whether it failed because the disk is full. SQLite names that only where it wrote to a file of its own."""
    if isinstance(exc, apsw.FullError):
        return True
    if isinstance(exc, OSError):
        return is_out_of_room(exc)
    if not isinstance(exc, apsw.IOError | apsw.CantOpenError):
        return False
    try:
        path = path_of()
    except apsw.ConnectionClosedError:
        return False
    may_write = os.access(os.path.dirname(path), os.W_OK | os.X_OK) and os.access(path, os.R_OK | os.W_OK)
    return has_no_room(path) and (isinstance(exc, apsw.IOError) or may_write)
