"""Due: what a turn has to come to, or to hear, before a call begins anything new outside.

until_due     what was asked or intended before is asked for first: where the code comes to something new
              instead, the answer to the old question would be lost, and with it perhaps a no
until_told    whoever was cancelled in this moment says what it gave up, however deep it waits
check_heard   what the flow gave up is heard first
until_none    whatever is to be come to, so long as the flow moves
until_seen    a turn that only settles what is in doubt lets all of that be come to
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from remit.engine.turn import replay
from remit.engine.turn.closing import AttemptClosed
from remit.engine.turn.halt import Again
from remit.engine.turn.late import may_still_begin
from remit.engine.turn.parking import HOPS, STILL_SECONDS
from remit.engine.turn.unheard import parked_unheard, unheard_answers, unheard_of
from remit.engine.turn.wish import Wish

if TYPE_CHECKING:
    from remit.engine.turn.attempt import Attempt


async def until_due(attempt: Attempt, wish: Wish) -> None:
    """Let what was asked or intended before be come to. Raises AttemptClosed where this begins something.

    What is in doubt has begun. What did not happen begins anew.
    """
    await until_asked(attempt, is_whole=wish.is_whole)
    effect = attempt.boundary.effects.get(wish.name)
    if attempt.unasked and (effect is None or effect.state == "did_not_happen"):
        attempt.disagree(tuple(sorted(attempt.unasked)), (wish.name,))


async def until_asked(attempt: Attempt, *, is_whole: bool = False) -> None:
    """Give calls that were named side by side the time to come to what was asked or intended before.

    is_whole: the whole flow waits meanwhile, so it takes no more than a moment.
    """
    await until_none(attempt, lambda: len(attempt.unasked), is_whole=is_whole)


async def until_seen(attempt: Attempt) -> None:
    """The same to calls that come to what is in doubt: it is asked about, whatever else comes first."""

    def unseen() -> int:
        return len(set(attempt.boundary.in_doubt) - {wish.name for wish in attempt.in_flight.values()})

    await until_none(attempt, unseen, is_whole=attempt.replay.is_whole())


async def until_told(attempt: Attempt) -> None:
    """Let calls that were cancelled just now say so, and outcomes that are on their way up be heard or given up."""
    if not attempt.let_go:
        await attempt.rest.until_over()


def check_heard(attempt: Attempt, then: str) -> None:
    """Raises AttemptClosed where the flow goes on to something new outside, and did not hear what it gave up.

    Also where it does not go on at all any more, and branches that it left behind do.
    """
    if attempt.over_by and not may_still_begin(attempt, then):
        raise AttemptClosed
    if attempt.let_go:
        # The flow gave up a call that is under way outside. Before anything new begins out there, what became of it
        # is awaited; the next turn finds it recorded and goes another way.
        attempt.stop(Again())
    if not (attempt.replay.unheard or attempt.given_up):
        return
    unheard = unheard_of(attempt.view, attempt.replay.unheard)
    unheard += unheard_answers(attempt.boundary, attempt.given_up)
    if unheard:
        attempt.stop(parked_unheard(unheard, [then]))


async def until_none(attempt: Attempt, left: Callable[[], int], *, is_whole: bool = False) -> None:
    """Until none is left, or the flow stands still, as the replay has it. Raises AttemptClosed: the turn ended."""
    for _ in range(HOPS):
        if not left():
            return
        await asyncio.sleep(0)
        attempt.check_open()
    loop = asyncio.get_running_loop()
    limit = STILL_SECONDS if is_whole else replay.STILL_SECONDS_OF_TASKS
    before, since = left(), loop.time()
    while now := left():
        if now != before:
            before, since = now, loop.time()
        if loop.time() - since >= limit:
            return
        await asyncio.sleep(STILL_SECONDS)
        attempt.check_open()
