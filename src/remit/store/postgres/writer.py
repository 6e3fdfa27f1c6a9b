"""The writer: one connection, one batch at a time; a batch is one statement wherever it can be.

    units of lane main          one statement, which is its own transaction: one round trip, one sync
    a lone unit of one entry    a smaller statement
    new runs                    one statement
    anything rarer              both kinds together, lane post, quarantine, large values: a transaction of several

Rows are locked in one order by everybody: runs by run key, large values by digest, new ids
by id. A statement that holds all of it has no moment at which a frozen process keeps locks.

An answer that was lost is asked for: the entry that a unit ends with is in its place, or
it is not. What is not there is written again, once, under the same conditions; a second
loss is CommitUnknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from asyncpg.exceptions import PostgresError, ProgramLimitExceededError, UniqueViolationError

from remit.clock import Clock
from remit.errors import CommitUnknown, RemitError, Tampered, ValueRefused
from remit.facts.entry import Entry, Lane, entry_hash
from remit.store.batch import Answers
from remit.store.postgres.connection import (
    FAILURES,
    Connection,
    is_lost,
    is_worth_another_try,
    now_or_null,
    unavailable,
)
from remit.store.postgres.link import TRIES, Link
from remit.store.postgres.rows import LANES, Q
from remit.store.protocol import BLOB_BYTES_MIN, Loss, Opening, RunRow, Unit

_APPEND, _APPEND_ONE, _APPEND_POST, _OPEN_RUNS = Q["append"], Q["append_one"], Q["append_post"], Q["open_runs"]
_NO_EPOCH = -1


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
                raise _meaning(exc, units, openings) from exc
            return await self._recover(exc, units, openings)

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
        is_plain = _is_plain(units, openings)
        if is_plain and not openings:
            won = await self._append(connection, units)
            return Answers([None if unit.run_key in won else "lease" for unit in units], [])
        if is_plain and not units:
            return Answers([], await self._open_runs(connection, openings))
        async with connection.transaction():
            return await self._write_rare(connection, units, openings)

    async def _write_rare(self, connection: Connection, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        main, post = [u for u in units if u.lane == "main"], [u for u in units if u.lane == "post"]
        aside = [u.quarantine[0] for u in units if u.quarantine is not None]
        won: set[tuple[Lane, int]] = set()
        if units:
            await connection.execute(Q["lock_runs"], sorted({*(u.run_key for u in units), *aside}))
        if main:
            won.update(("main", key) for key in await self._append(connection, main))
        if post:
            won.update(("post", key) for key in await self._append_post(connection, post))
        written = [(u.lane, u.run_key) in won for u in units]
        for unit, is_written in zip(units, written, strict=True):
            if is_written and unit.quarantine is not None:
                await connection.execute(Q["set_quarantine"], *unit.quarantine)
        kept = [unit for unit, is_written in zip(units, written, strict=True) if is_written]
        large = {_digest(e): e.value for e in _entries(kept, openings) if _is_large(e)}
        for digest in sorted(large):
            await connection.execute(Q["insert_blob"], digest, large[digest])
        lost: list[Loss | None] = [None if is_written else "lease" for is_written in written]
        return Answers(lost, await self._open_runs(connection, openings) if openings else [])

    async def _append(self, connection: Connection, units: Sequence[Unit]) -> set[int]:
        """Run keys of the units that won."""
        now = now_or_null(self._clock)
        if len(units) == 1 and len(units[0].entries) == 1 and not _is_large(units[0].entries[0]):
            unit, entry, move = units[0], units[0].entries[0], units[0].move
            status, code, is_over = (None, None, False) if move is None else (move.status, move.code, move.release)
            head = (unit.run_key, unit.head_before, unit.head_after, unit.seq_after, unit.epoch)
            kept = (entry.header, entry.body, entry.salt, entry.value)
            rows = await connection.fetch(_APPEND_ONE, *head, status, code, is_over, now, *kept)
        else:
            moves: tuple[list[Any], ...] = ([], [], [])  # an array that is too short is filled up with NULL
            if any(u.move is not None for u in units):
                moves = (
                    [None if u.move is None else u.move.status for u in units],
                    [None if u.move is None else u.move.code for u in units],
                    [int(u.move is not None and u.move.release) for u in units],
                )
            epochs = [_NO_EPOCH if u.epoch is None else u.epoch for u in units]
            rows = await connection.fetch(_APPEND, *_ends(units), epochs, *moves, now, *_columns(units))
        return {row["run_key"] for row in rows}

    async def _append_post(self, connection: Connection, units: Sequence[Unit]) -> set[int]:
        rows = await connection.fetch(_APPEND_POST, *_ends(units), *_columns(units))
        return {row["run_key"] for row in rows}

    async def _open_runs(self, connection: Connection, openings: Sequence[Opening]) -> list[RunRow | None]:
        """Of several openings of one id the first is tried."""
        first: dict[tuple[str, str, int], Opening] = {}
        for opening in openings:
            first.setdefault((opening.tenant, opening.run, opening.gen), opening)
        tried = list(first.values())
        fields = ("tenant", "run", "gen", "flow", "by", "opened_at", "window_end", "head", "worker")
        arrays: list[list[Any]] = [[getattr(o, name) for o in tried] for name in fields]
        leases = [o.lease_ms * 1_000 for o in tried]
        kept = _bytes_of([o.entry for o in tried])
        rows = await connection.fetch(_OPEN_RUNS, *arrays, leases, now_or_null(self._clock), *kept)
        made = {row["head"]: (row["run_key"], row["lease_until"]) for row in rows}
        return [
            o.row(made[o.head][0], lease_until=made[o.head][1])
            if o.head in made and first[o.tenant, o.run, o.gen] is o
            else None
            for o in openings
        ]

    async def _recover(self, why: BaseException, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        """What became of a batch whose answer was lost; what was not written is written now."""
        connection = await self._link.again(why)
        is_any_found = True  # until we know
        try:
            written = await _find_units(connection, units)
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
            raise _meaning(exc, units, openings) from exc
        late, late_opened = iter(answers.lost), iter(answers.opened)
        return Answers(
            [None if is_written else next(late) for is_written in written],
            [next(late_opened) if row is None else row for row in opened],
        )


def _is_plain(units: Sequence[Unit], openings: Sequence[Opening]) -> bool:
    """One statement is enough, if it is not both kinds."""
    for unit in units:
        if unit.lane == "post" or unit.quarantine is not None or any(map(_is_large, unit.entries)):
            return False
    return not any(_is_large(opening.entry) for opening in openings)


def _entries(units: Iterable[Unit], openings: Iterable[Opening]) -> Iterable[Entry]:
    for unit in units:
        yield from unit.entries
    for opening in openings:
        yield opening.entry


def _is_large(entry: Entry) -> bool:
    return entry.value is not None and len(entry.value) > BLOB_BYTES_MIN


def _digest(entry: Entry) -> bytes:
    assert entry.value is not None
    return sha256(entry.value).digest()


def _ends(units: Sequence[Unit]) -> tuple[list[Any], ...]:
    return (
        [u.run_key for u in units],
        [u.head_before for u in units],
        [u.head_after for u in units],
        [u.seq_after for u in units],
    )


def _columns(units: Sequence[Unit]) -> tuple[list[Any], ...]:
    """Run key, seq, and bytes of all entries."""
    entries = [entry for unit in units for entry in unit.entries]
    keys = [unit.run_key for unit in units for _ in unit.entries]
    return (keys, [e.seq for e in entries], *_bytes_of(entries))


def _bytes_of(entries: Sequence[Entry]) -> tuple[list[Any], ...]:
    """Header, body, salt, value, blob; a large value stands there as its digest."""
    values, blobs = [e.value for e in entries], []
    if any(_is_large(e) for e in entries):
        values = [None if _is_large(e) else e.value for e in entries]
        blobs = [_digest(e) if _is_large(e) else None for e in entries]
    return ([e.header for e in entries], [e.body for e in entries], [e.salt for e in entries], values, blobs)


async def _find_units(connection: Connection, units: Sequence[Unit]) -> list[bool]:
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
    # As it was made: whoever holds it by now, the appends of this caller find out.
    return opening.row(row["run_key"], lease_until=row["lease_until"])


def _meaning(exc: BaseException, units: Sequence[Unit], openings: Sequence[Opening]) -> RemitError | BaseException:
    """What an error that Postgres stated means. Nothing was written; a batch is split where this is no StoreError."""
    if isinstance(exc, UniqueViolationError):
        keys = ", ".join(str(unit.run_key) for unit in units[:5]) or "that is being opened"
        return Tampered(
            f"Nothing was written: run key {keys} has entries beyond the end of its row.", code="chain.head"
        )
    if isinstance(exc, ProgramLimitExceededError):
        return ValueRefused("it is larger than the 1,073,741,823 bytes that Postgres takes")
    if len(units) + len(openings) > 1:
        return exc  # each is tried alone, and hears what is wrong with it
    return unavailable(exc)
