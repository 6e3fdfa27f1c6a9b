"""Guest: the caller's code on a connection of its own, in the transaction that its unit is written in.

    the connection   closed after it, with all its cursors and blobs; kept where it was committed and the code holds
                     nothing of it any more
    authorizer       refuses what would end the transaction, change the connection, or write Remit's own tables
    commit hook      refuses every commit meanwhile: after `INSERT OR ROLLBACK` each later statement would be one
    progress         stops a statement that runs past the limit; Python code is looked at when it comes back

From the moment that the code returns all three refuse every thread but ours, until the connection is
closed: what is left of it writes nothing, neither with the unit nor after it. What holds nothing of a
connection is known by Python's count of references; cursors, blobs and methods hold one too. It is not
opened anew each time, since SQLite syncs the folder as well when a connection first commits.

They guard against mistakes and not against malice: who has the connection could take them off.
A crash while the caller's code runs leaves nothing of it, and no entry either.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

import apsw

from remit.errors import Refused
from remit.store.schema import tables_made
from remit.store.sqlite.lent import Lent
from remit.store.sqlite.units import SAVEPOINT
from remit.store.units import Unit

Build = Callable[[apsw.Connection], Unit]

_PROGRESS_EVERY = 10_000  # instructions of SQLite's machine: some hundred microseconds
_STOP_S = 5.0  # how long a statement of another thread is waited for

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


class Guest:
    """Lends a connection to the caller's code, in a transaction that others begin and end.

    connection: is the guest's from here on. is_over: the code has returned, or raised.
    """

    def __init__(self, connection: Lent, limit_ms: int) -> None:
        self.connection, self._limit_ms = connection, limit_ms
        self._deadline = time.monotonic() + limit_ms / 1_000
        self._thread = threading.get_ident()
        self.is_over = self._is_ended = self._is_kept = False

    def build_unit(self, build: Build) -> Unit:
        """The unit that the caller's code gives, which has written its rows by then.

        Raises what it raised, Refused `transact.late` or `transact.ended`; the transaction is then to be rolled back.
        """
        self._deadline = time.monotonic() + self._limit_ms / 1_000
        self._guard()
        self.connection.set_last_insert_rowid(0)
        self.connection.changed.clear()
        holders = sys.getrefcount(self.connection)
        try:
            unit = build(self.connection)
            self._is_kept = sys.getrefcount(self.connection) == holders and not self.connection.changed
        except apsw.InterruptError:
            if time.monotonic() > self._deadline:
                _refuse_late(self._limit_ms)
            raise
        except apsw.Error as exc:
            if self._is_ended:
                _refuse_ended(exc)
            if isinstance(exc, apsw.AuthError):
                exc.add_note("Inside a transaction of Remit's, write rows of your own tables alone.")
            raise
        finally:
            self.is_over = True
            if self.connection.changed:
                with suppress(apsw.ConnectionClosedError, apsw.ThreadingViolationError):  # told below, if it returned
                    self._undress()
        if time.monotonic() > self._deadline:
            _refuse_late(self._limit_ms)
        if not self._is_whole():
            _refuse_ended(None)
        assert isinstance(unit, Unit), "the caller's code gives the unit that it goes with"
        return unit

    def leave(self) -> Lent | None:
        """After a commit: the connection, for another guest; None where the code still holds it or changed it.

        It is closed then.
        """
        if self._is_kept:
            return self.connection
        self.close()
        return None

    def close(self) -> None:
        """Nothing more can be written over it. A statement that another thread is still in ends first."""
        deadline = time.monotonic() + _STOP_S
        while True:
            try:
                self.connection.close(True)
                return
            except apsw.ThreadingViolationError:  # in a function of Python's; what it does when it returns is refused
                if time.monotonic() > deadline:
                    return
            time.sleep(0.001)

    def _undress(self) -> None:
        """Take off what our own statements would meet, a ROLLBACK as well.

        The guards stand before: they raise where another thread is in a statement, for which `limit` would wait while
        no thread of Python's goes on.
        """
        if self.connection.changed:
            self._guard()
            self.connection.take_off()
        self._guard()

    def _guard(self) -> None:
        self.connection.authorizer = self._authorize
        self.connection.set_commit_hook(self._refuses_commit)
        self.connection.set_progress_handler(self._stops, _PROGRESS_EVERY)

    def _is_whole(self) -> bool:
        """Whether the transaction is as it was begun. What was prepared before is asked again from here on."""
        try:
            self._undress()
            return self.connection.in_transaction
        except apsw.ConnectionClosedError:
            return False
        except apsw.ThreadingViolationError as exc:
            refuse_under_way(exc)

    def _authorize(self, what: int, first: str | None, second: str | None, *_: Any) -> int:
        if self.is_over:
            is_allowed = self._is_ours() and not (what == apsw.SQLITE_SAVEPOINT and second != SAVEPOINT)
        else:
            self._is_ended = self._is_ended or what == apsw.SQLITE_TRANSACTION
            is_allowed = _is_allowed(what, (first or "").lower(), (second or "").lower())
        return apsw.SQLITE_OK if is_allowed else apsw.SQLITE_DENY

    def _refuses_commit(self) -> bool:
        if self.is_over:
            return not self._is_ours()
        self._is_ended = True
        return True

    def _stops(self) -> bool:
        return not self._is_ours() if self.is_over else time.monotonic() > self._deadline

    def _is_ours(self) -> bool:
        return threading.get_ident() == self._thread


def _is_allowed(what: int, first: str, second: str) -> bool:
    if what in _NEVER:
        return False
    if what in _TABLE_FIRST:
        return first not in OWN_TABLES
    if what in _TABLE_SECOND:
        return second not in OWN_TABLES
    return what != apsw.SQLITE_PRAGMA or first in _PRAGMAS


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


def refuse_under_way(cause: BaseException | None) -> NoReturn:
    """Where it returned before it was done."""
    raise Refused(
        "Your code left something under way on the connection when it returned; nothing was written.",
        code="transact.ended",
        hint="Wait for every thread that writes, and close every blob, before the function returns.",
    ) from cause
