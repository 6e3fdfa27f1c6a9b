"""Whose a name is: what is recorded under it belongs to the function that did it.

Looked at in the moment in which a call is named, of calls that never begin as well: whatever the flow does then, no
other function is given what this one did, and it does nothing again under a name of its own.
"""

from __future__ import annotations

from typing import Any, NoReturn

from remit.engine.declared.outward import Outward
from remit.engine.turn.turn import Turn
from remit.errors import CallRefused, DefinitionIncompatible


def is_anothers(turn: Turn, effect: Outward[Any], name: str) -> bool:
    """Whether another function was called by this name, and did it, was told no, or may have done it."""
    view = turn.attempt.boundary.effects.get(name)
    return view is not None and view.state != "did_not_happen" and view.intended.function != effect.function


def close_as_anothers(turn: Turn, effect: Outward[Any], name: str) -> NoReturn:
    """Code and journal disagree about whose the name is. Raises AttemptClosed."""
    boundary = turn.attempt.boundary
    functions = boundary.effects[name].intended.function, effect.function
    why = DefinitionIncompatible(
        (name,), (f"{name} of {effect.function}",), done=boundary.may_have_happened, functions=functions
    )
    turn.attempt.lost(why)


def check_told_apart(turn: Turn, effect: Outward[Any], name: str) -> None:
    """Raises CallRefused where a journal could not tell it from another one of this turn.

    Nor may one of two that are of one function leave open which it is: what was recorded before they were told apart
    may be of either.
    """
    for words in {effect.function, effect.bare}:
        others = turn.called.setdefault(words, [])
        if any(other.is_one(effect) for other in others):
            continue
        for other in others:
            is_open = other.bare == effect.bare and not (other.is_told_apart and effect.is_told_apart)
            if is_open or other.function == effect.function:
                raise _shared(name, effect, other)
        others.append(effect)


def _shared(name: str, effect: Outward[Any], other: Outward[Any]) -> CallRefused:
    words = effect.function if other.function == effect.function else effect.bare
    return CallRefused(
        f"{name!r} and {other.name!r} are two functions, and a journal would know both as {words}; nothing was done.",
        code="call.function_shared",
        hint=(
            'Tell both apart: `connector="..."` says which other side one talks to, `recorded_as="..."` which one it '
            "is. A run that called one before is refused then, and says by which words it knows that one."
        ),
    )
