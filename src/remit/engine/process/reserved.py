"""The journals that are Remit's own: `remit:incidents`, `remit:authority`.

They hold facts about others and have no lease. An entry is appended by comparing the head;
whoever was slower reads again, a bounded number of times. One lock for each journal keeps the callers
of one runtime from overtaking each other: only other processes can. None of them is ever set aside by
Remit: a mark on its row that says so was written by hand, to keep what comes next from being written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from remit.canonical import INTEGER_MAX
from remit.engine.process.host import Host
from remit.engine.process.journal import Columns, check_columns, read_journal
from remit.engine.process.opening import draw_up
from remit.engine.process.outcome import detail
from remit.engine.process.salt import draw_salt
from remit.errors import LeaseLost, Refused, StoreUnavailable, Tampered
from remit.facts import chain, kinds
from remit.facts.entry import HEADER, Identity, Pen
from remit.facts.fact import Fact
from remit.facts.kinds import RunOpened
from remit.facts.machine import FORMS, Status
from remit.facts.rules import ContractPin
from remit.store.rows import RunRow, Stored
from remit.store.units import Unit

SELF = "service:remit"

TRIES = 8

_FOREVER = INTEGER_MAX  # microseconds
_PIN = ContractPin(resume=["anyone"], risk="low", version="1", window=_FOREVER)


async def row_of(host: Host, journal: str) -> RunRow:
    """The journal's row; it is opened where it is not there yet."""
    while True:
        row = await host.store.read_row(host.tenant, journal)
        if row is None:
            opened = RunOpened(by=SELF, contract=_PIN, flow=journal, window_end=_FOREVER)
            made, _ = draw_up(host, journal, opened, b"null", at=host.clock.now(), is_held=False)
            row = await host.store.open_run(made)  # None where somebody was faster: it is there now
        if row is not None:
            return row


async def append_behind(host: Host, journal: str, make: Callable[[RunRow], Awaitable[Unit | None]]) -> None:
    """Append what `make` draws up behind the journal's row, durable on return.

    make: checks whether it is still valid, and raises where not; None where the row is not what it was checked by.
    Raises StoreUnavailable where others wrote each time in between: nothing was written.
    """
    async with host.writing[journal]:
        for _ in range(TRIES):
            unit = await make(await row_of(host, journal))
            if unit is None:
                continue
            try:
                await host.store.append(unit)
            except LeaseLost:
                continue  # another process was faster
            host.clock.note(max(HEADER.read_own(entry.header).at for entry in unit.entries))
            return
    raise StoreUnavailable(f"Nothing was written to {journal!r}: others wrote {TRIES} times in between.")


def read_own(origin: str, stored: Stored) -> list[chain.Read]:
    """The entries of a journal of our own, verified, and its row's columns with them. Raises Tampered, JournalNewer."""
    row, (identity, journal) = stored.row, read_journal(origin, stored)
    first = journal.main[0]
    assert isinstance(first.fact, RunOpened)  # the chain saw to it
    opened = first.fact
    check_columns(identity, row, Columns(Status.QUEUED, "", opened.by, first.header.at, opened.window_end))
    if opened.flow != row.flow:
        what = f"the row's flow says {row.flow!a}, the journal {opened.flow!a}"
        raise chain.tampered(identity, "run.index", what, "main", row.seq)
    return journal.main


def check_not_set_aside(row: RunRow) -> None:
    """Raises Tampered where somebody marked a journal of our own as set aside, so that nothing is appended to it."""
    if row.quarantined:
        raise set_aside(row.run)


def set_aside(journal: str) -> Tampered:
    """The error for such a mark."""
    words = f"{journal!r} is marked as set aside, which Remit never does to it; nothing was done."
    error = Tampered(words, code="run.index", run=journal)
    error.hint = "Somebody wrote that into its row by hand: find out who, and then clear it."
    return error


def unit_of(host: Host, row: RunRow, fact: Fact, words: str, *, by: str, at: int | None = None) -> Unit:
    """One entry behind the head that `row` states. at: its date, microseconds UTC; None: now."""
    identity = Identity(host.store.ledger.origin, host.tenant, row.run, row.gen, row.flow)
    pen = Pen(identity, lane="main", by=by, epoch=0, head=row.head, seq=row.seq)
    value = (draw_salt(), detail(words))
    at = host.clock.now() if at is None else at
    entry = pen.seal(type(fact).__name__, _body_of(fact), at=at, value=value)
    return Unit(row.run_key, "main", row.head, pen.head, pen.seq, [entry], None)


def _body_of(fact: Fact) -> bytes:
    """Its bytes, read back: one entry that can't be read again would stop everything that rests on the journal."""
    kind = type(fact).__name__
    try:
        body = kinds.write(fact)
        FORMS[kind].read(body)
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        words = f"{kind} can't be written as it is ({ascii(str(exc))[1:-1]}); nothing was done."
        raise Refused(words, code="fact.form", hint="Give text where text is meant, and whole numbers.") from None
    return body
