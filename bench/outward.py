"""Outward: what it costs to reach the outside world behind the gate, and what the judge alone costs.

A run has ten effects, each with a request and an outcome of about 100 bytes, an empty
function, a ceiling over all of the run and no approval. Beside a rate stands what the bare
database takes for the very bytes of such an effect, judgement and intention in one COMMIT
of 200 runs, settlements in another.
"""

from __future__ import annotations

import asyncio
import gc
import random
import statistics
import time
from typing import Any

import msgspec

import remit
from bench.raw import Row, pair_rate, raw_for
from bench.timing import timing
from bench.workloads import RUNS, STEPS, WAIT_SECONDS_MAX, Found, round_of
from remit.authority.gate import judge
from remit.facts.judgement import Question
from remit.facts.kinds import GateJudged
from remit.facts.machine import FORMS

RULE = remit.Rule(ceiling=remit.Ceiling("amount", max=1_000_000, currency="GBP", per="run"))
GOVERNED = remit.Contract(version="1", resume="anyone", effects={"pay": RULE})

_JUDGED_AT_ONCE = 2_000


@remit.effect
async def pay(request: dict[str, Any], *, key: str) -> dict[str, Any]:
    return {"status": "ok", "note": "x" * 52, "score": 0.25, "reference": request["invoice"]}


@remit.flow(contract=GOVERNED)
async def ten_effects(run: remit.Run) -> int:
    for number in range(STEPS):
        await run.effect(pay, _request(number))
    return STEPS


@remit.flow(contract=GOVERNED)
async def ten_effects_and_waits(run: remit.Run) -> int:
    for number in range(STEPS):
        await asyncio.sleep(random.uniform(0, WAIT_SECONDS_MAX))
        await run.effect(pay, _request(number))
    return STEPS


def _request(number: int) -> dict[str, Any]:
    return {"amount": 100 + number, "currency": "GBP", "invoice": f"INV-{number:06}", "note": "x" * 36}


async def effects(url: str) -> Found:
    """200 runs at once, each waiting a little before each effect."""
    return {"effects": await _at_once(url, ten_effects_and_waits)}


async def effects_tuned(url: str) -> Found:
    """The same in a process whose collector of garbage is set as docs/reference/runtime.md says."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    return {"effects.tuned": await _at_once(url, ten_effects_and_waits)}


async def effects_lockstep(url: str) -> Found:
    """200 runs at once, all in step."""
    return {"effects.lockstep": await _at_once(url, ten_effects)}


async def effects_bytes(url: str) -> Found:
    """What ten-effect runs leave on disk, opening and ending included."""
    rounds = 3
    with timing():
        async with remit.open(url) as rt:
            for number in range(rounds):
                await round_of(rt, ten_effects, f"round-{number}")
            rows = await _rows(rt, "round-0-0")
    count = rounds * RUNS * STEPS
    async with raw_for(url) as raw:
        await raw.insert_group(rows * count)
        return {"effects.bytes": (await raw.store_size() / count, await raw.size() / count)}


async def judging(_url: str) -> Found:
    """The judge alone, about an effect that a run was let to have; and what writing question and verdict costs."""
    async with remit.open("memory:") as rt:
        await rt.run(ten_effects, id="one")
        judged = await _judged(rt, "one")
    ours, bare = [], []
    for _ in range(20):
        with timing() as took:
            _judge_often(judged.question)
        ours.append(took.seconds / _JUDGED_AT_ONCE * 1e6)
        began = time.perf_counter()
        for _ in range(_JUDGED_AT_ONCE):
            msgspec.json.encode(judged)
        bare.append((time.perf_counter() - began) / _JUDGED_AT_ONCE * 1e6)
    return {"judge": (statistics.median(ours), statistics.median(bare))}


def _judge_often(question: Question) -> None:
    for _ in range(_JUDGED_AT_ONCE):
        judge(question)


async def _judged(rt: remit.Runtime, run: str) -> GateJudged:
    """The newest judgement of a run."""
    stored = await rt.read(run)
    body = [entry.body for entry in stored.main if b'"kind":"GateJudged"' in entry.header][-1]
    fact = FORMS["GateJudged"].read(body)
    assert isinstance(fact, GateJudged)
    return fact


async def _rows(rt: remit.Runtime, run: str) -> list[Row]:
    """The bytes of one effect in the middle of a run: judgement, intention and settlement."""
    main = (await rt.read(run)).main
    first = [at for at, entry in enumerate(main) if b'"kind":"GateJudged"' in entry.header][STEPS // 2]
    return [(entry.header, entry.body, entry.salt, entry.value) for entry in main[first : first + 3]]


async def _at_once(url: str, flow: Any) -> tuple[float, float]:
    ours, bare = [], []
    async with remit.open(url) as rt, raw_for(url) as raw:
        await round_of(rt, flow, "warm")
        rows = await _rows(rt, "warm-0")
        for number in range(6):
            bare.append(await pair_rate(raw, rows[:2] * RUNS, rows[2:] * RUNS, 0.1) / 3)
            with timing() as took:
                await round_of(rt, flow, f"round-{number}")
            ours.append(RUNS * STEPS / took.seconds)
    return statistics.harmonic_mean(ours), statistics.harmonic_mean(bare)
