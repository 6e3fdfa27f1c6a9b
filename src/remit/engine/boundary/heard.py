"""Heard: what a function of the user's says that may look and may not cross: a predicate, a fetcher, a probe.

It is waited for so long and no longer, and whatever it raises is what it said: no answer is no yes.
One that exits says so as well, or it would end the loop, in which other runs go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from remit.engine.declared.place import place

T = TypeVar("T")

ASK_SECONDS = 30.0


async def heard(ask: Callable[[], Awaitable[T]]) -> T | BaseException:
    """What it says, or what it raised. Raises CancelledError where it is this very task that ends."""
    token = place.set("effect")
    try:
        async with asyncio.timeout(ASK_SECONDS):
            return await ask()
    except (Exception, SystemExit, asyncio.CancelledError) as exc:
        check_not_ending(exc)
        return exc
    finally:
        place.reset(token)


def check_not_ending(exc: BaseException) -> None:
    """Raises the cancellation of this very task, which ends; one that the user's code met is what it raised."""
    task = asyncio.current_task()
    if isinstance(exc, asyncio.CancelledError) and task is not None and task.cancelling():
        raise exc
