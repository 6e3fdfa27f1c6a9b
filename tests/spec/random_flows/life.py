"""A life: two runs of random flows at one ledger, and all that happens to them, drawn from one seed.

Turns are played well and badly: the store dies, loses answers or is away at some call, the process dies inside an
effect, whoever called is cancelled, somebody cancels the run, answers, grants or moves the clock meanwhile. People
tell the truth about doubts. In the end everything is set right, and each run has to end or to say why it does not.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import remit
from remit.errors import CommitUnknown, RemitError, StoreUnavailable
from tests.spec.random_flows import truth
from tests.spec.random_flows.outside import Outside, Process, Witness, Written, outcome_of
from tests.spec.random_flows.place import Turn
from tests.spec.random_flows.player import Player
from tests.spec.random_flows.shape import Shape, draw_shape
from tests.spec.random_flows.truth import Known
from tests.spec.stateful.model import ENDS, Tale, read_tale
from tests.spec.stateful.world import FAULTS, Crash, Fault, Mortal
from tests.support.clock import MovedClock
from tests.support.office import BUYER, DORA, ROOT
from tests.support.process import process

TURN_SECONDS = 20
TURNS_TO_END = 14
LEASE_MS = 600_000
NOT_FINE = (StoreUnavailable, CommitUnknown)


@dataclass
class Mishap:
    """What happens to a turn. at: at the which of its moments, counted from 0."""

    kind: str = ""
    at: int = 0
    fault: Fault | None = None

    def __str__(self) -> str:
        return f"{self.kind or 'well'}@{self.at}" if self.fault is None else f"{self.fault.kind}@{self.fault.at}"


ACTS = ("cancelled", "cancelled", "decide", "midnight", "authority", "cancel run")


class Life:
    """place: makes the store at a ledger; called for each process."""

    def __init__(self, seed: int, place: Callable[[MovedClock], Any], shapes: list[Shape] | None = None) -> None:
        self.rng = random.Random(seed)
        self.clock = MovedClock(datetime(2026, 1, 5, 23, 55, tzinfo=UTC))
        self.outside, self.place = Outside(self.clock), place
        self.shapes = dict(zip(("r", "s"), shapes or [], strict=False))
        for run in ("r", "s")[: self.rng.choice((1, 1, 2))] if not shapes else ():
            self.shapes[run] = draw_shape(self.rng, leaves=self.rng.randint(2, 8))
        self.known = {run: Known() for run in self.shapes}
        self.turns: dict[str, Turn] = {}
        self.story: list[str] = []
        self.misfits: set[str] = set()  # runs whose code is said not to fit what it did
        self.errors: dict[str, str] = {}  # by run: the call whose failure left its flow in its last turn
        self.number = 0
        self.alive = ExitStack()  # until the process dies
        self.outside.on_intended = self._on_intended
        self.played = 0

    def _on_intended(self, entry: Written) -> None:
        if entry.run in self.turns:
            truth.check_intended(self.outside, self.turns[entry.run], entry)

    def whole(self, seed: int) -> str:
        """Everything that somebody needs who looks why it failed."""
        flows = [f"{run} = {shape!r}" for run, shape in self.shapes.items()]
        return "\n".join([*self.outside.faults, f"REMIT_SEED={seed}", *flows, *self.story])

    def tell(self, what: str) -> None:
        self.story.append(f"[{self.outside.ticks}] {what}")

    # -- a process -----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        self.number += 1
        self.alive.enter_context(process())
        self.process = Process(self.number, asyncio.get_running_loop())
        self.mortal = Mortal(Witness(self.place(self.clock), self.outside))
        self.rt = remit.open(self.mortal, clock=self.clock, lease_ms=LEASE_MS)
        await self.rt.open()
        self.player = Player(self.outside, self.process)

    async def reopen(self) -> None:
        """The process is dead: nothing of it goes on, and another one comes."""
        self.process.is_dead = self.mortal.is_dead = True
        await _end_all()
        await self.rt.close()
        self.alive.close()
        await self.open()

    async def begin(self) -> None:
        await self.open()
        await self.rt.grant(BUYER, "buyer", by=ROOT)
        await self.rt.grant(DORA, "director", by=ROOT)

    # -- a turn --------------------------------------------------------------------------------------------------------

    async def go(self, runs: list[str], mishap: Mishap) -> None:
        """A turn of each of these runs, at the same time, and what must be so after it."""
        self.outside.given_up.clear()
        tasks: dict[str, asyncio.Future[Any]] = {}
        for run in runs:
            turn = self.turns[run] = Turn(run, self.process, self.outside, is_patient=self.outside.is_right)
            turn.turned = random.Random(self.rng.random()) if self.rng.random() < 0.5 else None
            flow = self.player.flow(self.shapes[run], turn)
            tasks[run] = asyncio.ensure_future(self.rt.run(flow, id=run, by=BUYER))
        self._arm(tasks, mishap)
        died = asyncio.ensure_future(self.process.died.wait())
        over = asyncio.ensure_future(asyncio.wait(tasks.values()))
        await asyncio.wait([over, died], timeout=TURN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        is_stuck = not over.done() and not died.done()
        self._arm({}, Mishap())
        await _ended(died)
        await _ended(over)
        self.played += len(runs)
        await self._after(tasks, mishap, is_stuck=is_stuck)

    async def _after(self, tasks: dict[str, asyncio.Future[Any]], mishap: Mishap, *, is_stuck: bool) -> None:
        has_died = self.process.is_dead or self.mortal.is_dead or is_stuck
        self.outside.must(not is_stuck, f"{list(tasks)} is stuck")
        if has_died:
            await self.reopen()
        for run, task in tasks.items():
            await _ended(task)
            self.tell(f"{run} {mishap}: {'died, ' if has_died else ''}{_told(task)}")
            if not has_died:
                self._check_told(run, self.turns[run], mishap, task)
        await self.check(list(tasks))

    def _arm(self, tasks: dict[str, asyncio.Future[Any]], mishap: Mishap) -> None:
        self.mortal.arm(mishap.fault)
        if not mishap.kind:
            self.outside.on_tick = lambda at: None
            return
        loop, at_first = asyncio.get_running_loop(), self.outside.ticks
        run, task = next(iter(tasks.items()))

        def act() -> None:
            if mishap.kind == "cancelled":
                self.turns[run].is_cancelled = task.cancel()
            else:
                loop.create_task(self._act(mishap.kind, run))

        def on_tick(at: int) -> None:
            if at == at_first + mishap.at:
                loop.call_soon_threadsafe(act)

        self.outside.on_tick = on_tick

    async def _act(self, kind: str, run: str) -> None:
        with suppress(RemitError, Crash):
            if kind == "decide":
                await self.decide("approve")
            elif kind == "midnight":
                self.clock.move(timedelta(minutes=6))
            elif kind == "authority":
                await self.rt.grant(DORA, f"r{self.outside.ticks}", by=ROOT)
            else:
                await self.rt.cancel(run, by=ROOT)

    def _check_told(self, run: str, turn: Turn, mishap: Mishap, task: asyncio.Future[Any]) -> None:
        """The caller is told nothing that must not come of this flow and this mishap."""
        must, known = self.outside.must, self.known[run]
        has_given_up = known.has_given_up or turn.has_given_up
        told = _told(task)
        if task.cancelled():
            must(turn.is_cancelled, f"{run} was cancelled by nobody")
            return
        error = task.exception()
        self.misfits.discard(run)
        self.errors[run] = error.name if isinstance(error, remit.StepError) else ""
        if isinstance(error, remit.DefinitionIncompatible):
            self.misfits.add(run)
            must(has_given_up, f"{run} is the same code: {told}")
        elif isinstance(error, NOT_FINE):
            must(mishap.fault is not None, f"{run} {told}")
        elif isinstance(error, remit.CallRefused) and error.code == "call.unawaited":
            must(has_given_up, f"{run} {told}")
        elif error is not None:
            must(isinstance(error, remit.StepError), f"{run} {told}")
        elif (outcome := task.result()).code in truth.MISFITS:
            self.misfits.add(run)
            must(has_given_up, f"{run} is the same code: {told}")
        elif outcome.status == "completed" and turn.gave is not None:  # it ran, and was not over before
            must(outcome.value == turn.gave, f"{run} gave {turn.gave}, and its outcome is {outcome.value}")

    async def check(self, runs: list[str]) -> None:
        """Everything that must be so now."""
        tales = await self.tales()
        for name, tale in tales.items():
            fault = await self.rt.verify(name)
            self.outside.must(fault is None, f"{name} does not verify: {fault}")
            view = (await self.rt.show(name)).view
            self.outside.must(view.status == tale.status, f"{name} is {view.status} and {tale.status}")
            truth.check_outside(self.outside, tale)
        for run in runs:
            if run in tales:
                truth.check_turn(self.outside, self.known[run], self.turns[run], tales[run])
                truth.check_forgotten(self.outside, self.turns[run], tales[run])
        truth.check_shared(self.outside)
        for scope, used in truth.used_of(tales.values()).items():
            found = await self.mortal.inner.read_used("default", scope)
            self.outside.must(found == used, f"{scope} has {found} used, and {used} is held")

    async def tales(self) -> dict[str, Tale]:
        found = {}
        for run in self.shapes:
            with suppress(remit.RunAbsent):
                found[run] = read_tale(await self.rt.read(run))
        return found

    # -- people --------------------------------------------------------------------------------------------------------

    async def decide(self, choice: Any) -> None:
        for ask in await self.rt.inbox(limit=100):
            with suppress(remit.Refused):
                await self.rt.decide(ask.id, choice, by=DORA, seen=ask.version)
                self.tell(f"{choice} {ask.run} {ask.call}")

    async def find_out(self) -> None:
        """A person says what became of each doubt, when nothing is on its way any more."""
        for one in self.outside.sent:
            await asyncio.get_running_loop().run_in_executor(None, one.over.wait, 5)
        self.outside.flush()
        for run, tale in (await self.tales()).items():
            for call in {row.name or "" for row in tale.main if row.kind == "EffectIntended"}:
                intended = tale.intended(call)
                if tale.state(call) != "in_doubt" or intended is None:
                    continue
                key = intended.body["key"]
                has_landed = bool(self.outside.count(key))
                state: Any = "ok" if has_landed else "did_not_happen"
                outcome: Any = outcome_of(truth.base_of(call), key) if has_landed else ...
                seen = sum(row.kind == "EffectIntended" and row.name == call for row in tale.main)
                try:
                    await self.rt.resolve(run, call, state, by=DORA, evidence="looked", outcome=outcome, calls=seen)
                    self.tell(f"{run} {call} is said to be {state}")
                except remit.Refused as refused:
                    self.tell(f"{run} {call}: {refused}")

    # -- the whole -----------------------------------------------------------------------------------------------------

    async def live(self) -> None:
        try:
            await self.begin()
            await self._live()
        finally:
            await self.rt.close()
            self.alive.close()

    async def _live(self) -> None:
        for _ in range(self.rng.randint(2, 7)):
            await self._move()
            if self.outside.faults:
                break
        if not self.outside.faults:
            await self.set_right()

    async def _move(self) -> None:
        kind = self.rng.choice(("go", "go", "go", "go", "decide", "find out", "clock", "die", "flush", "both"))
        if kind == "go":
            await self.go([self.rng.choice(list(self.shapes))], self._draw_mishap())
        elif kind == "both":
            await self.go(list(self.shapes), self._draw_mishap())
        elif kind == "decide":
            await self.decide(self.rng.choice(("approve", "approve", "deny")))
        elif kind == "find out":
            await self.find_out()
        elif kind == "clock":
            await self.move_clock(self.rng.choice((3, 70, 600, 1440)))
        elif kind == "die":
            await self.reopen()
        else:
            self.outside.flush()
        if kind not in ("go", "both"):
            self.tell(kind)

    async def move_clock(self, minutes: int) -> None:
        """What was sent has landed by then: the other side says that it does within an hour."""
        for one in self.outside.sent:
            await asyncio.get_running_loop().run_in_executor(None, one.over.wait, 5)
        self.outside.flush()
        self.clock.move(timedelta(minutes=minutes))

    def _draw_mishap(self) -> Mishap:
        luck = self.rng.random()
        if luck < 0.35:
            return Mishap()
        if luck < 0.7:
            return Mishap("", 0, Fault(self.rng.choice(FAULTS), self.rng.randint(0, 30)))
        kind = self.rng.choice(ACTS)
        if kind == "cancel run" and self.rng.random() < 0.5:
            kind = "cancelled"
        return Mishap(kind, self.rng.randint(1, 40))

    async def set_right(self) -> None:
        """Everything is known and fine from here on: each run ends, or says why it can't."""
        self.tell("set right")
        self.outside.is_right = True
        for _ in range(TURNS_TO_END):
            left = [run for run in await self.left() if run not in self.misfits]
            if not left or self.outside.faults:
                break
            await self.find_out()
            await self.decide("approve")
            for run in left:
                await self.go([run], Mishap())
        for run in await self.left():
            tale = (await self.tales())[run]
            parked = [row for row in tale.main if row.kind == "RunParked"]
            body, detail = (parked[-1].body, parked[-1].value) if parked else ({}, None)
            self.outside.must(self._may_stay(run, body), f"{run} stays {tale.status} {body}: {detail}")

    def _may_stay(self, run: str, parked: dict[str, Any]) -> bool:
        code = parked.get("code", "")
        if code in truth.MISFITS:
            return self.known[run].has_given_up
        if code in (
            "step.failed",
            "effect.did_not_happen",
        ):  # the flow called something else behind it, so it stays as it is recorded
            # Or a time-out, which is recorded nowhere, had the flow go on before it was told of that.
            is_passed = self._is_followed(self.turns[run]) or self.known[run].has_given_up
            return not parked.get("calls") and is_passed
        return code in ("effect.value_lost", "effect.declined")

    def _is_followed(self, turn: Turn) -> bool:
        """Whether the flow made a call, or awaited one, behind the failure that left it."""
        failed = [told.at for told in turn.told if told.call == self.errors.get(turn.run) and told.at > turn.begun_at]
        came = (*turn.made.values(), *turn.awaited.values())
        return not failed or max(came) > failed[-1]  # one of a group, or in a bare race, is not seen

    async def left(self) -> list[str]:
        """Runs that are not over."""
        tales = await self.tales()
        return [run for run in self.shapes if run not in tales or tales[run].status not in ENDS]


def _told(task: asyncio.Future[Any]) -> str:
    """What a turn came to, for its caller."""
    if task.cancelled():
        return "cancelled"
    if (error := task.exception()) is not None:
        return f"{type(error).__name__}: {str(error)[:200]}"
    outcome = task.result()
    return f"{outcome.status} {outcome.code} {str(outcome.reason)[:300]}"


async def _ended(task: asyncio.Future[Any]) -> None:
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=1)


async def _end_all() -> None:
    """End what this loop does, but for who calls: the process is dead."""
    me = asyncio.current_task()
    for _ in range(200):
        left = [task for task in asyncio.all_tasks() if task is not me]
        if not left:
            return
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=0.05)
    raise AssertionError(f"a dead process goes on: {left}")
