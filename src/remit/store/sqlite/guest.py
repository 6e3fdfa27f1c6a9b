"""Guest: the caller's code on our connection, in the transaction that its unit is written in.

    authorizer    refuses what would end the transaction, change the connection, or write Remit's own tables
    commit hook   refuses every commit meanwhile: after `INSERT OR ROLLBACK` each later statement would be one
    progress      stops a statement that runs past the limit; Python code is looked at when it comes back

All three guard against mistakes and not against malice: who has the connection could take them off.
A crash while the caller's code runs leaves nothing of it, and no entry either.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NoReturn

import apsw

from remit.errors import Refused
from remit.store.schema import tables_made
from remit.store.units import Unit

Build = Callable[[apsw.Connection], Unit]

_PROGRESS_EVERY = 10_000  # instructions of SQLite's machine: some hundred microseconds

# Of the transaction or the connection rather than of the rows.
# What is temporary would outlive the call, and could hide a table of ours.
_NEVER = {
    apsw.SQLITE_TRANSACTION,
    apsw.SQLITE_ATTACH,
    apsw.SQLITE_DETACH,
    apsw.SQLITE_CREATE_TEMP_INDEX,
    apsw.SQLITE_CREATE_TEMP_TABLE,
    apsw.SQLITE_CREATE_TEMP_TRIGGER,
    apsw.SQLITE_CREATE_TEMP_VIEW,
}
# Where the authorizer is told the table that is changed: as its first name or as its second.
_TABLE_FIRST = {apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE, apsw.SQLITE_DROP_TABLE}
_TABLE_SECOND = {
    apsw.SQLITE_ALTER_TABLE,
    apsw.SQLITE_CREATE_INDEX,
    apsw.SQLITE_CREATE_TRIGGER,
    apsw.SQLITE_DROP_INDEX,
    apsw.SQLITE_DROP_TRIGGER,
}
_PRAGMAS = {
    "defer_foreign_keys",
    "foreign_key_check",
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "table_info",
    "table_list",
    "table_xinfo",
}

# As a new file has them: names that they had before are the application's to use.
OWN_TABLES = tables_made("sqlite")


def build_unit(connection: apsw.Connection, build: Build, limit_ms: int) -> Unit:
    """The unit that the caller's code gives, which has written its rows by then.

    Raises what it raised, Refused `transact.late` or `transact.ended`; the transaction is then to be rolled back.
    """
    guard = _Guard()
    deadline = time.monotonic() + limit_ms / 1_000
    connection.authorizer = guard.authorize
    connection.set_commit_hook(guard.refuse_commit)
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _PROGRESS_EVERY)
    try:
        unit = build(connection)
    except apsw.InterruptError:
        if time.monotonic() > deadline:
            _refuse_late(limit_ms)
        raise
    except apsw.Error as exc:
        if guard.is_ended:
            _refuse_ended(exc)
        if isinstance(exc, apsw.AuthError):
            exc.add_note("Inside a transaction of Remit's, write rows of your own tables alone.")
        raise
    finally:
        _take_off(connection)
    if time.monotonic() > deadline:
        _refuse_late(limit_ms)
    if not _is_in_transaction(connection):
        _refuse_ended(None)
    assert isinstance(unit, Unit), "the caller's code gives the unit that it goes with"
    return unit


class _Guard:
    """Says no. is_ended: whether it was asked to end the transaction."""

    def __init__(self) -> None:
        self.is_ended = False

    def authorize(self, what: int, first: str | None, second: str | None, *_: Any) -> int:
        self.is_ended = self.is_ended or what == apsw.SQLITE_TRANSACTION
        is_allowed = self._is_allowed(what, (first or "").lower(), (second or "").lower())
        return apsw.SQLITE_OK if is_allowed else apsw.SQLITE_DENY

    def refuse_commit(self) -> bool:
        self.is_ended = True
        return True

    def _is_allowed(self, what: int, first: str, second: str) -> bool:
        if what in _NEVER:
            return False
        if what in _TABLE_FIRST:
            return first not in OWN_TABLES
        if what in _TABLE_SECOND:
            return second not in OWN_TABLES
        return what != apsw.SQLITE_PRAGMA or first in _PRAGMAS


def _take_off(connection: apsw.Connection) -> None:
    try:
        connection.authorizer = None
        connection.set_commit_hook(None)
        connection.set_progress_handler(None)
    except apsw.ConnectionClosedError:
        pass


def _is_in_transaction(connection: apsw.Connection) -> bool:
    try:
        return connection.in_transaction
    except apsw.ConnectionClosedError:
        return False


def _refuse_late(limit_ms: int) -> NoReturn:
    raise Refused(
        f"Your transaction took longer than {limit_ms:,} ms and was rolled back; nothing was written.",
        code="transact.late",
        hint="Do slow work in a step before it, and only write the rows here.",
    ) from None


def _refuse_ended(cause: BaseException | None) -> NoReturn:
    raise Refused(
        "Your code ended the transaction that it was given; nothing was written.",
        code="transact.ended",
        hint="Leave BEGIN, COMMIT, ROLLBACK and `OR ROLLBACK` to Remit; SAVEPOINT is yours.",
    ) from cause
