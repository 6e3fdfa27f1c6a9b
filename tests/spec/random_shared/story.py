"""A story: turns of several runs at once, by two workers, and people, deaths and clocks meanwhile, from one seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import remit
from remit.errors import CommitUnknown, RemitError, StoreClosed, StoreUnavailable
from tests.spec.random_shared.desk import BUYERS, DIRECTORS, Desk
from tests.spec.random_shared.flows import LARGE_CAPS, Job, draw_code, draw_job, flow_of
from tests.spec.random_shared.law import Code, Law, Span
from tests.spec.random_shared.outside import Outside, Process, Watch, settled_wrongly
from tests.spec.stateful.model import ENDS
from tests.spec.stateful.world import FAULTS, Crash, Fault, Mortal
from tests.support.clock import MovedClock

LEASE_MS = 600_000
TURN_SECONDS = 20
RUNS_MAX = 6
ROUNDS_TO_END = 12

# What happens while turns are under way, and between them.
MEANWHILE = ("nothing", "nothing", "role", "lost and back", "executor", "principal", "policy", "yes", "no", "find out",
             "find out", "cancel", "minutes", "minutes", "another", "another", "another")  # fmt: skip
BETWEEN = ("yes", "yes", "yes", "no", "find out", "role", "lost and back", "policy", "hours")
WHEN = ("write", "write", "again", "again", "again", "arrival")
MAY_BE_TOLD = (remit.EffectDidNotHappen, remit.StepError)
MAY_BE_TOLD_BADLY = (StoreUnavailable, CommitUnknown, StoreClosed, remit.LeaseLost, Crash)


@dataclass
class Worker:
    """A process at the ledger, and what runs in it."""

    process: Process
    mortal: Mortal
    rt: remit.Runtime


class Story:
    """place: makes the store for a process. is_shared: it gives the same one to each."""

    def __init__(self, seed: int, place: Callable[[MovedClock], Any], *, is_shared: bool) -> None:
        self.rng, self.place, self.is_shared = random.Random(seed), place, is_shared
        self.clock = MovedClock(datetime(2026, 1, 31, 21, tzinfo=UTC))
        self.law = Law(self.clock)
        self.told: list[str] = []
        self.law.tell = lambda what: self.told.append(f"[{self.law.ticks}] {what}")
        self.outside = Outside(self.law, self.rng, 0 if is_shared else 0.001)
        self.desk = Desk(self.law, self.outside, self.rng)
        self.jobs: dict[str, Job] = {}
        self.codes: dict[str, Code] = {}
        self.edited: set[str] = set()  # runs whose code was another one in some turn
        self.workers: list[Worker] = []
        self.deaths = 0

    def whole(self, seed: int) -> str:
        """Everything that somebody needs who looks why it failed."""
        runs = [f"{run} = {job} {self.codes[run]} pinned {self.law.pinned[run]}" for run, job in self.jobs.items()]
        return "\n".join([*self.law.faults, f"REMIT_SEED={seed}", *runs, *self.told])

    # -- processes -----------------------------------------------------------------------------------------------------

    async def open(self, name: str) -> Worker:
        mortal = Mortal(Watch(self.place(self.clock), self.outside, is_shared=self.is_shared))
        rt = remit.open(mortal, clock=self.clock, lease_ms=LEASE_MS)
        await rt.open()
        return Worker(Process(name), mortal, rt)

    async def reopen(self, at: int) -> None:
        """The process is dead, and another one comes in its place."""
        worker = self.workers[at]
        worker.process.is_dead = worker.mortal.is_dead = True
        await worker.rt.close()
        self.deaths += 1
        self.workers[at] = await self.open(f"{worker.process.name[0]}{self.deaths}")

    # -- turns ---------------------------------------------------------------------------------------------------------

    def start(self) -> str:
        run = f"r{len(self.jobs)}"
        self.jobs[run] = draw_job(self.rng, run)
        doubt = self.rng.choice(("ask", "probe", "resend", "resend"))
        self.codes[run] = self.law.pinned[run] = draw_code(self.rng, doubt)
        self.law.executor[run] = self.rng.choice(BUYERS)
        return run

    async def turn(self, run: str, at: int) -> None:
        """One turn of a run by one of the workers, and whether its caller is told what may be told."""
        worker, since, begun = self.workers[at], self.law.tick(), self.clock.now()
        flow = flow_of(self.law, self.outside, worker.process, self.jobs[run], self.codes[run])
        try:
            outcome = await worker.rt.run(flow, id=run, by=self.law.executor[run])
            self.law.tell(f"{run} at {worker.process.name}: {outcome.status} {outcome.code}")
            self.law.must(bool(outcome.status == "completed" or outcome.reason), f"{run} says nothing: {outcome}")
        except MAY_BE_TOLD as exc:
            self.law.tell(f"{run} at {worker.process.name}: {type(exc).__name__}")
        except (RemitError, Crash) as exc:
            self.law.tell(f"{run} at {worker.process.name}: {type(exc).__name__} {exc}")
            may_be = isinstance(exc, remit.DefinitionIncompatible) and run in self.edited
            may_be |= isinstance(exc, remit.Refused) and self.law.may_be_refused(run, since)
            may_be |= isinstance(exc, remit.LeaseLost) and self.clock.now() - begun > LEASE_MS * 1000
            is_bad = worker.mortal.fault is not None or worker.process.is_dead or worker.mortal.is_dead
            self.law.must(may_be or (is_bad and isinstance(exc, MAY_BE_TOLD_BADLY)), f"{run} is told {exc!r}")

    async def round(self, runs: list[str], fault: Fault | None = None) -> None:
        """A turn of each of these at the same time."""
        places = {run: self.rng.randrange(2) for run in runs}
        self.workers[0].mortal.arm(fault)
        tasks = {run: asyncio.ensure_future(self.turn(run, at)) for run, at in places.items()}
        deaths = [asyncio.ensure_future(worker.process.died.wait()) for worker in self.workers]
        over = asyncio.ensure_future(asyncio.wait(tasks.values()))
        left = {over, *deaths}
        until = asyncio.get_running_loop().time() + TURN_SECONDS
        while not over.done() and asyncio.get_running_loop().time() < until:
            await asyncio.wait(left, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
            for at, worker in enumerate(self.workers):
                if worker.process.is_dead or worker.mortal.is_dead:
                    left.discard(deaths[at])
                    await self.reopen(at)
                    await self._end([tasks[run] for run, place in places.items() if place == at])
        self.law.must(over.done(), f"{[run for run, task in tasks.items() if not task.done()]} is stuck")
        await self._end([*tasks.values(), *deaths, over])
        for worker in self.workers:
            worker.mortal.arm(None)
        for task in tasks.values():
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _end(self, tasks: list[Any]) -> None:
        while left := [task for task in tasks if not task.done()]:
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=1)

    # -- the whole -----------------------------------------------------------------------------------------------------

    async def live(self) -> None:
        desk = await self.open("desk")
        self.desk.rt = desk.rt
        self.workers = [await self.open("a"), await self.open("b")]
        try:
            await self.desk.begin()
            for _ in range(self.rng.randint(5, 12)):
                await self._move()
                if self.law.faults:
                    return
            await self._set_right()
        finally:
            for worker in (*self.workers, desk):
                await worker.rt.close()
            if self.is_shared:
                await desk.mortal.inner.inner.close()

    async def _move(self) -> None:
        rng = self.rng
        luck, doubtful = rng.random(), self._doubtful()
        if doubtful and luck < 0.2:
            await rng.choice((self._speak_as_a_turn_begins, self._pay_beside_it))(rng.choice(doubtful))
            return
        if self.jobs and luck < 0.4:
            await self.desk.do(rng.choice(BETWEEN), rng.choice(list(self.jobs)))
            return
        is_brink = luck < 0.55
        about = self.desk.go_to_brink() if is_brink else []
        runs = sorted({*about, *(self._pick() for _ in range(rng.choice((1, 2, 2, 3))))})
        for run in runs:
            if rng.random() < 0.15 and await self._is_opened(run):
                self.codes[run] = draw_code(rng, self.law.pinned[run].doubt)
                self.edited.add(run)
        busy = [*runs]
        for what in ("minutes",) if is_brink else rng.choices(MEANWHILE, k=rng.choice((0, 1, 2, 2))):
            when = rng.choice(WHEN[:2] if is_brink else WHEN)
            self.outside.acts.append((when, partial(self._meanwhile, what, rng.choice(runs), busy)))
        fault = Fault(rng.choice(FAULTS), rng.randint(0, 30)) if rng.random() < 0.25 else None
        await self.round(runs, fault)
        self.outside.acts.clear()
        if fault is not None:
            self.desk.move(LEASE_MS * 1000 + 1)  # a lease whose opening lost its answer is nobody's until it runs out
        await self._check()

    def _doubtful(self) -> list[str]:
        """Runs that may send something again."""
        doubts = {call.run for call in self.law.calls.values() if call.open(Span(self.law.tick()))}
        return sorted(run for run in doubts if self.codes[run].dedupes)

    def _pick(self) -> str:
        """A run for the next turn: one that may send something again, a new one, or any."""
        doubtful = self._doubtful()
        if doubtful and self.rng.random() < 0.5:
            return self.rng.choice(doubtful)
        is_new = len(self.jobs) < RUNS_MAX and (not self.jobs or self.rng.random() < 0.4)
        return self.start() if is_new else self.rng.choice(list(self.jobs))

    async def _speak_as_a_turn_begins(self, run: str) -> None:
        """Nobody is at the run when a person begins to say what became of it; written it is just before it is sent."""
        posting, at_commit = asyncio.Event(), asyncio.Event()
        said = asyncio.ensure_future(self.desk.find_out(self.rng.choice(DIRECTORS), only=run))

        async def until_commit() -> None:
            posting.set()
            await at_commit.wait()

        async def until_said() -> None:
            at_commit.set()
            await asyncio.wait([said])

        self.outside.acts += [("word", until_commit), ("again", until_said)]
        begun = asyncio.ensure_future(posting.wait())
        await asyncio.wait([said, begun], return_when=asyncio.FIRST_COMPLETED)
        await self.round([run])
        self.outside.acts.clear()
        at_commit.set()
        await said
        await self._end([begun])
        await self._check()

    async def _pay_beside_it(self, run: str) -> None:
        """A flow of larger maxima pays just before what this one sends again is written."""
        other = self.start()
        self.codes[other] = self.law.pinned[other] = replace(self.codes[other], caps=LARGE_CAPS, approval=False)
        self.outside.acts.append(("again", partial(self.turn, other, self.rng.randrange(2))))
        await self.round([run])
        self.outside.acts.clear()
        await self._check()

    async def _meanwhile(self, what: str, run: str, busy: list[str]) -> None:
        """What others do, to its end, in a moment of a turn: people, or a whole turn of a run that has none now."""
        if what != "another":
            await self.desk.do(what, run)
            return
        idle = [run for run in self.jobs if run not in busy]
        other = self.start() if len(self.jobs) < RUNS_MAX or not idle else self.rng.choice(idle)
        busy.append(other)
        await self.turn(other, self.rng.randrange(2))

    async def _is_opened(self, run: str) -> bool:
        with suppress(remit.RunAbsent):
            await self.desk.rt.read(run)
            return True
        return False

    async def _check(self) -> None:
        """What must be so between turns."""
        for call in self.law.calls.values():
            if why := settled_wrongly(self.outside, call):
                self.law.must(False, why)
        for run in self.jobs:
            with suppress(remit.RunAbsent):
                fault = await self.desk.rt.verify(run)
                self.law.must(fault is None, f"{run} does not verify: {fault}")

    async def _set_right(self) -> None:
        """Everything is allowed and known from here on: each run ends."""
        self.law.tell("set right")
        self.outside.is_right = True
        await self.desk.set_right()
        self.codes = dict(self.law.pinned)
        left = list(self.jobs)
        for at in range(ROUNDS_TO_END):
            for by in DIRECTORS:
                await self.desk.find_out(by)
            await self.desk.decide("approve", DIRECTORS[0])
            await self.round(left)
            await self._check()
            rows = await self.desk.rt.list(limit=100)
            over = {row.run for row in rows if row.status in ENDS}
            left = [run for run in left if run not in over]
            if not left or self.law.faults:
                break
            for run in left:
                if (
                    at > ROUNDS_TO_END // 2 and run in self.edited
                ):  # what its code did meanwhile may not fit what it is now
                    await self.desk.cancel(run)
        for run in left:
            why = await self.desk.rt.why(run)
            self.law.must(False, f"{run} does not end: {why.reason}")
        for found in await self.desk.rt.doctor():
            self.law.must(found.ok, f"doctor: {found.name} {found.seen}")
