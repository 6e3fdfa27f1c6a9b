"""Appending: how units and openings become the values of a statement, and who of them won.

    append        units of lane main; a lone one of one entry by a smaller statement
    append_post   units of lane post
    open_runs     new runs

Each is one statement, which locks rows by run key or ids in order, and writes nothing of a
unit that is not as it says. A large value is kept beside its entry, by a statement of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any

from remit.facts import announced
from remit.facts.entry import Entry
from remit.store.marks import Announce, Ground
from remit.store.postgres.connection import Connection, Row
from remit.store.postgres.rows import Q, read_peeks
from remit.store.tables import LANES, is_large
from remit.store.units import Made, Opening, Unit

_APPEND, _APPEND_ONE, _APPEND_TOLD = Q["append"], Q["append_one"], Q["append_told"]
_APPEND_POST, _OPEN_RUNS = Q["append_post"], Q["open_runs"]
_NO_EPOCH = -1
_NONE = "{}"

Array = list[Any] | str  # of Postgres; one of numbers is text, because asyncpg looks at each element of a list twice


async def append(
    connection: Connection, units: Sequence[Unit], now: int | None, *, is_judged: bool = False
) -> set[int]:
    """Run keys of the units that won.

    is_judged: fence and lane post were compared, and can't move; marks are somebody else's to write. Where it is not
    set, units have no marks but what they announce.
    """
    if len(units) == 1 and _is_plain(units[0], is_judged=is_judged):
        unit, entry, move = units[0], units[0].entries[0], units[0].move
        status, code, is_over = (None, None, False) if move is None else (move.status, move.code, move.release)
        head = (unit.run_key, unit.head_before, unit.head_after, unit.seq_after, unit.epoch)
        kept = (entry.header, entry.body, entry.salt, entry.value)
        post_head = None if is_judged else unit.post_head
        rows = await connection.fetch(_APPEND_ONE, *head, status, code, is_over, now, *kept, post_head)
        return {row["run_key"] for row in rows}
    moves: tuple[Array, ...] = ([], [], _NONE)  # an array that is too short is filled up with NULL
    if any(u.move is not None for u in units):
        moves = (
            [None if u.move is None else u.move.status for u in units],
            [None if u.move is None else u.move.code for u in units],
            _numbers(int(u.move is not None and u.move.release) for u in units),
        )
    epochs = _numbers(_NO_EPOCH if u.epoch is None else u.epoch for u in units)
    run_keys, heads_before, *ends = _ends(units)
    rests: tuple[Array, ...] = (_NONE, _NONE, [])
    if not is_judged:
        heads_before = [u.head_before + (u.post_head or b"") for u in units]
        if any(u.fence is not None for u in units):
            rests = _rests(units)
    values = (run_keys, heads_before, *ends, epochs, *moves, now, *_columns(units), *rests)
    if is_judged or not any(u.marks for u in units):
        rows = await connection.fetch(_APPEND, *values)
    else:
        rows = await connection.fetch(_APPEND_TOLD, *values, *_announced(units))
    return {row["run_key"] for row in rows}


def _is_plain(unit: Unit, *, is_judged: bool) -> bool:
    """One small entry, no other journal to look at, and nothing to announce."""
    is_alone = is_judged or (unit.fence is None and not unit.marks)
    return is_alone and len(unit.entries) == 1 and not is_large(unit.entries[0])


async def append_post(connection: Connection, units: Sequence[Unit]) -> set[int]:
    """Run keys of the units that won; what they rest on besides was compared, and can't move."""
    rows = await connection.fetch(_APPEND_POST, *_ends(units), *_columns(units))
    return {row["run_key"] for row in rows}


