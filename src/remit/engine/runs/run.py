"""What a flow is handed: the run, through which it makes every call.

A call is named at the moment it is made, not when it is awaited, so calls that run side by
side get the same names each time. Within a branch names count by themselves.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine
from datetime import datetime, timedelta
from typing import Any, ParamSpec, Protocol, TypeVar
from uuid import UUID

from remit.authority.rule import Approval, several_names
from remit.engine.boundary import approve, effect, evidence, transaction
from remit.engine.boundary.approve import Yes
from remit.engine.boundary.whose import check_told_apart, close_as_anothers, is_anothers
from remit.engine.declared.flow import step_of
from remit.engine.declared.outward import Outward
from remit.engine.declared.place import Here, check_in_flow, enter
from remit.engine.declared.rows import Transaction
from remit.engine.declared.sink import Effect
from remit.engine.turn import draw, wait
from remit.engine.turn.answers import is_trouble
from remit.engine.turn.caught import call_made
from remit.engine.turn.given import told_of
from remit.engine.turn.step import perform
from remit.engine.turn.turn import Turn
from remit.engine.turn.wish import RestsOn
from remit.errors import CallRefused, NameAmbiguous
from remit.facts.names import branch_segment, check_id, check_name, path

Called = str | Outward[Any]  # in words where they say all

P = ParamSpec("P")
T = TypeVar("T")


class Names:
    """Gives each call of one branch its path. The second call of a name is `name#2`.

    All calls of a name are of one function: of two, called in another order, each would be given what the other did.
    """

    __slots__ = ("_counts", "_prefix")

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._counts: dict[str, tuple[int, object, Called]] = {}

    def take(self, base: str, of: Called = "") -> str:
        """The next path of this name. of: what is called by it, in words where that says all; "" for Remit's own.

        Raises NameAmbiguous where another task of the flow asks for it, CallRefused where it is something else's.
        """
        return path(self._prefix, base, self._count(base, of))

    def branch(self, text: str) -> Names:
        """Names under a path of their own; a branch of that name asked for again is another branch."""
        segment = branch_segment(text)
        return Names(f"{path(self._prefix, segment, self._count(segment + '/', ''))}/")

    def _count(self, base: str, of: Called) -> int:
        caller = _caller()
        count, owner, known = self._counts.get(base, (0, caller, of))
        if owner != caller:
            raise NameAmbiguous(f"{self._prefix + base!r} is asked for by two tasks of one flow; nothing was done.")
        if known != of and not (isinstance(known, Outward) and isinstance(of, Outward) and known.is_same(of)):
            raise _taken(self._prefix + base, known, of)
        self._counts[base] = (count + 1, caller, of)
        return count + 1


def _taken(name: str, known: Called, of: Called) -> CallRefused:
    first, second = (each.told if isinstance(each, Outward) else each for each in (known, of))
    which = f"{second} is called by it too" if first != second else "one that was made anew is called by it too"
    if isinstance(known, Outward) or isinstance(of, Outward):
        own = (
            'Give the one that no open run has called yet a name of its own, `@remit.effect(name="...")`; of one '
            'function made anew for each other side, say which, `connector="..."`, of both.'
        )
    else:
        own = (
            "Give the one that no open run has called yet a name of its own: of a step "
            '`@remit.step(name="...")`, of a question what `run.approve` is given first.'
        )
    return CallRefused(
        f"{name!r} is the name of {first}, and {which}; nothing was done.",
        code="call.name_taken",
        hint=f"{own} A run that called the other one is refused then, and not paid anew: its refusal says how.",
    )


class Run:
    """A run, as its asynchronous flow sees it."""

    __slots__ = ("_at_once", "_attempt", "_names", "_turn")

    def __init__(self, turn: Turn, names: Names | None = None, at_once: AtOnce | None = None) -> None:
        """at_once: how something is done in the loop, where alone entries are sealed; None for a flow that is there."""
        self._turn, self._attempt = turn, turn.attempt
        self._names, self._at_once = names or Names(), at_once or _here

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
        step = step_of(fn)
        name = self._take(step.name, step.body.told)
        told = told_of(fn, args, kwargs, self._turn.within)
        return self._made(name, perform(self._attempt, step, name, (args, kwargs), told, self._turn.host.threads))

    def effect(self, fn: Effect[T], request: Any, /, *, rests_on: Collection[str] = ()) -> Coroutine[Any, Any, T]:
        """Reach the outside world, behind the gate: `await run.effect(place_order, order, rests_on=["quote"])`.

        fn: a `@remit.effect`. request: what it is called with; its bytes are what is judged, approved and executed.
        rests_on: names of `run.evidence` that must hold, besides those that the contract demands; not one text.
        Raises EffectDeclined, EffectDidNotHappen (both EffectFailed), Denied (a person said no) and Conflict (its
        business is another run's), which the flow may catch; ValueRefused, NameAmbiguous, CallRefused.
        """
        given: object = fn
        if not isinstance(given, Effect):
            hint = "Declare it with `@remit.effect`."
            raise CallRefused(f"{fn!r} is no effect; nothing was done.", code="call.no_effect", hint=hint)
        name = self._outward(fn)
        data = effect.request_of(fn, name, request)  # now: what the caller changes later is another request
        return self._made(name, effect.perform(self._turn, fn, name, data, self._rests_on(rests_on)))

    def transact(
        self, fn: Transaction[T], request: Any, /, *, rests_on: Collection[str] = ()
    ) -> Coroutine[Any, Any, T]:
        """Write rows of your own, in the database that holds the journal, exactly once: `await run.transact(book, o)`.

        fn: a `@remit.transaction`. Raises EffectDidNotHappen where it rolled back (it raised, or took too long),
        CallRefused `transact.risk`, `transact.store`, `transact.function`, and as `effect` does.
        """
        given: object = fn
        if not isinstance(given, Transaction):
            hint = "Declare it with `@remit.transaction`."
            raise CallRefused(f"{fn!r} is no transaction; nothing was done.", code="call.no_transaction", hint=hint)
        name = self._outward(fn)
        data = effect.request_of(fn, name, request)
        return self._made(name, transaction.perform(self._turn, fn, name, data, self._rests_on(rests_on)))

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
        approval = Approval(roles, within, alone=alone, immaterial=immaterial)
        call = self._take(check_name(name, "name of a question"), "a question of the flow's own")
        data = approve.payload_of(call, payload)
        return self._made(call, approve.perform(self._turn, call, data, approval, self._rests_on(rests_on)))

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
        call, turn = self._take(f"run.evidence.{branch_segment(name)}"), self._turn
        self._stated(lambda: evidence.take(turn, call, name, value, as_of=as_of, fresh_for=fresh_for, again=again))

    def branch(self, name: str) -> Run:
        """The same run under a path of its own, for calls that another task makes: `run.branch("supplier-a")`."""
        check_in_flow("run.branch", self._attempt)
        return Run(self._turn, self._names.branch(name), self._at_once)

    def gather(self, *calls: Awaitable[Any]) -> Coroutine[Any, Any, list[Any]]:
        """Wait for all calls; their outcomes in order. Every one is let finish before the first failure is raised."""
        return wait.gather(self._attempt, calls)

    def first(self, *calls: Awaitable[Any]) -> Coroutine[Any, Any, Any]:
        """The outcome of the call that finishes first; the winner is recorded and the others are cancelled."""
        name = self._take("run.first")
        call_made(name)
        return wait.first(self._attempt, name, calls)

    def now(self, name: str | None = None, /) -> datetime:
        """The time, aware and in UTC; recorded, so a replay gets the same.

        name: by which it is found again, whatever else is drawn (`run.now("ordered")`). Without one it is found by how
        many were drawn before it. Of `random` and `uuid` likewise. Raises IdRefused.
        """
        call = self._draw("run.now", name)
        return self._stated(lambda: draw.now(self._attempt, call, self._turn.host.clock))

    def random(self, name: str | None = None, /) -> float:
        """A number from 0.0 to below 1.0; recorded, so a replay gets the same. name: as of `now`."""
        call = self._draw("run.random", name)
        return self._stated(lambda: draw.random_number(self._attempt, call))

    def uuid(self, name: str | None = None, /) -> UUID:
        """A random UUID; recorded, so a replay gets the same: `run.uuid("order-id")`. name: as of `now`."""
        call = self._draw("run.uuid", name)
        return self._stated(lambda: draw.new_uuid(self._attempt, call))

    def _draw(self, source: str, name: str | None) -> str:
        return self._take(source if name is None else f"{source}.{branch_segment(check_id(name, 'name of a draw'))}")

    def _take(self, base: str, of: Called = "") -> str:
        check_in_flow(base, self._attempt)
        return self._names.take(base, of)

    def _outward(self, fn: Outward[Any]) -> str:
        """The name of a call at the boundary, which may be this function's.

        Raises CallRefused, and AttemptClosed where what is recorded under it is another's.
        """
        name = self._take(fn.name, fn)
        if is_anothers(self._turn, fn, name):
            self._at_once(lambda: close_as_anothers(self._turn, fn, name))
        check_told_apart(self._turn, fn, name)
        return name

    def _stated(self, make: Callable[[], T]) -> T:
        """What is recorded at once, in the loop. Raises AttemptClosed for what is no answer to the call."""

        def made() -> T:
            try:
                return make()
            except Exception as exc:
                if is_trouble(exc):
                    self._attempt.lost(exc)
                raise

        return self._at_once(made)

    def _rests_on(self, names: Collection[str]) -> RestsOn:
        """What is stated at this moment, in which the call is named. Raises DeclarationRefused `contract.evidence`."""
        named = several_names("evidence", "rests_on", names) if names != () else ()
        return RestsOn(named, self._turn.stated.count)

    def _made(self, name: str, call: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        self._attempt.unbegun.made(name, call)
        return call


def enter_flow(run: Run) -> Here:
    """What is called from here is the flow that makes this run's calls, until `leave`."""
    return enter("flow", run._attempt)


class AtOnce(Protocol):
    """Does something in the loop, and gives what came of it."""

    def __call__(self, make: Callable[[], T], /) -> T: ...


def at_work(run: Run) -> set[int]:
    """Threads of a plain flow that were given something and came to no call since."""
    return run._attempt.rest.threads


def from_thread(run: Run, at_once: AtOnce) -> Run:
    """The same run with the same names, for a flow that is not in the loop."""
    return Run(run._turn, run._names, at_once)


def _here(make: Callable[[], T], /) -> T:
    return make()


def _caller() -> object:
    """The task that makes a call; a synchronous flow has none and is told by its thread."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return task if task is not None else threading.get_ident()
