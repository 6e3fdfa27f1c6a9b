"""Left: what the journal has, and a turn whose flow failed did not come to.

A failure behind which the journal has something was dealt with: what stands there may be in its stead. So where this
turn did not come to all of that, the failure stays as it is recorded, whatever left the flow before. Where that failure
leaves the flow itself, or a no does, it is other code than the one that went on behind it, and is refused.

Branches that the flow left behind, as `asyncio.gather` does, come to theirs before anything of that is judged.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from remit.engine.turn.answers import denial_of
from remit.engine.turn.due import until_none
from remit.engine.turn.late import Over, may_still_begin, stop_idle
from remit.engine.turn.unheard import is_answered
from remit.errors import DefinitionIncompatible, StepError

if TYPE_CHECKING:
    from remit.engine.turn.attempt import Attempt


def left(attempt: Attempt) -> tuple[str, ...]:
    """Names of what was recorded, asked or intended before and that the flow did not come to, oldest first."""
    unasked = sorted(attempt.unasked, key=attempt.unasked.__getitem__)
    return tuple(dict.fromkeys([*attempt.replay.unasked, *unasked]))


async def let_come(attempt: Attempt, over_by: Over) -> None:
    """The flow is over: branches that it left behind come to what is recorded or in doubt, and to nothing new.

    Raises AttemptClosed where the turn ends by that.
    """
    attempt.over_by = over_by
    if over_by == "raised":
        stop_idle(attempt)
    await until_none(attempt, lambda: attempt.replay.moving + len(_coming(attempt)))


def _coming(attempt: Attempt) -> list[str]:
    """Calls that branches wait for, and that go on as soon as all that is recorded was asked for."""
    if not attempt.awaited or attempt.replay.unasked:
        return []
    boundary, begun = attempt.boundary, {wish.name for wish in attempt.in_flight.values()}
    return [
        name
        for name, request in attempt.awaited.items()
        if name not in begun
        and may_still_begin(attempt, name)
        and (name in boundary.effects or is_answered(boundary, name, request))
    ]


def cut_short(attempt: Attempt, exc: BaseException) -> tuple[str, ...]:
    """The same, where `exc` is no failure or no that is recorded: it came before them, and mending it brings them."""
    return () if recorded_in(attempt, exc) else left(attempt)


def staying(attempt: Attempt) -> Collection[str]:
    """The recorded failures behind which something is left, or was called before them this time."""
    calls = attempt.view.calls
    seqs = [calls[name].seq if name in calls else attempt.unasked[name] for name in left(attempt)]
    last = max([attempt.replay.out_of_turn, *seqs])
    return [name for name in attempt.failed if name in calls and calls[name].seq < last]


def close_passed_over(attempt: Attempt, exc: BaseException) -> bool:
    """Close where the recorded calls that leave the flow by `exc` did not before: other calls came behind them.

    So by a no that nobody recorded, where anything recorded is left. Whatever else leaves the flow may be mended.
    """
    names, behind = _passed_over(attempt, exc)
    if names:
        attempt.close(DefinitionIncompatible(names, (), done=attempt.boundary.may_have_happened, behind=behind))
    return bool(names)


def _passed_over(attempt: Attempt, exc: BaseException) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is left, and was not under way beside the recorded calls that leave the flow; and these calls."""
    behind = recorded_in(attempt, exc)
    if not behind:
        return attempt.replay.unasked if denial_of(exc) is not None else (), ()
    since = max(attempt.view.calls[name].seq for name in behind)
    return tuple(name for name in left(attempt) if not _is_beside(attempt, name, since)), behind


def _is_beside(attempt: Attempt, name: str, seq: int) -> bool:
    """Whether it was under way by then, so that a branch of the flow may only be slower to come to it this time."""
    recorded = attempt.view.calls.get(name)
    if recorded is None:
        return attempt.unasked[name] < seq
    return (recorded.begun or recorded.seq) < seq < recorded.seq


def recorded_in(attempt: Attempt, exc: BaseException) -> tuple[str, ...]:
    """The recorded calls whose failure or no this is, alone or in a group; none where that holds anything else."""
    if isinstance(exc, BaseExceptionGroup):
        inner = [recorded_in(attempt, each) for each in exc.exceptions]
        return tuple(name for names in inner for name in names) if all(inner) else ()
    no = denial_of(exc)
    name = no.call if no is not None else exc.name if isinstance(exc, StepError) and exc.run == attempt.run_id else ""
    return (name,) if name in attempt.view.calls else ()
