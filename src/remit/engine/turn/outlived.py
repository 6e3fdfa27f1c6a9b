"""Outlived: a call in doubt whose function goes on, in a thread of this process, after whoever waited for it.

No other process can see that. So what people are told of such a run says which process it is, and its code that there
is one: whoever looks by the key looks too early. A word that it did not happen which was said before it came back
counts in no process, once this one has written down which word that is: a park names them.
"""

from __future__ import annotations

from remit.engine.process.liveness import ProcessLock, place
from remit.engine.turn.attempt import Attempt
from remit.facts.calls import EffectView, Resolved
from remit.facts.kinds import AT_WORK

IN_DOUBT = "effect.in_doubt"


def at_work(attempt: Attempt) -> list[str]:
    """Calls of a run that are in doubt and have not returned in this process."""
    effects = attempt.boundary.effects
    return [name for name in attempt.boundary.in_doubt if effects[name].intended.key in attempt.outstanding]


def is_noted(attempt: Attempt) -> bool:
    """Whether the journal has it like that: which calls are at work in this process, and which are not any more."""
    noted, lock = attempt.view.at_work, ProcessLock.own()
    here = [name for name in attempt.boundary.in_doubt if any(map(lock.has, noted.get(name, ())))]
    return here == at_work(attempt)


def was_said_early(lock: ProcessLock, effect: EffectView, told: Resolved) -> bool:
    """Whether it says that a call did not happen, and was said before that came back in this process."""
    if told.fact.state != "did_not_happen":
        return False
    key = effect.intended.key
    return key in lock.outstanding or told.at < lock.returned.get(key, -1)


def early_words(attempt: Attempt) -> list[str]:
    """Hashes of such words about the calls of a run that are in doubt, but for those that the journal names already."""
    boundary, lock = attempt.boundary, ProcessLock.own()
    effects = [boundary.effects[name] for name in boundary.in_doubt]
    return [
        told.item
        for effect in effects
        for told in boundary.resolved.get(effect.intention, ())
        if not attempt.view.is_early(told) and was_said_early(lock, effect, told)
    ]


def doubt_of(attempt: Attempt) -> tuple[str, str]:
    """The code of a run that parks in doubt, and what is to be told with it."""
    left = at_work(attempt)
    if not left:
        return IN_DOUBT, ""
    return AT_WORK, f" The call of {', '.join(left)} has not returned in {place()}, and may still do it."
