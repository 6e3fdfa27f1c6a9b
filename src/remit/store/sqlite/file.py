"""Opening a file: looked at before anything is written to it.

A file that is not ours, or that a newer Remit wrote, is left as it is. An application may
have its tables beside ours, and once it asks for it we make ours beside its own. Several
processes may make the same new file at once: whoever gets the write lock first makes it,
the others find it made. A crash in the middle leaves an empty database, which the next one
makes.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable

import apsw

from remit.clock import Clock
from remit.errors import StoreError, StoreRefused
from remit.store.protocol import Ledger
from remit.store.schema import migrations, pending, tables_of
from remit.store.sqlite.connection import check_version, connect, patiently, refusal, settle, transact
from remit.store.sqlite.guards import check_folder, check_mount, read_mount
from remit.store.sqlite.rows import Q

_TABLES_FIRST = tables_of(migrations("sqlite")[0])


def open_file(
    path: str, clock: Clock, *, is_clock_given: bool, may_join: bool
) -> tuple[apsw.Connection, apsw.Connection, Ledger]:
    """A connection to write and one to read, and what the ledger says. Raises StoreRefused; leaves nothing open.

    may_join: a database that has tables, and none of ours, is given ours.
    """
    check_version(apsw.sqlite_lib_version())
    check_folder(path)
    check_mount(path, read_mount(path))
    is_new = not os.path.lexists(path)
    opened: list[apsw.Connection] = []
    try:
        writer = connect(path, create=True)
        opened.append(writer)
        if is_new:
            os.chmod(path, 0o600)  # by path, never through a descriptor; SQLite gives its companions the same mode
        applied = patiently(lambda: _look(writer, path, may_join))
        if writer.readonly("main"):
            raise apsw.ReadOnlyError("it can only be read")
        settle(writer)
        ledger = _prepare(writer, path, applied, lambda: _look(writer, path, may_join), clock, is_clock_given)
        reader = connect_again(path, read_only=True)
        opened.append(reader)
    except BaseException as exc:
        for connection in opened:
            connection.close()
        if isinstance(exc, apsw.Error | OSError):
            raise refusal(path, exc) from exc
        if isinstance(exc, StoreError) and not isinstance(exc, StoreRefused):
            raise StoreRefused(f"{path} can't be prepared: {exc.message}", code=exc.code, hint=exc.hint) from exc
        raise
    return writer, reader, ledger


def connect_again(path: str, *, read_only: bool = False) -> apsw.Connection:
    """Another connection to a file that was opened before. Raises StoreRefused."""
    try:
        connection = connect(path)
    except apsw.Error as exc:
        raise refusal(path, exc) from exc
    try:
        settle(connection, read_only=read_only)
    except BaseException as exc:
        connection.close()
        if isinstance(exc, apsw.Error):
            raise refusal(path, exc) from exc
        raise
    return connection


def _look(connection: apsw.Connection, path: str, may_join: bool) -> list[int]:
    """Numbers of the migrations that were applied; raises StoreRefused where the file is not ours."""
    tables = {name.lower() for (name,) in connection.execute(Q["read_tables"])}
    is_ours = tables >= _TABLES_FIRST
    if tables and not is_ours and not may_join:
        raise StoreRefused(
            f"Nothing was changed: {path} is a database of another program, with {len(tables)} tables.",
            code="store.foreign",
            hint="Give Remit a file of its own, or open SqliteStore(path, beside=True) once to have its tables there.",
        )
    applied = [number for (number,) in connection.execute(Q["read_migrations"])] if is_ours else []
    for migration in pending("sqlite", applied):
        taken = tables & tables_of(migration)
        if taken:
            raise StoreRefused(
                f"Nothing was changed: {path} has a table {min(taken)!r} that is not Remit's, which needs the name.",
                code="store.foreign",
                hint="Give Remit a file of its own, or rename the table.",
            )
    return applied


def _prepare(
    connection: apsw.Connection,
    path: str,
    applied: list[int],
    look: Callable[[], list[int]],
    clock: Clock,
    is_clock_given: bool,
) -> Ledger:
    """Apply what is missing and read the ledger; a file that needs nothing is not written to."""
    ledger = None if pending("sqlite", applied) else _read_ledger(connection, path)
    if ledger is not None and (ledger.clock == "given" or not is_clock_given):
        return ledger

    def write() -> Ledger:
        applied = look()  # again, now that nobody else can write
        now = clock.now()
        for migration in pending("sqlite", applied):
            connection.execute(migration.sql)
            connection.execute(Q["insert_migration"], (migration.number, migration.name, now))
        if not applied:
            clock_word = "given" if is_clock_given else "database"
            connection.execute(Q["insert_ledger"], (secrets.token_hex(16), now, clock_word))
        if is_clock_given:
            connection.execute(Q["mark_given_clock"])
        return _read_ledger(connection, path)

    return transact(connection, write)


def _read_ledger(connection: apsw.Connection, path: str) -> Ledger:
    row = connection.execute(Q["read_ledger"]).get
    if row is None:
        raise StoreRefused(f"Nothing was changed: {path} has lost the row that names its ledger.", code="store.broken")
    origin, _, clock = row
    applied = [number for (number,) in connection.execute(Q["read_migrations"])]
    return Ledger(origin, applied[-1], clock)
