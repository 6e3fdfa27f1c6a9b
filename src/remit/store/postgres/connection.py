"""One Postgres connection: made the same way everywhere, and what its errors mean.

    synchronous_commit     never off: a commit is on the disk when it returns; a stricter setting is left as it is
    search_path            pg_catalog alone, so that nobody's function or operator stands in for Postgres's own
    lock_timeout           a row that somebody holds for long makes an append fail instead of holding up all others
    idle transactions      ended by the server: a process that is frozen between two statements keeps no run from others
    statement_timeout      below the time that we wait for an answer, so that a slow answer is an error and not a doubt

An error that the server states wrote nothing. An answer that never came, or a server that
goes away, is unknown: the statement may have been committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol
from urllib.parse import urlsplit

import asyncpg
from asyncpg.exceptions import ClientConfigurationError, InterfaceError, InternalClientError, PostgresError

from remit.errors import Refused, RemitError, StoreRefused, StoreUnavailable

CONNECT_S = 10.0
ANSWER_S = 30.0  # no answer for so long is a lost one
READ_S = 120.0  # a long journal may take longer
SETTINGS = {
    "application_name": "remit",
    "search_path": "pg_catalog",
    "default_transaction_isolation": "read committed",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "10s",
    "statement_timeout": "25s",
    "jit": "off",
}
# Plans that don't depend on statistics: a statement that was planned while its table was empty serves a full one too.
PLANS = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_nestloop": "off"}
# The same for reads, where lists are ordered by their indexes and joins are of few rows.
PLANS_OF_READS = {"enable_seqscan": "off", "enable_bitmapscan": "off"}
# A connection that an application writes over has its own search_path. Outside of our transaction, which says that it
# writes, it reads only; RESET and DISCARD come back to what a connection started with.
FOR_APPLICATIONS = {"search_path": "", "default_transaction_read_only": "on"}

# The connection, not the statement, failed: nobody said what became of it.
_LOST_STATES = ("57P01", "57P02", "57P03", "57P05", "25P03", "08")
# Deadlock and serialization; division by zero is how `append` and `renew` refuse a run that was deleted meanwhile.
_AGAIN_STATES = ("40P01", "40001", "22012")
_BUSY_STATES = ("55P03", "57014")  # lock_timeout, statement_timeout

_asyncpg: Any = asyncpg  # its functions carry no annotations; what we use of them is written out below


class Row(Protocol):
    """One row of an answer: by name, or in order."""

    def __getitem__(self, name: str) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """What we use of a connection of asyncpg."""

    async def execute(self, query: str, *values: Any) -> str: ...

    async def executemany(self, query: str, rows: Iterable[Sequence[Any]]) -> None: ...

    async def fetch(self, query: str, *values: Any) -> list[Row]: ...

    async def fetchrow(self, query: str, *values: Any) -> Row | None: ...

    async def fetchval(self, query: str, *values: Any) -> Any: ...

    def transaction(
        self, *, isolation: str | None = None, readonly: bool = False
    ) -> AbstractAsyncContextManager[object]: ...

    def is_closed(self) -> bool: ...

    def is_in_transaction(self) -> bool: ...

    async def close(self, *, timeout: float | None = None) -> None: ...

    def terminate(self) -> None: ...


class Pool(Protocol):
    """What we use of a pool of asyncpg."""

    def acquire(self, *, timeout: float | None = None) -> AbstractAsyncContextManager[Connection]: ...

    async def close(self) -> None: ...

    def terminate(self) -> None: ...


def check_url(url: str) -> str:
    """The URL without its password, for people to see. Raises Refused `url.refused`."""
    try:
        parts = urlsplit(url)
    except ValueError:  # whose text may quote what stands before the host, and so a password
        raise Refused(
            f"{url.partition(':')[0]}:... can't be read as a URL; nothing was opened.",
            code="url.refused",
            hint="Use `postgresql://user@host/database`; an IPv6 address stands in brackets: `postgresql://[::1]/database`.",
        ) from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise Refused(
            f"{parts.scheme!r} is no scheme of Postgres; nothing was opened.",
            code="url.refused",
            hint="Use `postgresql://user@host/database`.",
        )
    user, at, host = parts.netloc.rpartition("@")
    name = user.partition(":")[0]
    query = "&".join(part for part in parts.query.split("&") if not part.startswith("password="))
    return f"postgresql://{name}{at}{host}{parts.path}" + (f"?{query}" if query else "")


async def connect(url: str, *, settings: dict[str, str] | None = None, kind: Any = None) -> Connection:
    """A connection whose commits are durable. Raises what `is_lost` knows, StoreRefused, or asyncpg's own errors.

    settings: besides ours; "" leaves one as the database has it. kind: where code that is not ours asks over it too.
    """
    chosen = {name: value for name, value in (SETTINGS | (settings or {})).items() if value}
    how = {"connection_class": kind or _Watched} | ({"command_timeout": ANSWER_S} if kind else {})
    connection: Connection = await _asyncpg.connect(url, timeout=CONNECT_S, server_settings=chosen, **how)
    try:
        await settle(connection)
    except BaseException:
        connection.terminate()
        raise
    return connection


async def make_pool(url: str, *, size_max: int) -> Pool:
    """Connections that are made when they are first needed. Raises what `connect` raises."""
    pool: Pool = await _asyncpg.create_pool(
        url,
        min_size=0,
        max_size=size_max,
        connection_class=_Pooled,
        init=settle,
        timeout=CONNECT_S,
        command_timeout=READ_S + 5,
        server_settings=SETTINGS | PLANS_OF_READS | {"statement_timeout": f"{READ_S:.0f}s"},
    )
    return pool


class _Watched(_asyncpg.Connection):  # type: ignore[misc]  # a class of asyncpg, see above
    """One timer for a connection that is asked thousands of times a second; asyncpg would make one for each question.

    Where no answer comes for ANSWER_S the connection is cut, and who waits hears that it is lost.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._asked_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def execute(self, query: str, *values: Any, **options: Any) -> Any:
        return await self._heard(super().execute(query, *values, **options))

    async def executemany(self, query: str, rows: Any, **options: Any) -> Any:
        return await self._heard(super().executemany(query, rows, **options))

    async def fetch(self, query: str, *values: Any, **options: Any) -> Any:
        return await self._heard(super().fetch(query, *values, **options))

    async def fetchrow(self, query: str, *values: Any, **options: Any) -> Any:
        return await self._heard(super().fetchrow(query, *values, **options))

    async def fetchval(self, query: str, *values: Any, **options: Any) -> Any:
        return await self._heard(super().fetchval(query, *values, **options))

    async def _heard(self, answer: Awaitable[Any]) -> Any:
        self._begin()
        try:
            return await answer
        finally:
            self._asked_at = None

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._asked_at = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(ANSWER_S, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._asked_at is None or self.is_closed():
            return
        loop = asyncio.get_running_loop()
        left = self._asked_at + ANSWER_S - loop.time()
        if left > 0:
            self._timer = loop.call_later(left, self._look)
        else:
            self.terminate()


class _Pooled(_asyncpg.Connection):  # type: ignore[misc]  # a class of asyncpg, see above
    """A connection that is given back as it is: nothing that Remit does leaves a trace on it."""

    def get_reset_query(self) -> str:
        return ""


async def settle(connection: Connection) -> None:
    """Make commits durable where the server's default is that they are not."""
    await connection.execute(
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    )


async def leave(connection: Connection) -> None:
    """Close, and don't wait for a server that does not answer."""
    try:
        await connection.close(timeout=2)
    except (OSError, TimeoutError, PostgresError, InterfaceError):
        connection.terminate()


def state_of(exc: BaseException) -> str:
    """SQLSTATE, "" where the server did not say one."""
    return str(getattr(exc, "sqlstate", None) or "")


def is_lost(exc: BaseException) -> bool:
    """Nobody said what became of the statement."""
    if isinstance(exc, PostgresError):
        return state_of(exc).startswith(_LOST_STATES)
    if isinstance(exc, ValueError):  # it could not be encoded, and was not sent
        return False
    return isinstance(exc, OSError | asyncio.TimeoutError | InterfaceError | InternalClientError)


def is_worth_another_try(exc: BaseException) -> bool:
    """It was rolled back because of who else was at it."""
    return state_of(exc) in _AGAIN_STATES


def unavailable(exc: BaseException) -> StoreUnavailable:
    """What an error means to a caller, where it is certain that nothing was written."""
    state = state_of(exc)
    if state in _BUSY_STATES:
        hint = "Somebody holds a lock on Remit's tables for too long; see `pg_stat_activity`."
        return StoreUnavailable(f"Nothing was written: the database is busy: {exc}.", code="store.busy", hint=hint)
    if state == "53100":
        hint = "Make room on the database's disk and call again."
        return StoreUnavailable("Nothing was written: the database's disk is full.", code="store.full", hint=hint)
    if state == "25006":
        hint = "The database became a standby; name the primary in the URL."
        return StoreUnavailable(f"Nothing was written: {exc}.", code="store.standby", hint=hint)
    return StoreUnavailable(f"Nothing was written: {type(exc).__name__}: {_told(exc)}.")


def refusal(shown: str, exc: BaseException) -> RemitError:
    """What an error while opening means to a caller."""
    state, what = state_of(exc), _told(exc)
    if state == "3D000":
        return StoreRefused(
            f"There is no database at {shown}: {what}.", code="store.missing", hint="Make it with `createdb`."
        )
    if state.startswith("28"):
        hint = "Check user and password, and the server's `pg_hba.conf`."
        return StoreRefused(f"{shown} does not let us in: {what}.", code="store.unauthorized", hint=hint)
    if state in ("42501", "25006"):
        hint = "The user needs to create schema `remit` once, and to read and write its tables."
        return StoreRefused(f"{shown} can't be prepared: {what}.", code="store.unwritable", hint=hint)
    if isinstance(exc, ValueError | OverflowError | ClientConfigurationError):
        return Refused(f"{shown} can't be read as a URL: {what}.", code="url.refused")
    if is_lost(exc) or state.startswith("53"):
        return StoreUnavailable(f"{shown} can't be reached: {what}.", hint="Start the database, or mend the URL.")
    return StoreRefused(f"{shown} can't be opened: {type(exc).__name__}: {what}.", code="store.broken")


def _told(exc: BaseException) -> str:
    return str(exc).strip().rstrip(".") or type(exc).__name__


# What a statement may raise; everything else is a mistake of ours.
FAILURES = (
    PostgresError,
    InterfaceError,
    InternalClientError,
    OSError,
    asyncio.TimeoutError,
)


def now_or_null(clock: Any) -> int | None:
    """The given clock's time; None makes the database use its own."""
    return None if clock is None else int(clock.now())
