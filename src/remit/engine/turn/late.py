"""Late: calls that come when their turn is over, or when their flow is: it returned, or an error left it.

A branch that the flow left behind hears what is recorded, as it did before. But nothing begins that the run knows
nothing of: it would be under way when the turn ends, and after a no or a failure nobody may go on with it. What is in
doubt is found out. Where the flow returned, what it had asked or sent before is seen through as well.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

from remit.engine.turn.apart import calling_task
from remit.engine.turn.closing import AttemptClosed
from remit.engine.turn.parking import STILL_SECONDS

if TYPE_CHECKING:
    from remit.engine.turn.attempt import Attempt

Over = Literal["", "returned", "raised"]  # how the flow came to its end; "" while it goes on

_LATE_MANY = 100


async def check_may_still_begin(attempt: Attempt, name: str) -> None:
    """Raises AttemptClosed where the flow is over, and this call would be something new."""
    if not may_still_begin(attempt, name):
        await pause(attempt)
        raise AttemptClosed


def may_still_begin(attempt: Attempt, name: str) -> bool:
    """Whether this call may begin, or go on, now that the journal has no outcome of it."""
    if attempt.over_by == "returned":
        return attempt.boundary.has(name)
    return not attempt.over_by or name in attempt.boundary.in_doubt


def stop_idle(attempt: Attempt) -> None:
    """Let go of effects of which nothing is outside, or nothing can be written: whoever they ask may never answer."""
    for task, wish in attempt.in_flight.items():
        is_idle = not attempt.is_outside(wish) if attempt.closed_by is None else not wish.is_committed
        if is_idle and task is not calling_task():
            task.cancel()


async def pause(attempt: Attempt) -> None:
    """A flow that swallows even this comes again, maybe for ever: others of this loop have their turn."""
    attempt.times_too_late += 1
    await asyncio.sleep(0.0 if attempt.times_too_late < _LATE_MANY else STILL_SECONDS)
