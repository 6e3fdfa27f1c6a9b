"""Transactions of the caller's: rows of an application and a unit that stands for them, in one commit.

It has a connection of its own, with the settings that the application's own connections
have: its search_path, its plans. The transaction begins with a row that can't be committed
(see `unfinished` in the schema) and ends, when the unit is written, by taking that row away:
an application that commits by itself in between is refused by Postgres, with all its rows.

Where it is late, or anything that the unit rests on is not as it says, all is rolled back.
An answer to the commit that was lost is looked up: the entry speaks for the rows beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from asyncpg.exceptions import ForeignKeyViolationError, InFailedSQLTransactionError

from remit.clock import Clock
from remit.errors import CommitUnknown, Refused, StoreUnavailable
from remit.store.damage import DAMAGE, damaged
from remit.store.postgres.connection import (
    FAILURES,
    FOR_APPLICATIONS,
    PLANS,
    SETTINGS,
    Connection,
    is_lost,
    is_worth_another_try,
    now_or_null,
    state_of,
    unavailable,
)
from remit.store.postgres.link import Link
from remit.store.postgres.locked import write_locked
from remit.store.postgres.rows import Q
from remit.store.postgres.writer import find_units, meaning
from remit.store.units import Loss, Unit

_MARGIN_MS = 5_000  # by which the server is more patient than we are; it counts where this process is frozen
_LOCAL = {name: value for name, value in (SETTINGS | PLANS).items() if name != "application_name"}


class Transactions:
    """One at a time; GroupCommit sees to that. Connects when it is first needed."""

    def __init__(self, url: str, origin: str, clock: Clock | None) -> None:
        self._link, self._clock = Link(url, origin, settings=FOR_APPLICATIONS), clock

    async def write(self, build: Callable[[Any], Any], *, limit_ms: int) -> tuple[Unit, Loss | None]:
        """Raises what `build` raised, Refused `transact.late` and `transact.ended`, StoreUnavailable, CommitUnknown."""
        connection = await self._link.ready()
        transaction: Any = connection.transaction()
        try:
            await connection.execute(Q["clean_session"])  # of what an earlier application's code left
            await transaction.start()
            begun = await connection.fetchrow(Q["begin_unfinished"], str(limit_ms + _MARGIN_MS))
        except FAILURES as exc:
            connection.terminate()
            raise unavailable(exc) from exc
        assert begun is not None
        number, transaction_id, _ = begun
        try:
            unit = await _built(build, connection, limit_ms)
            lost = await self._finish(connection, unit, number, transaction_id)
        except BaseException as exc:
            await _roll_back(connection, transaction)
            if connection.is_closed():
                await self._end_lost(exc)
                if isinstance(exc, FAILURES):
                    raise StoreUnavailable(f"Nothing was written: the database went away: {exc}.") from exc
            raise
        if lost is not None:
            await _roll_back(connection, transaction)
            return unit, lost
        try:
            await transaction.commit()
        except FAILURES as exc:
            await self._recover(exc, unit)
        return unit, None

    async def close(self) -> None:
        await self._link.close()

    async def _finish(self, connection: Connection, unit: Unit, number: int, transaction_id: str) -> Loss | None:
        """Write the unit, where it is still the transaction that was begun."""
        try:
            now = await connection.fetchval(Q["read_transaction"])
        except InFailedSQLTransactionError as exc:
            raise _ended("a statement in it failed") from exc
        if now != transaction_id:
            raise _ended("it ended before its unit was written")
        try:
            await connection.execute(Q["set_locally"], list(_LOCAL), list(_LOCAL.values()))
            answers = await write_locked(connection, [unit], [], now_or_null(self._clock))
            await connection.execute(Q["end_unfinished"], number)
        except FAILURES as exc:
            raise meaning(exc, [unit], []) from exc
        except DAMAGE as exc:
            raise damaged(exc) from exc
        return answers.lost[0]

    async def _end_lost(self, why: BaseException) -> None:
        """End what the server may still have of a transaction that was not committed, with its locks."""
        try:
            await self._link.again(why)
        except CommitUnknown:
            pass  # the server ends it by itself: a transaction may not be idle for long

    async def _recover(self, why: BaseException, unit: Unit) -> None:
        """After a commit that failed or was not answered. Returns where it was written after all."""
        if not is_lost(why):
            if is_worth_another_try(why) or state_of(why).startswith(("53", "55", "57")):
                raise unavailable(why) from why
            raise why  # a constraint of the application's that is looked at last
        connection = await self._link.again(why)
        try:
            (is_written,) = await find_units(connection, [unit])
        except FAILURES as exc:
            raise CommitUnknown(f"The database took a commit and did not answer, twice: {why}; {exc}.") from exc
        if not is_written:
            raise StoreUnavailable(f"Nothing was written: the database went away: {why}.") from why


async def _built(build: Callable[[Any], Any], connection: Connection, limit_ms: int) -> Unit:
    """The unit, when the application's rows are written."""
    loop = asyncio.get_running_loop()
    limit = limit_ms / 1_000
    deadline = loop.time() + limit
    scope = asyncio.timeout(limit)
    try:
        async with scope:
            unit = await build(connection)
    except TimeoutError as exc:
        if scope.expired():
            raise _late(limit_ms) from exc
        raise
    except ForeignKeyViolationError as exc:
        told: Any = exc  # what the server says of an error has no annotations
        if (told.schema_name, told.table_name) == ("remit", "unfinished"):
            raise _ended("it was committed before its unit was written, which the database refused") from exc
        raise
    if loop.time() > deadline:  # it kept the loop to itself, or did not heed that it was stopped
        raise _late(limit_ms)
    assert isinstance(unit, Unit), "what is built is a unit"
    return unit


async def _roll_back(connection: Connection, transaction: Any) -> None:
    """Nothing of it was committed: where this fails, the end of the connection does it."""
    try:
        if not connection.is_closed():
            await transaction.rollback()
    except FAILURES:
        connection.terminate()
    except BaseException:
        connection.terminate()
        raise


def _late(limit_ms: int) -> Refused:
    return Refused(
        f"Nothing was written: the transaction took more than {limit_ms:,} ms.",
        code="transact.late",
        hint="Do less in it, or let the run be held for longer.",
    )


def _ended(why: str) -> Refused:
    return Refused(
        f"Nothing was written with it: {why}.",
        code="transact.ended",
        hint="Leave BEGIN, COMMIT and ROLLBACK to Remit, and raise where a statement fails.",
    )
