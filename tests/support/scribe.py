"""A scribe: writes a run's journal straight into a store, without an engine, and checks what is stored.

For tests of stores, and for victims that are killed while they write.
"""

from __future__ import annotations

from typing import Self

from remit.facts import chain, view
from remit.facts.entry import Entry, Identity, Pen, genesis, value_digest
from remit.facts.kinds import AttemptStarted, ContractPin, Fact, RunOpened, StepDone, write
from remit.store.protocol import Claim, Move, Opening, RunRow, Store, Unit

SALT = b"salt of 16 bytes"
INPUT = b'{"sku":"A-1"}'
BY = "service:local"
FLOW = "purchase"
WINDOW_END = 4_000_000_000_000_000


class Scribe:
    """Holds the lease of one run and appends to its lane main."""

    def __init__(self, store: Store, row: RunRow) -> None:
        self.store, self.row = store, row
        identity = identity_of(store, row)
        self.pen = Pen(identity, lane="main", by=BY, epoch=row.epoch, head=row.head, seq=row.seq)

    @classmethod
    async def open(cls, store: Store, run: str, *, worker: str = "w-1", lease_ms: int = 60_000) -> Self:
        """A new run, held by `worker`, with its attempt begun."""
        row = await store.open_run(opening(store, run, worker=worker, lease_ms=lease_ms))
        assert row is not None, f"{run} exists"
        scribe = cls(store, row)
        await scribe.begin(worker)
        return scribe

    @classmethod
    async def take_over(cls, store: Store, row: RunRow, *, worker: str, lease_ms: int = 60_000) -> Self | None:
        """A run of a worker that is dead, with a new attempt; None where somebody was faster."""
        claimed = await store.claim(Claim(row.run_key, row.epoch, worker, lease_ms, dead=row.worker))
        if claimed is None:
            return None
        scribe = cls(store, claimed)
        await scribe.begin(worker)
        return scribe

    async def begin(self, worker: str) -> None:
        entry = self.seal(AttemptStarted(contract="0" * 64, version="1", worker=worker))
        await self.append(entry, move=Move("running"))

    async def step(self, value: bytes, *, name: str | None = None) -> int:
        """Append one completed step; returns its seq when it is durable."""
        entry = self.seal(StepDone(took=5), name=name or f"s-{self.pen.seq}", value=value)
        await self.append(entry)
        return entry.seq

    def seal(self, fact: Fact, *, name: str | None = None, value: bytes | None = None) -> Entry:
        pair = None if value is None else (SALT, value)
        return self.pen.seal(type(fact).__name__, write(fact), at=self.row.opened_at, name=name, value=pair)

    async def append(self, *entries: Entry, move: Move | None = None) -> None:
        await self.store.append(self.unit(*entries, move=move))

    def unit(self, *entries: Entry, move: Move | None = None) -> Unit:
        """What was sealed last, as one unit."""
        head_before = bytes.fromhex(chain.HEADER.read(entries[0].header).prev)
        key, epoch = self.row.run_key, self.row.epoch
        return Unit(key, "main", head_before, self.pen.head, self.pen.seq, list(entries), epoch, move)


def opening(store: Store, run: str, *, worker: str | None, lease_ms: int = 60_000, opened_at: int = 1_000) -> Opening:
    identity = Identity(store.ledger.origin, "default", run, 1, FLOW)
    pin = ContractPin(resume=["anyone"], risk="low", version="1", window=86_400_000_000)
    fact = RunOpened(by=BY, contract=pin, flow=FLOW, window_end=WINDOW_END)
    first = genesis(identity, value_digest(SALT, INPUT))
    pen = Pen(identity, lane="main", by=BY, epoch=0, head=first, seq=0)
    entry = pen.seal("RunOpened", write(fact), at=opened_at, value=(SALT, INPUT))
    return Opening("default", run, 1, FLOW, BY, opened_at, WINDOW_END, entry, pen.head, worker, lease_ms)


def identity_of(store: Store, row: RunRow) -> Identity:
    return Identity(store.ledger.origin, row.tenant, row.run, row.gen, row.flow)


async def read_verified(store: Store, run_key: int) -> view.RunView:
    """The run as its stored journal tells it. Raises Tampered."""
    stored = await store.read_run(run_key)
    assert stored is not None
    row, identity = stored.row, identity_of(store, stored.row)
    heads = chain.Heads(row.head, row.seq, row.post_head, row.post_seq)
    return view.fold(identity, chain.verify(identity, heads, stored.main, stored.post))
