"""Units: how a batch becomes rows, in a transaction that somebody else begins and ends.

    move_all     every row at once by few statements; asks nothing, and gives up where one unit lost
    move_each    one unit after the other, each with a reason where it lost
    write_batch  one of both, then the entries of what won, then the new runs

The end of a row is moved first, and then what the unit rests on is looked at: nobody else
writes meanwhile, so the order is ours to choose. A unit that is refused after its row was
moved is taken back to a savepoint, with every mark that it had made so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import apsw

from remit.errors import OVERSIZE_HINT, StoreError, Tampered, ValueRefused
from remit.facts.entry import Entry
from remit.store.batch import Answers
from remit.store.damage import DAMAGE, damaged
from remit.store.marks import Fence, Ground
from remit.store.rows import RunRow
from remit.store.sqlite.connection import unavailable
from remit.store.sqlite.marks import make_marks
from remit.store.sqlite.rows import Q, row_of, run_row
from remit.store.tables import LANES, is_large
from remit.store.units import Loss, Made, Opening, Unit

Move = Callable[[apsw.Connection, Sequence[Unit], int], list[Loss | None]]

_ADVANCE, _MOVE, _POST = Q["advance"], Q["advance_and_move"], Q["advance_post"]
_INSERT_ENTRY, _INSERT_RUN = Q["insert_entry"], Q["insert_run"]
SAVEPOINT = "unit"


class SomeLost(Exception):
    """Not every unit can be written: the batch is written again, one by one."""


def write_batch(
    connection: apsw.Connection, units: Sequence[Unit], openings: Sequence[Opening], now: int, move: Move
) -> Answers:
    """Raises SomeLost, and what an error of SQLite means; the transaction is then to be rolled back."""
    try:
        lost = move(connection, units, now)
        won = [u for u, why in zip(units, lost, strict=True) if why is None] if any(lost) else units
        _insert_entries(connection, [(u.run_key, entry) for u in won for entry in u.entries])
        opened = [_open_run(connection, opening, now) for opening in openings]
        _insert_entries(
            connection,
            [(row.run_key, o.entry) for row, o in zip(opened, openings, strict=True) if isinstance(row, RunRow)],
        )
    except apsw.Error as exc:
        raise _meaning(exc, units, connection) from exc
    except DAMAGE as exc:
        if len(units) + len(openings) > 1:
            raise  # each is tried alone, and hears what is wrong with it
        raise damaged(exc) from exc
    return Answers(lost, opened)


def move_all(connection: apsw.Connection, units: Sequence[Unit], now: int) -> list[Loss | None]:
    """Move every row and make every mark; raises SomeLost where one can't be."""
    advances, moves, posts = [], [], []
    for unit in units:
        if unit.quarantine is not None:
            raise SomeLost  # it says where another run ends, and that one may be among them
        if unit.lane == "post":
            posts.append(_values(unit, now))
        elif unit.move is None:
            advances.append(_values(unit, now))
        else:
            moves.append(_values(unit, now))
    before = connection.total_changes()
    for sql, rows in ((_POST, posts), (_ADVANCE, advances), (_MOVE, moves)):
        if rows:
            connection.executemany(sql, rows)
    if connection.total_changes() - before != len(units):
        raise SomeLost
    # After the moves: a journal that this very batch moves is not where the unit says.
    if not all(_holds(connection, fence) for fence in {u.fence for u in units if u.fence is not None}):
        raise SomeLost
    for unit in units:
        if unit.marks and make_marks(connection, unit, now) is not None:
            raise SomeLost
    return [None] * len(units)


def move_each(connection: apsw.Connection, units: Sequence[Unit], now: int) -> list[Loss | None]:
    """Move what can be moved, in the order in which it was given."""
    return [_move_one(connection, unit, now) for unit in units]


def _move_one(connection: apsw.Connection, unit: Unit, now: int) -> Loss | None:
    if not unit.is_conditional:
        return _marked(connection, unit, now) if _move_row(connection, unit, now) else "lease"
    moved = _unlaid(connection, unit) or _moved(connection, unit)
    connection.execute(f"SAVEPOINT {SAVEPOINT}")
    lost: Loss | None = "lease"
    if _move_row(connection, unit, now):
        lost = moved or _marked(connection, unit, now)
    if lost is None and unit.quarantine is not None:
        connection.execute(Q["set_quarantine"], (int(unit.quarantine.is_set), unit.quarantine.run_key))
    if lost is not None:
        connection.execute(f"ROLLBACK TO {SAVEPOINT}")
    connection.execute(f"RELEASE {SAVEPOINT}")
    return lost