async def open_runs(connection: Connection, openings: Sequence[Opening], now: int | None) -> list[Made]:
    """Of several openings of one id the first is tried."""
    first: dict[tuple[str, str, int], Opening] = {}
    for opening in openings:
        first.setdefault((opening.tenant, opening.run, opening.gen), opening)
    tried = list(first.values())
    fields = ("tenant", "run", "gen", "flow", "by", "opened_at", "window_end", "head", "worker")
    arrays: list[list[Any]] = [[getattr(o, name) for o in tried] for name in fields]
    leases = [o.lease_ms * 1_000 for o in tried]
    grounds = [o.ground for o in tried]
    stands_on: tuple[Array, ...] = (
        _numbers(None if g is None else g.run_key for g in grounds),
        _numbers(None if g is None else g.seq for g in grounds),
        [None if g is None else g.head for g in grounds],
    )
    entries = _bytes_of([o.entry for o in tried])
    rows = await connection.fetch(_OPEN_RUNS, *arrays, leases, now, *entries, *stands_on)
    made = {row["head"]: row for row in rows}
    lost = {g for o, g in zip(tried, grounds, strict=True) if g is not None and o.head not in made}
    moved = lost - await _standing(connection, lost, now) if lost else lost
    return [_opened(o, made.get(o.head), is_tried=first[o.tenant, o.run, o.gen] is o, moved=moved) for o in openings]


def _opened(opening: Opening, row: Row | None, *, is_tried: bool, moved: Set[Ground]) -> Made:
    if row is not None and is_tried:
        return opening.row(row["run_key"], lease_until=row["lease_until"])
    return "authority" if opening.ground in moved else None


async def _standing(connection: Connection, grounds: Set[Ground], now: int | None) -> set[Ground]:
    """Those that are as they say."""
    ends = await read_peeks(connection, sorted({ground.run_key for ground in grounds}), now)
    at = {run_key: (peek.seq, peek.head, peek.quarantined) for run_key, peek in ends.items()}
    return {ground for ground in grounds if at.get(ground.run_key) == (ground.seq, ground.head, False)}


async def keep_large(connection: Connection, entries: Iterable[tuple[int, Entry]]) -> None:
    """Those values of entries, each under its run key, that stand beside them. One at a time: they may be huge."""
    for run_key, entry in entries:
        if is_large(entry):
            await connection.execute(Q["insert_large"], run_key, LANES[entry.lane], entry.seq, entry.value)


def _numbers(numbers: Iterable[int | None]) -> str:
    """An array as Postgres reads it."""
    return "{" + ",".join(["NULL" if number is None else str(number) for number in numbers]) + "}"


def _ends(units: Sequence[Unit]) -> tuple[Array, ...]:
    return (
        _numbers(u.run_key for u in units),
        [u.head_before for u in units],
        [u.head_after for u in units],
        _numbers(u.seq_after for u in units),
    )


def _rests(units: Sequence[Unit]) -> tuple[Array, ...]:
    """The journals that fence any of them; then of each unit its fence, and where that must end."""
    fences = [u.fence for u in units]
    return (
        _numbers(sorted({fence.run_key for fence in fences if fence is not None})),
        _numbers(None if fence is None else fence.run_key for fence in fences),
        [None if fence is None else fence.head for fence in fences],
    )


def _announced(units: Sequence[Unit]) -> tuple[Array, ...]:
    """Run key, kind and data of each announcement."""
    told = [(u.run_key, mark.told) for u in units for mark in u.marks if isinstance(mark, Announce)]
    return (
        _numbers(run_key for run_key, _ in told),
        [announced.kind_of(one) for _, one in told],
        [announced.write(one) for _, one in told],
    )


def _columns(units: Sequence[Unit]) -> tuple[Array, ...]:
    """Run key, seq, and bytes of all entries."""
    entries = [entry for unit in units for entry in unit.entries]
    keys = _numbers(unit.run_key for unit in units for _ in unit.entries)
    return (keys, _numbers(e.seq for e in entries), *_bytes_of(entries))


def _bytes_of(entries: Sequence[Entry]) -> tuple[list[Any], ...]:
    """Header, body, salt, and the value unless it stands beside its entry."""
    values = [None if is_large(e) else e.value for e in entries]
    return ([e.header for e in entries], [e.body for e in entries], [e.salt for e in entries], values)
