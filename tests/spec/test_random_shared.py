"""Random stories of runs that share: whatever reaches the outside was allowed when it was let pass, and happens once.

Runs of several flows pay side by side under different ceilings, business keys and rules for doubts, by two workers at
one ledger. Answers are slow or lost, workers die, and people act between turns and in the very moments in which a
payment is written or arrives. `random_shared.law` holds each arrival against a model that has no code of Remit's.

REMIT_EXAMPLES=10 plays ten times as many stories. One that fails is told with its seed; REMIT_SEED=17 plays that one
alone. A long run is one test for each store: give it `-o faulthandler_timeout=0`, or pytest tells after five minutes
where it is, as if it hung.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remit.engine.process.host import WholeClock
from remit.store.memory import MemoryStore
from remit.store.url import store_for
from tests.spec.random_shared.story import Story
from tests.support.clock import MovedClock
from tests.support.postgres import drop_database, fresh_database

TIMES = int(os.environ.get("REMIT_EXAMPLES", "1"))
SEED = os.environ.get("REMIT_SEED")
STORIES = {"memory": 120, "sqlite": 16, "postgres": 4}


Place = tuple[Callable[[MovedClock], Any], Callable[[], None]]  # a store for each process, and what clears the place


def in_memory() -> Place:
    """One store for all processes of a story."""
    kept: list[MemoryStore] = []

    def store(clock: MovedClock) -> MemoryStore:
        if not kept:
            kept.append(MemoryStore(clock=WholeClock(clock)))
        return kept[0]

    return store, lambda: None


def at(url: str, clear: Callable[[], None]) -> Place:
    return (lambda clock: store_for(url, clock=WholeClock(clock))), clear


@pytest.mark.slow
@pytest.mark.parametrize("kind", STORIES)
def test_what_arrives_was_allowed_and_happens_once_whoever_pays_beside_it(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
):  # proves: FX-1, FX-2, FX-4, FX-9, FX-12, GATE-3, GATE-4, APR-1, APR-2, APR-3, APR-6
    def place(seed: int) -> Place:
        if kind == "memory":
            return in_memory()
        if kind == "sqlite":
            path = tmp_path / f"{seed}.db"
            return at(f"sqlite:///{path}", lambda: path.unlink(missing_ok=True))
        url = fresh_database(request.getfixturevalue("postgres_url"))
        return at(url, lambda: drop_database(url))

    for seed in range(STORIES[kind] * TIMES) if SEED is None else [int(SEED)]:
        store, clear = place(seed)
        story = Story(seed, store, is_shared=kind == "memory")
        try:
            with asyncio.Runner() as runner:
                runner.run(story.live())
        except Exception as exc:
            exc.add_note(story.whole(seed))
            raise
        finally:
            clear()
        assert not story.law.faults, story.whole(seed)
