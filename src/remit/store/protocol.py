"""The seam: what the engine asks of a store, and what a store answers.

A store keeps bytes and compares numbers. It does not know what an entry means; it knows
which row a unit extends, under which epoch, and whether that lease still holds. Every
append compares head, epoch and lease in the statement that writes, so a worker that lost
its run finds out by writing nothing.

    Unit      entries of one run, written whole or not at all
    Fence     what must be true of another journal when a unit is committed
    Mark      a row beside the run's own that is written in the same commit: a key taken, an amount reserved
    Opening   a run that may not exist yet, with its first entry
    RunRow    the row that a run has: where its chains end, who holds it, and an index
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from remit.facts.entry import Entry, Lane
from remit.store.marks import Condition, Fence, Ground, Mark

LEASE_MS_MIN, LEASE_MS_MAX = 1_000, 600_000
# From now on: the longest lease, by a clock as far ahead as one is believed. One that lasts longer nobody was granted.
LEASE_US_OVERLONG = LEASE_MS_MAX * 1_000 + 600_000_000


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a database says of itself."""

    origin: str  # 32 hex digits, drawn when it was made; in every header
    schema: int  # number of the newest migration that was applied
    clock: Literal["database", "given"]  # "given": it was opened with a clock of the caller's at least once


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run's row. Heads and epoch are compared by every append; the rest is an index, never believed."""

    run_key: int
    tenant: str
    run: str
    gen: int
    flow: str
    by: str
    status: str
    code: str  # why it waits or how it ended; "" where there is nothing to say
    quarantined: bool
    opened_at: int  # microseconds UTC
    window_end: int  # microseconds UTC
    head: bytes  # 32 bytes: hash of the last entry of lane main
    seq: int  # of that entry
    post_head: bytes  # 32 bytes: hash of the last entry of lane post, or of RunOpened while it is empty
    post_seq: int  # 0 while lane post is empty
    epoch: int
    worker: str | None  # who holds it; None while nobody does
    lease_until: int  # microseconds UTC by the store's clock; 0 while nobody holds it


@dataclass(frozen=True, slots=True)
class Move:
    """New index values of a run's row, written with the entries that cause them."""

    status: str
    code: str = ""
    release: bool = False  # the attempt is over: worker and lease are cleared


# Why a unit was not written: head, epoch or lease; or what it rests on moved, and it can be judged again.
Loss = Literal["lease", "authority", "post", "business", "ceiling"]


@dataclass(slots=True)
class Unit:
    """Entries of one run and lane that are written together, and what must still be true of its row.

    epoch: of the lease that must still hold; None for lane post and for journals of Remit's own,
    which need no lease and compare the head alone.
    fence, post_head, and the marks that are conditions: where one fails nothing of the unit is written.
    """

    run_key: int
    lane: Lane
    head_before: bytes
    head_after: bytes
    seq_after: int
    entries: list[Entry]
    epoch: int | None
    move: Move | None = None
    quarantine: tuple[int, bool] | None = None  # run key whose overlay is set or cleared in the same commit
    fence: Fence | None = None
    post_head: bytes | None = None  # where lane post must still end
    marks: tuple[Mark, ...] = ()

    @property
    def is_conditional(self) -> bool:
        """Whether it may be refused although the lease holds. Such a unit is never joined with another."""
        if self.fence is not None or self.post_head is not None:
            return True
        return bool(self.marks) and any(isinstance(mark, Condition) for mark in self.marks)


