"""Given: what a step was called with, as far as bytes can tell it.

Branches may share a queue, a list or a flag, and then another one may come to a call by the same name than before, as
where a thread was slower this time. It would be given what is recorded of the other one's work, and pay for that. So it
is recorded what each step was given, and where calls of the flow stand beside each other, one that is given something
else is refused. In a flow whose calls are made one after the other a changed argument is changed code, and goes on.

It is told when the call is named: what the flow does with a list after that is no other call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import msgspec

from remit.engine.declared.flow import Step
from remit.engine.turn.brought import brought
from remit.errors import DefinitionIncompatible
from remit.facts import model
from remit.facts.compare import is_model
from remit.facts.kinds import StepDone, StepFailed
from remit.facts.view import Recorded

if TYPE_CHECKING:
    from remit.engine.turn.attempt import Attempt

DIGITS = 16  # hex: enough to tell one call from another, and no proof of anything

_TAG = b"remit/given/1"
_UNTOLD = b"?"  # stands for what has no bytes: a client, a lock

_AS_TEXT = (PurePath, Fraction, IPv4Address, IPv6Address, range)  # values whose text says what they are


def told_of(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], within: str) -> bytes:
    """What this call of a step is given, also by a function that was made for it. within: as of `brought`."""
    is_bare = isinstance(fn, Step) and fn.body.is_bare
    told = [_told(each) for each in (args if is_bare else (*brought(fn, within), *args))]
    if kwargs:
        told += [_told(name) + _told(kwargs[name]) for name in sorted(kwargs)]
    return b"\n".join(told)


def given_digest(salt: bytes, told: bytes) -> str:
    """Digest of that, with the salt of the step's outcome, which may be erased with it."""
    return sha256(b"\n".join((_TAG, salt, told))).hexdigest()[:DIGITS]


def check_given(attempt: Attempt, recorded: Recorded, told: bytes) -> None:
    """Raises AttemptClosed where what is recorded under this name was given something else, beside other calls.

    Those that stood beside it when it was recorded may come later this time, or never. Where none did, a plain flow's
    own thread may come to it before another one of its threads comes to its first call: it is refused when that does.
    """
    fact, rest = recorded.fact, attempt.rest
    assert isinstance(fact, StepDone | StepFailed), "`recall` saw to it"
    if not fact.given or recorded.salt is None or fact.given == given_digest(recorded.salt, told):
        return
    if fact.beside or rest.is_several:
        _refuse(attempt, recorded.name)
    elif attempt.replay.is_plain and rest.on_thread is None:
        rest.on_thread = partial(_refuse, attempt, recorded.name)


def _refuse(attempt: Attempt, name: str) -> None:
    done = attempt.boundary.may_have_happened
    attempt.lost(DefinitionIncompatible((name,), (), done=done, is_given_else=True))


def _plain(value: Any) -> Any:
    """What has no JSON of its own; a part of an argument that can't be told leaves the others told."""
    if is_model(type(value)):
        return model.plain(value)
    if isinstance(value, deque):
        return list(value)
    return str(value) if isinstance(value, _AS_TEXT) else _UNTOLD.decode()


_encode = msgspec.json.Encoder(order="sorted", enc_hook=_plain).encode


def _told(argument: Any) -> bytes:
    try:
        return _encode(argument)
    except MemoryError:
        raise
    except Exception:  # also what the user's own type raises
        return _UNTOLD
