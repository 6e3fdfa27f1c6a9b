"""Where the running code stands: in a flow, in the body of a step or an effect, or outside all.

Crossings are made by the flow, where the gate sees them. A crossing inside a step's body
would be a crossing that no replay makes again, so it is refused. So is one of which nobody
knows where it is made: a thread that a body or a flow hands work to has no context of its own.

Contexts are copied into tasks and threads, which may live longer than what they began in: a worker that was first
started in a step stands in it as long as it runs, and not for ever. So each mark says when it is over.
"""

from __future__ import annotations

from contextvars import Context, ContextVar, Token
from typing import Literal

from remit.errors import CallRefused

RunName = tuple[str, str, str]  # ledger, tenant, run id
Place = Literal["flow", "step", "effect", "transaction"]


class Here:
    """A place, until it is left. turn: that the flow is called in; None in a body. outer: around it."""

    __slots__ = ("is_over", "outer", "token", "turn", "what")

    def __init__(self, what: Place, turn: object, outer: Here | None) -> None:
        self.what, self.turn, self.outer, self.is_over = what, turn, outer, False
        self.token: Token[Here | None]


class Work:
    """A flow of this run is called, until it is over."""

    __slots__ = ("is_over", "run", "token")

    def __init__(self, run: RunName) -> None:
        self.run, self.is_over = run, False
        self.token: Token[tuple[Work, ...]]


_working_at: ContextVar[tuple[Work, ...]] = ContextVar("remit_working_at", default=())
_here: ContextVar[Here | None] = ContextVar("remit_place", default=None)


def enter(what: Place, turn: object = None) -> Here:
    """The code that is called from here stands there, until `leave`. turn: whose calls a flow makes there."""
    here = Here(what, turn, _here.get())
    here.token = _here.set(here)
    return here


def leave(here: Here) -> None:
    """It is over; from the context in which it was entered."""
    here.is_over = True
    _here.reset(here.token)


def flow_of(context: Context | None) -> object:
    """The turn whose flow the code is that runs in this context; None where it is a body, or no flow's."""
    here = None if context is None else context.get(_here)
    while here is not None and here.is_over:
        here = here.outer
    return None if here is None else here.turn


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


def check_in_flow(name: str, turn: object) -> None:
    """Raises CallRefused for a call that is not made, or not begun, where the flow of this turn is at work.

    Over or not: what a body left running is no flow, and what a flow left running is told that it comes too late.
    """
    here = _here.get()
    if here is None or here.turn is not turn:
        raise _nested(name, _A[here.what]) if here is not None and here.what in _A else _outside(name)


def _nested(name: str, body: str) -> CallRefused:
    return CallRefused(
        f"The call {name!r} came from inside {body}'s body; nothing was done.",
        code="call.nested",
        hint=f"Make and await it in the flow, before {body} or after it.",
    )


def _outside(name: str) -> CallRefused:
    return CallRefused(
        f"The call {name!r} came from where nothing tells that the flow of this run is at work; nothing was done.",
        code="call.outside",
        hint="Make and await it in the flow. Where a thread of the flow's own makes it, give each a copy of the flow's "
        "context: `pool.submit(contextvars.copy_context().run, work)`, or `asyncio.to_thread`.",
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


def is_in_flow() -> bool:
    """Whether a flow is at work here, and no body."""
    return _around() == "flow"


def check_not_bare(name: str) -> None:
    """Raises CallRefused where a flow calls a step past `run.step`."""
    if _around() is not None:
        raise CallRefused(
            f"{name!r} was called directly inside a run, where nothing would record it; nothing was done.",
            code="call.direct",
            hint=f"Call it from the flow: `run.step({name}, ...)`.",
        )
