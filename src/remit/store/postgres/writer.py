"""The writer: one connection, one batch at a time; a batch is one statement wherever it can be.

    units of lane main          one statement, which is its own transaction: one round trip, one sync
    a lone unit of one entry    a smaller statement
    new runs                    one statement
    what they announce          in the same statement, under the lock for numbers
    anything rarer              both kinds together, other marks, lane post, quarantine, large values: the long way

Rows are locked in one order by everybody; see `locked.py`. A statement that holds all of it
has no moment at which a frozen process keeps locks. Who was refused by a statement is told
why by a look at the rows afterwards: what a unit rests on only moves on, so what is no
longer so then is a reason.

An answer that was lost is asked for: the entry that a unit ends with is in its place, or
it is not. What is not there is written again, once, under the same conditions; a second
loss is CommitUnknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from asyncpg.exceptions import PostgresError, ProgramLimitExceededError, UniqueViolationError

from remit.clock import Clock
from remit.errors import OVERSIZE_HINT, CommitUnknown, RemitError, Tampered, ValueRefused
from remit.facts.entry import entry_hash
from remit.store.batch import Answers
from remit.store.damage import DAMAGE, damaged
from remit.store.marks import Announce
from remit.store.postgres.append import append, open_runs
from remit.store.postgres.connection import (
    FAILURES,
    Connection,
    is_lost,
    is_worth_another_try,
    now_or_null,
    unavailable,
)
from remit.store.postgres.ends import ends_of, loss_of
from remit.store.postgres.link import TRIES, Link
from remit.store.postgres.locked import write_locked
from remit.store.postgres.rows import Q
from remit.store.rows import RunRow
from remit.store.tables import LANES, is_large
from remit.store.units import Loss, Opening, Unit


class PostgresWriter:
    """Writes batches. Belongs to the loop that opened the store; GroupCommit gives it one batch at a time."""

    inline_max = 0

    def __init__(self, link: Link, clock: Clock | None) -> None:
        self._link, self._clock = link, clock

    async def commit(self, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        connection = await self._link.ready()
        try:
            return await self._write(connection, units, openings)
        except FAILURES as exc:
            if not is_lost(exc):
                raise meaning(exc, units, openings) from exc
            return await self._recover(exc, units, openings)
        except DAMAGE as exc:
            if len(units) + len(openings) > 1:
                raise  # each is tried alone, and hears what is wrong with it
            raise damaged(exc) from exc

    def commit_now(self, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        raise NotImplementedError("a database at the other end of a socket is awaited")

    async def _write(self, connection: Connection, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        """Commit; again where others were in the way. Raises what Postgres raises."""
        for turn in range(TRIES):
            try:
                return await self._write_once(connection, units, openings)
            except PostgresError as exc:
                if not is_worth_another_try(exc) or turn == TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    async def _write_once(self, connection: Connection, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        now = now_or_null(self._clock)
        is_short = _is_short(units, openings)
        if is_short and not openings:
            won = await append(connection, units, now)
            if len(won) == len(units):
                return Answers([None] * len(units), [])
            return Answers(await self._losses(connection, units, won, now), [])
        if is_short and not units:
            return Answers([], await open_runs(connection, openings, now))
        async with connection.transaction():
            return await write_locked(connection, units, openings, now)

    async def _losses(
        self, connection: Connection, units: Sequence[Unit], won: set[int], now: int | None
    ) -> list[Loss | None]:
        """Why each was refused that was. Without an error what was written is certain; with one it is looked up."""
        refused = [u for u in units if u.run_key not in won and u.is_conditional]
        lost: dict[int, Loss | None] = {}
        if refused:
            keys = {u.run_key for u in refused} | {u.fence.run_key for u in refused if u.fence is not None}
            try:
                ends = ends_of(await connection.fetch(Q["read_ends"], sorted(keys), now))
            except FAILURES as exc:
                raise ConnectionError(f"not known why a unit was refused: {exc}") from exc
            lost = {u.run_key: loss_of(u, ends) for u in refused}
        # One that would win by now was without its lease for a moment.
        return [None if u.run_key in won else lost.get(u.run_key) or "lease" for u in units]

    async def _recover(self, why: BaseException, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        """What became of a batch whose answer was lost; what was not written is written now."""
        connection = await self._link.again(why)
        is_any_found = True  # until we know
        try:
            written = await find_units(connection, units)
            opened = [await _find_opening(connection, opening) for opening in openings]
            is_any_found = any(written) or any(opened)
            rest = [u for u, is_written in zip(units, written, strict=True) if not is_written]
            rest_openings = [o for o, row in zip(openings, opened, strict=True) if row is None]
            if not rest and not rest_openings:
                return Answers([None] * len(units), opened)
            answers = await self._write(connection, rest, rest_openings)
        except FAILURES as exc:
            if is_any_found or is_lost(exc):
                raise CommitUnknown(f"The database took a commit and did not answer, twice: {why}; {exc}.") from exc
            raise meaning(exc, units, openings) from exc
        late, late_opened = iter(answers.lost), iter(answers.opened)
        return Answers(
            [None if is_written else next(late) for is_written in written],
            [next(late_opened) if row is None else row for row in opened],
        )


def _is_short(units: Sequence[Unit], openings: Sequence[Opening]) -> bool:
    """One statement is enough, if it is not both kinds, and has no marks but announcements.

    Not for journals of Remit's own: see the order of locks.
    """
    fences: set[int] = set()
    for unit in units:
        if not all(isinstance(mark, Announce) for mark in unit.marks):
            return False
        if unit.lane == "post" or unit.quarantine is not None or any(map(is_large, unit.entries)):
            return False
        if unit.fence is not None:
            fences.add(unit.fence.run_key)
        if unit.epoch is None:
            return False
    if fences and any(unit.run_key in fences for unit in units):
        return False
    return not any(is_large(opening.entry) for opening in openings)


async def find_units(connection: Connection, units: Sequence[Unit]) -> list[bool]:
    """Which of them end in the entry that stands in their place: a hash speaks for all before it."""
    places = ([u.run_key for u in units], [LANES[u.lane] for u in units], [u.seq_after for u in units])
    rows = await connection.fetch(Q["find_units"], *places)
    headers = [row["header"] for row in rows]
    return [
        header is not None and entry_hash(header) == unit.head_after
        for unit, header in zip(units, headers, strict=True)
    ]


async def _find_opening(connection: Connection, opening: Opening) -> RunRow | None:
    row = await connection.fetchrow(Q["find_opening"], opening.tenant, opening.run, opening.gen)
    if row is None or entry_hash(row["header"]) != opening.head:
        return None
    # Its ends are as they were made, and whoever goes on from there finds out; who holds it is told as it is.
    made = opening.row(row["run_key"], lease_until=row["lease_until"])
    return replace(made, epoch=row["epoch"], worker=row["worker"])


def meaning(exc: BaseException, units: Sequence[Unit], openings: Sequence[Opening]) -> RemitError | BaseException:
    """What an error that Postgres stated means. Nothing was written; a batch is split where this is no StoreError."""
    if isinstance(exc, UniqueViolationError):
        keys = ", ".join(str(unit.run_key) for unit in units[:5]) or "that is being opened"
        return Tampered(
            f"Nothing was written: run key {keys} has entries beyond the end of its row.", code="chain.head"
        )
    if isinstance(exc, ProgramLimitExceededError):
        return ValueRefused("it is larger than the 1,073,741,823 bytes that Postgres takes", hint=OVERSIZE_HINT)
    if len(units) + len(openings) > 1:
        return exc  # each is tried alone, and hears what is wrong with it
    return unavailable(exc)
