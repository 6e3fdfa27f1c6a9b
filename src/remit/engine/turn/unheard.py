"""Unheard: what the journal has of an effect or a question, and the flow gave up before it heard of it.

A flow that pays elsewhere because it did not wait for the first payment would pay twice, and one that did not wait for
a person's answer would act against it, where that is a no. So nothing new begins outside, and the run waits until its
code waits. An answer is there from when it was posted. A question that nobody answered yet may be given up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from remit.authority.denials import denied
from remit.engine.turn.halt import Parked
from remit.errors.called import all_called
from remit.facts.boundary import Boundary
from remit.facts.machine import KINDS
from remit.facts.view import Recorded, RunView


def unheard_of(view: RunView, given_up: Iterable[str]) -> list[str]:
    """Of the calls that were given up, those that tell what happened outside or what a person said."""
    calls, boundary = view.calls, view.boundary
    return [name for name in given_up if _tells(calls.get(name)) or is_answered(boundary, name)]


def unheard_answers(boundary: Boundary, calls: Mapping[str, bytes]) -> list[str]:
    """Of calls, with the request of each, those that somebody answered, and that the journal has no outcome of."""
    return [name for name, request in calls.items() if is_answered(boundary, name, request)]


def is_answered(boundary: Boundary, call: str, request: bytes | None = None) -> bool:
    """Whether an answer to the call waits to be used, or a no to its request stands. None: to what was asked last."""
    ask = boundary.last_ask_of(call)
    if ask is None:
        return False
    if ask.stands and ask.decided is not None:
        return True
    return denied(boundary, call, ask.request if request is None else request, ()) is not None


def parked_unheard(names: Iterable[str], then: Iterable[str]) -> Parked:
    """The run waits for mended code. then: calls that the flow went on to, none for its end."""
    given_up, came_to = all_called(names), all_called(then) or "its end"
    words = f"The flow gave up {given_up}, of which there is an outcome or an answer, and went on to {came_to}"
    return Parked("repair", "effect.unheard", f"{words}; nothing was called. Let it wait for that.")


def _tells(recorded: Recorded | None) -> bool:
    return recorded is not None and KINDS[recorded.kind].completes in ("effect", "question")
