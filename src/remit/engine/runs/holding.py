"""Holding: one attempt from the lease that was just granted to the moment at which it is given back.

    async with held(host, taken, started, main=...) as attempt: ...

However the block ends, what the attempt began outside is seen through first, the lease is given
back unless its last entry did that, and it is renewed no more. Calls that never began never do.
Who is cancelled twice need not wait for that: it goes on behind them, while the loop does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from remit.engine.process.host import Host
from remit.engine.process.lease import Lease
from remit.engine.process.taking import Taken
from remit.engine.turn.attempt import Attempt
from remit.engine.turn.closing import AttemptClosed, until_done
from remit.engine.turn.halt import Again
from remit.errors import LeaseLost, RemitError, StoreError
from remit.facts.entry import Pen
from remit.facts.kinds import AttemptStarted

T = TypeVar("T")


def beginning(host: Host, taken: Taken, *, contract: str, version: str) -> AttemptStarted:
    """What the first entry of a turn says. contract: digest of what its code declares; version: of that."""
    dead, view, up = list(taken.dead), taken.view, host.clock.up()
    where, up = (host.me.host, up) if dead and up is not None else ("", 0)
    # With the dead goes the note that the call may be at work, and with that why such a word does not count.
    early = [told.item for _, told in view.words() if view.is_early(told) and told.item not in view.early]
    return AttemptStarted(
        contract=contract,
        dead=dead,
        early=early if dead else [],
        host=where,
        up=up,
        version=version,
        worker=host.worker,
    )


@asynccontextmanager
async def held(
    host: Host,
    taken: Taken,
    started: AttemptStarted,
    *,
    main: asyncio.Task[Any] | None,
    on_left: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[Attempt]:
    """An attempt at a run that was just taken.

    main: the task that runs the flow. on_left: called where its caller went away and the lease is given back, if
    somebody cancelled the run or posted for it meanwhile, whom the turn did not hear: nobody else would.
    """
    view, row = taken.view, taken.row

    def on_lost() -> None:
        attempt.close(LeaseLost(f"Run {row.run!r} is no longer held by this worker; nothing more was written."))

    hearing: set[asyncio.Task[None]] = set()

    def on_posted(post_head: bytes) -> None:
        if attempt.is_open and post_head != attempt.post_head:
            task = asyncio.ensure_future(_hear(host, row.run_key))
            hearing.add(task)
            task.add_done_callback(hearing.discard)

    lease = host.keeper.hold(row, sent_ms=taken.sent_ms, on_lost=on_lost, on_posted=on_posted)
    pen = Pen(view.identity, lane="main", by=view.opened.by, epoch=row.epoch, head=row.head, seq=row.seq)
    attempt = Attempt(host.store, host.clock, taken, pen, lease, host.lock, main=main)
    attempt.start(started)
    try:
        yield attempt
        attempt.over()
        await _hand_back(host, attempt)
    except BaseException as exc:
        try:
            await _see_through(attempt)
        finally:
            if not attempt.in_flight:
                attempt.close(exc)
                await _hand_back(host, attempt, on_left if isinstance(exc, asyncio.CancelledError) else None)
        why = attempt.closed_by
        if isinstance(exc, AttemptClosed) and why is not None and why is not exc:
            raise why from why.__cause__  # a signal to the calls of a flow is no answer to the caller of a run
        raise
    finally:
        for task in hearing:
            task.cancel()
        attempt.unbegun.drop()
        if attempt.in_flight:
            host.outlasting[row.run] = asyncio.ensure_future(_outlast(host, attempt, lease, on_left))
        else:
            _let_go(host, lease)


async def granted(host: Host, taking: Coroutine[Any, Any, T]) -> T:
    """What a taker comes to. Who goes away in the middle of it holds nothing: what was granted is given back."""
    task = asyncio.ensure_future(taking)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await until_done(task)
        taken = None if task.cancelled() or task.exception() is not None else task.result()
        if isinstance(taken, Taken):
            with suppress(StoreError):  # the lease runs out by itself
                await host.store.release(taken.row.run_key, taken.row.epoch)
        raise


async def _hear(host: Host, run_key: int) -> None:
    """Tell the turn at this run that somebody posted from another process."""
    tell = host.to_tell.get(run_key)
    if tell is not None:
        with suppress(AttemptClosed):  # that turn is over, and says so itself
            await tell()


async def is_unheard(host: Host, attempt: Attempt) -> bool:
    """Whether somebody posted whom this turn did not hear: one that wrote no last entry compared nothing with that.

    Asked when the lease was given back: whoever posts from then on finds the run free.
    """
    if attempt.has_ended:
        return False
    row = await host.store.read_row(host.tenant, attempt.run_id)
    return row is not None and row.run_key == attempt.lease.run_key and row.post_head != attempt.post_head


async def _outlast(host: Host, attempt: Attempt, lease: Lease, on_left: Callable[[], Awaitable[None]] | None) -> None:
    """Hold the run, for whoever does not wait, until what its turn began outside has come back and is settled."""
    try:
        await attempt.drain()
        attempt.over()
        await _hand_back(host, attempt, on_left)
    finally:  # where the loop ends first the lease runs out by itself
        del host.outlasting[attempt.run_id]
        _let_go(host, lease)


def _let_go(host: Host, lease: Lease) -> None:
    """Renew it no more, and tell its turn of nothing any more, which is over and would not be freed at once else."""
    host.keeper.drop(lease)
    lease.on_lost = lease.on_posted = _untold


def _untold(*_: object) -> None:
    """Nobody is told."""


async def _see_through(attempt: Attempt) -> None:
    """Whatever stopped the turn: what it began outside has come back before anybody else may hold the run.

    A request that is still on its way would land after others had looked whether it did. It is settled, or in doubt
    where nothing can be written any more. Only a second cancellation, as when the loop ends, does not wait for it;
    and where the lease is lost, others hold the run already.
    """
    attempt.halt(Again())
    if not isinstance(attempt.closed_by, LeaseLost):
        await attempt.drain()


async def _hand_back(host: Host, attempt: Attempt, on_left: Callable[[], Awaitable[None]] | None = None) -> None:
    """Give back a lease that no entry gave back: it found nothing new, was cancelled, or can't write its end."""
    if attempt.has_ended or isinstance(attempt.closed_by, LeaseLost):
        return
    try:
        await host.store.release(attempt.lease.run_key, attempt.lease.epoch)
    except StoreError:
        return  # the lease runs out by itself; why the turn was closed is what the caller must hear
    if on_left is not None:
        with suppress(RemitError):  # as it would end whoever asks for that next
            if attempt.boundary.cancel is not None or await is_unheard(host, attempt):
                await on_left()
