"""Transactions of the caller's: rows of an application and a unit that stands for them, in one commit.

It has a connection of its own, with the settings that the application's own connections
have: its search_path, its plans. The transaction begins with a row that can't be committed
(see `unfinished` in the schema) and ends, when the unit is written, by taking that row away:
an application that commits by itself in between is refused by Postgres, with all its rows.
Outside of our transaction the connection only reads, so who rolls back and writes on is
refused as well. What the application was given is taken back when its code returns, before
our own statements; and only after a clean commit is the connection used again.

Where it is late, or anything that the unit rests on is not as it says, all is rolled back.
An answer to the commit that was lost is looked up: the entry speaks for the rows beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from asyncpg.exceptions import (
    ForeignKeyViolationError,
    InFailedSQLTransactionError,
    InterfaceError,
    ReadOnlySQLTransactionError,
)

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
    leave,
    now_or_null,
    state_of,
    unavailable,
)
from remit.store.postgres.link import Link
from remit.store.postgres.loan import Loan
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
        begun = await _begin(connection, transaction, limit_ms)
        loan = Loan(connection, transaction)
        try:
            unit = await _built(build, loan, limit_ms)
            lost = await self._finish(connection, unit, begun)
        except BaseException as exc:
            await self._give_up(connection, transaction, exc, loan)
            raise
        if lost is not None:
            await self._give_up(connection, transaction, None, loan)
            return unit, lost
        try:
            await transaction.commit()
        except BaseException as exc:
            connection.terminate()
            if not isinstance(exc, FAILURES):
                raise
            await self._recover(exc, unit)
        return unit, None

    async def close(self) -> None:
        await self._link.close()

    async def _finish(self, connection: Connection, unit: Unit, begun: _Begun) -> Loss | None:
        """Write the unit, where it is still the transaction that was begun."""
        await _check_whole(connection, begun)
        settings = {"session_authorization": begun.user, "role": begun.role} | _LOCAL
        try:
            await connection.execute(Q["set_locally"], list(settings), list(settings.values()))
            answers = await write_locked(connection, [unit], [], now_or_null(self._clock))
            await connection.execute(Q["end_unfinished"], begun.number)
        except FAILURES as exc:
            raise meaning(exc, [unit], []) from exc
        except DAMAGE as exc:
            raise damaged(exc) from exc
        return answers.lost[0]

    async def _give_up(self, connection: Connection, transaction: Any, why: BaseException | None, loan: Loan) -> None:
        """Roll back, and leave the connection, with whatever is still under way on it.

        Nothing of it was committed: where this fails, the end of the connection does it. Raises StoreUnavailable where
        the database went away, and not whoever had the loan.
        """
        was_answered = await _roll_back(connection, transaction)
        if connection.is_closed():
            await self._end_lost(why or ConnectionError("the connection was left"))
        else:
            await leave(connection)
        if isinstance(why, FAILURES) and not was_answered and not loan.was_closed:
            raise StoreUnavailable(f"Nothing was written: the database went away: {why}.") from why

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


class _Begun(NamedTuple):
    """number: of its row that can't be committed. user, role: as whom the session writes."""

    number: int
    transaction: str
    user: str
    role: str


async def _begin(connection: Any, transaction: Any, limit_ms: int) -> _Begun:
    try:
        await transaction.start()
        await connection.execute(Q["clean_session"])
        begun = await connection.fetchrow(Q["begin_unfinished"], str(limit_ms + _MARGIN_MS))
        if begun is not None and begun["has_prepared"]:  # by PREPARE, and asyncpg's own go with it
            await connection.execute(Q["forget_prepared"])
            connection.forget_statements()
    except FAILURES as exc:
        connection.terminate()
        raise unavailable(exc) from exc
    assert begun is not None
    number, transaction_id, user, role, *_ = begun
    return _Begun(number, transaction_id, user, role)


async def _built(build: Callable[[Any], Any], loan: Loan, limit_ms: int) -> Unit:
    """The unit, when the application's rows are written, and what was lent is taken back."""
    try:
        unit = await _told(build, loan.handed_out, limit_ms)
    except FAILURES as exc:
        if loan.was_closed and is_lost(exc):
            raise _ended(_CLOSED, hint=_LEFT_OPEN) from exc
        raise
    finally:
        loan.end()
    if loan.was_closed:
        raise _ended(_CLOSED, hint=_LEFT_OPEN)
    return unit


async def _told(build: Callable[[Any], Any], connection: Connection, limit_ms: int) -> Unit:
    """The unit; what the database refused on its way is told by what was done to the transaction."""
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
            raise (_looked_at() if connection.is_in_transaction() else _ended(_COMMITTED)) from exc
        raise
    except ReadOnlySQLTransactionError as exc:
        raise _ended(_READ_ONLY if connection.is_in_transaction() else _OVER) from exc
    if loop.time() > deadline:  # it kept the loop to itself, or did not heed that it was stopped
        raise _late(limit_ms)
    assert isinstance(unit, Unit), "what is built is a unit"
    return unit


async def _check_whole(connection: Connection, begun: _Begun) -> None:
    """Raises Refused `transact.ended` where the unit can't be written in the transaction any more."""
    try:
        found = await connection.fetchrow(Q["read_transaction"])
    except InFailedSQLTransactionError as exc:
        raise _ended("a statement in it failed") from exc
    except InterfaceError as exc:
        if connection.is_closed():
            raise
        raise _ended(
            "a statement of it was still under way when its function returned",
            hint="Await every statement, and whoever makes one, before the function returns.",
        ) from exc
    assert found is not None
    transaction, may_write = found
    if transaction != begun.transaction:
        raise _ended(_OVER)
    if not may_write:
        raise _ended("it was made read-only, and its unit can't be written", hint="Leave out SET TRANSACTION.")


async def _roll_back(connection: Connection, transaction: Any) -> bool:
    """Whether the connection was still good. Where it can't be rolled back it is closed."""
    if connection.is_closed():
        return False
    try:
        await transaction.rollback()
    except InterfaceError:  # where it is open, something of the application's is still under way on it
        is_open = not connection.is_closed()
        connection.terminate()
        return is_open
    except FAILURES:
        connection.terminate()
        return False
    except BaseException:
        connection.terminate()
        raise
    return True


_OVER = "it ended before its function returned, and nothing that came after it was kept"
_READ_ONLY = "it reads only: it was made so, or it ended and another one was begun"
_CLOSED = "its connection was closed before its function returned"
_LEFT_OPEN = "Leave the connection to Remit, which closes it or lends it again."
_COMMITTED = "it was committed before its unit was written, which the database refused"


def _late(limit_ms: int) -> Refused:
    return Refused(
        f"Nothing was written: the transaction took more than {limit_ms:,} ms.",
        code="transact.late",
        hint="Do less in it, or let the run be held for longer.",
    )


def _ended(
    why: str, *, hint: str = "Leave BEGIN, COMMIT and ROLLBACK to Remit, and raise where a statement fails."
) -> Refused:
    return Refused(f"Nothing was written with it: {why}.", code="transact.ended", hint=hint)


def _looked_at() -> Refused:
    return _ended(
        "SET CONSTRAINTS ALL IMMEDIATE looks at a constraint of Remit's too, which holds when the unit is written",
        hint="Name the constraints that you mean: `SET CONSTRAINTS of_order, of_customer IMMEDIATE`.",
    )
