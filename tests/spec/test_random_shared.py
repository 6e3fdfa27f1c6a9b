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
from pathlib import Path

import pytest

from tests.spec.random_shared.story import Story
from tests.support.seeded import placed, seeds

STORIES = {"memory": 120, "sqlite": 16, "postgres": 4}


@pytest.mark.slow
@pytest.mark.parametrize("kind", STORIES)
def test_what_arrives_was_allowed_and_happens_once_whoever_pays_beside_it(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
):  # proves: FX-1, FX-2, FX-4, FX-9, FX-12, GATE-3, GATE-4, APR-1, APR-2, APR-3, APR-6
    for seed in seeds(STORIES[kind]):
        with placed(kind, seed, tmp_path, request) as store:
            story = Story(seed, store, is_shared=kind == "memory")
            try:
                with asyncio.Runner() as runner:
                    runner.run(story.live())
            except Exception as exc:
                exc.add_note(story.whole(seed))
                raise
            assert not story.law.faults, story.whole(seed)
