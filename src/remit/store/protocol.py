"""The seam: what the engine asks of a store, and what a store answers.

A store keeps bytes and compares numbers. It does not know what an entry means; it knows
which row a unit extends, under which epoch, and whether that lease still holds. Every
append compares head, epoch and lease in the statement that writes, so a worker that lost
its run finds out by writing nothing.

    units.py   what it is asked to write
    marks.py   what must be true when a unit is committed, and the rows beside the run's own that are written with it
    rows.py    what it has
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from remit.store.rows import (
    AskFilter,
    AskRow,
    Checkup,
    KeyRow,
    Ledger,
    OutboxRow,
    Peek,
    RunFilter,
    RunRow,
    Stored,
    WorkerRow,
)
from remit.store.units import Claim, Opening, Renewal, Unit

LEASE_MS_MIN, LEASE_MS_MAX = 1_000, 600_000
# From now on: the longest lease, by a clock as far ahead as one is believed. One that lasts longer nobody was granted.
LEASE_US_OVERLONG = LEASE_MS_MAX * 1_000 + 600_000_000


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

        One that sets a run aside says where that run ends in its own commit, behind which nobody extends it.
        Raises LeaseLost where head, epoch or lease were not as the unit says, Moved where something else that it
        rests on was not: nothing of it was written, other units of the same commit were. Where both are so, LeaseLost.
        Raises CommitUnknown where the answer was lost for good. Who is cancelled meanwhile, however often, is told so
        when it is known that it was written, and where it was not, that instead.
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
