"""What a plain synchronous flow is handed: the same run, whose calls wait for their outcome.

The flow has a thread of its own, and the calls are made in the loop, where alone entries are
sealed. Calls side by side are named first and handed to `gather` or `first` together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Future
from datetime import datetime, timedelta
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from remit.engine.boundary import evidence
from remit.engine.boundary.approve import Yes
from remit.engine.boundary.transaction import Transaction
from remit.engine.declared.place import check_in_flow
from remit.engine.declared.sink import Effect
from remit.engine.runs.run import Call, Run
from remit.engine.turn import draw
from remit.engine.turn.attempt import Attempt
from remit.errors import CallRefused
from remit.facts.names import branch_segment

P = ParamSpec("P")
T = TypeVar("T")


class Waits:
    """The calls for which a plain flow waits in its thread, so that they end where the flow is cancelled."""

    __slots__ = ("_is_over", "_under_way")

    def __init__(self) -> None:
        self._under_way: set[Future[Any]] = set()
        self._is_over = False

    def for_(self, future: Future[T]) -> T:
        """Wait for a call, from the flow's thread."""
        self._under_way.add(future)
        if self._is_over:  # the call was handed to the loop before it was noted here
            future.cancel()
        try:
            return future.result()
        finally:
            self._under_way.discard(future)

    def cancel(self) -> None:
        """End them, and those that come; from the loop."""
        self._is_over = True
        for future in list(self._under_way):
            future.cancel()


class SyncRun:
    """A run, as its plain synchronous flow sees it. The flow has a thread of its own; a call waits for its outcome."""

    __slots__ = ("_loop", "_run", "_waits")

    def __init__(self, run: Run, loop: asyncio.AbstractEventLoop, waits: Waits) -> None:
        self._run, self._loop, self._waits = run, loop, waits

    @property
    def id(self) -> str:
        """The run id."""
        return self._run.id

    @property
    def full_name(self) -> tuple[str, str, str]:
        """Ledger, tenant and run id. As Run.full_name."""
        return self._run.full_name

    def step(self, fn: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Call a step and wait for its outcome, which is durable before it is returned. Raises as Run.step."""
        return self._wait(self._run.step(fn, *args, **kwargs))

    def effect(self, fn: Effect[T], request: Any, /, *, rests_on: Collection[str] = ()) -> T:
        """Reach the outside world, behind the gate. As Run.effect."""
        return self._wait(self._run.effect(fn, request, rests_on=rests_on))

    def transact(self, fn: Transaction[T], request: Any, /, *, rests_on: Collection[str] = ()) -> T:
        """Write rows of your own, exactly once. As Run.transact."""
        return self._wait(self._run.transact(fn, request, rests_on=rests_on))

    def approve(
        self,
        name: str,
        payload: Any,
        /,
        *,
        roles: Collection[str],
        within: timedelta,
        rests_on: Collection[str] = (),
        alone: bool = False,
        immaterial: Collection[str] = (),
    ) -> Yes:
        """Ask a person who holds one of the roles. As Run.approve."""
        call = self._run.approve(
            name, payload, roles=roles, within=within, rests_on=rests_on, alone=alone, immaterial=immaterial
        )
        return self._wait(call)

    def evidence(
        self,
        name: str,
        value: Any,
        /,
        *,
        as_of: datetime,
        fresh_for: timedelta,
        again: Callable[..., Any] | None = None,
    ) -> None:
        """State a fact that effects may rest on. As Run.evidence."""
        check_in_flow("run.evidence")
        call = self._run._names.take(f"run.evidence.{branch_segment(name)}")

        async def taken() -> None:
            turn = self._run._turn
            evidence.take(turn, call, name, value, as_of=as_of, fresh_for=fresh_for, again=again)

        self._wait(taken())

    def effect_call(self, fn: Effect[Any], request: Any, /, *, rests_on: Collection[str] = ()) -> Call:
        """Name a call of an effect without beginning it, for `gather` and `first`."""
        return self._run.effect_call(fn, request, rests_on=rests_on)

    def transact_call(self, fn: Transaction[Any], request: Any, /, *, rests_on: Collection[str] = ()) -> Call:
        """Name a transaction without beginning it, for `gather` and `first`."""
        return self._run.transact_call(fn, request, rests_on=rests_on)

    def approve_call(
        self,
        name: str,
        payload: Any,
        /,
        *,
        roles: Collection[str],
        within: timedelta,
        rests_on: Collection[str] = (),
        alone: bool = False,
        immaterial: Collection[str] = (),
    ) -> Call:
        """Name a question without asking it, for `gather` and `first`."""
        return self._run.approve_call(
            name, payload, roles=roles, within=within, rests_on=rests_on, alone=alone, immaterial=immaterial
        )

    def call(self, fn: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Call:
        """Name a call without beginning it: `run.gather(run.call(fetch, a), run.call(fetch, b))`."""
        return self._run.call(fn, *args, **kwargs)

    def branch(self, name: str) -> SyncRun:
        """The same run under a path of its own."""
        return SyncRun(self._run.branch(name), self._loop, self._waits)

    def gather(self, *calls: Call) -> list[Any]:
        """Make all calls side by side; their outcomes in order."""
        return self._wait(self._run.gather(*_begun(calls)))

    def first(self, *calls: Call) -> Any:
        """Make all calls side by side; the outcome of the one that finishes first, which is recorded."""
        return self._wait(self._run.first(*_begun(calls)))

    def now(self) -> datetime:
        """The time, aware and in UTC; recorded, so a replay gets the same."""
        return self._draw("run.now", lambda attempt, name: draw.now(attempt, name, self._run._turn.host.clock))

    def random(self) -> float:
        """A number from 0.0 to below 1.0; recorded, so a replay gets the same."""
        return self._draw("run.random", draw.random_number)

    def uuid(self) -> UUID:
        """A random UUID; recorded, so a replay gets the same."""
        return self._draw("run.uuid", draw.new_uuid)

    def _draw(self, kind: str, make: Callable[[Attempt, str], T]) -> T:
        """In the loop, where alone entries are sealed: a plain flow may have other threads that make calls."""
        check_in_flow(kind)
        name = self._run._names.take(kind)

        async def drawn() -> T:
            return make(self._run._attempt, name)

        return self._wait(drawn())

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        return self._waits.for_(asyncio.run_coroutine_threadsafe(call, self._loop))


def _begun(calls: tuple[Call, ...]) -> list[Coroutine[Any, Any, Any]]:
    for call in calls:
        if not isinstance(call, Call):
            raise CallRefused(
                f"{type(call).__name__} is no call; no call of this gather or race began.",
                code="call.not_awaitable",
                hint="In a plain flow name the calls first: `run.gather(run.call(a), run.call(b))`.",
            )
    return [call.begin() for call in calls]
