"""The port: the one place where an effect's function is called, and only with a permit.

A permit is given by the crossing when judgement and intention are durable. It is good once, for
this intention, in this attempt, under this epoch. Ownership is looked at once more before the
body, and so is the time: a worker that was frozen past its lease begins nothing, and what was over
while the commit waited is judged anew. So is a request that its type reads as another value by then.
A plain function waits for a thread of its own, so it looks again there, as its first act.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

from remit.engine.boundary.heard import heard
from remit.engine.declared.place import enter, leave
from remit.engine.declared.sink import Callee, Declined, DidNotHappen, Effect
from remit.engine.turn.apart import times_cancelled
from remit.engine.turn.exits import failure_of
from remit.engine.turn.returned import finished, is_unfinished
from remit.engine.turn.step import in_thread, since_us
from remit.engine.turn.turn import Turn
from remit.engine.turn.wish import Permit
from remit.errors import PermitRefused, StoreClosed, ValueUnreadable
from remit.errors.called import called


class Answered(NamedTuple):
    """What became of one call: `doubt` where nobody knows, `unsent` where its function never began."""

    state: Literal["ok", "failed", "did_not_happen", "doubt", "unsent"]
    outcome: Any
    error: BaseException | None
    took: int  # microseconds


async def touch(turn: Turn, effect: Effect[Any], permit: Permit) -> Answered:
    """Call the effect with the stored request. Raises PermitRefused, or AttemptClosed where the run is lost."""
    attempt = turn.attempt
    intended = attempt.boundary.effects.get(permit.name)
    if (
        permit not in turn.permits
        or intended is None
        or intended.settled is not None
        or (intended.intention, attempt.lease.epoch) != (permit.intention, permit.epoch)
    ):
        raise PermitRefused(f"The effect {permit.name!r} has no permit of this judgement; it was not called.")
    turn.permits.discard(permit)
    attempt.check_held()
    try:
        request = effect.request_codec.read_exactly(intended.request, where=f"the request of {called(permit.name)}")
    except ValueUnreadable as exc:  # by now it is another value than was judged
        return _unsent(exc.message)
    if (late := _overdue(turn, permit)) is not None:
        return late
    began, begin = time.perf_counter_ns(), None
    is_over, here = _noted(turn, permit), enter("effect")
    try:
        limit = None if effect.timeout is None else effect.timeout.total_seconds()
        if not effect.callee.is_async:
            begin = _Beginning(turn, permit, _noted(turn, permit))  # its thread outlives a call given up
        outcome = await _called(turn, effect.callee, request, permit.key, limit, begin)
    except DidNotHappen as exc:
        if begin is not None and begin.give_up():
            return _overdue(turn, permit) or _unsent(
                f"{called(permit.name)} waited for a thread until its run was lost"
            )
        return Answered("did_not_happen", None, exc, since_us(began))
    except Declined as exc:
        return Answered("failed", None, exc, since_us(began))
    except BaseException as exc:
        error = exc if isinstance(exc, asyncio.CancelledError) else failure_of(exc)
        never_began = begin is not None and begin.give_up()
        # Only the end of its turn cancels it. What a task group of its own left counted says nothing.
        if isinstance(exc, asyncio.CancelledError) and times_cancelled() and not attempt.is_open:
            raise
        if never_began:
            return _overdue(turn, permit) or _unsent(f"{called(permit.name)} found no thread to begin in")
        return Answered("doubt", None, error, since_us(began))
    finally:
        leave(here)
        is_over()
    return Answered("ok", outcome, None, since_us(began))


def note_left(turn: Turn, permit: Permit) -> None:
    """Of a call that nothing was settled of: when it came back; it may outlive whoever waited for it."""
    turn.host.lock.outlive(permit.key, turn.host.clock.now)


async def ask_outside(turn: Turn, effect: Effect[Any], request: bytes, key: str) -> Any:
    """What the effect's probe says, or what it raised. Raises AttemptClosed where the run is lost."""
    probe = effect.probe
    assert probe is not None
    turn.attempt.check_held()
    read = partial(effect.request_codec.read_exactly, request, where="the request")
    # No answer is no answer, and the doubt stays.
    return await heard(lambda: _called(turn, probe, read(), key, None))


class _Beginning:
    """Whether a plain function begins: its thread says so as its first act, or whoever stops waiting says that not.

    has_returned: called when its thread is through, maybe after it was waited for.
    """

    def __init__(self, turn: Turn, permit: Permit, has_returned: Callable[[], None]) -> None:
        self._turn, self._permit, self.has_returned = turn, permit, has_returned
        self._deciding = threading.Lock()
        self._has_begun = self._is_given_up = False

    def begin(self) -> None:
        """Raises DidNotHappen: it waited for its thread for so long that it may not begin any more."""
        turn = self._turn
        with self._deciding:
            self._is_given_up |= not _is_held(turn) or turn.attempt.writer.now() > self._permit.until
            if self._is_given_up:
                raise DidNotHappen("it may not begin any more")
            self._has_begun = True

    def give_up(self) -> bool:
        """Whether it never began, and never will."""
        with self._deciding:
            self._is_given_up |= not self._has_begun
            return self._is_given_up


def _is_held(turn: Turn) -> bool:
    """Whether this attempt may begin something outside; asked from any thread, and changes nothing."""
    attempt = turn.attempt
    return attempt.closed_by is None and attempt.lease.is_good and turn.host.lock.may_begin(turn.host.me.worker)


def _overdue(turn: Turn, permit: Permit) -> Answered | None:
    """What is to be said where the time of what let it pass is over; None where it is not."""
    if turn.attempt.writer.now() <= permit.until:
        return None
    return _unsent(f"the time of what let {called(permit.name)} pass was over before it began")


def _unsent(why: str) -> Answered:
    return Answered("unsent", None, DidNotHappen(why), 0)


async def _called(
    turn: Turn,
    callee: Callee,
    request: Any,
    key: str,
    limit: float | None,
    begin: _Beginning | None = None,
) -> Any:
    """Run a user's function, on the loop when it is async, in a thread when it is not; and await what it returns.

    limit: seconds for which it is waited for. begin: asked in its thread; None for a probe, which only looks.
    """
    named: dict[str, Any] = {"key": key}
    if callee.takes_epoch:
        named["epoch"] = turn.attempt.lease.epoch
    if callee.is_async:
        if limit is None:  # a timer that never rings costs as much as one that does
            outcome = await callee.fn(request, **named)
            return await finished(outcome) if is_unfinished(outcome) else outcome
        async with asyncio.timeout(limit):
            return await finished(await callee.fn(request, **named))
    async with asyncio.timeout(limit):
        function = partial(callee.fn, request, **named)

        def work() -> Any:
            if begin is not None:
                begin.begin()
            return function()

        outcome = await in_thread(turn.host.threads, work, None if begin is None else begin.has_returned)
        if is_unfinished(outcome) and begin is not None and not _is_held(turn):
            if inspect.iscoroutine(outcome):
                outcome.close()
            raise RuntimeError("the run was lost, or its runtime closed, before this was awaited")
        return await finished(outcome)


def _noted(turn: Turn, permit: Permit) -> Callable[[], None]:
    """Note that an effect's function is at work, until it returned. Raises AttemptClosed: its runtime was closed."""
    noted = turn.host.lock.send(turn.host.me.worker, permit.key)
    if noted is None:
        turn.attempt.lost(
            StoreClosed(f"The runtime was closed; {called(permit.name)} was intended, and was not called.")
        )
    return noted
