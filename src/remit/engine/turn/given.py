"""Given: what a step was called with, as far as bytes can tell it, where other calls stand beside it.

Branches may share a queue, a list or a flag, and then another one may come to a call by the same name than before, as
where a thread was slower this time. It would be given what is recorded of the other one's work, and pay for that. So of
calls that stand side by side it is recorded what they were given; one that is given something else is refused.
Of a flow whose calls are made one after the other nothing is recorded: there a changed argument is changed code, and
goes on.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from remit.errors import DefinitionIncompatible
from remit.facts import model
from remit.facts.kinds import StepDone, StepFailed
from remit.facts.view import Recorded

if TYPE_CHECKING:
    from remit.engine.turn.attempt import Attempt

Call = tuple[tuple[Any, ...], dict[str, Any]]

DIGITS = 16  # hex: enough to tell one call from another, and no proof of anything

_TAG = b"remit/given/1\n"
_UNTOLD = b"?"  # stands for what has no bytes: a client, a lock

_encode = msgspec.json.Encoder(order="sorted", enc_hook=model.plain).encode


def given_digest(salt: bytes, call: Call) -> str:
    """Digest of a step's arguments, with the salt of its outcome, which may be erased with it."""
    args, kwargs = call
    told = [_told(each) for each in args]
    told += [_told(name) + _told(kwargs[name]) for name in sorted(kwargs)]
    return sha256(b"\n".join([_TAG, salt, *told])).hexdigest()[:DIGITS]


def check_given(attempt: Attempt, recorded: Recorded, call: Call) -> None:
    """Raises AttemptClosed where what is recorded under this name was given something else."""
    fact = recorded.fact
    assert isinstance(fact, StepDone | StepFailed), "`recall` saw to it"
    if fact.given and recorded.salt is not None and fact.given != given_digest(recorded.salt, call):
        done = attempt.boundary.may_have_happened
        attempt.lost(DefinitionIncompatible((recorded.name,), (), done=done, is_given_else=True))


def _told(argument: Any) -> bytes:
    try:
        return _encode(argument)
    except MemoryError:
        raise
    except Exception:  # also what the user's own type raises
        return _UNTOLD
