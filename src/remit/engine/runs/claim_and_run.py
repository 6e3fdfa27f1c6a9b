"""The one place that decides what a call of a run does, and one attempt from its claim to its last entry.

    absent     open it, held, and run
    ended      verified, then its outcome; nothing is run
    denied     the gate lets nothing of it go on: it ends, or waits, before any of its code runs
    free       verified, claimed, and gone on with: recorded calls replay, the first new one begins
    held       wait for that attempt; if its worker dies, the run is free

An attempt ends in one commit that also gives the lease back. An exception that leaves the flow
does not end the run: it waits for repair, and only the calls that failed run again.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

from remit.engine.declared.flow import Flow
from remit.engine.declared.place import check_not_inside
from remit.engine.process.admit import Order, check_order, find
from remit.engine.process.host import Host
from remit.engine.process.outcome import Outcome, outcome_of
from remit.engine.process.taking import Taken, Taker, alone
from remit.engine.runs.ending import begin, complete, deny, finish, park, refuse, with_doubts
from remit.engine.runs.holding import beginning, granted, held, is_unheard
from remit.engine.runs.invoke import call_flow, main_task
from remit.engine.runs.run import Run
from remit.engine.runs.unattended import end_if_cancelled
from remit.engine.runs.unwinding import Unwinding
from remit.engine.runs.waiting import Stop, in_its_own_task
from remit.engine.runs.watch import has_written_last, is_parked, until_free
from remit.engine.turn.answers import denial_of
from remit.engine.turn.attempt import Attempt
from remit.engine.turn.brought import within_flow
from remit.engine.turn.closing import MISFITS, AttemptClosed, is_closing
from remit.engine.turn.exits import is_failure
from remit.engine.turn.halt import Again
from remit.engine.turn.left import close_passed_over, let_come
from remit.engine.turn.posts import notice
from remit.engine.turn.turn import Turn
from remit.errors import (
    AuthorityUnreadable,
    DefinitionIncompatible,
    LeaseHeld,
    LeaseLost,
    RemitError,
    RunAbsent,
    StoreError,
    ValueUnreadable,
)
from remit.facts.machine import ENDED
from remit.store.rows import RunRow


async def claim_and_run(host: Host, flow: Flow[Any], order: Order, *, is_waiting: bool) -> Outcome:
    """Start a run or go on with it, until it ends or parks. Raises what stopped it, or LeaseHeld unless is_waiting."""
    check_not_inside((host.store.ledger.origin, host.tenant, order.run))
    await host.introduce()
    has_waited = False
    while True:
        told: Outcome | Again | RunRow | asyncio.Event
        with alone(host, order.run) as taker:
            if isinstance(taker, Taker):
                told = await _try_attempt(host, taker, flow, order, has_waited=has_waited)
            else:
                await _check_known(host, flow, order)
                told = taker
        if isinstance(told, Outcome):
            return told
        if isinstance(told, Again):
            continue
        if not is_waiting:
            holder = f"worker {told.worker}" if isinstance(told, RunRow) else "this process"
            raise LeaseHeld(f"Run {order.run!r} is held by {holder}; nothing was done.")
        await (until_free(host, told) if isinstance(told, RunRow) else told.wait())
        has_waited = True


async def _try_attempt(
    host: Host, taker: Taker, flow: Flow[Any], order: Order, *, has_waited: bool
) -> Outcome | Again | RunRow:
    """The outcome; the row of a run that another worker holds; Again where it moved while it was looked at, or parked.

    has_waited: an attempt was waited for, so the end that it wrote is the answer. It may have failed to open the run,
    or written none: its caller went away, and what the run waited for before it may have been answered since.
    """
    taken: Taken | RunRow | None = await _opened(host, taker, flow, order) if order.may_open else None
    if taken is None:
        found = await find(host, order.run)
        check_order(found.view, flow, order)
        if found.view.status in ENDED or (has_waited and is_parked(found) and has_written_last(found)):
            return outcome_of(found.view, flow.result_codec)
        taken = await granted(host, taker.take(found))
    if not isinstance(taken, Taken):
        return taken or Again()
    return await in_its_own_task(partial(_hold_and_run, host, taker, flow, taken))


async def _opened(host: Host, taker: Taker, flow: Flow[Any], order: Order) -> Taken | None:
    """The run, where it is new. A run that is there waits at the gate, and says why, while authority can't be read."""
    try:
        return await granted(host, taker.open(flow, order))
    except AuthorityUnreadable:
        if await host.store.read_row(host.tenant, order.run) is None:
            raise
        return None


