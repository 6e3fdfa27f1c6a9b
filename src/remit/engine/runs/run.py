"""What a flow is handed: the run, through which it makes every call.

A call is named at the moment it is made, not when it is awaited, so calls that run side by
side get the same names each time. Within a branch names count by themselves.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine
from datetime import datetime, timedelta
from typing import Any, NamedTuple, ParamSpec, TypeVar
from uuid import UUID

from remit.authority.rule import Approval
from remit.engine.boundary import approve, effect, evidence, transaction
from remit.engine.boundary.approve import Yes
from remit.engine.boundary.transaction import Transaction
from remit.engine.declared.flow import step_of
from remit.engine.declared.place import check_in_flow
from remit.engine.declared.sink import Effect
from remit.engine.turn import draw, wait
from remit.engine.turn.attempt import Attempt
from remit.engine.turn.step import perform
from remit.engine.turn.turn import Turn
from remit.errors import CallRefused, NameAmbiguous
from remit.facts.names import branch_segment, check_name, path

P = ParamSpec("P")
T = TypeVar("T")


class Names:
    """Gives each call of one branch its path. The second call of a name is `name#2`."""

    __slots__ = ("_counts", "_prefix")

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._counts: dict[str, tuple[int, object]] = {}

    def take(self, base: str) -> str:
        """The next path of this name. Raises NameAmbiguous where another task of the flow asks for it."""
        return path(self._prefix, base, self._count(base))

    def branch(self, text: str) -> Names:
        """Names under a path of their own; a branch of that name asked for again is another branch."""
        segment = branch_segment(text)
        return Names(f"{path(self._prefix, segment, self._count(segment + '/'))}/")

    def _count(self, base: str) -> int:
        caller = _caller()
        count, owner = self._counts.get(base, (0, caller))
        if owner != caller:
            raise NameAmbiguous(f"{self._prefix + base!r} is asked for by two tasks of one flow; nothing was done.")
        self._counts[base] = (count + 1, caller)
        return count + 1


class Run:
    """A run, as its asynchronous flow sees it."""

    __slots__ = ("_attempt", "_names", "_turn")

    def __init__(self, turn: Turn, names: Names | None = None) -> None:
        self._turn, self._attempt = turn, turn.attempt
        self._names = names or Names()

    @property
    def id(self) -> str:
        """The run id."""
        return self._attempt.run_id

    @property
    def full_name(self) -> tuple[str, str, str]:
        """Ledger, tenant and run id: no other run anywhere has the same."""
        identity = self._attempt.view.identity
        return identity.ledger, identity.tenant, identity.run

    def step(self, fn: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Any]:
        """Call a step: `await run.step(fetch_quote, sku)`. The outcome is durable before it is returned.

        fn: a `@remit.step`, or a plain named function, asynchronous or not.
        Raises StepError where the step raised, NameAmbiguous, CallRefused.
        """
        return self._made(self.call(fn, *args, **kwargs))

    def effect(self, fn: Effect[T], request: Any, /, *, rests_on: Collection[str] = ()) -> Coroutine[Any, Any, T]:
        """Reach the outside world, behind the gate: `await run.effect(place_order, order, rests_on=["quote"])`.

        fn: a `@remit.effect`. request: what it is called with; its bytes are what is judged, approved and executed.
        rests_on: names of `run.evidence` that must hold, besides those that the contract demands.
        Raises EffectDeclined, EffectDidNotHappen (both EffectFailed), Denied (a person said no) and Conflict (its
        business is another run's), which the flow may catch; ValueRefused, NameAmbiguous, CallRefused.
        """
        return self._made(self.effect_call(fn, request, rests_on=rests_on))

    def transact(
        self, fn: Transaction[T], request: Any, /, *, rests_on: Collection[str] = ()
    ) -> Coroutine[Any, Any, T]:
        """Write rows of your own, in the database that holds the journal, exactly once: `await run.transact(book, o)`.

        fn: a `@remit.transaction`. Raises EffectDidNotHappen where it rolled back (it raised, or took too long),
        CallRefused `transact.risk`, `transact.store`, `transact.function`, and as `effect` does.
        """
        return self._made(self.transact_call(fn, request, rests_on=rests_on))

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
    ) -> Coroutine[Any, Any, Yes]:
        """Ask a person who holds one of the roles; who said yes, when and why. Raises Denied, which the flow may catch.

        payload: what they are shown, byte for byte. While nobody has answered, the run waits and holds nothing.
        """
        call = self.approve_call(
            name, payload, roles=roles, within=within, rests_on=rests_on, alone=alone, immaterial=immaterial
        )
        return self._made(call)

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
        """State a fact that effects may rest on, and until when it may be relied on; recorded.

        as_of: aware. again: takes it again, without arguments; called at the gate after a pause, or when it is stale.
        """
        check_in_flow("run.evidence")
        call = self._names.take(f"run.evidence.{branch_segment(name)}")
        evidence.take(self._turn, call, name, value, as_of=as_of, fresh_for=fresh_for, again=again)

    def call(self, fn: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Call:
        """Name a call of a step without beginning it."""
        step = step_of(fn)
        name = self._take(step.name)
        return Call(
            self._attempt, name, lambda: perform(self._attempt, step, name, (args, kwargs), self._turn.host.threads)
        )

    def effect_call(self, fn: Effect[Any], request: Any, /, *, rests_on: Collection[str] = ()) -> Call:
        """Name a call of an effect without beginning it."""
        if not isinstance(fn, Effect):
            raise CallRefused(
                f"{fn!r} is no effect; nothing was done.",
                code="call.no_effect",
                hint="Declare it with `@remit.effect`.",
            )
        name, names = self._take(fn.name), tuple(rests_on)
        data = effect.request_of(fn, name, request)  # now: what the caller changes later is another request
        return Call(self._attempt, name, lambda: effect.perform(self._turn, fn, name, data, names))

    def transact_call(self, fn: Transaction[Any], request: Any, /, *, rests_on: Collection[str] = ()) -> Call:
        """Name a transaction without beginning it."""
        given: object = fn
        if not isinstance(given, Transaction):
            hint = "Declare it with `@remit.transaction`."
            raise CallRefused(f"{fn!r} is no transaction; nothing was done.", code="call.no_transaction", hint=hint)
        name, names = self._take(fn.name), tuple(rests_on)
        data = effect.request_of(fn, name, request)
        return Call(self._attempt, name, lambda: transaction.perform(self._turn, fn, name, data, names))

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
        """Name a question without asking it."""
        approval = Approval(roles, within, alone=alone, immaterial=immaterial)
        path_, names = self._take(check_name(name, "name of a question")), tuple(rests_on)
        data = approve.payload_of(path_, payload)
        return Call(self._attempt, path_, lambda: approve.perform(self._turn, path_, data, approval, names))

    def _take(self, base: str) -> str:
        check_in_flow(base)
        return self._names.take(base)

    def _made(self, call: Call) -> Coroutine[Any, Any, Any]:
        begun = self._attempt.unbegun[call.name] = call.begin()
        return begun

    def branch(self, name: str) -> Run:
        """The same run under a path of its own, for calls that another task makes: `run.branch("supplier-a")`."""
        return Run(self._turn, self._names.branch(name))

    async def gather(self, *calls: Awaitable[Any]) -> list[Any]:
        """Wait for all calls; their outcomes in order. Every one is let finish before the first failure is raised."""
        return await wait.gather(calls)

    def first(self, *calls: Awaitable[Any]) -> Coroutine[Any, Any, Any]:
        """The outcome of the call that finishes first; the winner is recorded and the others are cancelled."""
        check_in_flow("run.first")
        return wait.first(self._attempt, self._names.take("run.first"), calls)

    def now(self) -> datetime:
        """The time, aware and in UTC; recorded, so a replay gets the same."""
        check_in_flow("run.now")
        return draw.now(self._attempt, self._names.take("run.now"), self._turn.host.clock)

    def random(self) -> float:
        """A number from 0.0 to below 1.0; recorded, so a replay gets the same."""
        check_in_flow("run.random")
        return draw.random_number(self._attempt, self._names.take("run.random"))

    def uuid(self) -> UUID:
        """A random UUID; recorded, so a replay gets the same."""
        check_in_flow("run.uuid")
        return draw.new_uuid(self._attempt, self._names.take("run.uuid"))


class Call(NamedTuple):
    """A call that was named and not begun, for `SyncRun.gather` and `SyncRun.first`."""

    attempt: Attempt
    name: str
    begin: Callable[[], Coroutine[Any, Any, Any]]  # the coroutine that makes the call


def _caller() -> object:
    """The task that makes a call; a synchronous flow has none and is told by its thread."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return task if task is not None else threading.get_ident()
