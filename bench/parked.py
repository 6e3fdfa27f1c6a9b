"""Parked: a great many runs wait for a person, and what that costs while nothing happens and when somebody answers.

One in fifty asks an auditor, the others a director; each has one step behind its question.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import time
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import remit
from bench.raw import raw_for, row_of
from bench.timing import timing
from bench.workloads import ANSWER, READY, Found

PARKED = "REMIT_BENCH_PARKED"  # how many runs, for the child processes
PARKED_DEFAULT = 100_000

_AT_ONCE = 500
_ONE_IN = 50
_PAGE = 20
_IDLE_SECONDS = 3.0
_ENTRIES = 4  # that a page's reader has to verify for each question, without the run's opening

CONTRACT = remit.Contract(version="1", resume="anyone", window=timedelta(days=30))
_WITHIN = timedelta(days=7)

_reached: list[float] = []


@remit.step
async def release(number: int) -> int:
    _reached.append(time.perf_counter())
    return number


@remit.flow(contract=CONTRACT)
async def asking(run: remit.Run, number: int) -> int:
    roles = {"auditor" if number % _ONE_IN == 0 else "director"}
    payload = {"amount": number, "currency": "GBP", "note": "x" * 60}
    await run.approve("allow", payload, roles=roles, within=_WITHIN)
    return int(await run.step(release, number))


async def park(url: str) -> Found:
    """Open them all and let each park; for those who measure. Says READY when the last one waits."""
    total = int(os.environ.get(PARKED, PARKED_DEFAULT))
    numbers = count()

    async def worker(rt: remit.Runtime) -> None:
        while (number := next(numbers)) < total:
            outcome = await rt.run(asking, number, id=f"run-{number:06}")
            assert outcome.status == "waiting", outcome

    async with remit.open(url) as rt:
        await rt.grant("user:dana", "director", by="service:local")
        await rt.grant("user:ann", "auditor", by="service:local")
        await asyncio.gather(*(worker(rt) for _ in range(_AT_ONCE)))
    print(READY, flush=True)
    return {}


async def parked(url: str) -> Found:
    """Hold the store open, look at the inbox, answer."""
    before = _memory()
    async with remit.open(url) as rt, raw_for(url) as raw:
        idle = await _idle(before)
        pages: dict[str, list[float]] = {"": [], "auditor": []}
        answers, selects, commits = [], [], []
        row = row_of(ANSWER)
        await raw.insert_group([row] * _PAGE * _ENTRIES)
        for _ in range(_PAGE):
            began = time.perf_counter()
            await raw.read()
            selects.append((time.perf_counter() - began) * 1e3)
            for role, took in pages.items():
                took.append(await _page(rt, role or None))
        for _ in range(_PAGE):
            answers.append(await _answer(rt))
            began = time.perf_counter()
            await raw.insert(row, 3)
            commits.append((time.perf_counter() - began) * 1e3)
    select, commit = statistics.median(selects), statistics.median(commits)
    return idle | {
        "parked.inbox": (statistics.median(pages[""]), select),
        "parked.role": (statistics.median(pages["auditor"]), select),
        "parked.answer": (statistics.median(answers), commit),
    }


async def _idle(before: int) -> Found:
    """Memory that holding the store open takes, and the processor's time while nothing is asked of this process."""
    await asyncio.sleep(0.5)  # what opening set off is over
    worked, began = time.process_time(), time.perf_counter()
    await asyncio.sleep(_IDLE_SECONDS)
    share = (time.process_time() - worked) / (time.perf_counter() - began)
    return {"parked.memory": ((_memory() - before) / 1e6, None), "parked.idle": (share * 100, None)}


async def _page(rt: remit.Runtime, role: str | None) -> float:
    """Milliseconds for a page of the inbox."""
    with timing() as took:
        asks = await rt.inbox(role=role, limit=_PAGE)
    assert len(asks) == _PAGE, f"{len(asks)} questions wait"
    return took.seconds * 1e3


async def _answer(rt: remit.Runtime) -> float:
    """Milliseconds from a decision to the body of the step behind it."""
    ask: Any = (await rt.inbox(role="director", limit=1))[0]
    with timing() as took:
        await rt.decide(ask.id, "approve", by="user:dana", seen=ask.version)
        await rt.resume(ask.run, asking)
    return (_reached[-1] - took.began) * 1e3


def _memory() -> int:
    """Bytes of memory that this process holds; the most that it held where the system does not tell."""
    if Path("/proc/self/statm").exists():
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
