"""Entries: one fact each, stored and hashed as bytes.

    header   canonical JSON: which run, which place in it, what kind, and three digests
    body     canonical JSON: the facts (names, numbers, digests, ids)
    value    what people or models wrote, with 16 bytes of salt; may be erased one day

The header carries the digest of body and value and the hash of the entry before it, so
the hash of a header speaks for everything up to it. Body and header never hold what
somebody may ask to have erased. The digests carry a tag each, so that bytes of one kind
can't be passed off as another.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Literal

import msgspec

from remit.canonical import Form, Integer, encode

VERSION = 1
SALT_BYTES = 16
HASH_BYTES = 32

ENTRY_TAG = b"remit/entry/1\n"
BODY_TAG = b"remit/body/1\n"
VALUE_TAG = b"remit/value/1\n"
_GENESIS_TAG = b"remit/genesis/1\n"

Lane = Literal["main", "post"]


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The hashed frame of an entry; fields stand in code-point order."""

    at: Integer  # microseconds since 1970, UTC
    body: str  # hex SHA-256 of tag and body bytes
    by: str  # principal who wrote it: "agent:buyer"
    epoch: Integer  # fencing token of the lease it was written under; 0 where none is needed
    gen: Integer  # how many runs of this id there were before it, plus 1
    kind: str
    lane: str  # "main", or "post" for those who do not hold the lease
    ledger: str  # origin of the database it belongs to
    name: str | None  # path of the call: "supplier-a/fetch_quote#2"
    prev: str  # hex hash of the entry before it in this lane
    run: str
    seq: Integer  # from 1, without gaps, in each lane
    tenant: str
    v: Integer
    value: str | None  # hex SHA-256 of tag, salt and value bytes


class Entry(msgspec.Struct, frozen=True, gc=False):
    """An entry as it is stored: bytes, and the place that the store gives it."""

    lane: Lane
    seq: int
    header: bytes
    body: bytes
    salt: bytes | None
    value: bytes | None


class Identity(msgspec.Struct, frozen=True):
    """What makes a run this run and no other; it enters the first `prev`."""

    ledger: str
    tenant: str
    run: str
    gen: int
    flow: str


HEADER = Form(Header)


def entry_hash(header: bytes) -> bytes:
    """32 bytes that stand for this entry and all before it in its lane."""
    return sha256(ENTRY_TAG + header).digest()


def body_digest(body: bytes) -> str:
    return sha256(BODY_TAG + body).hexdigest()


def value_digest(salt: bytes, value: bytes) -> str:
    return sha256(VALUE_TAG + salt + value).hexdigest()


def genesis(identity: Identity, input_digest: str) -> bytes:
    """The `prev` of a run's first entry: no entry can move to another run, tenant or deployment."""
    return sha256(
        _GENESIS_TAG
        + encode(
            {
                "flow": identity.flow,
                "gen": identity.gen,
                "input": input_digest,
                "ledger": identity.ledger,
                "run": identity.run,
                "tenant": identity.tenant,
            }
        )
    ).digest()


class Pen:
    """Writes the entries of one lane of one run, each linked to the one before.

    The parts of a header that do not change within a run are encoded once. The pen moves
    when an entry is sealed, not when it is committed: a unit that loses its commit
    therefore makes every later one lose too, and its attempt is closed.
    """

    __slots__ = ("_by", "_lane", "_lane_and_ledger", "_run", "_tenant", "head", "seq")

    def __init__(self, identity: Identity, *, lane: Lane, by: str, epoch: int, head: bytes, seq: int) -> None:
        self.head, self.seq, self._lane = head, seq, lane
        self._by = f'","by":{_text(by)},"epoch":{epoch},"gen":{identity.gen},"kind":"'
        self._lane_and_ledger = f'","lane":"{lane}","ledger":{_text(identity.ledger)},"name":'
        self._run = f'","run":{_text(identity.run)},"seq":'
        self._tenant = f',"tenant":{_text(identity.tenant)},"v":{VERSION},"value":'

    def copy(self) -> Pen:
        """A pen at the same place, for entries that may not come to be written."""
        twin = object.__new__(Pen)
        twin.head, twin.seq, twin._lane = self.head, self.seq, self._lane
        twin._by, twin._lane_and_ledger, twin._run, twin._tenant = (
            self._by,
            self._lane_and_ledger,
            self._run,
            self._tenant,
        )
        return twin

    def seal(
        self, kind: str, body: bytes, *, at: int, name: str | None = None, value: tuple[bytes, bytes] | None = None
    ) -> Entry:
        """The next entry of the lane. value: salt and bytes. Equal to HEADER.write of the same fields."""
        salt = data = None
        stated = "null}"
        if value is not None:
            salt, data = value
            stated = f'"{sha256(VALUE_TAG + salt + data).hexdigest()}"}}'
        seq = self.seq + 1
        header = (
            f'{{"at":{at},"body":"{sha256(BODY_TAG + body).hexdigest()}{self._by}{kind}{self._lane_and_ledger}'
            f'{_text(name)},"prev":"{self.head.hex()}{self._run}{seq}{self._tenant}{stated}'
        ).encode()
        self.head, self.seq = sha256(ENTRY_TAG + header).digest(), seq
        return Entry(self._lane, seq, header, body, salt, data)


def _text(value: str | None) -> str:
    return encode(value).decode()
