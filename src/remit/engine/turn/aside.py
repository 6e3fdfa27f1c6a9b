"""Aside: calls that a plain flow makes in threads of its own, beside the one that runs it.

While the flow's own thread waits in a call, nothing else of it can be waited for. While another one does, its own
may be busy, and so may each of the others. The call is made in the loop all the same, so its context says it.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextvars import ContextVar, Token
from typing import Any, TypeVar

T = TypeVar("T")

_is_aside: ContextVar[bool] = ContextVar("remit_is_aside", default=False)


def is_aside() -> bool:
    """Whether the call that runs here was made in such a thread."""
    return _is_aside.get()


async def aside(call: Coroutine[Any, Any, T]) -> T:
    """For a task of its own: what it gives, made in such a thread."""
    _is_aside.set(True)
    return await call


def begin_flow() -> Token[bool]:
    """A flow begins, whatever its caller was called by."""
    return _is_aside.set(False)


def end_flow(token: Token[bool]) -> None:
    """That flow is over."""
    _is_aside.reset(token)
