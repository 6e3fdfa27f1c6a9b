"""Taking: the one way to hold a run.

    alone    this process's turn at the run, from before it is opened or read until after it is given back
    open     a new run is ours from its first moment
    take     claim it under an epoch one higher, at once where the holder is proven dead; then compare the heads

A claim is granted on the epoch that was read, so whoever took the run in between made it fail. An append
raises no epoch: what was appended in between shows in the heads, and the run is given back untouched.
Two takers of one process are one worker to the store, which could not tell them apart: hence the turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from remit.clock import monotonic_ms
from remit.engine.declared.flow import Flow
from remit.engine.process.admit import Found, Order, is_holder_dead, newly_dead, open_run
from remit.engine.process.at_work import left_elsewhere
from remit.engine.process.host import Host
from remit.facts.view import RunView
from remit.store.rows import RunRow
from remit.store.units import Claim


@dataclass(frozen=True, slots=True)
class Taken:
    """A run that this process holds: its verified view, and the row under whose epoch it is held.

    sent_ms: monotonic, when the lease was asked for. is_new: it was opened by this very taking, for whoever has its
    outcome from that. dead: workers that are
    proven dead and were not known to be. elsewhere: by call in doubt, in which other processes it may be at work.
    """

    row: RunRow
    view: RunView
    sent_ms: int
    is_new: bool = False
    dead: tuple[str, ...] = ()
    elsewhere: Mapping[str, str] = field(default_factory=dict)


class Taker:
    """The only one of this process that may take this run. Made by `alone`."""

    __slots__ = ("_host", "_run")

    def __init__(self, host: Host, run: str) -> None:
        self._host, self._run = host, run

    async def open(self, flow: Flow[Any], order: Order) -> Taken | None:
        """Make the run and hold it under epoch 1; None where its id is taken. Raises as `open_run` does."""
        assert order.run == self._run
        sent_ms = monotonic_ms()
        found = await open_run(self._host, flow, order, is_held=True)
        return None if found is None else Taken(found.row, found.view, sent_ms, is_new=True)

    async def take(self, found: Found) -> Taken | RunRow | None:
        """Hold a run as it was found. Its row, where somebody else holds it or took it since; None where it moved."""
        host, row = self._host, found.row
        assert row.run == self._run
        dead, elsewhere = await newly_dead(host, found.view), await left_elsewhere(host, found.view)
        sent_ms = monotonic_ms()
        # With the turn being ours, a lease of our own is one that an earlier attempt could not give back.
        is_gone = row.worker is not None and (row.worker == host.worker or await is_holder_dead(host, row.worker))
        wish = Claim(row.run_key, row.epoch, host.worker, host.lease_ms, dead=row.worker if is_gone else None)
        held = await host.store.claim(wish)
        if held is None:
            return row
        if (held.head, held.post_head) == (row.head, row.post_head):
            return Taken(held, found.view, sent_ms, dead=dead, elsewhere=elsewhere)
        await host.store.release(held.run_key, held.epoch)  # somebody appended since: what was verified is not all
        return None


@contextmanager
def alone(host: Host, run: str) -> Iterator[Taker | asyncio.Event]:
    """This process's turn at the run, while the block lasts; or the end of somebody else's, to wait for.

    A turn that outlasts its caller is this process's until it is over.
    """
    other = host.under_way.get(run)
    if other is not None:
        yield other
        return
    over = host.under_way[run] = asyncio.Event()

    def end(_: object = None) -> None:
        del host.under_way[run]
        over.set()

    try:
        yield Taker(host, run)
    finally:
        outlasting = host.outlasting.get(run)
        if outlasting is None:
            end()
        else:
            outlasting.add_done_callback(end)
