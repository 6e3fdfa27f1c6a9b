"""Journals for tests: real entries, sealed by a real pen, without an engine.

opening     what a store is asked to make
open_run    the same, made
Hand        writes one lane of one run: it seals facts into units, and the test appends them
read_view   what the stored journal tells, verified and folded
"""

from __future__ import annotations

from remit.facts import chain, view
from remit.facts.entry import HEADER, Entry, Identity, Lane, Pen, genesis, value_digest
from remit.facts.fact import Fact
from remit.facts.kinds import AttemptStarted, RunEnded, RunOpened, SignalSent, StepDone, write
from remit.facts.rules import ContractPin
from remit.store.marks import Fence, Ground
from remit.store.protocol import Store
from remit.store.rows import RunRow, Stored
from remit.store.units import Move, Opening, Overlay, Unit

TENANT = "default"
FLOW = "purchase"
BY = "service:local"
WORKER = "w-1"
SALT = b"salt of 16 bytes"
INPUT = b'{"sku":"A-1"}'
OPENED_AT = 1_767_603_600_000_000  # 5 January 2026, 09:00 UTC
WINDOW_END = OPENED_AT + 86_400_000_000
LEASE_MS = 60_000

ENDED = Move("completed", release=True)


def opening(
    store: Store,
    run: str,
    *,
    worker: str | None = None,
    tenant: str = TENANT,
    flow: str = FLOW,
    gen: int = 1,
    value: bytes = INPUT,
    lease_ms: int = LEASE_MS,
    ground: Ground | None = None,
) -> Opening:
    """A run that may not exist yet. worker: takes it at once, under epoch 1. value: its input."""
    identity = Identity(store.ledger.origin, tenant, run, gen, flow)
    pin = ContractPin(resume=["anyone"], risk="low", version="1", window=WINDOW_END - OPENED_AT)
    fact = RunOpened(by=BY, contract=pin, flow=flow, window_end=WINDOW_END)
    pen = Pen(identity, lane="main", by=BY, epoch=0, head=genesis(identity, value_digest(SALT, value)), seq=0)
    entry = pen.seal("RunOpened", write(fact), at=OPENED_AT, value=(SALT, value))
    return Opening(tenant, run, gen, flow, BY, OPENED_AT, WINDOW_END, entry, pen.head, worker, lease_ms, ground)


async def open_run(
    store: Store, run: str, *, worker: str | None = WORKER, tenant: str = TENANT, flow: str = FLOW
) -> RunRow:
    """A new run, held by `worker` under epoch 1, or by nobody."""
    row = await store.open_run(opening(store, run, worker=worker, tenant=tenant, flow=flow))
    assert row is not None, f"{run} is taken"
    return row


async def open_held(store: Store, run: str, *, worker: str = WORKER) -> Hand:
    """A new run with its attempt begun, and the hand that writes on."""
    hand = Hand(store, await open_run(store, run, worker=worker))
    await store.append(hand.start(worker))
    return hand


class Hand:
    """Writes one lane of one run from where its row says the lane ends. Nothing is written until a unit is appended."""

    def __init__(self, store: Store, row: RunRow, *, lane: Lane = "main") -> None:
        self.row, self.lane = row, lane
        head, seq = (row.head, row.seq) if lane == "main" else (row.post_head, row.post_seq)
        is_held = lane == "main" and row.worker is not None
        self.epoch = row.epoch if is_held else None
        self.pen = Pen(identity_of(store, row), lane=lane, by=BY, epoch=self.epoch or 0, head=head, seq=seq)

    def start(self, worker: str = WORKER) -> Unit:
        """The attempt begins."""
        return self.unit(self.seal(AttemptStarted(contract="0" * 64, version="1", worker=worker)), move=Move("running"))

    def step(self, value: bytes = b"1", *, name: str | None = None) -> Unit:
        """A completed step; its name is its place unless one is given."""
        return self.unit(self.seal(StepDone(took=5), name=name or f"s-{self.pen.seq + 1}", value=value))

    def end(self) -> Unit:
        """The run completes and its lease is given back."""
        return self.unit(self.seal(RunEnded(status="completed"), value=b"null"), move=ENDED)

    def signal(self, value: bytes = b"true", *, name: str = "go") -> Unit:
        """For lane post: somebody sends the run a value."""
        return self.unit(self.seal(SignalSent(), name=name, value=value))

    def seal(self, fact: Fact, *, name: str | None = None, value: bytes | None = None) -> Entry:
        """One entry. It has its place from here on, whether or not it is ever written."""
        salted = None if value is None else (SALT, value)
        return self.pen.seal(type(fact).__name__, write(fact), at=OPENED_AT, name=name, value=salted)

    def unit(self, *entries: Entry, move: Move | None = None, quarantine: Overlay | None = None) -> Unit:
        """What was sealed last, as one unit."""
        before = bytes.fromhex(HEADER.read(entries[0].header).prev)
        key, pen = self.row.run_key, self.pen
        return Unit(key, self.lane, before, pen.head, pen.seq, list(entries), self.epoch, move, quarantine)


def fence_of(authority: Hand) -> Fence:
    """What rests on the journal as this hand left it."""
    return Fence(authority.row.run_key, authority.pen.head)


def identity_of(store: Store, row: RunRow) -> Identity:
    return Identity(store.ledger.origin, row.tenant, row.run, row.gen, row.flow)


async def read_stored(store: Store, run_key: int) -> Stored:
    stored = await store.read_run(run_key)
    assert stored is not None, f"no run has key {run_key}"
    return stored


async def read_view(store: Store, run_key: int) -> view.RunView:
    """The run as its stored journal tells it. Raises Tampered."""
    return view_of(store, await read_stored(store, run_key))


def view_of(store: Store, stored: Stored) -> view.RunView:
    """Chain, heads and moves of both lanes. Raises Tampered."""
    row, identity = stored.row, identity_of(store, stored.row)
    heads = chain.Heads(row.head, row.seq, row.post_head, row.post_seq)
    return view.fold(identity, chain.verify(identity, heads, stored.main, stored.post))
