"""Races: what runs on behalf of a contestant knows whether that contestant lost.

A cancellation takes some turns of the loop to reach the innermost task of a branch, and
code may swallow it. Until then that task could begin or record what the race's end forbids,
and no replay would find it in the same place. So the end of a race is a mark that every call
under the contestant sees at once; it travels with the context, as tasks inherit it.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable
from typing import Any

from remit.engine.turn.strand import branched


class Contestant:
    """One of the calls that race, and all that it calls in turn. calls: that it came to, by name; no draws.

    side: its name, or that of the function that it is.
    """

    __slots__ = ("calls", "has_lost", "outer", "side", "told")

    def __init__(self, outer: Contestant | None, side: str) -> None:
        self.has_lost, self.outer, self.side = False, outer, side
        self.calls: set[str] = set()
        self.told: asyncio.Future[None] | None = None  # done when the flow hears that it lost, or that nobody did


_racing_for: contextvars.ContextVar[Contestant | None] = contextvars.ContextVar("remit_racing_for", default=None)


def begin_flow() -> contextvars.Token[Contestant | None]:
    """A flow begins, for which nobody races yet, whatever its caller was called for."""
    return _racing_for.set(None)


def end_flow(token: contextvars.Token[Contestant | None]) -> None:
    """That flow is over."""
    _racing_for.reset(token)


def enter(calls: list[Awaitable[Any]], sides: list[str]) -> tuple[list[asyncio.Future[Any]], list[Contestant]]:
    """Begin all calls side by side, each with its mark."""
    tasks: list[asyncio.Future[Any]] = []
    marks: list[Contestant] = []
    outer = _racing_for.get()
    for call, side in zip(calls, sides, strict=True):
        mark = Contestant(outer, side)
        token = _racing_for.set(mark)
        try:
            tasks.append(branched(call))
        finally:
            _racing_for.reset(token)
        marks.append(mark)
    return tasks, marks


def come_to(call: str) -> None:
    """The calling code comes to a call, for whomever it races."""
    mark = _racing_for.get()
    while mark is not None:
        mark.calls.add(call)
        mark = mark.outer


def beside(marks: list[Contestant], winner: int, in_doubt: list[str]) -> list[str]:
    """Of the effects that are under way, those that somebody who loses came to."""
    losers = marks[:winner] + marks[winner + 1 :]
    return sorted(name for name in in_doubt if any(name in mark.calls for mark in losers))


def decide(marks: list[Contestant], winner: int) -> None:
    """From here on the others begin and record nothing; what is recorded of them already is still handed out."""
    for position, mark in enumerate(marks):
        mark.has_lost = position != winner
        if mark.has_lost and mark.told is None:
            mark.told = asyncio.get_running_loop().create_future()


def tell(marks: list[Contestant]) -> None:
    """The flow hears of it: those that lost are let go."""
    for mark in marks:
        if mark.told is not None and not mark.told.done():
            mark.told.set_result(None)


def reopen(marks: list[Contestant]) -> None:
    """The race was given up before its end was recorded."""
    tell(marks)
    for mark in marks:
        mark.has_lost, mark.told = False, None


def is_racing() -> bool:
    """Whether the calling code runs for a contestant of a race."""
    return _racing_for.get() is not None


def has_lost() -> bool:
    """Whether the calling code runs under a contestant that lost."""
    mark = _racing_for.get()
    while mark is not None and not mark.has_lost:
        mark = mark.outer
    return mark is not None


def check_not_lost() -> None:
    """Raises CancelledError under a contestant that lost: it begins and records nothing any more."""
    if has_lost():
        raise asyncio.CancelledError("another call won this race")


async def unless_lost() -> None:
    """Under a contestant that lost: wait until the flow hears that. Raises CancelledError then, as `check_not_lost`.

    What was written before the race's end it hears before, and what it does with that is not to be cut short.
    """
    mark = _racing_for.get()
    while mark is not None:
        if mark.has_lost and mark.told is not None and not mark.told.done():
            await asyncio.wait([mark.told])
        mark = mark.outer
    check_not_lost()
