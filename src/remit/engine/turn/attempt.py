"""An attempt: one worker's turn at a run, and the journal of that turn.

    look up    what the journal has for a call, in its turn
    append     seal entries and make them durable, under this attempt's epoch
    halt       the flow ends here; what is under way at the outside is let finish and is settled
    close      from here on every call raises, and nothing more is written

`AttemptStarted` rides on the first append, as recorded draws do, so a turn that writes nothing leaves no trace. Place
in the chain is fixed when an entry is sealed; a unit that loses closes its attempt: all behind it would lose as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from remit.engine.process.hours import Hours
from remit.engine.process.lease import Lease
from remit.engine.process.liveness import ProcessLock
from remit.engine.process.taking import Taken
from remit.engine.turn.closing import MISFITS, AttemptClosed
from remit.engine.turn.delivery import Delivery
from remit.engine.turn.due import check_heard, until_due, until_seen, until_told
from remit.engine.turn.exits import note_handlers
from remit.engine.turn.halt import Ended, Halt, Parked
from remit.engine.turn.late import Over, check_may_still_begin, pause, stop_idle
from remit.engine.turn.parking import Parking
from remit.engine.turn.race import check_not_lost, come_to, has_lost, is_racing, unless_lost
from remit.engine.turn.replay import Replay
from remit.engine.turn.rest import Rest
from remit.engine.turn.unbegun import Unbegun
from remit.engine.turn.unheard import parked_unheard, unheard_of
from remit.engine.turn.weakly import weakly
from remit.engine.turn.wish import Wish
from remit.engine.turn.writer import Conditions, Draft, JournalWriter, Of, Seal
from remit.errors import CallRefused, ClockJumped, DefinitionIncompatible, LeaseLost, Moved, StoreError, Tampered
from remit.facts.announced import RunStopped
from remit.facts.calls import EffectView
from remit.facts.entry import Pen
from remit.facts.kinds import AttemptStarted, RunEnded, RunParked
from remit.facts.machine import CallKind, Status, move
from remit.facts.view import Recorded
from remit.store.marks import Announce, Fence, Mark
from remit.store.protocol import Store
from remit.store.units import Move


class Attempt:
    """Journal and replay of one turn. Belongs to one event loop."""

    __slots__ = (
        "__weakref__",
        "awaited",
        "boundary",
        "closed_by",
        "delivery",
        "failed",
        "given_up",
        "halted",
        "has_ended",
        "in_flight",
        "lease",
        "let_go",
        "lock",
        "over_by",
        "parking",
        "post_head",
        "post_seq",
        "replay",
        "rest",
        "ridden",
        "run_id",
        "settles_for",
        "taken",
        "times_too_late",
        "unasked",
        "unbegun",
        "under_way",
        "view",
        "when_over",
        "writer",
    )

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
        view = self.view = taken.view
        self.boundary, self.run_id = view.boundary, view.identity.run
        self.taken, self.lease, self.lock = taken, lease, lock
        self.writer = JournalWriter(store, clock, pen, lease, view.boundary, view.last_at)
        self.post_seq, self.post_head = view.post_seq, taken.row.post_head  # up to where lane post was read
        self.closed_by: BaseException | None = None
        self.halted: Halt | None = None
        self.over_by: Over = ""  # how its flow came to its end
        self.times_too_late = 0  # calls that came after that
        self.settles_for: Ended | None = None  # how the run ends once its doubts are settled; None while it goes on
        self.unasked = view.boundary.unfinished  # calls that the flow has to come to again, by when they began
        self.let_go: dict[str, int] = {}  # what the flow gave up, other than by losing a race, by `rides` of then
        self.awaited: dict[str, bytes] = {}  # calls of the boundary that the flow waits for, with the request of each
        self.given_up: dict[str, bytes] = {}  # those that it gave up, other than by losing a race
        self.under_way: set[str] = set()  # effects whose function is being called for the first time: no doubt yet
        self.in_flight: dict[asyncio.Task[Any], Wish] = {}  # effects under way, which outlive a cancelled call
        self.has_ended = False  # the lease was given back by this turn's last entry
        self.failed = frozenset([c.name for c in view.calls.values() if c.may_run_again])
        self.ridden = {c.name: c for c in view.calls.values() if c.is_ridden}
        self.unbegun, self.rest = Unbegun(self), Rest(self)
        self.delivery = Delivery(self.rest)
        done = [c for c in view.calls.values() if not c.is_ridden]
        self.replay = Replay(done, self.unasked, weakly(self._refuse), self.rest, main=main)
        self.rest.then = (weakly(self.replay.go_on), weakly(self.delivery.go_on))
        self.parking = Parking(weakly(self.halt), weakly(self.lost), self.rest)
        self.when_over: Callable[[], None] | None = None  # told when calls may not go on any more

    def start(self, fact: AttemptStarted) -> None:
        """Begin the turn. Nothing is written until there is something to write."""
        note_handlers()
        self.view.note_dead(fact, self.writer.start(fact))

    async def recall(self, name: str, kind: CallKind) -> Recorded | None:
        """What the journal has for this call; None once its body may begin. Raises AttemptClosed.

        kind: what the code asks for by this name. Where the journal knows another kind, it disagrees with the code.
        """
        come_to(name)
        is_beside = self.rest.is_several or self.parking.open > 1 or not self.replay.is_whole()
        self.rest.calls[name] = self.rest.stand_beside() if is_beside else None
        if not self.is_open:
            await pause(self)
        self.check_open()
        if not self.view.fits(name, kind):
            self.disagree((name,), (f"{name} as {kind}",))
        if name in self.unasked:
            self.replay.come_to(name)
        if not self.replay.has(name):
            if self.replay.is_over:
                if is_racing():
                    await unless_lost()
                    self.check_open()
                if self.over_by:
                    await check_may_still_begin(self, name)
                return None
            check_not_lost()  # at once: a loser that waited here would hold up the race that waits for it
        recorded = await self.replay.take(name)
        if recorded is None:
            self.check_open()
            check_not_lost()
            await check_may_still_begin(self, name)
        return recorded

    def see_to(self, name: str, begin: Callable[[EffectView], None]) -> None:
        """The flow let go of a call, as it did before: where that left a doubt, `begin` ends it all the same."""
        effect = self.boundary.effects.get(name) if self.is_open else None
        if effect is None or effect.state == "did_not_happen" or name in self.view.calls:
            return  # nothing is to be heard of it, or the replay tells
        self.let_go |= {} if has_lost() else {name: self.writer.rides}
        if effect.settled is None:  # and not as a person said, in this very turn
            begin(effect)

    def is_outside(self, wish: Wish) -> bool:
        """Whether something of it may be outside, so that it is seen through: it is being intended, or not settled."""
        effect = self.boundary.effects.get(wish.name)
        return wish.is_committed or (effect is not None and effect.settled is None)

    async def check_may_begin(self, name: str) -> None:
        """Raises AttemptClosed where this turn only settles what is in doubt and the call is something else."""
        if self.over_by:
            await check_may_still_begin(self, name)
        effect = self.boundary.effects.get(name)
        if self.settles_for is not None and (effect is None or effect.settled is not None):
            await until_seen(self)
            self.stop(self.settles_for)

    async def meet(self, wish: Wish) -> None:
        """The flow came to the boundary with this wish, which the journal does not answer. Raises AttemptClosed."""
        await self.check_may_begin(wish.name)
        if self.unasked:
            await until_due(self, wish)
        is_beside = self.in_flight or len(self.awaited) > 1 or not self.rest.is_over
        if is_beside and wish.name not in self.boundary.in_doubt:  # what is in doubt has begun
            await until_told(self)
        check_heard(self, wish.name)

    def check_open(self) -> None:
        """Raises AttemptClosed where this turn is over, or its lease can't be relied on."""
        self.check_held()
        if self.halted is not None:
            raise AttemptClosed

    @property
    def has_news(self) -> bool:
        """Whether it wrote something, or has something to write whatever it finds: its first entry says who is dead."""
        return self.writer.has_written or bool(self.taken.dead)

    @property
    def is_open(self) -> bool:
        """Whether calls may still go on."""
        return self.closed_by is None and self.halted is None

    def check_held(self) -> None:
        """Raises AttemptClosed where nothing may be written any more."""
        if self.closed_by is None and not self.lease.is_good:
            why = f" ({self.lease.trouble})" if self.lease.trouble else ""
            self.lost(LeaseLost(f"Run {self.run_id!r} could not be renewed in time{why}; nothing more was written."))
        if self.closed_by is not None:
            raise AttemptClosed from self.closed_by

    def ride(self, kind: str, body: bytes, *, name: str | None = None, value: bytes | None = None) -> None:
        """Let an entry become durable with the next append. Raises AttemptClosed under a clock that is not believed."""
        try:
            self.writer.ride(kind, body, name=name, value=value)
        except ClockJumped as exc:
            self.lost(exc)

    async def append(self, kind: str, body: bytes, *, name: str, value: bytes, salt: bytes | None) -> None:
        """Make an entry durable, with all that rides. Raises AttemptClosed where it was not written."""
        await self._turn_to_write("beginning")
        try:
            self.writer.ride(kind, body, name=name, value=value, salt=salt)
            if self.rest.is_several:
                self.delivery.expect(kind, name)
            await self.writer.append()
        except Exception as exc:
            self.lost(exc)

    async def append_surely(self, draft: Draft) -> None:
        """Make an entry durable that nobody may stop any more, a race that is lost neither. Raises AttemptClosed.

        Only from a task that no flow cancels: whoever stops it all the same ends the turn.
        """
        await self._turn_to_write("answer")
        self.writer.ride_draft(draft)
        self.delivery.expect(draft.kind, draft.name)
        try:
            await self.writer.append()
        except Exception as exc:
            self.lost(exc)
        except BaseException as exc:
            self.close(exc)  # it may be written: the boundary was not told, and nothing may rest on what it knows
            raise

    async def append_if(
        self, drafts: Sequence[Draft], conditions: Conditions, *, of: Of = "", is_stoppable: bool = True
    ) -> None:
        """Make entries durable under conditions. Raises Moved where one failed: nothing was written, the turn goes on.

        of: what they are of. is_stoppable: False from a task that no flow cancels; whoever stops it all the same ends
        the turn. Raises AttemptClosed where an answer was not written for another reason.
        """
        await self._turn_to_write(of)
        for draft in drafts if self.rest.is_several else ():
            self.delivery.expect(draft.kind, draft.name)
        try:
            await self.writer.append_if(drafts, conditions, is_stoppable=is_stoppable)
        except Moved:
            for draft in drafts:
                self.delivery.withdraw(draft.name)
            raise
        except Exception as exc:
            self.lost(exc)
        except BaseException as exc:
            if not is_stoppable:
                self.close(exc)
            raise

    async def append_within(self, build: Callable[[Any, Seal], Any], *, limit_ms: int) -> None:
        """Make entries durable in a transaction of the application's. Raises Moved, AttemptClosed, and as its code."""
        await self._turn_to_write()
        try:
            await self.writer.append_within(build, limit_ms=limit_ms)
        except (LeaseLost, StoreError, Tampered) as exc:
            self.lost(exc)

    async def end(
        self,
        fact: RunEnded | RunParked,
        value: bytes | None,
        *,
        before: Sequence[Draft] = (),
        marks: tuple[Mark, ...] = (),
        is_post_seen: bool = True,
        fence: Fence | None = None,
    ) -> None:
        """Write the last entry of this turn, give the lease back in the same commit, and tell whoever may wait for it.

        before: entries that stand directly before it. is_post_seen: only where nobody posted since lane post was read.
        Raises Moved where that or the fence fails, with nothing written and the turn open; else what stopped it.
        """
        # From here on nothing begins: what is written at this moment wakes calls that the flow left behind, and an
        # effect of theirs would be under way when the lease is given back.
        self.halted = self.halted or _OVER
        await self.writer.until_free()
        assert not self.in_flight, "whoever ends the turn let finish what was under way"
        if self.closed_by is not None:
            raise self.closed_by  # its caller is no call of the flow's
        status = move(Status.RUNNING, type(fact).__name__, fact)
        assert status is not None, "a run that is worked at may end and park"
        drafts = [*before, self.writer.draft(fact, value=value)]
        if not (self.taken.is_new and status == Status.COMPLETED):
            marks = (*marks, Announce(RunStopped(code=fact.code, status=status)))
        conditions = Conditions(fence=fence, post_head=self.post_head if is_post_seen else None, marks=marks)
        # A turn that is stopped here is over, written or not: `release` then finds the lease given back, or gives it.
        await self.writer.append_if(drafts, conditions, Move(status, fact.code, release=True), is_stoppable=False)
        self.has_ended = True
        self.over()

    def over(self) -> None:
        """The turn ended: calls that its flow left behind raise, and nothing more is written."""
        hint = "Await every call before the flow returns; one that it leaves behind comes too late."
        self.close(CallRefused(_OVER.words, code="attempt.ended", hint=hint))

    def halt(self, why: Halt) -> None:
        """End the flow here: its calls raise, and what is under way outside may be settled. The first reason stays."""
        if self.closed_by is None and self.halted is None:
            self.halted = why
            self._tell_calls()

    def close(self, why: BaseException) -> None:
        """End this turn: calls that wait raise, later ones too, and nothing more is written. The first reason stays.

        But where code and journal disagree, what an effect came to may be written, until that can't be written either.
        """
        if self.closed_by is None:
            self.closed_by = why
            self._tell_calls()
        elif isinstance(self.closed_by, MISFITS) and isinstance(why, (LeaseLost, StoreError, Tampered)):
            self.closed_by = why

    def stop(self, why: Halt) -> NoReturn:
        """Halt, and let the calling call unwind. Raises AttemptClosed."""
        self.halt(why)
        raise AttemptClosed

    def lost(self, why: BaseException) -> NoReturn:
        """Close: what this turn stands on is lost, and no answer to the calling call. Raises AttemptClosed."""
        self.close(why)
        raise AttemptClosed from why

    def disagree(self, recorded: tuple[str, ...], asked: tuple[str, ...]) -> NoReturn:
        """Close: the journal has calls that the code no longer makes, or only gave up. Raises AttemptClosed."""
        self._refuse(recorded, asked)
        raise AttemptClosed from self.closed_by

    def misfit(self, recorded: tuple[str, ...], asked: tuple[str, ...]) -> DefinitionIncompatible:
        """What is said where code and journal disagree."""
        begun = tuple(name for name in asked if name in self.view.again or self.boundary.has(name))
        done, is_beside = self.boundary.may_have_happened, self.rest.is_several
        failed = self.view.forgotten_before(recorded)
        return DefinitionIncompatible(recorded, asked, done=done, begun=begun, failed=failed, is_beside=is_beside)

    def reopen_to_end(self) -> None:
        """The flow does not fit the journal: what it left riding is dropped, and one last entry may be written."""
        self.closed_by, self.halted = None, self.halted or _OVER
        self.writer.drop_riding()

    async def drain(self) -> None:
        """Wait until no effect is under way any more: each is settled, or in doubt."""
        while self.in_flight:
            await asyncio.wait(list(self.in_flight))

    async def _turn_to_write(self, of: Of = "") -> None:
        """Wait for a unit with conditions that is under way. Raises AttemptClosed where nothing may be written.

        Code that does not fit makes no answer untrue; what rides of it is dropped. A beginning's side may lose here.
        """
        if may_lose := of == "beginning" and is_racing():
            await unless_lost()
        if self.writer.alone:
            await self.writer.until_free()
        if self.closed_by is not None:
            if not (of == "answer" and isinstance(self.closed_by, MISFITS)):
                raise AttemptClosed from self.closed_by
            self.writer.drop_riding()
        if may_lose:
            check_not_lost()

    def _tell_calls(self) -> None:
        if self.when_over is not None:
            self.when_over()
        self.replay.stop(AttemptClosed())
        self.parking.stop()
        stop_idle(self)

    def _refuse(self, recorded: tuple[str, ...], asked: tuple[str, ...]) -> None:
        unheard = unheard_of(self.view, recorded)
        if unheard and all(self.unbegun.is_given_up(name) for name in recorded):
            return self.halt(parked_unheard(unheard, asked))  # its code did not change
        self.close(self.misfit(recorded, asked))


_OVER = Parked("repair", "attempt.ended", "The attempt had ended when this call came; nothing was written.")
