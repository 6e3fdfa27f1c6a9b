"""The link: a connection that lasts, and a new one in its place when it is lost.

    ready    for what was not sent yet: a few tries, then StoreUnavailable
    ask      for what may be sent twice: where the answer is lost it is asked once more
    again    for what was sent and never answered: the old backend is ended first, so that what is
             read afterwards is final; then CommitUnknown where no server answers in time

Without the ending, a statement that still runs could be committed after we had looked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import NamedTuple, TypeVar

from remit.errors import CommitUnknown, StoreUnavailable
from remit.store.damage import DAMAGE, damaged
from remit.store.postgres.connection import (
    FAILURES,
    FOR_APPLICATIONS,
    PLANS,
    Connection,
    connect,
    is_lost,
    is_worth_another_try,
    leave,
    unavailable,
)
from remit.store.postgres.loan import Lent
from remit.store.postgres.rows import Q

T = TypeVar("T")

TRIES = 5
PATIENCE_S = 15.0  # how long a server that took a commit and did not answer is looked for
_PAUSE_S = 0.05


class _Backend(NamedTuple):
    pid: int
    started_at: datetime


class Link:
    """Belongs to one event loop and one task at a time.

    origin: of the ledger that is expected at the other end. settings: see `connect`.
    """

    def __init__(
        self, url: str, origin: str, connection: Connection | None = None, *, settings: dict[str, str] = PLANS
    ) -> None:
        self._url, self._origin, self._connection, self._settings = url, origin, connection, settings
        self._backend: _Backend | None = None

    async def start(self) -> None:
        """Connect, unless that was done. Raises StoreUnavailable."""
        if self._connection is None:
            await self.ready()
        elif self._backend is None:
            try:
                self._backend = await _backend_of(self._connection)
            except FAILURES as exc:
                raise unavailable(exc) from exc

    async def ready(self) -> Connection:
        """An open connection. Raises StoreUnavailable after a few tries."""
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        for turn in range(TRIES):
            try:
                return await self._connect()
            except FAILURES as exc:
                if turn == TRIES - 1:
                    raise unavailable(exc) from exc
            await asyncio.sleep(_PAUSE_S * 2**turn)
        raise AssertionError("unreachable")

    async def ask(self, act: Callable[[Connection], Awaitable[T]]) -> T:
        """What may be sent twice. Raises StoreUnavailable."""
        for is_last in (False, True):
            connection = await self.ready()
            try:
                return await act(connection)
            except FAILURES as exc:
                if is_lost(exc):
                    connection.terminate()
                if is_last or not (is_lost(exc) or is_worth_another_try(exc)):
                    raise unavailable(exc) from exc
            except DAMAGE as exc:
                raise damaged(exc) from exc
        raise AssertionError("unreachable")

    async def again(self, why: BaseException) -> Connection:
        """A new connection, after the old backend has ended. why: the loss. Raises CommitUnknown."""
        lost, deadline = self._backend, time.monotonic() + PATIENCE_S
        if self._connection is not None:
            self._connection.terminate()
        while True:
            try:
                connection = await self._connect()
                if lost is not None:
                    await _end(connection, lost, deadline)
                return connection
            except (*FAILURES, StoreUnavailable) as exc:
                if time.monotonic() > deadline:
                    raise CommitUnknown(f"The database took a commit and did not answer: {why}; then: {exc}.") from exc
            await asyncio.sleep(_PAUSE_S * 2)

    async def close(self) -> None:
        if self._connection is not None:
            await leave(self._connection)
            self._connection = None

    async def _connect(self) -> Connection:
        kind = Lent if self._settings == FOR_APPLICATIONS else None
        connection = await connect(self._url, settings=self._settings, kind=kind)
        try:
            backend = await _backend_of(connection)
            found = await connection.fetchrow(Q["read_ledger"])
            server = await connection.fetchrow(Q["read_server"])
            if found is None or found["origin"] != self._origin:
                raise StoreUnavailable(
                    "Nothing was written: the URL leads to another ledger than it did when the store was opened.",
                    code="store.moved",
                    hint="Bring the database back, or open the store again.",
                )
            if server is None or server["is_standby"]:
                raise StoreUnavailable(
                    "Nothing was written: the URL leads to a standby.",
                    code="store.standby",
                    hint="Name the primary in the URL.",
                )
        except BaseException:
            connection.terminate()
            raise
        self._connection, self._backend = connection, backend
        return connection


async def _backend_of(connection: Connection) -> _Backend:
    row = await connection.fetchrow(Q["read_self"])
    assert row is not None
    return _Backend(*row)


async def _end(connection: Connection, lost: _Backend, deadline: float) -> None:
    """Returns when the backend is gone. Raises TimeoutError."""
    while await connection.fetch(Q["end_backend"], lost.pid, lost.started_at):
        if time.monotonic() > deadline:
            raise TimeoutError(f"backend {lost.pid} does not end")
        await asyncio.sleep(0.01)