@dataclass(frozen=True, slots=True)
class Opening:
    """A run to be made, unless its id is taken in that tenant, in whichever generation.

    worker: takes the run at once under epoch 1; None leaves it unheld, with epoch 0.
    ground: what must still be true of `remit:authority`; None for a journal of Remit's own.
    """

    tenant: str
    run: str
    gen: int
    flow: str
    by: str
    opened_at: int
    window_end: int
    entry: Entry
    head: bytes
    worker: str | None
    lease_ms: int
    ground: Ground | None = None

    def row(self, run_key: int, *, lease_until: int) -> RunRow:
        """The row of the run that was made. lease_until: what the store granted; 0 where nobody holds it."""
        return RunRow(
            run_key=run_key,
            tenant=self.tenant,
            run=self.run,
            gen=self.gen,
            flow=self.flow,
            by=self.by,
            status="queued",
            code="",
            quarantined=False,
            opened_at=self.opened_at,
            window_end=self.window_end,
            head=self.head,
            seq=1,
            post_head=self.head,
            post_seq=0,
            epoch=0 if self.worker is None else 1,
            worker=self.worker,
            lease_until=lease_until,
        )


Made = RunRow | Literal["authority"] | None  # its row; or what moved, so that it was not made; None: its id is taken


@dataclass(frozen=True, slots=True)
class Claim:
    """A wish to hold a run: granted when nobody does, when the lease ran out, or when `dead` holds it.

    epoch_seen: the row's epoch that the wish is based on; if it moved, somebody was faster.
    dead: a worker that is proven dead, whose lease needs no waiting for.
    """

    run_key: int
    epoch_seen: int
    worker: str
    lease_ms: int
    dead: str | None = None


class Stored(NamedTuple):
    """A run as it is stored, read in one snapshot; both lanes in order of seq."""

    row: RunRow
    main: list[Entry]
    post: list[Entry]


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs `list_rows` gives, newest first: every field that is set must match. `remit:` journals are no runs."""

    tenant: str
    flow: str | None = None
    status: str | None = None
    quarantined: bool | None = None
    run_prefix: str | None = None  # literal, no wildcards
    limit: int = 50
    before_key: int | None = None  # only runs opened before this one


class Peek(NamedTuple):
    """Where lane main of a journal ends, whether it is set aside, and the store's clock at that moment."""

    seq: int
    head: bytes
    quarantined: bool
    now: int  # microseconds UTC


@dataclass(frozen=True, slots=True)
class KeyRow:
    """Who holds a business key. The run key decides: an id may begin afresh, and a row be edited."""

    run_key: int
    run: str
    call: str


@dataclass(frozen=True, slots=True)
class AskRow:
    """A question, as an index: what it asks is read from the run's verified journal."""

    number: int  # rises with each question
    ask: str
    run_key: int
    run: str
    call: str
    roles: tuple[str, ...]
    asked_at: int
    until: int
    is_open: bool


