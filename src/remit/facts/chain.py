"""The chain: a journal verifies whole, or nothing of it is believed.

Each lane is a chain of its own. `main` begins with a hash over the run's identity and
its input; `post` begins with the hash of `RunOpened`. The row that the store keeps for a
run says where both chains end, so a missing tail is seen as well as a changed middle.

    chain.malformed   bytes that are not an entry in canonical form
    chain.genesis     an entry of another run, tenant or deployment
    chain.hash        a body, value or link that does not match its digest; a gap, a swap
    run.truncated     the journal is shorter than the row says
    chain.head        the journal ends elsewhere than the row says

A kind or version that this code does not know, in a chain that holds, was written by a newer
one: `journal.newer` refuses it without calling anybody a forger.

A chain alone can't see a run that was recomputed as a whole, row included.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from remit.canonical import Malformed
from remit.errors import JournalNewer, Tampered
from remit.facts.entry import (
    BODY_TAG,
    ENTRY_TAG,
    HEADER,
    VALUE_TAG,
    VERSION,
    Entry,
    Header,
    Identity,
    body_digest,
    entry_hash,
    genesis,
    value_digest,
)
from remit.facts.fact import Fact
from remit.facts.machine import FORMS


class Heads(NamedTuple):
    """Where the two chains of a run end, as the run's row says."""

    main: bytes
    main_seq: int
    post: bytes
    post_seq: int


class Read(NamedTuple):
    """A verified entry, and what it says; `verify` gives none whose fact is unknown."""

    header: Header
    fact: Fact | None
    entry: Entry

    @property
    def value(self) -> bytes | None:
        """What people or models wrote."""
        return self.entry.value

    @property
    def salt(self) -> bytes | None:
        """The salt of that."""
        return self.entry.salt

    @property
    def hash(self) -> str:
        """Hex hash of the entry, by which others name it."""
        return entry_hash(self.entry.header).hex()


class Journal(NamedTuple):
    """A run's verified entries, in order."""

    main: list[Read]
    post: list[Read]


def verify(identity: Identity, heads: Heads, main: Sequence[Entry], post: Sequence[Entry]) -> Journal:
    """Check each hash, each link and both heads.

    Raises Tampered naming the first entry that is wrong, or JournalNewer.
    """
    read, opened, end = _verify_main(identity, main)
    _check_head(identity, "main", (len(main), end), (heads.main_seq, heads.main))
    posted, post_end = _verify_lane(identity, post, "post", opened)
    _check_head(identity, "post", (len(post), post_end), (heads.post_seq, heads.post))
    for entry in (*read, *posted):
        if entry.fact is None:
            raise JournalNewer(
                f"Run {identity.run!r} has {entry.header.kind!r} (version {entry.header.v}), which this version of "
                "Remit does not know; its chain holds and nothing was done."
            )
    return Journal(read, posted)


def _verify_main(identity: Identity, entries: Sequence[Entry]) -> tuple[list[Read], bytes, bytes]:
    if not entries:
        raise tampered(identity, "run.truncated", "the journal is empty", "main", 1)
    try:
        opening = HEADER.read(entries[0].header)
    except Malformed as exc:
        raise tampered(identity, "chain.malformed", str(exc), "main", 1) from None
    if opening.kind != "RunOpened" or opening.value is None:
        raise tampered(identity, "chain.genesis", "the first entry does not open a run", "main", 1)
    read, end = _verify_lane(identity, entries, "main", genesis(identity, opening.value))
    return read, entry_hash(entries[0].header), end


def _verify_lane(identity: Identity, entries: Sequence[Entry], lane: str, start: bytes) -> tuple[list[Read], bytes]:
    """One lane from its first `prev` to its end. This loop is the price of a resume: `_wrong` finds the words."""
    prev, read = start.hex(), list[Read]()
    ledger, tenant, run, gen = identity.ledger, identity.tenant, identity.run, identity.gen
    read_header, form_of, add = HEADER.read, FORMS.get, read.append
    for seq, entry in enumerate(entries, 1):
        raw, body, salt, value = entry.header, entry.body, entry.salt, entry.value
        try:
            h = read_header(raw)
            form = form_of(h.kind)
            # A newer version may have written what this one does not know; only a chain that holds may tell.
            fact = form.read(body) if form is not None and h.v == VERSION else None
        except Malformed:
            raise _wrong(identity, entry, lane, seq, prev) from None
        if not (
            h.prev == prev
            and h.body == sha256(BODY_TAG + body).hexdigest()
            and (
                h.value == sha256(VALUE_TAG + salt + value).hexdigest()
                if salt is not None and value is not None
                else h.value is None and salt is None and value is None
            )
            and h.seq == seq == entry.seq
            and h.lane == lane == entry.lane
            and h.run == run
            and h.gen == gen
            and h.tenant == tenant
            and h.ledger == ledger
        ):
            raise _wrong(identity, entry, lane, seq, prev)
        prev = sha256(ENTRY_TAG + raw).hexdigest()
        add(Read(h, fact, entry))
    return read, bytes.fromhex(prev)


def _wrong(identity: Identity, entry: Entry, lane: str, seq: int, prev: str) -> Tampered:
    """What is wrong with an entry that the loop refused: the first of these that does not hold."""
    try:
        h = HEADER.read(entry.header)
    except Malformed as exc:
        return tampered(identity, "chain.malformed", str(exc), lane, seq)
    if (h.run, h.ledger, h.gen, h.tenant) != (identity.run, identity.ledger, identity.gen, identity.tenant):
        whose = f"run {h.run!r} of tenant {h.tenant!r}, ledger {h.ledger!r}"
        return tampered(identity, "chain.genesis", f"the entry belongs to {whose}", lane, seq)
    if (h.seq, h.lane, entry.seq, entry.lane) != (seq, lane, seq, lane):
        return tampered(identity, "chain.hash", f"found entry {h.lane!r} {h.seq}, stored as {entry.seq}", lane, seq)
    if h.prev != prev:
        code = "chain.genesis" if seq == 1 else "chain.hash"
        return tampered(identity, code, "it does not follow from the entry before it", lane, seq)
    if h.body != body_digest(entry.body):
        return tampered(identity, "chain.hash", "the body is not the one that was written", lane, seq)
    stated = None if entry.salt is None or entry.value is None else value_digest(entry.salt, entry.value)
    if h.value != stated or (stated is None and (entry.salt, entry.value) != (None, None)):
        return tampered(identity, "chain.hash", "the value is not the one that was written", lane, seq)
    try:
        FORMS[h.kind].read(entry.body)
    except Malformed as exc:
        return tampered(identity, "chain.malformed", str(exc), lane, seq)
    raise AssertionError("the loop refused an entry that holds")


def _check_head(identity: Identity, lane: str, found: tuple[int, bytes], stated: tuple[int, bytes]) -> None:
    if found == stated:
        return
    if found[0] < stated[0]:
        what = f"{found[0]} entries are there and {stated[0]} were written"
        raise tampered(identity, "run.truncated", what, lane, found[0] + 1)
    raise tampered(identity, "chain.head", "the run's row and the journal end differently", lane, found[0])


def tampered(identity: Identity, code: str, what: str, lane: str, seq: int) -> Tampered:
    """The error for one wrong entry; every check of a journal raises this one."""
    message = f"Entry {lane} {seq} of run {identity.run!r}: {what}."
    return Tampered(message, code=code, run=identity.run, lane=lane, seq=seq)
