"""Unbegun: calls that the flow made, and that nobody awaited yet.

A call has its name from when it is made, and begins when it is awaited, both where its flow is at work. One whose
task was cancelled before it had its first turn never begins, and the flow gave it up all the same. One that nobody
ever awaited is its flow's mistake.
"""

from __future__ import annotations

from collections.abc import Collection, Coroutine
from inspect import CORO_CLOSED, CORO_CREATED, getcoroutinestate
from typing import Any
from weakref import ref

from remit.engine.declared.place import check_in_flow
from remit.engine.turn.caught import call_made
from remit.errors import CallRefused
from remit.errors.called import all_called


class Unbegun:
    """The calls of one turn, by name, from when they are made until they begin. turn: as the flow's place knows it."""

    __slots__ = ("_calls", "_turn")

    def __init__(self, turn: object) -> None:
        self._turn = ref(turn)
        self._calls: dict[str, Coroutine[Any, Any, Any]] = {}

    def made(self, name: str, call: Coroutine[Any, Any, Any]) -> None:
        """The flow has this call in its hand."""
        self._calls[name] = call
        call_made(name)

    def begin(self, name: str) -> None:
        """It is awaited. Raises CallRefused where that happens in a body, which no replay enters again."""
        check_in_flow(name, self._turn())
        self._calls.pop(name, None)
        call_made(name)  # behind what came between its making and this

    def names(self) -> dict[int, str]:
        """Names by the identity of the call, which lives as long as the flow has it in its hand."""
        return {id(call): name for name, call in self._calls.items()}

    def is_given_up(self, name: str) -> bool:
        """Whether the flow made this call and let go of it before it began."""
        return name in self._calls and getcoroutinestate(self._calls[name]) == CORO_CLOSED

    def check_none(self, run_id: str, recorded: Collection[str]) -> None:
        """Raises CallRefused where the flow returned and a call that it made was never awaited.

        recorded: calls that ran in an earlier turn, and whose outcome was not given yet: those it gave up unheard.
        """
        left = [name for name in self.drop() if name not in recorded]
        if left:
            raise CallRefused(
                f"{all_called(left)} of run {run_id!r} was called and never awaited, so it never ran.",
                code="call.unawaited",
                hint="Await it, `await run.step(...)`, or hand it to `run.gather`, and call again with the same id.",
            )

    def drop(self) -> list[str]:
        """Give up the calls that the flow made and never awaited; their names."""
        calls = [(name, call) for name, call in self._calls.items() if getcoroutinestate(call) == CORO_CREATED]
        for _, call in calls:
            call.close()
        return [name for name, _ in calls]
