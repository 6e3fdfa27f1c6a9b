"""Signals that steer a flow from inside.

They derive from BaseException, so `except Exception` in a flow can't eat them. A flow
that swallows even this gets it again at its next call, and what it returns is ignored.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from remit.errors import DefinitionIncompatible, ValueUnreadable

MISFITS = (DefinitionIncompatible, ValueUnreadable)  # code and journal disagree, so the code is to be mended


class AttemptClosed(BaseException):
    """This attempt is over; the flow must unwind."""


def is_closing(exc: BaseException) -> bool:
    """Whether this is the end of an attempt, alone or as a task group hands it on."""
    if isinstance(exc, BaseExceptionGroup):
        return any(is_closing(inner) for inner in exc.exceptions)
    return isinstance(exc, AttemptClosed)


async def until_done(task: asyncio.Future[Any]) -> None:
    """Wait for it, however often the waiting one is cancelled meanwhile, who raises the first of these after that."""
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
