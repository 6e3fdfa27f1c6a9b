"""Where the running code stands: in a flow, in a step's body, or outside both.

Crossings are made by the flow, where the gate sees them. A crossing inside a step's body
would be a crossing that no replay makes again, so it is refused.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Literal

from remit.errors import CallRefused

Place = Literal["flow", "step"]

working_at: ContextVar[tuple[str, ...]] = ContextVar("remit_working_at", default=())
place: ContextVar[Place | None] = ContextVar("remit_place", default=None)


_OWN_RUN_HINT = "Wait for a run from outside of it."


def check_in_flow(name: str) -> None:
    """Raises CallRefused where a step's body makes a call of its own."""
    if place.get() == "step":
        raise CallRefused(f"{name!r} was called inside a step's body; nothing was done.", code="call.nested")


def check_not_inside(run: str) -> None:
    """Raises CallRefused where a run waits for itself, which would never end."""
    if run in working_at.get():
        raise CallRefused(f"Run {run!r} waits for itself; nothing was done.", code="call.own_run", hint=_OWN_RUN_HINT)


def check_not_bare(name: str) -> None:
    """Raises CallRefused where a flow calls a step past `run.step`."""
    if place.get() is not None:
        raise CallRefused(
            f"The step {name!r} was called directly inside a run, where nothing would record it; nothing was done.",
            code="call.direct",
            hint=f"Call it from the flow with `run.step({name}, ...)`.",
        )
