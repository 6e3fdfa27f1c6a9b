"""Timing: how long a stretch of ours took. In a profile, only such stretches are watched.

cProfile sees the thread that it is switched on in: the event loop's. What other threads do
shows there as waiting, in `poll`.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_LINES = 30
_profile: cProfile.Profile | None = None


@dataclass(slots=True)
class Timing:
    """When a stretch began, and how long it took once it is over; seconds of `perf_counter`."""

    began: float
    seconds: float = 0.0


@contextmanager
def timing() -> Iterator[Timing]:
    """A stretch of our own work; the bare database's is timed apart and never profiled."""
    if _profile is not None:
        _profile.enable()
    took = Timing(time.perf_counter())
    try:
        yield took
    finally:
        took.seconds = time.perf_counter() - took.began
        if _profile is not None:
            _profile.disable()


def watch() -> None:
    """Profile all stretches from here on."""
    global _profile
    _profile = cProfile.Profile()


def print_watched() -> None:
    """Functions by the time inside each, to standard error."""
    if _profile is not None:
        pstats.Stats(_profile, stream=sys.stderr).sort_stats("tottime").print_stats(_LINES)