async def _check_known(host: Host, flow: Flow[Any], order: Order) -> None:
    """Does the caller ask for the very run at which this process works already?"""
    try:
        found = await find(host, order.run)
    except RunAbsent:
        return  # it is being opened; what the caller asked for is checked when that is over
    check_order(found.view, flow, order)


async def _hold_and_run(host: Host, taker: Taker, flow: Flow[Any], taken: Taken, stop: Stop) -> Outcome | Again:
    """One attempt under a lease that was just granted, until its caller stops it."""
    run_key = taken.row.run_key
    started = beginning(host, taken, contract=flow.terms.digest, version=flow.contract.version)
    attempt: Attempt | None = None
    try:
        on_left = partial(end_if_cancelled, host, taker, taken.row.run)
        async with held(host, taken, started, main=main_task(flow), on_left=on_left) as attempt:
            stop.ends(partial(attempt.halt, Again()))
            if stop.was_called:  # before it began
                raise asyncio.CancelledError
            turn = Turn(host, flow.terms, attempt, within_flow(flow.fn))
            host.to_tell[run_key] = partial(notice, turn)
            try:
                told = await begin(turn, is_new=taken.is_new) or await _run_flow(turn, flow, stop)
            finally:
                del host.to_tell[run_key]
    except MISFITS:
        if attempt is not None and await is_unheard(host, attempt):
            return Again()
        raise
    except (StoreError, LeaseLost) as exc:
        names = () if attempt is None else attempt.boundary.in_doubt
        if not names:
            raise
        raise with_doubts(exc, names) from exc.__cause__
    return Again() if await is_unheard(host, attempt) else told


async def _run_flow(turn: Turn, flow: Flow[Any], stop: Stop) -> Outcome | Again:
    attempt = turn.attempt
    try:
        given = _read_input(attempt, flow)
        with Unwinding(attempt, main_task(flow)):
            result = await call_flow(flow, Run(turn), given)
        attempt.check_open()
        attempt.unbegun.check_none(attempt.run_id, attempt.replay.left)
        await let_come(attempt, "returned")
        if attempt.replay.unasked:
            attempt.disagree(attempt.replay.unasked, ())
        data, twin = flow.result_codec.write(result, where=f"flow {flow.name!r}")
    except BaseException as exc:
        is_over = is_closing(exc) or not attempt.is_open
        if not is_over and (is_failure(exc) or isinstance(exc, asyncio.CancelledError)):
            with suppress(AttemptClosed):
                await let_come(attempt, "raised")
        if stop.was_called and attempt.closed_by is None:
            raise asyncio.CancelledError from exc  # the run is given back as it is
        if is_over or attempt.closed_by is not None or (attempt.is_open and close_passed_over(attempt, exc)):
            return await _halted(turn, exc)
        if (no := denial_of(exc)) is not None:
            return await deny(turn, no)
        if not (is_failure(exc) or isinstance(exc, asyncio.CancelledError)):
            raise
        error = await park(turn, flow.name, exc)
        if not isinstance(error, RemitError):
            return error
        if error is exc:
            raise
        raise error from exc
    try:
        return await complete(turn, data, twin)
    except DefinitionIncompatible as why:
        told = await refuse(turn, why)
        if told is not None:
            return told
        raise


async def _halted(turn: Turn, exc: BaseException) -> Outcome | Again:
    """The flow did not end by itself: it was told to stop, or what it stands on is lost."""
    attempt = turn.attempt
    if attempt.closed_by is None and attempt.halted is not None:
        return await finish(attempt, attempt.halted)
    why = attempt.closed_by
    assert why is not None
    if isinstance(why, MISFITS):
        told = await refuse(turn, why)
        if told is not None:
            return told
    if why is exc:
        raise why
    raise why from (why.__cause__ if is_closing(exc) else exc)


def _read_input(attempt: Attempt, flow: Flow[Any]) -> Any:
    """What the flow is given. Bytes that its type no longer reads end this turn like any other mismatch."""
    try:
        return flow.read_input(attempt.view.input, attempt.run_id)
    except ValueUnreadable as exc:
        attempt.lost(exc)
