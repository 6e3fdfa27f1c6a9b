"""Unheard: what the journal has of an effect or a question, and the flow gave up before it heard of it.

A flow that pays elsewhere because it did not wait for the first payment would pay twice, and one that did not wait for
a person's no would act against it. So nothing new begins outside, and the run waits until its code waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from remit.engine.turn.halt import Parked
from remit.facts.machine import KINDS
from remit.facts.view import Recorded


def unheard_of(calls: Mapping[str, Recorded], given_up: Iterable[str]) -> list[str]:
    """Of the recorded calls that were given up, those that tell what happened outside or what a person said."""
    return [name for name in given_up if name in calls and KINDS[calls[name].kind].completes in ("effect", "question")]


def parked_unheard(names: Iterable[str], then: str) -> Parked:
    """The run waits for mended code. then: what the flow went on to."""
    words = f"The flow gave up {', '.join(names)}, of which there is an outcome, and went on to {then}"
    return Parked("repair", "effect.unheard", f"{words}; nothing was called. Let it wait for that outcome.")
