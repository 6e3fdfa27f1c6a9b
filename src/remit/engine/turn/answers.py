"""Answers: what a call of a flow may hear.

A flow that catches an error goes another way by it, and what it then does outside may be the same
thing once more. So it hears only what was found out about its call: that a step raised, that an
effect did not happen, that somebody said no, that it can't be called like that. Whatever else is
raised on the way is trouble of ours, of the store's or of a row in it: it ends the turn, and says
nothing of the call. Nothing of the user's is among that: what their functions raise became an
outcome before.
"""

from __future__ import annotations

from typing import TypeGuard

from remit.errors import CallRefused, Denied, IdRefused, StepError, ValueRefused

ANSWERS = (CallRefused, Denied, IdRefused, StepError, ValueRefused)


def is_trouble(error: BaseException) -> TypeGuard[Exception]:
    """Whether this says nothing of the call that it was raised in. What ends a task or a turn passes as it is."""
    return isinstance(error, Exception) and not isinstance(error, ANSWERS)


def denial_of(error: BaseException) -> Denied | None:
    """The no that leaves a flow by this, also out of a group that holds nothing else; of several the first."""
    if not isinstance(error, BaseExceptionGroup):
        return error if isinstance(error, Denied) else None
    denials = [denial_of(each) for each in error.exceptions]
    return denials[0] if all(denials) else None
