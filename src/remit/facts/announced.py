"""Announced: what the outside is told, in the commit of the entry that causes it.

    AskOpened, AskDecided      a question waits for somebody; somebody answered it
    DoubtTold                  somebody said what became of an effect
    RunStopped                 a turn is over, and with it the run, or it waits
    RunSetAside, RunLifted     a run is believed no longer; it is again

Each is a hint and no message: it says where to look, by ids alone. What it is about stands in the
run's verified journal, and nothing that a person or a model wrote stands here: it could not be
erased from what was told already.
"""

from __future__ import annotations

from typing import get_args

from remit.canonical import Form, Integer, Malformed
from remit.facts.fact import Fact


class AskOpened(Fact, kw_only=True, frozen=True):
    """Whoever may answer it finds it in the inbox."""

    ask: str


class AskDecided(Fact, kw_only=True, frozen=True):
    """The run goes on, or ends, with its next turn."""

    ask: str


class DoubtTold(Fact, kw_only=True, frozen=True):
    """The run's next turn settles the effect by what was said."""

    call: str


class RunStopped(Fact, kw_only=True, frozen=True):
    """Nothing of the run is under way. A run that completes in the turn that opened it is told of to nobody."""

    code: str  # why it waits or how it ended; "" where it completed
    status: str  # that it has now: "waiting", "in_doubt", "completed" ...


class RunSetAside(Fact, kw_only=True, frozen=True):
    """It takes an operator."""

    gen: Integer
    run: str


class RunLifted(Fact, kw_only=True, frozen=True):
    """Its bytes verify again, and an operator said so."""

    gen: Integer
    run: str


Announced = AskOpened | AskDecided | DoubtTold | RunStopped | RunSetAside | RunLifted

KINDS: dict[str, type[Announced]] = {type_.__name__: type_ for type_ in get_args(Announced)}

_FORMS: dict[str, Form[Announced]] = {kind: Form[Announced](type_) for kind, type_ in KINDS.items()}


def kind_of(told: Announced) -> str:
    return type(told).__name__


def write(told: Announced) -> bytes:
    """Its canonical bytes."""
    return _FORMS[kind_of(told)].write(told)


def read(kind: str, data: bytes) -> Announced:
    """What a row of the outbox says. Raises Malformed, also for a kind that this version does not know."""
    form = _FORMS.get(kind)
    if form is None:
        raise Malformed(f"nothing is announced as {kind!a}")
    return form.read(data)
