"""The view: everything that is shown or decided about a run, folded from its entries.

Nothing else is believed. Columns on the run's row are an index for finding runs; what a
run *is* comes from here, after its journal verified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from remit.errors import Tampered
from remit.facts.boundary import Boundary, Illegal
from remit.facts.calls import EffectView, Resolved
from remit.facts.chain import Journal, Read, tampered
from remit.facts.entry import Identity
from remit.facts.kinds import (
    ApprovalUsed,
    AttemptStarted,
    EffectIntended,
    EffectRefused,
    EffectSettled,
    EvidenceTaken,
    RaceWon,
    RunEnded,
    RunOpened,
    RunParked,
    StepDone,
    StepFailed,
    ValueDrawn,
)
from remit.facts.machine import KINDS, POSTED, VALUED, CallKind, Status, move
from remit.facts.reach import Reach

Completion = StepDone | StepFailed | ValueDrawn | RaceWon | EffectSettled | EffectRefused | ApprovalUsed | EvidenceTaken


@dataclass(frozen=True, slots=True)
class Recorded:
    """A call whose completion the journal has."""

    name: str
    seq: int
    fact: Completion
    value: bytes | None  # outcome, {"detail": ...}, the drawn value or the evidence; None for a race alone
    begun: int = 0  # seq of the intention, of an effect; 0 where nothing says when it began
    salt: bytes | None = None  # of the value

    @property
    def kind(self) -> str:
        """As in the header."""
        return type(self.fact).__name__

    @property
    def is_ridden(self) -> bool:
        """Whether the flow gets it at once, in whatever order, and not in its turn: draws and evidence."""
        return KINDS[self.kind].completes == "draw"

    @property
    def may_run_again(self) -> bool:
        """Whether it is known that nothing came of it, so that it runs again where its failure left the flow."""
        fact = self.fact
        return isinstance(fact, StepFailed) or (isinstance(fact, EffectSettled) and fact.state == "did_not_happen")


class Death(NamedTuple):
    """When a worker was proven dead: microseconds UTC; and by how long that machine, in that boot, had been up."""

    at: int
    host: str
    up: int


@dataclass(slots=True)
class RunView:
    """A run as its journal tells it."""

    identity: Identity
    opened: RunOpened
    input: bytes
    opened_at: int
    status: Status = Status.QUEUED
    epoch: int = 0
    attempts: list[AttemptStarted] = field(default_factory=list)
    workers: dict[int, str] = field(default_factory=dict)  # by epoch
    dead: dict[str, Death] = field(default_factory=dict)  # by worker
    calls: dict[str, Recorded] = field(default_factory=dict)  # by name, in the order of completion
    parked: RunParked | None = None  # why it waits; None while it does not
    again: tuple[str, ...] = ()  # calls that failed and run again
    forgotten: dict[str, int] = field(default_factory=dict)  # those that did not yet, by when they failed
    ended: RunEnded | None = None
    boundary: Boundary = field(default_factory=Boundary)
    reach: Reach = field(default_factory=Reach)  # as it was when the journal was read
    post_seq: int = 0  # entries of lane post that are folded in
    last_value: bytes | None = None  # of RunParked or RunEnded
    at_work: dict[str, list[str]] = field(default_factory=dict)  # calls that may not have returned, and where: workers
    early: set[str] = field(default_factory=set)  # words that a call did not happen, said before it had returned
    last_at: int = 0  # the latest time that any entry states: time never goes back behind it

    def note_dead(self, fact: AttemptStarted, at: int) -> None:
        """Workers that an attempt says are dead, at its time in microseconds UTC; who said so first counts."""
        self.early.update(fact.early)
        for worker in fact.dead:
            self.dead.setdefault(worker, Death(at, fact.host, fact.up))
        if fact.dead:
            self.keep_at_work(lambda worker: worker not in fact.dead)

    def forgotten_before(self, names: Iterable[str]) -> tuple[str, ...]:
        """Calls that run again and failed before any of these was recorded or began: it may have come behind them."""
        unfinished = self.boundary.unfinished
        seqs = [self.calls[name].seq if name in self.calls else unfinished.get(name, 0) for name in names]
        return tuple(name for name, seq in self.forgotten.items() if seq < max(seqs, default=0))

    def keep_at_work(self, may_be: Callable[[str], bool]) -> None:
        """Forget of each call which workers are at it no more. One that is settled is nobody's."""
        doubts = set(self.boundary.in_doubt)
        left = {call: [each for each in at if may_be(each)] for call, at in self.at_work.items() if call in doubts}
        self.at_work = {call: at for call, at in left.items() if at}

    def is_early(self, told: Resolved) -> bool:
        """Whether the call was at work when it was said, or may be still: it may have done it since."""
        fact = told.fact
        is_open = fact.state == "did_not_happen" and not fact.returned and fact.call in self.at_work
        return is_open or told.item in self.early

    def words(self) -> list[tuple[EffectView, Resolved]]:
        """What was said of the calls that are in doubt, as they were sent last."""
        effects = [self.boundary.effects[name] for name in self.boundary.in_doubt]
        return [(effect, told) for effect in effects for told in self.boundary.resolved.get(effect.intention, ())]

    def worker_of(self, epoch: int) -> str | None:
        """Who took the attempt of this epoch."""
        return self.workers.get(epoch)

    def fits(self, name: str, kind: CallKind) -> bool:
        """Whether the journal knows the call as this kind, or knows none of this name.

        A question that waits may be asked for by an effect and by the flow: it is then void, and says so.
        """
        recorded = self.calls.get(name)
        if recorded is not None:
            return self._known_as(recorded) == kind
        if name in self.boundary.effects:
            return kind == "effect"
        return self.boundary.last_ask_of(name) is None or kind in ("effect", "question")

    def _known_as(self, recorded: Recorded) -> CallKind | None:
        """What kind of call this was. A refusal is of what was asked for."""
        if isinstance(recorded.fact, EffectRefused):
            ask = self.boundary.asks.get(recorded.fact.ask)
            return "question" if ask is not None and not ask.asked.bound.effect else "effect"
        return KINDS[recorded.kind].completes

    @property
    def code(self) -> str:
        """Why the run waits or how it ended; "" where there is nothing to say."""
        if self.ended is not None:
            return self.ended.code
        return self.parked.code if self.parked is not None else ""


