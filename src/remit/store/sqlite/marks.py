"""Marks: the rows beside a run's own that a unit writes in the same transaction.

Each is made in the order in which the unit has them, and sees what those before it did, in
this unit and in the batch. The first condition that does not hold refuses the unit; whoever
called takes back what was made until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from remit.facts import announced
from remit.store.marks import Announce, CloseAsk, FreeKey, Note, OpenAsk, Reserve, TakeKey, Unreserve
from remit.store.rows import AskFilter, AskRow, KeyRow, OutboxRow
from remit.store.sqlite.rows import Q, row_of, rows_of
from remit.store.tables import EVERYBODY, NUMBER_MAX, fitted, is_listed
from remit.store.units import Loss, Unit


def make_marks(connection: apsw.Connection, unit: Unit, now: int) -> Loss | None:
    """Make all of them; or why the first condition that does not hold, doesn't."""
    tenant, run = connection.execute(Q["read_name"], (unit.run_key,)).get
    for mark in unit.marks:
        match mark:
            case TakeKey(key, call):
                if connection.execute(Q["take_key"], (tenant, key, unit.run_key, run, call)).get is None:
                    return "business"
            case Reserve(scope, amount, most):
                if not _reserve(connection, tenant, scope, amount, most):
                    return "ceiling"
            case _:
                _note(connection, mark, tenant, run, unit.run_key, now)
    return None


def _reserve(connection: apsw.Connection, tenant: str, scope: str, amount: int, most: int) -> bool:
    assert amount >= 0, "an amount that is reserved is 0 or more"
    most = min(most, NUMBER_MAX)  # what does not fit a column is over every ceiling
    return amount <= most and connection.execute(Q["reserve"], (tenant, scope, amount, most)).get is not None


def _note(connection: apsw.Connection, note: Note, tenant: str, run: str, run_key: int, now: int) -> None:
    match note:
        case FreeKey(key):
            connection.execute(Q["free_key"], (tenant, key, run_key))
        case Unreserve(scope, amount):
            assert amount >= 0, "an amount that is given back is 0 or more"
            connection.execute(Q["unreserve"], (tenant, scope, min(amount, NUMBER_MAX)))
        case OpenAsk(ask, call, roles, asked_at, until):
            # One that is there already is open again: better shown twice than to nobody.
            connection.execute(Q["close_ask"], (tenant, ask))
            shown = msgspec.json.encode(roles).decode()
            values = (tenant, ask, run_key, run, call, shown, asked_at, until)
            number = connection.execute(Q["put_ask"], values).get
            connection.executemany(Q["open_ask"], [(number, tenant, role) for role in (*roles, EVERYBODY)])
        case CloseAsk(ask):
            connection.execute(Q["close_ask"], (tenant, ask))
        case Announce(told):
            connection.execute(Q["announce"], (tenant, run, announced.kind_of(told), announced.write(told), now))


# -- reading --------------------------------------------------------------------------------------------------------


def read_key(connection: apsw.Connection, tenant: str, key: str) -> KeyRow | None:
    row = row_of(connection, Q["read_key"], (tenant, key))
    return None if row is None else KeyRow(*row)


def read_used(connection: apsw.Connection, tenant: str, scope: str) -> int:
    used: int | None = row_of(connection, Q["read_used"], (tenant, scope))
    return used or 0


def read_ask(connection: apsw.Connection, tenant: str, ask: str) -> AskRow | None:
    row = row_of(connection, Q["read_ask"], (tenant, ask))
    if row is None:
        return None
    *columns, listed = row
    return _ask_row(columns, _texts(listed))


def list_asks(connection: apsw.Connection, which: AskFilter) -> list[AskRow]:
    role = EVERYBODY if which.role is None else which.role
    values = (which.tenant, role, fitted(which.after), fitted(which.limit))
    return [_ask_row(row) for row in rows_of(connection, Q["list_asks"], values)]


def read_outbox(connection: apsw.Connection, tenant: str, after: int, limit: int) -> list[OutboxRow]:
    values = (tenant, fitted(after), fitted(limit))
    return [OutboxRow(*row) for row in rows_of(connection, Q["read_outbox"], values)]


def _ask_row(row: Sequence[Any], listed: Sequence[str] | None = None) -> AskRow:
    """listed: the roles that it is listed under; None where it was found by one of them."""
    number, ask, run_key, run, call, text, asked_at, until = row
    roles = _texts(text)
    return AskRow(number, ask, run_key, run, call, roles, asked_at, until, is_listed(roles, listed))


def _texts(text: str) -> tuple[str, ...]:
    """A list of names. None where it is no such list: the row was edited, and whoever is asked is not among them."""
    try:
        return msgspec.json.decode(text, type=tuple[str, ...])
    except msgspec.MsgspecError:
        return ()
