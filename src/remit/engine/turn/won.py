"""Won: who won a race of which the journal has the end.

By name, whatever its place among the sides is now: whoever came to the calls that the winner had come to. One that had
come to none is whoever comes to none now; its place tells it from others like it. Where nobody fits, code and journal
disagree. Until the winner is known nothing new begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from remit.engine.turn.attempt import Attempt
from remit.engine.turn.due import until_none
from remit.engine.turn.parking import HOPS
from remit.engine.turn.race import Contestant
from remit.facts.kinds import RaceWon


async def recorded_winner(attempt: Attempt, name: str, marks: Sequence[Contestant]) -> int:
    """The position of the winner. Raises AttemptClosed where nobody is the recorded one."""
    with attempt.replay.held():
        recorded = await attempt.recall(name, "race")
        fact = recorded.fact if recorded is not None else None
        if recorded is None or not isinstance(fact, RaceWon) or fact.of != len(marks):
            attempt.disagree((name,), (f"{name} of {len(marks)}",))
        await _until_come(attempt, fact, marks, recorded.seq)
        winner = _winner(attempt, fact, marks)
        if winner is None:
            attempt.disagree((name,), (f"{name} with no side that won it",))
        return winner


async def _until_come(attempt: Attempt, won: RaceWon, marks: Sequence[Contestant], seq: int) -> None:
    """Let the sides come to their calls. Where it was delivered in its turn, they came to all that is recorded."""
    calls = set(won.calls)

    def lacking() -> int:
        due = attempt.replay.left_before(seq)
        if calls:
            return len(due & calls) + (not any(mark.calls & calls for mark in marks))
        return len(due) if sum(not mark.calls for mark in marks) > 1 else 0

    for _ in range(0 if calls else HOPS):
        await asyncio.sleep(0)
        attempt.check_open()
    await until_none(attempt, lacking)


def _winner(attempt: Attempt, won: RaceWon, marks: Sequence[Contestant]) -> int | None:
    """None where nobody is, or more than one may be."""
    calls = set(won.calls)
    came = [at for at, mark in enumerate(marks) if mark.calls & calls]
    if came or _has_any(attempt, calls):
        return came[0] if len(came) == 1 else None
    # It has no name, or only of calls that it gave up and that nothing came of.
    nameless = [at for at, mark in enumerate(marks) if not (_has_any(attempt, mark.calls) if calls else mark.calls)]
    if won.winner in nameless:
        return won.winner
    return nameless[0] if len(nameless) == 1 else None


def _has_any(attempt: Attempt, calls: Iterable[str]) -> bool:
    """Whether the journal has anything of these."""
    view, boundary = attempt.view, attempt.boundary
    return any(c in view.calls or c in boundary.effects or boundary.last_ask_of(c) is not None for c in calls)