def fold(identity: Identity, journal: Journal) -> RunView:
    """The run that these verified entries tell. Raises Tampered on a move that the machine does not allow."""
    first = journal.main[0]
    assert isinstance(first.fact, RunOpened) and first.value is not None  # the chain saw to it
    view = RunView(identity, first.fact, first.value, first.header.at)
    if first.fact.flow != identity.flow:
        raise tampered(identity, "chain.genesis", f"it opens a run of flow {first.fact.flow!r}", "main", 1)
    status: Status | None = None
    for entry in journal.post:
        if entry.header.kind not in POSTED:
            raise tampered(identity, "chain.move", f"{entry.header.kind} in lane post", "post", entry.header.seq)
        view.last_at = max(view.last_at, entry.header.at)
        view.boundary.take_post(entry)
        view.reach.take_post(entry.fact, entry.header.seq)
        view.post_seq = entry.header.seq
    for entry in journal.main:
        status = _step(view, entry, status)
    assert status is not None
    try:
        view.boundary.check_end()
    except Illegal as exc:
        raise _illegal(view, journal.main[-1], str(exc)) from None
    view.status = status
    return view


def _step(view: RunView, entry: Read, status: Status | None) -> Status:
    header, fact = entry.header, entry.fact
    after = move(status, header.kind, fact)
    if after is None:
        raise _illegal(view, entry, f"{header.kind} after {status or 'nothing'}")
    if (header.value is None) == (header.kind in VALUED):
        raise _illegal(view, entry, f"{header.kind} {'without' if header.value is None else 'with'} a value")
    if header.at > view.last_at:
        view.last_at = header.at
    if header.kind == "AttemptStarted":
        if header.epoch <= view.epoch:
            raise _illegal(view, entry, "an attempt under an epoch that was used before")
        if view.boundary.is_awaiting:
            _cross(view, entry)
        view.epoch = header.epoch
        view.parked = None
        assert isinstance(fact, AttemptStarted)
        view.attempts.append(fact)
        view.workers[header.epoch] = fact.worker
        view.note_dead(fact, header.at)
    elif header.epoch != view.epoch:
        raise _illegal(view, entry, f"written under epoch {header.epoch} in an attempt of epoch {view.epoch}")
    elif isinstance(fact, StepDone):  # the commonest, and none of the boundary's business but for what may follow
        if view.boundary.is_awaiting:
            _cross(view, entry)
        _complete(view, entry, fact)
    else:
        if fault := view.reach.take(fact):
            raise _illegal(view, entry, fault)
        _cross(view, entry)
        if isinstance(fact, EffectIntended):
            _intend(view, header.name or "")
        elif isinstance(fact, Completion):
            if not (
                (isinstance(fact, EvidenceTaken) and fact.again) or (isinstance(fact, EffectSettled) and fact.goes_on)
            ):
                _complete(view, entry, fact)
        elif isinstance(fact, RunParked):
            _park(view, entry, fact)
        elif isinstance(fact, RunEnded):
            if view.boundary.in_doubt:
                raise _illegal(view, entry, "an end while an effect is in doubt")
            cancel = view.boundary.cancel
            if fact.item and (cancel is None or (cancel.item, fact.status) != (fact.item, "cancelled")):
                raise _illegal(view, entry, "an end that nobody asked for")
            view.ended, view.last_value = fact, entry.value
    return after


