"""Opening a file: looked at before anything is written to it.

A file that is not ours, or that a newer Remit wrote, is left as it is. An application may
have its tables beside ours, and once it asks for it we make ours beside its own. All of
ours begin with `remit_`; those of a file from before migration 3 did not, and are known by
the columns of the two that say what a file is, since an application may use such names.
Several processes may make or change the same file at once: whoever gets the write lock
first does it, the others find it done. It is one transaction; a crash in the middle leaves
the file as it was, an empty database where it was new.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable

import apsw

from remit.clock import Clock
from remit.errors import FIND_OUT, StoreError, StoreRefused
from remit.store.rows import Ledger
from remit.store.schema import migrations, names_of, pending, steps, tables_of
from remit.store.sqlite.connection import check_version, connect, patiently, refusal, settle, transact
from remit.store.sqlite.guards import check_companions, check_folder, check_mount, read_mount
from remit.store.sqlite.rows import Q

_UNPREFIXED = tables_of(migrations("sqlite")[0])
_OURS = frozenset(f"remit_{table}" for table in ("ledger", "migration", "run", "entry", "worker"))  # at every number
_PREFIX_NUMBER = 3  # of the migration that gave every table its prefix
_TELLING = {"ledger": ["one", "origin", "made_at", "clock"], "migration": ["number", "name", "applied_at"]}


def open_file(
    path: str, clock: Clock, *, is_clock_given: bool, may_join: bool
) -> tuple[apsw.Connection, apsw.Connection, Ledger]:
    """A connection to write and one to read, and what the ledger says. Raises StoreRefused; leaves nothing open.

    may_join: a database that has tables, and none of ours, is given ours.
    """
    check_version(apsw.sqlite_lib_version())
    check_folder(path)
    mount = read_mount(path)
    check_mount(path, mount)
    check_companions(path, mount)
    is_new = not os.path.lexists(path)
    opened: list[apsw.Connection] = []
    try:
        writer = connect(path, create=True)
        opened.append(writer)
        if is_new:
            os.chmod(path, 0o600)  # by path, never through a descriptor; SQLite gives its companions the same mode
        applied = patiently(lambda: _look_at_once(writer, path, may_join))
        if writer.readonly("main"):
            raise apsw.ReadOnlyError("it can only be read")
        settle(writer)
        ledger = _prepare(writer, path, applied, lambda: _look(writer, path, may_join), clock, is_clock_given)
        reader = connect_again(path, read_only=True)
        opened.append(reader)
    except BaseException as exc:
        told = refusal(path, exc) if isinstance(exc, apsw.Error | OSError) else None
        for connection in opened:
            connection.close()
        if told is not None:
            raise told from exc
        if isinstance(exc, StoreError) and not isinstance(exc, StoreRefused):
            raise StoreRefused(f"{path} can't be prepared: {exc.message}", code=exc.code, hint=exc.hint) from exc
        raise
    return writer, reader, ledger


def connect_again(
    path: str, *, read_only: bool = False, kind: type[apsw.Connection] = apsw.Connection
) -> apsw.Connection:
    """Another connection to a file that was opened before. Raises StoreRefused."""
    try:
        connection = connect(path, kind=kind)
    except apsw.Error as exc:
        raise refusal(path, exc) from exc
    try:
        settle(connection, read_only=read_only)
    except BaseException as exc:
        told = refusal(path, exc) if isinstance(exc, apsw.Error) else None
        connection.close()
        if told is not None:
            raise told from exc
        raise
    return connection


def _look_at_once(connection: apsw.Connection, path: str, may_join: bool) -> list[int]:
    """In one snapshot: another process may rename the tables between two reads."""
    connection.execute("BEGIN")
    try:
        return _look(connection, path, may_join)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _look(connection: apsw.Connection, path: str, may_join: bool) -> list[int]:
    """Numbers of the migrations that were applied; raises StoreRefused where the file is not ours."""
    names = dict(connection.execute(Q["read_names"]))
    tables = {name for name, is_index in names.items() if not is_index}
    is_ours, is_old = tables >= _OURS, False
    if not is_ours:
        is_old = tables >= _UNPREFIXED and all(_columns(connection, name) == _TELLING[name] for name in _TELLING)
    if tables and not is_ours and not is_old and not may_join:
        raise StoreRefused(
            f"Nothing was changed: {path} is a database of another program, with {len(tables)} tables.",
            code="store.foreign",
            hint="Give Remit a file of its own, or open SqliteStore(path, beside=True) once to have its tables there.",
        )
    applied: list[int] = []
    if is_ours or is_old:
        sql = Q["read_migrations"] if is_ours else Q["read_migrations_unprefixed"]
        applied = [number for (number,) in connection.execute(sql)]
    missing = steps("sqlite", applied)
    if (is_old and not applied) or (applied and is_ours != (_PREFIX_NUMBER in applied)):
        raise StoreRefused(
            f"Nothing was changed: {path} lists the migrations {applied}, but its tables have names of another time.",
            code="store.broken",
        )
    for migration in missing:
        taken = names.keys() & names_of(migration)
        if taken:
            name = min(taken)
            what = "an index" if names[name] else "a table"
            raise StoreRefused(
                f"Nothing was changed: {path} has {what} {name!r} that is not Remit's, which needs the name.",
                code="store.foreign",
                hint="Give Remit a file of its own, or rename what is yours.",
            )
    return applied


def _columns(connection: apsw.Connection, table: str) -> list[str]:
    return [name for (name,) in connection.execute(Q["read_columns"], (table,))]


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
        _change(connection, path, applied)
        for migration in pending("sqlite", applied):  # noted at the end, when the table has the name of today
            connection.execute(Q["insert_migration"], (migration.number, migration.name, now))
        if not applied:
            clock_word = "given" if is_clock_given else "database"
            connection.execute(Q["insert_ledger"], (secrets.token_hex(16), now, clock_word))
        if is_clock_given:
            connection.execute(Q["mark_given_clock"])
        return _read_ledger(connection, path)

    return transact(connection, write)


def _change(connection: apsw.Connection, path: str, applied: list[int]) -> None:
    """Run what is missing. What the tables are not as their numbers say is refused, and so is what won't be renamed."""
    for migration in steps("sqlite", applied):
        try:
            connection.execute(migration.sql)
        except apsw.SQLError as exc:
            raise StoreRefused(
                f"Nothing was changed: {path} can't be given schema {migration.number}: {exc}.",
                code="store.broken",
                hint=f"Look at the view, trigger or table that is named. Else: {FIND_OUT}; restore the file.",
            ) from exc


def _read_ledger(connection: apsw.Connection, path: str) -> Ledger:
    try:
        row = connection.execute(Q["read_ledger"]).get
    except UnicodeDecodeError:
        row = None  # its origin is no text: no journal would verify by any reading of it
    if row is None:
        raise StoreRefused(f"Nothing was changed: {path} has lost the row that names its ledger.", code="store.broken")
    origin, _, clock = row
    applied = [number for (number,) in connection.execute(Q["read_migrations"])]
    return Ledger(origin, applied[-1], clock)
