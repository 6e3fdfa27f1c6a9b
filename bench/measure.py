"""Measuring: repetitions in child processes, each on an empty store, and their medians.

What takes long to prepare is prepared once, and each repetition changes little of it.

The parent only waits while a child measures. Before each repetition it waits a while for
the machine to be quiet, and the table says so where it never was.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.figures import FIGURES, NO_STORE, Figure
from bench.workloads import READY, Found
from tests.support.postgres import drop_database, fresh_database

_CHILD_SECONDS_MAX = 300
_PARK_SECONDS_MAX = 1_200
_QUIET_SECONDS_MAX = 15.0
_BUSY_MAX = 0.15  # share of all processors


@dataclass(frozen=True, slots=True)
class Measured:
    """One figure on one store; raw is a median as well."""

    figure: Figure
    store: str
    median: float
    least: float
    most: float
    count: int
    raw: float | None
    is_quiet: bool  # nobody else was at work when a repetition began

    @property
    def is_reached(self) -> bool | None:
        return self.figure.is_reached(self.store, self.median)


class ChildFailed(Exception):
    """A child process did not measure anything; the text is the end of what it said."""


def measure(workload: str, store: str, server: str | None, repetitions: int) -> list[Measured]:
    """All figures of a workload. server: URL of a Postgres, for that store."""
    found: list[Found] = []
    is_quiet = True
    with ExitStack() as stack:
        shared = stack.enter_context(prepared_store(workload, store, server)) if workload == "parked" else None
        for _ in range(repetitions):
            is_quiet &= _wait_until_quiet()
            own = nullcontext(shared) if shared is not None else prepared_store(workload, store, server)
            with own as url:
                found.append(msgspec.json.decode(run_child(workload, url).stdout, type=Found))
    return [_summed_up(figure, store, found, is_quiet) for figure in FIGURES if figure.workload == workload]


@contextmanager
def prepared_store(workload: str, store: str, server: str | None) -> Iterator[str]:
    """URL of a store as the workload wants it: empty, or with what others left in it. Removed afterwards."""
    with _fresh_store(store, server) as url:
        if workload == "resume":
            _kill_when_ready(url)
        if workload == "parked":
            run_child("park", url, seconds_max=_PARK_SECONDS_MAX)
        yield url


@contextmanager
def _fresh_store(store: str, server: str | None) -> Iterator[str]:
    if store == NO_STORE:
        yield "memory:"
    elif store == "sqlite":
        with tempfile.TemporaryDirectory(prefix="remit-bench-") as folder:
            yield f"sqlite:///{folder}/runs.db"
    else:
        assert server is not None, "a Postgres was started for this store"
        url = fresh_database(server)
        try:
            yield url
        finally:
            drop_database(url)


def run_child(
    workload: str, url: str, *options: str, seconds_max: int = _CHILD_SECONDS_MAX
) -> subprocess.CompletedProcess[str]:
    """Run one workload; its standard output is what it found. Raises ChildFailed."""
    done = subprocess.run(
        [*_child(workload, url), *options], capture_output=True, text=True, timeout=seconds_max, check=False
    )
    if done.returncode != 0:
        raise ChildFailed(done.stderr.strip()[-2_000:])
    return done


def _kill_when_ready(url: str) -> None:
    """Let a child complete ten thousand steps, and kill it in the body of the next one."""
    with subprocess.Popen(_child("hang", url), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None and victim.stderr is not None
        line = victim.stdout.readline()
        victim.kill()
        if line.strip() != READY:
            raise ChildFailed(victim.stderr.read().strip()[-2_000:])


def _child(workload: str, url: str) -> list[str]:
    return [sys.executable, "-m", "bench.child", workload, url]


def _summed_up(figure: Figure, store: str, found: list[Found], is_quiet: bool) -> Measured:
    values = [one[figure.key][0] for one in found]
    raws = [raw for one in found if (raw := one[figure.key][1]) is not None]
    return Measured(
        figure,
        store,
        statistics.median(values),
        min(values),
        max(values),
        len(values),
        statistics.median(raws) if raws else None,
        is_quiet,
    )


def _wait_until_quiet() -> bool:
    """Others who use the machine are waited for, but not for long; whether it became quiet, or nobody can tell."""
    if not Path("/proc/stat").exists():
        return True
    ends = time.monotonic() + _QUIET_SECONDS_MAX
    busy = 1.0
    while busy > _BUSY_MAX:
        if time.monotonic() > ends:
            print(f"  the machine is {busy:.0%} busy with other work", file=sys.stderr)
            return False
        idle, total = _ticks()
        time.sleep(0.5)
        idle_after, total_after = _ticks()
        busy = 1 - (idle_after - idle) / max(1, total_after - total)
    return True


def _ticks() -> tuple[int, int]:
    """Idle and all time of all processors, in ticks."""
    fields = [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return fields[3] + fields[4], sum(fields)


def cpus() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
