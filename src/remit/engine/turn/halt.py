"""Halts: why a turn ends although the flow did not return, as values.

    Parked    the run waits: for mended code, a person's answer, an effect in doubt, evidence, or the gate
    Ended     the run is over
    Again     the run is taken up anew, in another turn

A halt lets what is under way at the outside finish and be settled; only then is it written.
"""

from __future__ import annotations

from dataclasses import dataclass

from remit.authority.gate import end_of
from remit.facts.kinds import GateJudged, RunEnded, WaitsFor
from remit.facts.machine import Status
from remit.store.marks import Fence

# Which one a run is said to wait for, where its calls wait for several things.
URGENCY: dict[WaitsFor, int] = {"doubt": 0, "gate": 1, "evidence": 2, "approval": 3, "repair": 4}


@dataclass(frozen=True, slots=True)
class Parked:
    """The run waits. words: why, for people."""

    waits_for: WaitsFor
    code: str
    words: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The run is over. judged: the judgement that ended it, written with the end. fence: only while that holds."""

    fact: RunEnded
    words: str
    judged: GateJudged | None = None
    name: str | None = None  # of the call that was judged
    fence: Fence | None = None

    @property
    def status(self) -> Status:
        return Status(self.fact.status)


@dataclass(frozen=True, slots=True)
class Again:
    """The run is taken up anew in another turn, at once.

    The flow gave up a call that was under way outside, somebody answered while the run parked, or the rules moved
    before an end was written that they came to.
    """


Halt = Parked | Ended | Again


def ended(code: str, words: str, *, item: str = "", judged: GateJudged | None = None, name: str | None = None) -> Ended:
    """An end under an outcome code, with the status that the gate's table has for it."""
    return Ended(RunEnded(code=code, item=item, status=end_of(code).ends_as), words, judged, name)