def _cross(view: RunView, entry: Read) -> None:
    try:
        view.boundary.take(entry)
    except Illegal as exc:
        raise _illegal(view, entry, str(exc)) from None


def _complete(view: RunView, entry: Read, fact: Completion) -> None:
    header = entry.header
    name = header.name
    if name is None or name in view.calls:
        raise _illegal(view, entry, f"{name!r} completed a second time")
    if isinstance(fact, RaceWon) and not view.boundary.effects.keys() >= set(fact.beside):
        raise _illegal(view, entry, "a race beside an effect that was never intended")
    if isinstance(fact, RaceWon) and not 0 <= fact.winner < len(fact.sides):
        raise _illegal(view, entry, "a race that was won by none of its sides")
    begun = view.boundary.effects[name].begun if isinstance(fact, EffectSettled) else 0
    view.forgotten.pop(name, None)
    view.calls[name] = Recorded(name, header.seq, fact, entry.value, begun, entry.salt)


def _intend(view: RunView, name: str) -> None:
    """It is called from here on, and whoever calls it may not live to say that it returned.

    One that is sent again while it is in doubt may be at work as well where it was sent before.
    """
    if name in view.calls and view.calls[name].may_run_again:
        del view.calls[name]
    view.forgotten.pop(name, None)
    worker, is_again = view.workers[view.epoch], len(view.boundary.effects[name].attempts) > 1
    before = view.at_work.get(name, ()) if is_again else ()
    view.at_work[name] = [*(each for each in before if not is_of_one_process(each, worker)), worker]


def _park(view: RunView, entry: Read, fact: RunParked) -> None:
    """Forget the failed calls that run again; a failure that the flow caught stays recorded."""
    worker = view.workers[view.epoch]
    view.keep_at_work(lambda each: not is_of_one_process(each, worker))
    for left in fact.at_work:
        view.at_work.setdefault(left, []).append(worker)
    view.parked, view.last_value, view.again = fact, entry.value, (*view.again, *fact.calls)
    view.early.update(fact.early)
    for name in fact.calls:
        call = view.calls.pop(name, None)
        if call is None or not call.may_run_again:
            raise _illegal(view, entry, f"{name!r} is to run again and did not fail")
        view.forgotten[name] = call.seq


def is_of_one_process(worker: str, other: str) -> bool:
    """Whether both are workers of one process, whose names differ only in which of its runtimes each is."""
    return worker.rpartition("-")[0] == other.rpartition("-")[0]


def _illegal(view: RunView, entry: Read, what: str) -> Tampered:
    return tampered(view.identity, "chain.move", what, entry.header.lane, entry.header.seq)
