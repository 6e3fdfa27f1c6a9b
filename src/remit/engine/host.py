"""What all attempts of one process share: the store, the clock, the leases, the threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from dataclasses import dataclass, field

from remit.clock import Clock
from remit.engine.lease import Keeper
from remit.store.protocol import Store


@dataclass(frozen=True, slots=True)
class Host:
    """One opened runtime. Belongs to one event loop.

    turns: runs at which this process works, by run id; set when the turn is over. A second caller waits for it.
    incidents: held while this process writes one, so that its own writers do not overtake each other.
    """

    store: Store
    clock: Clock
    tenant: str
    worker: str
    lease_ms: int
    keeper: Keeper
    threads: Executor
    turns: dict[str, asyncio.Event] = field(default_factory=dict)
    incidents: asyncio.Lock = field(default_factory=asyncio.Lock)
