"""A turn: claim a run, run its flow, write how the turn ended.

    absent     open it, held, and run
    ended      verified, then its outcome; nothing is run
    free       verified, claimed, and gone on with: recorded calls replay, the first new one begins
    held       wait for that attempt; if its worker dies, the run is free

A turn ends in one commit that also gives the lease back. An exception that leaves the flow
does not end the run: it waits for repair, and only the calls that failed run again.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from remit.clock import monotonic_ms
from remit.engine.admit import Found, Order, check_order, claim, find, is_holder_dead, open_run
from remit.engine.attempt import Attempt
from remit.engine.flow import Flow
from remit.engine.host import Host
from remit.engine.lease import Lease
from remit.engine.outcome import Outcome, detail, outcome_of
from remit.engine.place import place
from remit.engine.run import Run, SyncRun
from remit.engine.signals import AttemptClosed
from remit.engine.step import text_of, type_name
from remit.errors import DefinitionIncompatible, LeaseHeld, LeaseLost, RemitError, RunAbsent, StepError, StoreError
from remit.facts.entry import Pen
from remit.facts.kinds import AttemptStarted, RunEnded, RunParked
from remit.facts.machine import ENDED, Status
from remit.facts.view import RunView
from remit.store.protocol import Move, RunRow

_POLL_SECONDS_MIN, _POLL_SECONDS_MAX = 0.01, 0.25


async def claim_and_run(host: Host, flow: Flow[Any], order: Order, *, is_waiting: bool) -> Outcome:
    """Start a run or go on with it, until it ends or parks. Raises what stopped it, or LeaseHeld unless is_waiting."""
    has_waited = False
    while True:
        other = host.turns.get(order.run)
        if other is None:
            with _own_turn(host, order.run):
                found = await _try_turn(host, flow, order, is_new=not has_waited, is_settled=has_waited)
            if isinstance(found, Outcome):
                return found
        else:
            found = await _holder(host, flow, order)
        if not is_waiting:
            raise LeaseHeld(f"Run {order.run!r} is held by worker {found.worker if found else host.worker}; nothing was done.")
        if other is not None:
            await other.wait()
        elif found is not None:
            await _until_free(host, found)
        has_waited = True


@contextmanager
def _own_turn(host: Host, run: str) -> Iterator[None]:
    """Nobody else in this process takes a turn at this run meanwhile; from before it is held until after it is given back."""
    over = host.turns[run] = asyncio.Event()
    try:
        yield
    finally:
        del host.turns[run]
        over.set()


async def _try_turn(
    host: Host, flow: Flow[Any], order: Order, *, is_new: bool, is_settled: bool
) -> Outcome | RunRow | None:
    """The outcome; or the row of a run that another worker holds; or None where it moved while it was looked at.

    is_new: the run may not exist yet. is_settled: an attempt was waited for, so what it left is the answer.
    """
    sent_ms = monotonic_ms()
    made = await open_run(host, flow, order, is_held=True) if is_new else None
    if made is not None:
        return await _take_turn(host, flow, made.view, made.row, sent_ms)
    found = await find(host, order.run)
    check_order(found.view, flow, order)
    if found.view.status in ENDED or (is_settled and _is_parked(found)):
        return outcome_of(found.view, flow.result_codec)
    sent_ms = monotonic_ms()
    held = await claim(host, found.row)
    if held is None:
        return found.row
    if (held.head, held.post_head) != (found.row.head, found.row.post_head):
        await host.store.release(held.run_key, held.epoch)  # somebody appended while this journal was verified
        return None
    return await _take_turn(host, flow, found.view, held, sent_ms)


async def _holder(host: Host, flow: Flow[Any], order: Order) -> RunRow | None:
    """The row of a run at which this process works already, after a look whether the caller asks for that very run."""
    try:
        found = await find(host, order.run)
    except RunAbsent:
        return None  # it is being opened
    check_order(found.view, flow, order)
    return found.row


def _is_parked(found: Found) -> bool:
    return found.row.worker is None and found.view.status not in (Status.QUEUED, Status.RUNNING)


async def wait_for(host: Host, run: str) -> Found:
    """The run when it ends or parks, whoever works at it. Raises RunAbsent, RunQuarantined, Tampered."""
    while True:
        found = await find(host, run)
        if found.view.status in ENDED or _is_parked(found):
            return found
        await _until_moved(host, found.row)


async def _until_moved(host: Host, row: RunRow) -> None:
    """Wait until the row shows another status, or nobody holding what somebody held."""
    pause = _POLL_SECONDS_MIN
    while True:
        await asyncio.sleep(pause)
        pause = min(pause * 2, _POLL_SECONDS_MAX)
        now = await host.store.read_row(row.tenant, row.run)
        if now is None or now.quarantined or now.status != row.status or (now.worker is None) != (row.worker is None):
            return


async def _until_free(host: Host, row: RunRow) -> None:
    """Wait until the row says that the attempt is over, or its lease ran out, or its holder is proven dead."""
    pause = _POLL_SECONDS_MIN
    while True:
        await asyncio.sleep(pause)
        pause = min(pause * 2, _POLL_SECONDS_MAX)
        now = await host.store.read_row(row.tenant, row.run)
        if now is None or now.worker is None or now.epoch != row.epoch or now.quarantined or now.worker == host.worker:
            return
        if now.lease_until <= await host.store.now() or await is_holder_dead(host, now.worker):
            return


@dataclass(frozen=True, slots=True)
class _Turn:
    host: Host
    flow: Flow[Any]
    view: RunView
    row: RunRow
    attempt: Attempt


async def _take_turn(host: Host, flow: Flow[Any], view: RunView, row: RunRow, sent_ms: int) -> Outcome:
    """One attempt under a lease that was just granted."""

    def on_lost() -> None:
        attempt.close(LeaseLost(f"Run {row.run!r} is held by somebody else; nothing more was written."))

    lease = host.keeper.hold(row.run_key, row.epoch, sent_ms=sent_ms, on_lost=on_lost)
    attempt = _attempt(host, flow, view, row, lease)
    try:
        return await _run_flow(_Turn(host, flow, view, row, attempt))
    except BaseException as exc:
        attempt.close(exc)
        await _hand_back(host, attempt, exc)
        raise
    finally:
        host.keeper.drop(lease)


def _attempt(host: Host, flow: Flow[Any], view: RunView, row: RunRow, lease: Lease) -> Attempt:
    pen = Pen(view.identity, lane="main", by=view.opened.by, epoch=row.epoch, head=row.head, seq=row.seq)
    attempt = Attempt(host.store, host.clock, view, pen, lease)
    attempt.start(AttemptStarted(contract=flow.contract_digest, version=flow.contract.version, worker=host.worker))
    return attempt


async def _hand_back(host: Host, attempt: Attempt, why: BaseException) -> None:
    """Give back a lease that no entry gave back: the turn was cancelled, or could not write its end."""
    if attempt.has_ended or isinstance(why, LeaseLost):
        return
    try:
        await host.store.release(attempt.lease.run_key, attempt.lease.epoch)
    except StoreError:
        return  # the lease runs out by itself; `why` is what the caller must hear


async def _run_flow(turn: _Turn) -> Outcome:
    host, flow, view, attempt = turn.host, turn.flow, turn.view, turn.attempt
    run_id = attempt.run_id
    if max(host.clock.now(), view.last_at) > view.opened.window_end:
        return await _expire(attempt)
    try:
        given = flow.input_codec.read(view.input, where=f"the input of run {run_id!r}")
        result = await call_flow(flow, Run(attempt, host.clock, host.threads), given)
        attempt.check_open()
        if attempt.replay.left:
            attempt.close(DefinitionIncompatible(attempt.replay.left, ()))
            attempt.check_open()
        data, twin = flow.result_codec.write(result, where=f"flow {flow.name!r}")
    except AttemptClosed:
        raise await _stopped(turn) from None
    except Exception as exc:
        error = await _stopped(turn) if attempt.closed_by is not None else await _park(attempt, flow, exc)
        if error is exc:
            raise
        raise error from exc
    await attempt.end(RunEnded(status="completed"), Move("completed", release=True), data)
    return Outcome(run_id, Status.COMPLETED, result=twin)


async def _expire(attempt: Attempt) -> Outcome:
    words = "Its window was over before it could go on; nothing more was run."
    fact, move = RunEnded(code="window_over", status="expired"), Move("expired", "window_over", release=True)
    await attempt.end(fact, move, detail(words))
    return Outcome(attempt.run_id, Status.EXPIRED, "window_over", words)


async def _stopped(turn: _Turn) -> BaseException:
    """Why the attempt was closed under the flow. A mismatch of code and journal is written down, once."""
    why = turn.attempt.closed_by
    assert why is not None
    if isinstance(why, DefinitionIncompatible):
        view, words = turn.view, detail(why.message)
        if view.parked is None or (view.parked.code, view.last_value) != (why.code, words):
            # Only draws can ride on the attempt that was refused; they are dropped with it.
            parking = _attempt(turn.host, turn.flow, view, turn.row, turn.attempt.lease)
            await parking.end(RunParked(code=why.code, reason="repair"), Move("waiting", why.code, release=True), words)
            turn.attempt.has_ended = True
    return why


async def _park(attempt: Attempt, flow: Flow[Any], exc: Exception) -> RemitError:
    """The run waits for mended code or surroundings; the error for its caller."""
    error = exc
    if not isinstance(error, RemitError):
        error = StepError(run=attempt.run_id, name=flow.name, error_type=type_name(exc), detail=text_of(exc))
    calls = sorted(attempt.failed & _named_behind(exc))
    fact = RunParked(calls=calls, code=error.code, reason="repair")
    await attempt.end(fact, Move("waiting", error.code, release=True), detail(error.message))
    return error


def _named_behind(exc: BaseException) -> set[str]:
    """Names of the step errors behind an exception, through causes, contexts and groups."""
    names: set[str] = set()
    seen: set[int] = set()
    queue: list[BaseException | None] = [exc]
    while queue:
        error = queue.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        if isinstance(error, StepError):
            names.add(error.name)
        if isinstance(error, BaseExceptionGroup):
            queue.extend(error.exceptions)
        queue.append(error.__cause__)
        if not error.__suppress_context__:
            queue.append(error.__context__)
    return names


async def call_flow(flow: Flow[Any], run: Run, given: Any) -> Any:
    """The user's flow function: on the loop when it is async, in a thread of its own when it is not."""
    arguments = (given,) if flow.takes_input else ()
    token = place.set("flow")
    try:
        if flow.is_async:
            return await flow.fn(run, *arguments)
        return await _in_own_thread(lambda loop: flow.fn(SyncRun(run, loop), *arguments), flow.name)
    finally:
        place.reset(token)


async def _in_own_thread(function: Callable[[asyncio.AbstractEventLoop], Any], name: str) -> Any:
    """A pool would let a flow that waits for its steps starve them of threads."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(function, loop)
        except BaseException as exc:
            error = RuntimeError("the flow raised StopIteration") if isinstance(exc, StopIteration) else exc
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name=f"remit-flow-{name}", daemon=True).start()
    return await done
