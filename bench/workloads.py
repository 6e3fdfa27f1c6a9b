"""Workloads: what a child process does, and what it found.

Each answers its figures as value and raw, the raw side timed in turns with ours, so that
what slows the machine down slows both. A run has ten steps, each of which returns about
100 bytes of JSON; opening and ending of a run are inside the time.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

import remit
from bench.raw import Raw, group_rate, insert_rate, raw_for, row_of
from bench.timing import timing
from remit.facts import chain
from remit.facts.entry import BODY_TAG, ENTRY_TAG, VALUE_TAG, Entry, Identity, Pen, genesis, value_digest
from remit.facts.kinds import AttemptStarted, RunOpened, StepDone, write
from remit.facts.rules import ContractPin

STEPS, RUNS = 10, 200
STEPS_LONG = 10_000
WAIT_SECONDS_MAX = 0.002
READY = "READY"

Found = dict[str, tuple[float, float | None]]  # by figure: the value, and the raw one

OPEN = remit.Contract(version="1", resume="anyone")
ANSWER = (
    b'{"ids":[1,2,3],"note":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","score":0.25,"status":"ok","step":7}'
)
KILOBYTE = "x" * 1_010


@remit.step
async def step(number: int) -> dict[str, Any]:
    return {"step": number, "status": "ok", "note": "x" * 52, "ids": [1, 2, 3], "score": 0.25}


@remit.step
async def large(number: int) -> str:
    return KILOBYTE


@remit.flow(contract=OPEN)
async def ten_steps(run: remit.Run) -> int:
    for number in range(STEPS):
        await run.step(step, number)
    return STEPS


@remit.flow(contract=OPEN)
async def ten_steps_and_waits(run: remit.Run) -> int:
    for number in range(STEPS):
        await asyncio.sleep(random.uniform(0, WAIT_SECONDS_MAX))
        await run.step(step, number)
    return STEPS


async def seq(url: str) -> Found:
    """One run after another."""
    ours, bare = [], []
    row = row_of(ANSWER)
    async with remit.open(url) as rt, raw_for(url) as raw:
        await _in_turn(rt, "warm", 10)
        for slice_ in range(4):
            bare.append(await insert_rate(raw, row, 0.4))
            with timing() as took:
                await _in_turn(rt, f"run-{slice_}", 75)
            ours.append(75 * STEPS / took.seconds)
    rate, limit = statistics.harmonic_mean(ours), statistics.harmonic_mean(bare)
    return {"seq": (rate, limit), "seq.ratio": (rate / limit, None)}


async def _in_turn(rt: remit.Runtime, name: str, count: int) -> None:
    for number in range(count):
        await rt.run(ten_steps, id=f"{name}-{number}")


async def conc(url: str) -> Found:
    """200 runs at once, all in step."""
    return {"conc": await _at_once(url, ten_steps)}


async def waits(url: str) -> Found:
    """200 runs at once, each waiting a little before each step."""
    return {"waits": await _at_once(url, ten_steps_and_waits)}


async def _at_once(url: str, flow: Any) -> tuple[float, float]:
    ours, bare = [], []
    rows = [row_of(ANSWER)] * RUNS
    async with remit.open(url) as rt, raw_for(url) as raw:
        await round_of(rt, flow, "warm")
        for number in range(8):
            bare.append(await group_rate(raw, rows, 0.1))
            with timing() as took:
                await round_of(rt, flow, f"round-{number}")
            ours.append(RUNS * STEPS / took.seconds)
    return statistics.harmonic_mean(ours), statistics.harmonic_mean(bare)


async def round_of(rt: remit.Runtime, flow: Any, name: str) -> None:
    """200 runs at once, from their opening to their end."""
    await asyncio.gather(*(rt.run(flow, id=f"{name}-{number}") for number in range(RUNS)))


async def bytes_(url: str) -> Found:
    """What ten-step runs leave on disk, opening and ending included."""
    rounds = 5
    with timing():
        async with remit.open(url) as rt:
            for number in range(rounds):
                await round_of(rt, ten_steps, f"round-{number}")
    steps = rounds * RUNS * STEPS
    async with raw_for(url) as raw:
        await raw.insert_group([row_of(ANSWER)] * steps)
        return {"bytes": (await raw.store_size() / steps, await raw.size() / steps)}


async def growth(url: str) -> Found:
    """Ten thousand steps of 1 KB in one run."""
    took: list[float] = []

    @remit.flow(contract=OPEN, name="growing")
    async def growing(run: remit.Run) -> None:
        for number in range(STEPS_LONG):
            began = time.perf_counter()
            await run.step(large, number)
            took.append(time.perf_counter() - began)

    async with remit.open(url) as rt:
        await _in_turn(rt, "warm", 20)
        with timing():
            await rt.run(growing, id="growing")
    async with raw_for(url) as raw:
        size = await raw.store_size()
        bare = await _bare_growth(raw)
    return {"growth": (_last_to_first(took), _last_to_first(bare)), "growth.mb": (size / 1e6, None)}


async def _bare_growth(raw: Raw) -> list[float]:
    row, took = row_of(f'"{KILOBYTE}"'.encode()), []
    for _ in range(STEPS_LONG):
        began = time.perf_counter()
        await raw.insert(row, 1)
        took.append(time.perf_counter() - began)
    return took


def _last_to_first(took: list[float]) -> float:
    return sum(took[-500:]) / sum(took[:500])


def long_flow(last: Callable[[], Awaitable[None]]) -> Any:
    """Ten thousand steps and one more, in whose body `last` is called."""

    async def final() -> None:
        await last()

    @remit.flow(contract=OPEN, name="long")
    async def long(run: remit.Run) -> None:
        for number in range(STEPS_LONG):
            await run.step(step, number)
        await run.step(final)

    return long


async def hang(url: str) -> Found:
    """The victim of `resume`: says READY in the body of its last step, and stays there until it is killed."""

    async def stay() -> None:
        print(READY, flush=True)
        await asyncio.Event().wait()

    async with remit.open(url) as rt:
        await rt.run(long_flow(stay), id="long")
    return {}


async def resume(url: str) -> Found:
    """From before the store is opened to the body of the first new step."""
    reached: list[float] = []

    async def note() -> None:
        reached.append(time.perf_counter())

    flow = long_flow(note)
    with timing() as took:
        async with remit.open(url) as rt:
            await rt.run(flow, id="long")
    async with raw_for(url) as raw:
        await raw.insert_group([row_of(ANSWER)] * STEPS_LONG)
        reading = time.perf_counter()
        assert await raw.read() == STEPS_LONG
        bare = time.perf_counter() - reading
    return {"resume": ((reached[0] - took.began) * 1e3, bare * 1e3)}


async def verify(_url: str) -> Found:
    """A journal of steps in memory: chain, digests and facts; and its hashes alone."""
    identity = Identity("0" * 32, "default", "run-0001", 1, "ten_steps")
    entries, heads = _journal(identity, 20_000)
    ours, bare = [], []
    for _ in range(5):
        with timing() as took:
            chain.verify(identity, heads, entries, [])
        ours.append(len(entries) / took.seconds)
        began = time.perf_counter()
        for sealed in entries:
            sha256(ENTRY_TAG + sealed.header).digest()
            sha256(BODY_TAG + sealed.body).hexdigest()
            sha256(VALUE_TAG + (sealed.salt or b"") + (sealed.value or b"")).hexdigest()
        bare.append(len(entries) / (time.perf_counter() - began))
    return {"verify": (statistics.median(ours), statistics.median(bare))}


def _journal(identity: Identity, count: int) -> tuple[list[Entry], chain.Heads]:
    by, at, salt = "service:local", time.time_ns() // 1_000, os.urandom(16)
    start = genesis(identity, value_digest(salt, b"null"))
    opening = Pen(identity, lane="main", by=by, epoch=0, head=start, seq=0)
    pin = ContractPin(resume=["anyone"], risk="low", version="1", window=1)
    opened = write(RunOpened(by=by, contract=pin, flow=identity.flow, window_end=at))
    entries = [opening.seal("RunOpened", opened, at=at, value=(salt, b"null"))]
    first = opening.head
    pen = Pen(identity, lane="main", by=by, epoch=1, head=first, seq=1)
    started = write(AttemptStarted(contract="0" * 64, version="1", worker="1-00000000"))
    entries.append(pen.seal("AttemptStarted", started, at=at))
    body = write(StepDone(took=15))
    for number in range(count):
        value = (os.urandom(16), ANSWER)
        entries.append(pen.seal("StepDone", body, at=at + number, name=f"step#{number + 1}", value=value))
    return entries, chain.Heads(pen.head, pen.seq, first, 0)
