"""Clocks: time is passed in, never read from the air.

A clock gives wall time as integer microseconds since 1970, UTC. Entries are ordered by
`seq`; wall time is evidence. Deadlines that only this process keeps (is my lease still
good?) use the monotonic clock, which nobody can set.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Protocol


class Clock(Protocol):
    """Wall time in microseconds UTC."""

    def now(self) -> int: ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000


def elapsed_us() -> int:
    """Microseconds since some moment, that only go forward: asleep too, where the system can tell."""
    return _elapsed_ns() // 1_000


def up_us() -> int | None:
    """Microseconds since this machine was started, as all its processes see it; None where the system does not tell."""
    return elapsed_us() if _ELAPSED is not None else None


_ELAPSED: int | None = getattr(time, "CLOCK_BOOTTIME", None)
_elapsed_ns = time.monotonic_ns if _ELAPSED is None else partial(time.clock_gettime_ns, _ELAPSED)


def monotonic_ms() -> int:
    """The same in milliseconds, for deadlines inside one process: a lease runs out while the machine sleeps."""
    return elapsed_us() // 1_000
