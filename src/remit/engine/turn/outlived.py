"""Outlived: a call in doubt whose function goes on, in a thread of this process, after whoever waited for it.

No other process can see that. So what people are told of such a run says which process it is, and its code that there
is one: whoever looks by the key looks too early, and a word that it did not happen counts only from its return on.
"""

from __future__ import annotations

from remit.engine.process.liveness import place
from remit.engine.turn.attempt import Attempt
from remit.facts.kinds import AT_WORK

IN_DOUBT = "effect.in_doubt"


def at_work(attempt: Attempt) -> list[str]:
    """Calls of a run that are in doubt and have not returned in this process."""
    effects = attempt.boundary.effects
    return [name for name in attempt.boundary.in_doubt if effects[name].intended.key in attempt.outstanding]


def doubt_of(attempt: Attempt) -> tuple[str, str]:
    """The code of a run that parks in doubt, and what is to be told with it."""
    left = at_work(attempt)
    if not left:
        return IN_DOUBT, ""
    return AT_WORK, f" The call of {', '.join(left)} has not returned in {place()}, and may still do it."
