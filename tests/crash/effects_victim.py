"""A process that forks a child for each job it reads: a victim that dies at its place, or a survivor that goes on.

    python -m tests.crash.effects_victim < one job per line > one report per line

The parent of a victim kills it where it says that it has come; whatever it had not made durable by then
is lost. A survivor looks, goes on, and where the run is in doubt does what a person does: looks
outside, says what became of it, and lets the run go on.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec

import remit
from remit.facts.entry import HEADER
from remit.store.protocol import Store
from remit.store.units import Unit
from remit.store.url import store_for
from tests.crash.errand import DIRECTOR, RULES, Watched, appoint, drive, errand
from tests.crash.outside import Outside
from tests.crash.voyage import Stage

LEASE_MS = 600_000  # far longer than any test: whoever waits for a lease to run out fails
HERE = b"here\n"
SECONDS_MAX = 30


class Job(msgspec.Struct, kw_only=True):
    """place: where to die, "" for a survivor. tenant: one for each cell of the matrix, so that none touches another."""

    url: str
    tenant: str
    folder: str
    rule: str
    place: str = ""
    is_first: bool = False
    run: str = "r"


class Found(msgspec.Struct, kw_only=True):
    """How a run stood, and what the outside had seen by then.

    asked, paid: requests and payments. paid_most: of one key. listed: effects in doubt, as people are shown them.
    held: minor units that are reserved under the ceiling. asks: each question of the run, its id and its state.
    """

    status: str
    waits_for: str
    state: str
    found: str
    asked: int
    paid: int
    paid_most: int
    listed: int
    held: int
    asks: list[tuple[str, str]]


class Report(msgspec.Struct, kw_only=True):
    """status: exit status, minus the signal where one ended it. has_come: the child was killed at its place.

    left: the questions that the dead left, None where they left no run. first: how the survivor's own attempts left
    it. last: after a person had ended what doubt was left. settled: each settlement that the survivor wrote, and the
    state of the question by then. wrong: what is wrong with the journal.
    """

    status: int = 0
    has_come: bool = False
    left: list[tuple[str, str]] | None = None
    first: Found | None = None
    last: Found | None = None
    settled: list[tuple[str, str]] = []
    wrong: str | None = None
    took_ms: int = 0
    complaint: str = ""


async def die(job: Job, stage: Stage) -> None:
    """Start or go on with the run until the place comes."""
    if job.is_first:
        async with remit.open(job.url, tenant=job.tenant) as rt:
            await appoint(rt)
    store = cast(Store, Watched(store_for(job.url, clock=None), stage))
    async with remit.open(store, tenant=job.tenant, lease_ms=LEASE_MS) as rt:
        await drive(rt, errand(stage, job.rule), job.run)
        stage.at("returned")


async def survive(job: Job, stage: Stage) -> Report:
    """Go on, as the next process would; then as a person does."""
    began, report = time.monotonic(), Report()
    flow = errand(stage, job.rule)
    store = Settling(store_for(job.url, clock=None))
    async with remit.open(cast(Store, store), tenant=job.tenant, lease_ms=LEASE_MS) as rt:
        store.look, store.told = partial(asks_of, rt, job.run), report.settled
        try:
            report.left = await asks_of(rt, job.run)
        except remit.RunAbsent:
            pass  # it died before there was one
        outcome = await drive(rt, flow, job.run)
        report.first = report.last = await look(rt, job, outcome)
        if outcome.status == "in_doubt":
            (effect,) = await rt.effects(job.run, in_doubt=True)
            paid = effect.key in _outside(job).paid
            state, number = ("ok", 1) if paid else ("did_not_happen", ...)
            told: dict[str, Any] = {"evidence": "statement", "outcome": number, "calls": effect.calls}
            told["returned"] = job.url.startswith("file:")  # which keeps no workers but those that hold a run
            await rt.resolve(job.run, effect.call, cast(Any, state), by=DIRECTOR, **told)
            report.last = await look(rt, job, await drive(rt, flow, job.run))
        wrong = await rt.verify(job.run)
    report.wrong = None if wrong is None else str(wrong)
    report.took_ms = int((time.monotonic() - began) * 1_000)
    return report


class Settling:
    """A store that looks, behind each settlement, how the question stands that was used."""

    look: Callable[[], Awaitable[list[tuple[str, str]]]]
    told: list[tuple[str, str]]

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, unit: Unit) -> None:
        await self._store.append(unit)
        if HEADER.read(unit.entries[-1].header).kind == "EffectSettled":
            settled = msgspec.json.decode(unit.entries[-1].body)["state"]
            self.told += [(settled, state) for _, state in (await self.look())[-1:]]


async def asks_of(rt: remit.Runtime, run: str) -> list[tuple[str, str]]:
    """Each question of the run, oldest first, and its state."""
    return [(ask, told.state) for ask, told in (await rt.show(run)).view.boundary.asks.items()]


async def look(rt: remit.Runtime, job: Job, outcome: remit.Outcome) -> Found:
    effects, outside = await rt.effects(job.run), _outside(job)
    scopes = [
        taken.scope for e in (await rt.show(job.run)).view.boundary.effects.values() for taken in e.intended.reserved
    ]
    return Found(
        status=outcome.status,
        waits_for=outcome.waits_for or "",
        state=effects[-1].state if effects else "",
        found=effects[-1].found if effects else "",
        asked=outside.asked.total(),
        paid=outside.paid.total(),
        paid_most=max(outside.paid.values(), default=0),
        listed=len([e for e in await rt.effects(in_doubt=True) if e.run == job.run]),
        held=sum([await rt._store.read_used(job.tenant, scope) for scope in set(scopes)]),
        asks=await asks_of(rt, job.run),
    )


def _outside(job: Job) -> Outside:
    return Outside(Path(job.folder), RULES[job.rule].get("sink"))


def child(job: Job, out: int) -> None:
    """The whole life of one child."""
    signal.alarm(SECONDS_MAX)

    def arrived() -> None:
        os.write(out, HERE)

    stage = Stage(Path(job.folder), job.place, "kill", arrived)
    try:
        if job.place:
            asyncio.run(die(job, stage))
        else:
            os.write(out, msgspec.json.encode(asyncio.run(survive(job, stage))) + b"\n")
    except BaseException:
        os.write(out, b"!" + traceback.format_exc().replace("\n", " | ").encode() + b"\n")
        os._exit(1)
    os._exit(0)


def run_child(job: Job) -> Report:
    """Fork a child, kill it when it has come to its place, and say what became of it."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        child(job, writing)
    os.close(writing)
    report, has_come, complaint = Report(), False, ""
    with os.fdopen(reading, "rb") as said:
        for line in said:
            if line == HERE:
                os.kill(pid, signal.SIGKILL)
                has_come = True
            elif line.startswith(b"!"):
                complaint = line[1:].decode()
            else:
                report = msgspec.json.decode(line, type=Report)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return msgspec.structs.replace(report, status=status, has_come=has_come, complaint=complaint)


def main() -> None:
    for line in sys.stdin.buffer:
        report = run_child(msgspec.json.decode(line, type=Job))
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
