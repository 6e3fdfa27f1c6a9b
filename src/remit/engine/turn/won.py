"""Won: who won a race of which the journal has the end.

By the name of its side, whatever its place is now: of the call that it is, or of the function where it is code of the
flow's own. Which side makes a call that several share is chance, so it says nothing where the names do. Sides of one
name are known by their places, if the calls that they come to don't say otherwise. Where nobody is the winner, code and
journal disagree. Until it is known nothing new begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

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
        if recorded is None or not isinstance(fact, RaceWon) or len(fact.sides) != len(marks):
            attempt.disagree((name,), (f"{name} of {len(marks)}",))
        await _until_come(attempt, fact, marks, recorded.seq)
        named = _named(fact, marks)
        winner = _winner(fact, marks) if named is None else named
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


def side_of(call: object) -> str:
    """The name of a side that is no call of the run's: of its function, or of its type."""
    return getattr(call, "__qualname__", "") or type(call).__qualname__


def _named(won: RaceWon, marks: Sequence[Contestant]) -> int | None:
    """The one side of the winner's name, among sides that are the same as then."""
    sides = [mark.side for mark in marks]
    side = won.sides[won.winner]
    return sides.index(side) if sorted(sides) == sorted(won.sides) and sides.count(side) == 1 else None


def _winner(won: RaceWon, marks: Sequence[Contestant]) -> int | None:
    """Of sides of one name, or of other names than then, the one that stands there, if what the sides came to says so.

    That another one came to a call of the winner's says nothing: they may share it, and then it is chance.
    """
    calls, place = set(won.calls), won.winner
    if calls:
        return place if [at for at, mark in enumerate(marks) if mark.calls & calls] == [place] else None
    is_same = sorted(mark.side for mark in marks) == sorted(won.sides)
    return place if is_same and not marks[place].calls else None
