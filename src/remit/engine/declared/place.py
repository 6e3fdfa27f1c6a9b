"""Where the running code stands: in a flow, in the body of a step or an effect, or outside all.

Crossings are made by the flow, where the gate sees them. A crossing inside a step's body
would be a crossing that no replay makes again, so it is refused.

Contexts are copied into tasks and threads, which may live longer than what they began in: a worker that was first
started in a step stands in it as long as it runs, and not for ever. So each mark says when it is over.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Literal

from remit.errors import CallRefused

RunName = tuple[str, str, str]  # ledger, tenant, run id
Place = Literal["flow", "step", "effect", "transaction"]


class Here:
    """A place, until it is left. outer: around it."""

    __slots__ = ("is_over", "outer", "token", "what")

    def __init__(self, what: Place, outer: Here | None) -> None:
        self.what, self.outer, self.is_over = what, outer, False
        self.token: Token[Here | None]


class Work:
    """A flow of this run is called, until it is over."""

    __slots__ = ("is_over", "run", "token")

    def __init__(self, run: RunName) -> None:
        self.run, self.is_over = run, False
        self.token: Token[tuple[Work, ...]]


_working_at: ContextVar[tuple[Work, ...]] = ContextVar("remit_working_at", default=())
_here: ContextVar[Here | None] = ContextVar("remit_place", default=None)


def enter(what: Place) -> Here:
    """The code that is called from here stands there, until `leave`."""
    here = Here(what, _here.get())
    here.token = _here.set(here)
    return here


def leave(here: Here) -> None:
    """It is over; from the context in which it was entered."""
    here.is_over = True
    _here.reset(here.token)


def begin_work(run: RunName) -> Work:
    """The code that is called from here works at this run, until `end_work`."""
    work = Work(run)
    work.token = _working_at.set((*(w for w in _working_at.get() if not w.is_over), work))
    return work


def end_work(work: Work) -> None:
    """Its flow is over; from the context in which it began."""
    work.is_over = True
    _working_at.reset(work.token)


def _around() -> Place | None:
    """The innermost place that is not over."""
    here = _here.get()
    while here is not None and here.is_over:
        here = here.outer
    return None if here is None else here.what


_A = {"step": "a step", "effect": "an effect", "transaction": "a transaction"}
_OWN_RUN_HINT = "Wait for a run from outside of it."


def check_in_flow(name: str) -> None:
    """Raises CallRefused where the body of a step or an effect makes a call of its own."""
    here = _here.get()
    inside = None if here is None else here.what  # over or not: what a body left running is no flow
    if inside in _A:
        raise CallRefused(
            f"{name!r} was called inside {_A[inside]}'s body; nothing was done.",
            code="call.nested",
            hint=f"Make the call from the flow, before {_A[inside]} or after it.",
        )


def check_not_in_transaction() -> None:
    """Raises CallRefused where a transaction's function asks the runtime for anything: it holds the store's writer."""
    if _around() == "transaction":
        raise CallRefused(
            "The runtime was called inside a transaction's body, which would wait for itself; nothing was done.",
            code="call.nested",
            hint="Ask before `run.transact`, or after it.",
        )


def check_not_inside(run: RunName) -> None:
    """Raises CallRefused where a run waits for itself, which would never end."""
    if any(work.run == run and not work.is_over for work in _working_at.get()):
        raise CallRefused(
            f"Run {run[-1]!r} waits for itself; nothing was done.", code="call.own_run", hint=_OWN_RUN_HINT
        )


def check_not_bare(name: str) -> None:
    """Raises CallRefused where a flow calls a step past `run.step`."""
    if _around() is not None:
        raise _direct(name)


def check_never_bare(name: str) -> None:
    """Raises CallRefused where a flow calls an effect past `run.effect`, or what began in a run does.

    Also when that run is over: what it left running would reach the outside, and nobody asked the gate.
    """
    if _here.get() is not None:
        raise _direct(name)


def _direct(name: str) -> CallRefused:
    return CallRefused(
        f"{name!r} was called directly inside a run, where nothing would record it; nothing was done.",
        code="call.direct",
        hint=f"Call it from the flow: `run.step({name}, ...)`, or `run.effect({name}, request)` for an effect.",
    )
