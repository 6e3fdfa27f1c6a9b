"""Seeded: how random tests are played, each example on a store of its own that outlives its processes.

REMIT_EXAMPLES=10 plays ten times as many; REMIT_SEED=17 plays that one alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from remit.engine.process.host import WholeClock
from remit.store.memory import MemoryStore
from remit.store.url import store_for
from tests.support.clock import MovedClock
from tests.support.postgres import drop_database, fresh_database

TIMES = int(os.environ.get("REMIT_EXAMPLES", "1"))
SEED = os.environ.get("REMIT_SEED")

StoreAt = Callable[[MovedClock], Any]  # a store for each process that opens the place


def seeds(count: int) -> Iterable[int]:
    """Those that are played where `count` is meant by default."""
    return range(count * TIMES) if SEED is None else [int(SEED)]


@contextmanager
def placed(kind: str, seed: int, folder: Path, request: pytest.FixtureRequest) -> Iterator[StoreAt]:
    """An empty place of this kind of store, cleared when the example is over."""
    if kind == "memory":
        kept: list[MemoryStore] = []

        def one(clock: MovedClock) -> MemoryStore:
            if not kept:
                kept.append(MemoryStore(clock=WholeClock(clock)))
            return kept[0]

        yield one
        return
    path = folder / f"{seed}.db"
    url = f"sqlite:///{path}" if kind == "sqlite" else fresh_database(request.getfixturevalue("postgres_url"))
    try:
        yield lambda clock: store_for(url, clock=WholeClock(clock))
    finally:
        path.unlink(missing_ok=True) if kind == "sqlite" else drop_database(url)
