"""Under way: cancellations that have not come down yet to the call that they are for.

Whoever gives up a wait around other waits cancels its task, which hears of that some turns of the loop later and then
cancels those that it waits for, and so on down to the call. A number of turns is no proof that nobody is left, for
waits may stand in waits to any depth; that no further task was cancelled in such a while is.
"""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

ROUNDS_MAX = 100  # others of this process may cancel something all the time


class Underway:
    """Asked after each `parking.HOPS` turns of the loop, until it says that nothing comes down any more."""

    __slots__ = ("_known", "_rounds")

    def __init__(self) -> None:
        self._known: set[int] = set()
        self._rounds = 0

    def is_over(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether no task was cancelled since it was asked last that was not by then."""
        cancelled = _cancelled(loop)
        self._rounds += 1
        if cancelled <= self._known or self._rounds == ROUNDS_MAX:
            return True
        self._known |= cancelled
        return False


def _cancelled(loop: asyncio.AbstractEventLoop) -> frozenset[int]:
    """Tasks that were cancelled and go on, looked up once in a turn of the loop: many effects ask in the same one."""
    found = _found.get(loop)
    if found is None:
        found = _found[loop] = frozenset(id(task) for task in asyncio.all_tasks(loop) if task.cancelling())
        loop.call_soon(_found.pop, loop, None)
    return found


_found: WeakKeyDictionary[asyncio.AbstractEventLoop, frozenset[int]] = WeakKeyDictionary()