def _marked(connection: apsw.Connection, unit: Unit, now: int) -> Loss | None:
    return make_marks(connection, unit, now) if unit.marks else None


def _move_row(connection: apsw.Connection, unit: Unit, now: int) -> bool:
    """Whether head, epoch and lease were as it says, whatever else it rests on."""
    sql = _POST if unit.lane == "post" else _ADVANCE if unit.move is None else _MOVE
    connection.execute(sql, _values(unit, now) | {"post_head": None})
    return connection.changes() == 1


def _moved(connection: apsw.Connection, unit: Unit) -> Loss | None:
    """What the unit rests on and is not so, marks aside."""
    if unit.fence is not None and not _holds(connection, unit.fence):
        return "authority"
    if unit.post_head is not None:
        ends = connection.execute(Q["read_ends"], (unit.run_key,)).get
        if ends is None or ends[1] != unit.post_head:
            return "post"
    return None


def _unlaid(connection: apsw.Connection, unit: Unit) -> Loss | None:
    """Why its overlay can't be laid, or None; asked before its row is moved to where it then ends."""
    if unit.quarantine is None:
        return None
    row = row_of(connection, Q["read_row_by_key"], (unit.quarantine.run_key,))
    return unit.lay(None if row is None else run_row(row))


def _holds(connection: apsw.Connection, fence: Fence) -> bool:
    ends = connection.execute(Q["read_ends"], (fence.run_key,)).get
    return ends is not None and bool(ends[0] == fence.head)


def _stands(connection: apsw.Connection, ground: Ground) -> bool:
    return bool(connection.execute(Q["read_peek"], (ground.run_key,)).get == (ground.seq, ground.head, 0))


def _values(unit: Unit, now: int) -> dict[str, Any]:
    """What the statement that moves its row is given, under the names that stand there."""
    values = {
        "run_key": unit.run_key,
        "head_before": unit.head_before,
        "head_after": unit.head_after,
        "seq_after": unit.seq_after,
        "post_head": unit.post_head,
        "epoch": unit.epoch,
        "now": now,
    }
    move = unit.move
    if move is not None:
        values |= {"status": move.status, "code": move.code, "release": int(move.release)}
    return values


def _insert_entries(connection: apsw.Connection, entries: Sequence[tuple[int, Entry]]) -> None:
    rows = []
    for run_key, entry in entries:
        place, value = (run_key, LANES[entry.lane], entry.seq), entry.value
        if is_large(entry):
            connection.execute(Q["insert_large"], (*place, value))
            value = None
        rows.append((*place, entry.header, entry.body, entry.salt, value))
    if rows:
        connection.executemany(_INSERT_ENTRY, rows)


def _open_run(connection: apsw.Connection, opening: Opening, now: int) -> Made:
    o = opening
    if o.ground is not None and not _stands(connection, o.ground):
        return "authority"
    epoch, lease_until = (0, 0) if o.worker is None else (1, now + o.lease_ms * 1_000)
    values = {
        "tenant": o.tenant,
        "run": o.run,
        "gen": o.gen,
        "flow": o.flow,
        "by": o.by,
        "opened_at": o.opened_at,
        "window_end": o.window_end,
        "head": o.head,
        "epoch": epoch,
        "worker": o.worker,
        "lease_until": lease_until,
    }
    key = connection.execute(_INSERT_RUN, values).get
    if key is None:
        return None
    return o.row(key, lease_until=lease_until)


def _meaning(
    exc: apsw.Error, units: Sequence[Unit], connection: apsw.Connection
) -> StoreError | Tampered | ValueRefused:
    """What an error inside the transaction means. Nothing was written; a batch is split where it is no StoreError."""
    if isinstance(exc, apsw.ConstraintError):
        keys = ", ".join(str(unit.run_key) for unit in units[:5]) or "that is being opened"
        return Tampered(
            f"Nothing was written: run key {keys} has entries beyond the end of its row.", code="chain.head"
        )
    if isinstance(exc, apsw.TooBigError):
        return ValueRefused("it is larger than the 1,000,000,000 bytes that SQLite takes", hint=OVERSIZE_HINT)
    return unavailable(exc, connection)
