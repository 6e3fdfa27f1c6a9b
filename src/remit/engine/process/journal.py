"""A journal as it is stored, verified: the one way from a store's bytes to entries that may be believed."""

from __future__ import annotations

from typing import NamedTuple

from remit.authority.moments import datetime_of
from remit.errors import Tampered
from remit.facts import chain
from remit.facts.entry import Identity
from remit.store.rows import RunRow, Stored

_MOMENTS = ("opened_at", "window_end")


class Columns(NamedTuple):
    """Columns of a run's row that its journal tells as well. opened_at, window_end: microseconds UTC."""

    status: str
    code: str
    by: str
    opened_at: int
    window_end: int


def identity_of(origin: str, row: RunRow) -> Identity:
    """Who this run says it is, by its row."""
    return Identity(origin, row.tenant, row.run, row.gen, row.flow)


def check_whose(identity: Identity, row: RunRow) -> None:
    """Raises Tampered where the row that a run key leads to, known from before, is another one's by now."""
    if identity_of(identity.ledger, row) != identity:
        now, was = f"{row.run!r} of tenant {row.tenant!r}", f"{identity.run!r} of tenant {identity.tenant!r}"
        words = f"What was stored as {was} stands there as {now} (generation {row.gen}, flow {row.flow!r})."
        raise Tampered(words, code="chain.genesis", run=identity.run)


def check_columns(identity: Identity, row: RunRow, told: Columns) -> None:
    """Raises Tampered `run.index` where a column of the run's row says something else than its journal."""
    shown = Columns(row.status, row.code, row.by, row.opened_at, row.window_end)
    if shown == told:
        return
    says = [
        f"the row's {name} says {_said(name, mine)}, the journal {_said(name, right)}"
        for name, mine, right in zip(Columns._fields, shown, told, strict=True)
        if mine != right
    ]
    raise chain.tampered(identity, "run.index", "; ".join(says), "main", row.seq)


def _said(column: str, value: object) -> str:
    """A column as people read it. Whoever edited one may have put anything there."""
    if column in _MOMENTS and type(value) is int:
        try:
            return f"{datetime_of(value):%Y-%m-%d %H:%M:%S.%f} UTC"
        except OverflowError:
            return f"{value} µs after 1970"
    if value == "":
        return "nothing"
    return ascii(str(value))[1:-1] if isinstance(value, str) else ascii(value)


def heads_of(row: RunRow) -> chain.Heads:
    """Where its chains end, by its row."""
    return chain.Heads(row.head, row.seq, row.post_head, row.post_seq)


def read_journal(origin: str, stored: Stored) -> tuple[Identity, chain.Journal]:
    """The verified entries of both lanes. Raises Tampered, JournalNewer."""
    identity = identity_of(origin, stored.row)
    return identity, chain.verify(identity, heads_of(stored.row), stored.main, stored.post)
