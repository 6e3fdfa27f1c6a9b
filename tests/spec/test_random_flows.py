"""Random flows: whatever a flow does with its calls, what the journal says is true and what the flow is told is that.

Their shapes are trees of gathers, groups, races, time-outs, retries and handlers around steps, effects of each rule
for doubts, questions and draws. They live among deaths, lost answers, cancellations, late landings and people, on
each store. The outside counts by itself; `random_flows.truth` holds it against the journals without Remit's code.

REMIT_EXAMPLES=10 plays ten times as many lives. A life that fails is told with its seed; REMIT_SEED=17 plays that one
alone, as far as the milliseconds of its time-outs let it be the same. A long run is one test for each store: give it
`-o faulthandler_timeout=0`, or pytest tells after five minutes where it is, as if it hung.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from remit.engine.turn import replay
from tests.spec.random_flows.life import Life
from tests.support.seeded import placed, seeds

LIVES = {"memory": 50, "sqlite": 30, "postgres": 8}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:coroutine")  # a task that is cancelled before it began leaves one behind
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", LIVES)
def test_what_a_flow_of_any_shape_is_told_is_what_the_journal_says_and_what_is_so_outside(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
):  # proves: FX-1, FX-2, FX-4, FX-8, FX-10, FX-11, FX-12, RUN-3, RUN-4, RUN-8, RUN-9, APR-10
    # Flows here wait for milliseconds, so one that stands still for a second stands still.
    monkeypatch.setattr(replay, "STILL_SECONDS_OF_TASKS", 1.0)

    for seed in seeds(LIVES[kind]):
        with placed(kind, seed, tmp_path, request) as store:
            life = Life(seed, store)
            try:
                with asyncio.Runner() as runner:
                    runner.run(life.live())
            except Exception as exc:
                exc.add_note(life.whole(seed))
                raise
            assert not life.outside.faults, life.whole(seed)
