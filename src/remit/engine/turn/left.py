"""Left: what the journal has, and a turn whose flow failed did not come to.

A failure behind which the journal has something was dealt with: what stands there may be in its stead. So where this
turn did not come to all of that, the failure stays as it is recorded, whatever left the flow before. Where that failure
leaves the flow itself, or a no does, it is other code than the one that went on behind it, and is refused.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from remit.engine.turn.answers import denial_of
from remit.errors import DefinitionIncompatible, StepError

if TYPE_CHECKING:
    from remit.engine.turn.attempt import Attempt


def left(attempt: Attempt) -> tuple[str, ...]:
    """Names of what was recorded, asked or intended before and that the flow did not come to, oldest first."""
    recorded = [name for name in attempt.replay.left if not attempt.replay.is_asked_for(name)]
    return tuple(dict.fromkeys([*recorded, *sorted(attempt.unasked, key=attempt.unasked.__getitem__)]))


def cut_short(attempt: Attempt, exc: BaseException) -> tuple[str, ...]:
    """The same, where `exc` is no failure or no that is recorded: it came before them, and mending it brings them."""
    return () if _recorded(attempt, exc) else left(attempt)


def staying(attempt: Attempt) -> Collection[str]:
    """The recorded failures behind which something is left, or was called before them this time."""
    calls = attempt.view.calls
    seqs = [calls[name].seq if name in calls else attempt.unasked[name] for name in left(attempt)]
    last = max([attempt.replay.out_of_turn, *seqs])
    return [name for name in attempt.failed if name in calls and calls[name].seq < last]


def close_passed_over(attempt: Attempt, exc: BaseException) -> bool:
    """Close where the recorded calls that leave the flow by `exc` did not before: other calls came behind them.

    So by a no that nobody recorded, where anything recorded is left. Whatever else leaves the flow may be mended. Where
    branches of the flow are still on their way, as behind `asyncio.gather`, they would come to what is left.
    """
    if attempt.replay.is_waited_for:
        return False
    names, behind = _passed_over(attempt, exc)
    if names:
        attempt.close(DefinitionIncompatible(names, (), done=attempt.boundary.may_have_happened, behind=behind))
    return bool(names)


def _passed_over(attempt: Attempt, exc: BaseException) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is left, and was not under way beside the recorded calls that leave the flow; and these calls."""
    behind = _recorded(attempt, exc)
    if not behind:
        return attempt.replay.left if denial_of(exc) is not None else (), ()
    since = max(attempt.view.calls[name].seq for name in behind)
    return tuple(name for name in left(attempt) if not _is_beside(attempt, name, since)), behind


def _is_beside(attempt: Attempt, name: str, seq: int) -> bool:
    """Whether it was under way by then, so that a branch of the flow may only be slower to come to it this time."""
    recorded = attempt.view.calls.get(name)
    if recorded is None:
        return attempt.unasked[name] < seq
    return (recorded.begun or recorded.seq) < seq < recorded.seq


def _recorded(attempt: Attempt, exc: BaseException) -> tuple[str, ...]:
    """The recorded calls whose failure or no this is, alone or in a group; none where that holds anything else."""
    if isinstance(exc, BaseExceptionGroup):
        inner = [_recorded(attempt, each) for each in exc.exceptions]
        return tuple(name for names in inner for name in names) if all(inner) else ()
    no = denial_of(exc)
    name = no.call if no is not None else exc.name if isinstance(exc, StepError) and exc.run == attempt.run_id else ""
    return (name,) if name in attempt.view.calls else ()
