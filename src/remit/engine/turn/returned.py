"""Returned: what a function of the user's gave back, which may be no outcome yet.

A plain function may hand on what an async one gave it, a request of a client's that is sent when it is awaited, or a
future of a pool. Whatever of it can be waited for is waited for: taken for an outcome, it would say of a payment that
was never sent that it was made. A generator is no outcome either, for none of its code has run.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from collections.abc import AsyncGenerator, Awaitable
from types import GeneratorType
from typing import Any

_UNFINISHED = (Awaitable, concurrent.futures.Future, GeneratorType, AsyncGenerator)
_OUTCOMES = frozenset({dict, list, str, int, float, bool, bytes, tuple, type(None)})  # most are one of these


def is_unfinished(returned: object) -> bool:
    """Whether something of it is still to come. Its type is asked alone: an outcome may raise whatever it is asked."""
    kind = type(returned)
    return kind not in _OUTCOMES and issubclass(kind, _UNFINISHED)


async def finished(returned: Any) -> Any:
    """The outcome behind it. Raises what it raises, and TypeError for a generator."""
    while is_unfinished(returned):
        before = returned
        if isinstance(before, concurrent.futures.Future):
            returned = await asyncio.wrap_future(before)
        elif inspect.isawaitable(before):
            returned = await before
        else:
            raise TypeError(f"it returned {type(before).__name__}, of which nothing ran; return one outcome")
        if returned is before:
            break  # awaited, it gives itself
    return returned