@dataclass(frozen=True, slots=True)
class AskFilter:
    """Which open questions `list_asks` gives, oldest first."""

    tenant: str
    role: str | None = None
    limit: int = 20
    after: int = 0  # only questions with a higher number


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """Something to be told to the outside, in order of number; see `facts.announced`."""

    number: int
    tenant: str
    run: str
    kind: str
    data: bytes
    at: int  # microseconds UTC, of the commit


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A process that holds or held runs, and where it runs. Whether it lives is asked there, and not of this row."""

    worker: str  # the file that the process keeps locked while it lives is named by this
    host: str  # boot id and process-id namespace; the same one means the same machine and namespace
    started_at: int


@dataclass(frozen=True, slots=True)
class Checkup:
    """One thing that `doctor` looked at."""

    name: str
    ok: bool
    seen: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Renewal:
    """One lease to be prolonged."""

    run_key: int
    epoch: int


class Renewer(Protocol):
    """Prolongs leases from a thread of its own, over a connection of its own."""

    async def renew(self, worker: str, leases: Sequence[Renewal], *, lease_ms: int) -> dict[int, bytes]:
        """Prolong; the leases that this worker still held: by run key, the head of lane post of the run.

        Raises StoreUnavailable: unknown, not lost.
        """
        ...

    async def close(self) -> None: ...


class Store(Protocol):
    """Everything that the engine needs of a database. All methods raise StoreUnavailable and StoreClosed."""

    url: str
    transacts: Literal["", "plain", "awaited"]  # how `transact` calls `build`; "" where it can't
    keeps_own: bool  # whether journals of Remit's own outlive this opening, as the runs do that rest on them

    @property
    def ledger(self) -> Ledger: ...

    async def exists(self) -> bool:
        """Whether there is a store that `open` would find rather than make. Makes nothing; asked before `open`."""
        ...

    async def open(self) -> None:
        """Connect, check, migrate. Raises StoreRefused (code says why) and leaves nothing open."""
        ...

    async def close(self) -> None: ...

    async def now(self) -> int:
        """The store's clock, microseconds UTC."""
        ...

    async def append(self, unit: Unit) -> None:
        """Write a unit, durable on return. Units of one run are submitted in order of seq; several may wait at once.

        Raises LeaseLost where head, epoch or lease were not as the unit says, Moved where something else that it
        rests on was not: nothing of it was written, other units of the same commit were. Where both are so, LeaseLost.
        Raises CommitUnknown where the answer was lost for good. Who is cancelled meanwhile is told so when it is known
        that it was written, and where it was not, that instead; who is cancelled twice is told at once.
        """
        ...

    async def transact(self, build: Callable[[Any], Any], *, limit_ms: int) -> None:
        """Write a unit together with the caller's own rows, in one transaction and alone.

        build: is given the connection (apsw's; of asyncpg, where it is awaited) and returns the unit. Where it raises,
        takes longer than limit_ms, ends the transaction itself, or the unit is not written: nothing at all is.
        Raises what `build` raised, Refused `transact.late`, `transact.ended` or `transact.store` (a store without
        rows of the caller's), and as `append` does.
        """
        ...

    async def open_run(self, opening: Opening) -> RunRow | None:
        """Make a run with its first entry, durable on return; None where the id is taken (nothing was written).

        Where the answer was lost for a while its row says who holds it by then, under which epoch, or nobody.
        Raises Moved("authority") where its ground is not as it says: nothing was written.
        """
        ...

    async def claim(self, claim: Claim) -> RunRow | None:
        """Hold the run under an epoch one higher, for `lease_ms` of the store's clock; None where it is not free."""
        ...

    async def release(self, run_key: int, epoch: int) -> bool:
        """Give a lease back without an entry; False where it was not held under this epoch."""
        ...

    async def renewer(self) -> Renewer:
        """A renewer for the event loop that awaits this; may be another loop, in another thread."""
        ...

    async def read_row(self, tenant: str, run: str) -> RunRow | None:
        """The newest generation of a run."""
        ...

    async def read_run(self, run_key: int) -> Stored | None: ...

    async def list_rows(self, which: RunFilter) -> list[RunRow]: ...

    async def peek(self, run_key: int) -> Peek | None:
        """Where a journal ends now. One round trip; asked before every turn."""
        ...

    async def read_key(self, tenant: str, key: str) -> KeyRow | None:
        """Who holds a business key."""
        ...

    async def read_used(self, tenant: str, scope: str) -> int:
        """What is used of a ceiling, minor units; 0 for one that nobody reserved of."""
        ...

    async def read_ask(self, tenant: str, ask: str) -> AskRow | None:
        """A question by its id, open or closed."""
        ...

    async def list_asks(self, which: AskFilter) -> list[AskRow]: ...

    async def read_outbox(self, tenant: str, after: int, limit: int) -> list[OutboxRow]:
        """What was announced in a tenant with a higher number, in order."""
        ...

    async def put_worker(self, row: WorkerRow) -> None:
        """Record a worker before it holds its first run."""
        ...

    async def read_worker(self, worker: str) -> WorkerRow | None: ...

    async def examine(self) -> list[Checkup]:
        """What `doctor` says about this store; changes nothing."""
        ...


@dataclass(slots=True)
class Counters:
    """What a store has done since it was opened; for `bench` and `doctor`."""

    commits: int = 0
    units: int = 0
    entries: int = 0
    lost: int = 0
