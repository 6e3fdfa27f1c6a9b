"""A journal as it is stored, verified: the one way from a store's bytes to entries that may be believed."""

from __future__ import annotations

from remit.errors import Tampered
from remit.facts import chain
from remit.facts.entry import Identity
from remit.store.protocol import RunRow, Stored


def identity_of(origin: str, row: RunRow) -> Identity:
    """Who this run says it is, by its row."""
    return Identity(origin, row.tenant, row.run, row.gen, row.flow)


def check_whose(identity: Identity, row: RunRow) -> None:
    """Raises Tampered where the row that a run key leads to, known from before, is another one's by now."""
    if identity_of(identity.ledger, row) != identity:
        now, was = f"{row.run!r} of tenant {row.tenant!r}", f"{identity.run!r} of tenant {identity.tenant!r}"
        words = f"What was stored as {was} stands there as {now} (generation {row.gen}, flow {row.flow!r})."
        raise Tampered(words, code="chain.genesis", run=identity.run)


def heads_of(row: RunRow) -> chain.Heads:
    """Where its chains end, by its row."""
    return chain.Heads(row.head, row.seq, row.post_head, row.post_seq)


def read_journal(origin: str, stored: Stored) -> tuple[Identity, chain.Journal]:
    """The verified entries of both lanes. Raises Tampered, JournalNewer."""
    identity = identity_of(origin, stored.row)
    return identity, chain.verify(identity, heads_of(stored.row), stored.main, stored.post)
