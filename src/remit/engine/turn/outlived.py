"""Outlived: a call in doubt whose function goes on, in a thread of its process, after whoever waited for it.

No other process can see that. So what people are told of such a run says which process it is, and its code that there
is one, in whatever process the run is gone on with: whoever looks by the key looks too early. A word that it did not
happen which was said before it came back counts in no process, once a park names it: while the journal has the call at
work nobody goes by it, and whoever takes that away writes down which words those are.
"""

from __future__ import annotations

from remit.engine.process.liveness import ProcessLock, place
from remit.engine.turn.attempt import Attempt
from remit.errors.called import all_called, called
from remit.facts.calls import EffectView, Resolved
from remit.facts.kinds import AT_WORK

IN_DOUBT = "effect.in_doubt"


def at_work(attempt: Attempt) -> list[str]:
    """Calls of a run that are in doubt and have not returned in this process."""
    effects, keys = attempt.boundary.effects, attempt.lock.outstanding
    return [name for name in attempt.boundary.in_doubt if effects[name].intended.key in keys]


def is_noted(attempt: Attempt) -> bool:
    """Whether the journal has it like that: which calls are at work in this process, and which are not any more."""
    noted, lock = attempt.view.at_work, attempt.lock
    here = [name for name in attempt.boundary.in_doubt if any(map(lock.has, noted.get(name, ())))]
    return here == at_work(attempt)


def was_said_early(lock: ProcessLock, effect: EffectView, told: Resolved) -> bool:
    """Whether it says that a call did not happen, and was said before that came back in this process."""
    if told.fact.state != "did_not_happen":
        return False
    key = effect.intended.key
    return key in lock.outstanding or told.at < lock.returned.get(key, -1)


def early_words(attempt: Attempt) -> list[str]:
    """Hashes of such words about the calls of a run that are in doubt, but for those that the journal names already.

    Also of those that count for nothing as long as the call is noted to be at work: that may be taken away with this.
    """
    view, lock = attempt.view, attempt.lock
    return [
        told.item
        for effect, told in view.words()
        if told.item not in view.early and (view.is_early(told) or was_said_early(lock, effect, told))
    ]


def doubt_of(attempt: Attempt) -> tuple[str, str]:
    """The code of a run that parks in doubt, and what is to be told with it."""
    left, told = at_work(attempt), ""
    if left:
        told = f" The call of {all_called(left)} has not returned in {place()}, and may still do it."
    for name, where in _elsewhere(attempt).items():
        told += (
            f" As far as the journal says, the call of {called(name)} has not returned in {where}, and may still do it."
        )
    return (AT_WORK if told else IN_DOUBT), told


def _elsewhere(attempt: Attempt) -> dict[str, str]:
    """Calls in doubt that are at work in other processes; not one that was settled since, and began anew here."""
    effects, began_here = attempt.boundary.effects, (attempt.lease.epoch,)
    names = [name for name in attempt.boundary.in_doubt if effects[name].attempts != began_here]
    return {name: attempt.taken.elsewhere[name] for name in names if name in attempt.taken.elsewhere}
