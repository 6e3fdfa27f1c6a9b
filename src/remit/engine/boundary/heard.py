"""Heard: what a function of the user's says that may look and may not cross: a predicate, a fetcher, a probe.

It is waited for so long and no longer, and whatever it raises is what it said: no answer is no yes.
One that exits says so as well: in the loop other runs go on. Only a Ctrl-C ends that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from remit.engine.declared.place import enter, leave
from remit.engine.turn.apart import apart, times_cancelled
from remit.engine.turn.closing import is_closing
from remit.engine.turn.exits import is_of_a_signal

T = TypeVar("T")

ASK_SECONDS = 30.0


async def heard(ask: Callable[[], Awaitable[T]]) -> T | BaseException:
    """What it says, or what it raised. Raises CancelledError where it is this very task that ends.

    Also where the function swallowed that: whoever gave up the call was told that it does not begin.
    """

    async def answer() -> T | BaseException:
        here = enter("effect")
        try:
            async with asyncio.timeout(ASK_SECONDS):
                return await ask()
        except BaseException as exc:
            if is_of_a_signal(exc) or isinstance(exc, GeneratorExit) or is_closing(exc):
                raise
            return exc
        finally:
            leave(here)

    before = times_cancelled()
    said = await apart(answer())
    if times_cancelled() > before:
        raise asyncio.CancelledError("the call was cancelled while something was asked for it")
    return said
