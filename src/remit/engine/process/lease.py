"""Leases: held by renewing them from a thread of their own.

A flow that computes for a minute without a pause blocks its event loop and still lives.
Renewals therefore come from another thread, over another connection. An unanswered
renewal is *unknown*, not lost: the lease is good until the deadline measured from when the
last accepted renewal was sent. After that the attempt must not begin anything.

A renewal also tells where lane `post` of the run ends: what others posted from elsewhere is
heard of by then at the latest, also by a turn that takes one step after another.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from remit.clock import elapsed_us, monotonic_ms
from remit.store.protocol import Renewer, Store
from remit.store.rows import RunRow
from remit.store.units import Renewal

LEASE_MS_DEFAULT = 60_000


@dataclass(slots=True)
class Lease:
    """The hold of one run, as this process knows it.

    deadline_ms: monotonic; the lease can't be relied on after it.
    on_lost: called in the attempt's event loop when the store says that somebody else holds the run.
    on_posted: called there with the head of lane post, when a renewal found another one than before.
    trouble: why the last renewal was not answered; "" where it was.
    """

    run_key: int
    epoch: int
    deadline_ms: int
    loop: asyncio.AbstractEventLoop
    on_lost: Callable[[], None]
    on_posted: Callable[[bytes], None]
    post_head: bytes  # where lane post ended, as the last renewal told
    trouble: str = ""

    @property
    def is_good(self) -> bool:
        """Whether this process may still rely on holding the run."""
        return elapsed_us() < self.deadline_ms * 1_000


class Keeper:
    """Renews every lease of a worker at a third of its length."""

    def __init__(self, store: Store, worker: str, lease_ms: int) -> None:
        self._store, self._worker, self._lease_ms = store, worker, lease_ms
        self._leases: dict[int, Lease] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(
        self, row: RunRow, *, sent_ms: int, on_lost: Callable[[], None], on_posted: Callable[[bytes], None]
    ) -> Lease:
        """Keep a lease that the store granted, with this row, to a request sent at `sent_ms` (monotonic)."""
        deadline_ms, loop = sent_ms + self._lease_ms, asyncio.get_running_loop()
        lease = Lease(row.run_key, row.epoch, deadline_ms, loop, on_lost, on_posted, row.post_head)
        with self._lock:
            self._leases[row.run_key] = lease
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="remit-leases", daemon=True)
                self._thread.start()
        return lease

    def drop(self, lease: Lease) -> None:
        """Stop renewing; the row is released by the entry that ends the attempt."""
        with self._lock:
            if self._leases.get(lease.run_key) is lease:
                del self._leases[lease.run_key]

    def stop(self) -> None:
        """End the thread; leases that are left run out by themselves."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _beat(self) -> None:
        # A first wait before the first connection: most runs end before a renewal is due.
        pause_s = self._lease_ms / 3_000
        while not self._stopping.wait(pause_s):
            try:
                asyncio.run(self._renew_until_stopped())
            except Exception as exc:
                # Unknown, not lost: each lease stays good until its own deadline, which then says why it passed.
                self._note(f"{type(exc).__name__}: {exc}")
            pause_s = self._lease_ms / 12_000  # the store did not answer: ask again a few times before the deadline

    async def _renew_until_stopped(self) -> None:
        """Renew over one connection. Raises what went wrong, to connect again."""
        renewer = await self._store.renewer()
        try:
            while True:
                await self._renew_once(renewer)
                if self._stopping.wait(self._lease_ms / 3_000):
                    return
        finally:
            await renewer.close()

    def _note(self, trouble: str) -> None:
        with self._lock:
            for lease in self._leases.values():
                lease.trouble = trouble

    async def _renew_once(self, renewer: Renewer) -> None:
        with self._lock:
            # A loop that was closed under its turn goes on with nothing: the lease runs out, and others take over.
            leases = [lease for lease in self._leases.values() if not lease.loop.is_closed()]
            self._leases = {lease.run_key: lease for lease in leases}
        if not leases:
            return
        sent_ms = monotonic_ms()
        wishes = [Renewal(lease.run_key, lease.epoch) for lease in leases]
        held = await renewer.renew(self._worker, wishes, lease_ms=self._lease_ms)
        for lease in leases:
            post_head = held.get(lease.run_key)
            if post_head is None:
                self.drop(lease)
                _tell(lease, lease.on_lost)
                continue
            lease.deadline_ms, lease.trouble = sent_ms + self._lease_ms, ""
            if post_head != lease.post_head:
                lease.post_head = post_head
                _tell(lease, partial(lease.on_posted, post_head))


def _tell(lease: Lease, what: Callable[[], None]) -> None:
    """A lease that ended normally while its renewal was under way also comes here; its attempt is closed already."""
    if not lease.loop.is_closed():
        lease.loop.call_soon_threadsafe(what)
