"""Rehearsal: would this code go on with that journal? Nothing is run, nothing is written.

The flow's own code is called with what is recorded; a call that the journal does not have
waits before its body begins, and the rehearsal ends where all wait: of calls side by side each
is known then. It holds no lease, so nothing outside is called or asked, and the store that it
is given can only be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from remit.engine.boundary.settling import take_words, word_on
from remit.engine.declared.flow import Flow
from remit.engine.process.admit import Found, check_flow
from remit.engine.process.host import Host
from remit.engine.process.hours import Hours
from remit.engine.process.lease import Lease
from remit.engine.process.liveness import ProcessLock
from remit.engine.process.standing import glance
from remit.engine.process.taking import Taken
from remit.engine.runs.invoke import call_flow, main_task
from remit.engine.runs.run import Run
from remit.engine.turn.answers import denial_of
from remit.engine.turn.attempt import Attempt
from remit.engine.turn.brought import within_flow
from remit.engine.turn.closing import AttemptClosed, is_closing
from remit.engine.turn.due import check_heard, until_due
from remit.engine.turn.exits import is_failure
from remit.engine.turn.halt import Again, Halt, Parked
from remit.engine.turn.left import close_passed_over, let_come, recorded_in
from remit.engine.turn.step import text_of, type_name
from remit.engine.turn.turn import Turn
from remit.engine.turn.wish import Wish
from remit.engine.turn.writer import Conditions, Draft, Of
from remit.errors import (
    AuthorityUnreadable,
    DefinitionIncompatible,
    RemitError,
    StepError,
    ValueUnreadable,
)
from remit.errors.called import all_called, called
from remit.facts.calls import EffectView, Resolved
from remit.facts.entry import Pen
from remit.facts.view import RunView
from remit.store.protocol import Store
from remit.store.reading import reading

Fit = Literal["compatible", "compatible after the gate", "incompatible"]


@dataclass(frozen=True, slots=True)
class Compatibility:
    """What `remit check` says of a run and the code at hand.

    call: the one that it would go on with, or the recorded one that the code no longer makes; "" at the flow's end.
    """

    run: str
    fit: Fit
    call: str
    reason: str
    recorded: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()


class _NextCall(Exception):
    """The rehearsal came to a call that the journal does not have."""


_COME = Parked("gate", "", "")  # a call stands where a real turn would begin to work


class _Rehearsal(Attempt):
    """An attempt that stops where a real one would begin to work.

    come: calls that the journal does not have, in the order in which the flow came to them; with the wish of each
    that is one of the boundary.
    """

    __slots__ = ("come",)

    def __init__(
        self,
        store: Store,
        clock: Hours,
        taken: Taken,
        pen: Pen,
        lease: Lease,
        lock: ProcessLock,
        *,
        main: asyncio.Task[Any] | None,
    ) -> None:
        super().__init__(store, clock, taken, pen, lease, lock, main=main)
        self.come: dict[str, Wish | None] = {}

    async def check_may_begin(self, name: str) -> None:
        await self._come_to(name, None)

    async def _come_to(self, name: str, wish: Wish | None) -> None:
        self.check_open()
        self.come[name] = wish
        try:
            await self.parking.wait(_COME, is_whole=self.replay.is_whole(), since=self.parking.wakes)
        except asyncio.CancelledError:
            if self.is_open:
                del self.come[name]  # the flow gave it up before it was let pass
            raise

    def halt(self, why: Halt) -> None:
        if why is _COME:
            self.close(_NextCall(next(iter(self.come))))
        else:
            super().halt(why)

    async def meet(self, wish: Wish) -> None:
        if self.unasked:
            await until_due(self, wish)
        check_heard(self, wish.name)
        effect = self.boundary.effects.get(wish.name)
        if effect is not None and effect.settled is not None and effect.state != "did_not_happen":
            return  # as somebody said what became of it: the flow is given that, and goes on
        await self._come_to(wish.name, wish)

    async def append_if(
        self, drafts: Sequence[Draft], conditions: Conditions, *, of: Of = "", is_stoppable: bool = True
    ) -> None:
        """What people said became of a doubt: it holds in here, as it will where a turn settles it."""
        self.writer.pretend(drafts, conditions)

    def check_open(self) -> None:
        if not self.is_open:
            raise AttemptClosed from self.closed_by

    def check_held(self) -> None:
        raise AssertionError("a rehearsal came to the outside, and holds no lease to do anything there")

    def see_to(self, name: str, begin: Callable[[EffectView], None]) -> None:
        """A doubt that the flow let go of stays, and holds up what is new."""
        super().see_to(name, lambda _: None)

    def ride(self, kind: str, body: bytes, *, name: str | None = None, value: bytes | None = None) -> None:
        """A draw or a race that the journal does not have leaves nothing behind."""


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """How far the flow came, and the boundary calls that it came to, if that is what comes next.

    wishes: in the order in which a turn judges them. has_more: whether a step comes next beside them.
    stopped: what a turn of this code raises, where it does not go on with the journal.
    settled: the effects that a turn settles first, as people said what became of them, by name.
    waits: why such a turn stops before anything new, in words; "" where it does not.
    """

    fit: Compatibility
    turn: Turn
    wishes: tuple[Wish, ...]
    has_more: bool
    stopped: RemitError | None
    settled: dict[str, Resolved]
    waits: str


async def rehearse(host: Host, flow: Flow[Any], found: Found) -> Compatibility:
    """Call the flow with what is recorded. Raises FlowMismatch where the run belongs to another flow."""
    return (await rehearse_to(host, flow, found)).fit


async def rehearse_to(host: Host, flow: Flow[Any], found: Found) -> Rehearsed:
    """The same, with the wishes that the flow came to the boundary with."""
    view, row = found.view, found.row
    check_flow(view, flow)
    pen = Pen(view.identity, lane="main", by=view.opened.by, epoch=row.epoch, head=row.head, seq=row.seq)
    loop, as_if_taken = asyncio.get_running_loop(), Taken(row, view, 0)
    nothing_held = Lease(row.run_key, row.epoch, 0, loop, lambda: None, lambda _: None, row.post_head)
    host = replace(host, store=reading(host.store))
    attempt = _Rehearsal(host.store, host.clock, as_if_taken, pen, nothing_held, host.lock, main=main_task(flow))
    turn = Turn(host, flow.terms, attempt, within_flow(flow.fn))
    settled = await _settle(host, attempt)
    fit = await _fit(turn, flow, view)
    waits, wishes = _waits(attempt), tuple(filter(None, attempt.come.values()))
    attempt.over()  # whatever the flow left behind
    attempt.unbegun.drop()
    if not isinstance(fit, RemitError):
        return Rehearsed(fit, turn, wishes, len(wishes) < len(attempt.come), None, settled, waits)
    return Rehearsed(_incompatible(view, fit), turn, (), False, fit, settled, "")


async def _settle(host: Host, attempt: Attempt) -> dict[str, Resolved]:
    """Take up what people said about doubts, as a turn does before anything of the flow runs."""
    with suppress(AuthorityUnreadable):  # then a turn takes up nothing
        await glance(host)
        effects = attempt.boundary.effects
        said = {name: word_on(host, attempt, effects[name]) for name in attempt.boundary.in_doubt}
        await take_words(host, attempt)
        return {name: told for name, told in said.items() if told is not None}
    return {}


async def _fit(turn: Turn, flow: Flow[Any], view: RunView) -> Compatibility | RemitError:
    """How it goes on; or what a turn raises."""
    attempt, run_id = turn.attempt, view.identity.run
    try:
        given = flow.read_input(view.input, run_id)
        await call_flow(flow, Run(turn), given)
        await let_come(attempt, "returned")
    except BaseException as exc:
        if not is_failure(exc) and not is_closing(exc):
            raise
        is_over = is_closing(exc) or not attempt.is_open
        if not is_over:
            with suppress(AttemptClosed):
                await let_come(attempt, "raised")
        if not is_over and attempt.is_open and not close_passed_over(attempt, exc):
            return _left_by(turn, flow, exc)
    left = attempt.replay.unasked or tuple(sorted(attempt.unasked))
    if left and attempt.is_open:
        with suppress(AttemptClosed):
            attempt.disagree(left, ())
    if waits := _waits(attempt):
        return _compatible(flow, view, "", f"it would wait: {waits}")
    why = attempt.closed_by
    if isinstance(why, ValueUnreadable | DefinitionIncompatible):
        return why
    if isinstance(why, _NextCall):
        return _compatible(flow, view, str(why), f"it would go on with {called(str(why))}")
    if why is not None:
        raise why
    then = f" when it is known whether {all_called(doubts)} happened" if (doubts := attempt.boundary.in_doubt) else ""
    return _compatible(flow, view, "", f"every call is recorded; it would end{then}")


def _left_by(turn: Turn, flow: Flow[Any], exc: BaseException) -> Compatibility | RemitError:
    """What a turn makes of what leaves the flow."""
    view, failed = turn.attempt.view, recorded_in(turn.attempt, exc)
    if (no := denial_of(exc)) is not None:
        return _compatible(flow, view, no.call, f"{called(no.call)} is denied as it is recorded")
    if isinstance(exc, StepError):
        return _compatible(flow, view, exc.name, f"{called(exc.name)} fails as it is recorded")
    if failed:
        return _compatible(flow, view, failed[0], f"{all_called(failed)} fail as is recorded")
    if isinstance(exc, RemitError):
        return exc
    return StepError(run=view.identity.run, name=flow.name, error_type=type_name(exc), detail=text_of(exc))


def _waits(attempt: Attempt) -> str:
    """Why the turn stops before anything new, in words."""
    if isinstance(attempt.halted, Again):
        names = all_called(sorted(attempt.let_go))
        return f"The flow gave up {names}; before anything new begins it has to be known what became of that."
    return attempt.halted.words if isinstance(attempt.halted, Parked) else ""


def _incompatible(view: RunView, why: RemitError) -> Compatibility:
    run = view.identity.run
    if isinstance(why, DefinitionIncompatible):
        return Compatibility(run, "incompatible", why.recorded[0], why.message, why.recorded, why.asked)
    if isinstance(why, StepError):
        return Compatibility(run, "incompatible", "", f"the flow raises {why.error_type}: {why.detail}")
    if isinstance(why, ValueUnreadable):
        return Compatibility(run, "incompatible", why.where, why.message)
    return Compatibility(run, "incompatible", "", f"the flow raises {type_name(why)}: {why.message}")


def _compatible(flow: Flow[Any], view: RunView, at: str, reason: str) -> Compatibility:
    pinned = view.opened.contract
    if pinned == flow.terms.pin:
        return Compatibility(view.identity.run, "compatible", at, reason)
    moved = f"; the contract moved from version {pinned.version} to {flow.contract.version}"
    return Compatibility(view.identity.run, "compatible after the gate", at, reason + moved)
