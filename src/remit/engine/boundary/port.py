"""The port: the one place where an effect's function is called, and only with a permit.

A permit is given by the crossing when judgement and intention are durable. It is good once, for
this intention, in this attempt, under this epoch. Ownership is looked at once more before the
body: a worker that was frozen past its lease begins nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from remit.engine.boundary.heard import heard, times_cancelled
from remit.engine.declared.place import place
from remit.engine.declared.sink import Callee, Declined, DidNotHappen, Effect
from remit.engine.turn.step import in_thread, since_us
from remit.engine.turn.turn import Turn
from remit.engine.turn.wish import Permit
from remit.errors import PermitRefused, StoreClosed


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of one call: `doubt` where nobody knows."""

    state: Literal["ok", "failed", "did_not_happen", "doubt"]
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
    request = effect.request_codec.read(intended.request, where=permit.name)  # exactly what was judged
    began = time.perf_counter_ns()
    is_over, token = _noted(turn, permit), place.set("effect")
    try:
        limit = None if effect.timeout is None else effect.timeout.total_seconds()
        has_returned = None if effect.callee.is_async else _noted(turn, permit)  # its thread outlives a call given up
        outcome = await _called(turn, effect.callee, request, permit.key, limit, has_returned)
    except DidNotHappen as exc:
        return Answered("did_not_happen", None, exc, since_us(began))
    except Declined as exc:
        return Answered("failed", None, exc, since_us(began))
    except (Exception, asyncio.CancelledError) as exc:
        if isinstance(exc, asyncio.CancelledError) and times_cancelled():
            raise
        return Answered("doubt", None, exc, since_us(began))
    finally:
        place.reset(token)
        is_over()
    return Answered("ok", outcome, None, since_us(began))


async def ask_outside(turn: Turn, effect: Effect[Any], request: bytes, key: str) -> Any:
    """What the effect's probe says, or what it raised. Raises AttemptClosed where the run is lost."""
    probe = effect.probe
    assert probe is not None
    turn.attempt.check_held()
    # No answer is no answer, and the doubt stays.
    return await heard(lambda: _called(turn, probe, effect.request_codec.read(request), key, None))


async def _called(
    turn: Turn,
    callee: Callee,
    request: Any,
    key: str,
    limit: float | None,
    has_returned: Callable[[], None] | None = None,
) -> Any:
    """Run a user's function: on the loop when it is async, in a thread when it is not.

    limit: seconds for which it is waited for. has_returned: called when its thread is through, maybe after that.
    """
    named: dict[str, Any] = {"key": key}
    if callee.takes_epoch:
        named["epoch"] = turn.attempt.lease.epoch
    if callee.is_async:
        if limit is None:  # a timer that never rings costs as much as one that does
            return await callee.fn(request, **named)
        async with asyncio.timeout(limit):
            return await callee.fn(request, **named)
    async with asyncio.timeout(limit):
        outcome = await in_thread(turn.host.threads, partial(callee.fn, request, **named), has_returned)
        return await outcome if asyncio.iscoroutine(outcome) else outcome


def _noted(turn: Turn, permit: Permit) -> Callable[[], None]:
    """Note that an effect's function is at work, until it returned. Raises AttemptClosed: its runtime was closed."""
    noted = turn.host.lock.send(turn.host.me.worker, permit.key)
    if noted is None:
        turn.attempt.lost(StoreClosed(f"The runtime was closed; {permit.name} was intended, and was not called."))
    return noted
