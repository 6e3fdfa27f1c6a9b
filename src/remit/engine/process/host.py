"""What all attempts of one process share: the store, the clock, the leases, the threads."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import Executor
from dataclasses import dataclass, field

from remit.authority.directory import Authority
from remit.canonical import INTEGER_MAX
from remit.clock import Clock
from remit.engine.process.hours import Hours
from remit.engine.process.lease import Keeper
from remit.engine.process.liveness import ProcessLock
from remit.errors import Refused
from remit.store.marks import Fence, Ground
from remit.store.protocol import Store
from remit.store.rows import WorkerRow


class WholeClock:
    """A clock of somebody else's, held to what a header can state: a whole number of microseconds from 0 to 2**53."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> int:
        """Raises Refused where the clock gives anything else: an entry of such a time could never be read again."""
        at = self._clock.now()
        if type(at) is not int or not 0 <= at <= INTEGER_MAX:
            raise Refused(
                f"The clock gave {at!r}, not whole microseconds since 1970; nothing was written.",
                code="clock.reading",
                hint="Let the clock's `now` return an int, as `time.time_ns() // 1_000` is.",
            )
        return at


@dataclass(slots=True)
class Standing:
    """Directory and policy as this process read them last. Moved on by `engine.standing`."""

    authority: Authority = field(default_factory=Authority)
    head: bytes = b""  # hash of the entry that its version ends with
    run_key: int = 0  # of `remit:authority`; 0 while that was not looked for
    origin: str = ""  # of the ledger that it was looked for in
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def fence(self) -> Fence:
        """What must still be true when something that rests on this authority is committed."""
        return Fence(self.run_key, self.head)

    @property
    def ground(self) -> Ground:
        """The same when a run is opened that this authority allows."""
        return Ground(self.run_key, self.authority.version, self.head)


@dataclass(frozen=True, slots=True)
class Host:
    """One opened runtime. Belongs to one event loop.

    lock: of the whole process, with what its runtimes have sent and what has not returned.
    under_way: runs at which this process works, by run id; set when that is over. A second caller waits for it.
    to_tell: by run key, who of this process is to be told that somebody posted for the run.
    outlasting: by run id, turns that nobody waits for any more, until what they began outside has come back.
    writing: by journal of Remit's own, held while this runtime appends to it: its callers do not overtake each other.
    """

    store: Store
    clock: Hours
    tenant: str
    me: WorkerRow
    lock: ProcessLock
    lease_ms: int
    keeper: Keeper
    threads: Executor
    under_way: dict[str, asyncio.Event] = field(default_factory=dict)
    to_tell: dict[int, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    outlasting: dict[str, asyncio.Future[None]] = field(default_factory=dict)
    standing: Standing = field(default_factory=Standing)
    writing: dict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    known: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def worker(self) -> str:
        """The worker that this process is to the store."""
        return self.me.worker

    @property
    def outstanding(self) -> Collection[str]:
        """Keys under which a call has not returned, of every runtime of this process, also where nobody waits for it.

        By key and not by intention: what is sent again has another intention, and the first call may still do it.
        """
        return self.lock.outstanding

    async def introduce(self) -> None:
        """Tell the store who works here, before a run is held. A runtime that only looks writes nothing."""
        if not self.known.is_set():
            await self.store.put_worker(self.me)
            self.known.set()
