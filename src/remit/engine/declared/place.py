"""Where the running code stands: in a flow, in the body of a step or an effect, or outside all.

Crossings are made by the flow, where the gate sees them. A crossing inside a step's body
would be a crossing that no replay makes again, so it is refused.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Literal

from remit.errors import CallRefused

RunName = tuple[str, str, str]  # ledger, tenant, run id
Place = Literal["flow", "step", "effect", "transaction"]

working_at: ContextVar[tuple[RunName, ...]] = ContextVar("remit_working_at", default=())
place: ContextVar[Place | None] = ContextVar("remit_place", default=None)


_A = {"step": "a step", "effect": "an effect", "transaction": "a transaction"}
_OWN_RUN_HINT = "Wait for a run from outside of it."


def check_in_flow(name: str) -> None:
    """Raises CallRefused where the body of a step or an effect makes a call of its own."""
    inside = place.get()
    if inside in _A:
        raise CallRefused(
            f"{name!r} was called inside {_A[inside]}'s body; nothing was done.",
            code="call.nested",
            hint=f"Make the call from the flow, before {_A[inside]} or after it.",
        )


def check_not_in_transaction() -> None:
    """Raises CallRefused where a transaction's function asks the runtime for anything: it holds the store's writer."""
    if place.get() == "transaction":
        raise CallRefused(
            "The runtime was called inside a transaction's body, which would wait for itself; nothing was done.",
            code="call.nested",
            hint="Ask before `run.transact`, or after it.",
        )


def check_not_inside(run: RunName) -> None:
    """Raises CallRefused where a run waits for itself, which would never end."""
    if run in working_at.get():
        raise CallRefused(
            f"Run {run[-1]!r} waits for itself; nothing was done.", code="call.own_run", hint=_OWN_RUN_HINT
        )


def check_not_bare(name: str) -> None:
    """Raises CallRefused where a flow calls a step past `run.step`, or an effect past `run.effect`."""
    if place.get() is not None:
        raise CallRefused(
            f"{name!r} was called directly inside a run, where nothing would record it; nothing was done.",
            code="call.direct",
            hint=f"Call it from the flow: `run.step({name}, ...)`, or `run.effect({name}, request)` for an effect.",
        )
