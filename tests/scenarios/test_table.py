"""Each row of the table comes out as it is known to, the open ones among them: one that is mended is told here too."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tests.scenarios.scenes import NEEDS_CHECKPOINTS, SCENES, Row
from tests.scenarios.stage import SMALL, Told
from tests.scenarios.table import KNOWN, as_table, facts, play, summary

THIEF = "Mallory!"


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENES)
def test_a_scenario_comes_out_as_it_is_known_to(name: str, tmp_path: Path):  # proves: FX-3, FX-5, GATE-3, APR-1, LOG-3
    row = play(name, tmp_path)
    assert (row.scenario, facts(row)) == (name, KNOWN[name])
    assert set(row.paid) <= ({THIEF} if name == "chain recomputed" else {SMALL.payee})


def test_the_nine_are_there_and_what_does_not_hold_is_called_open():
    assert list(KNOWN) == list(SCENES) and len(SCENES) == 9
    told = [Row(name, "", payments, Told(*of), verdict) for name, (payments, *of, verdict) in KNOWN.items()]
    assert summary(told) == "6 of 9 hold, 3 open"
    assert all(row.payments <= 1 for row in told if row.holds)


def test_an_open_row_says_whom_it_paid_and_what_it_needs():
    row = Row("chain recomputed", "done", 1, Told("completed", ""), NEEDS_CHECKPOINTS, (THIEF,))
    out = io.StringIO()
    Console(file=out, width=120).print(as_table([row]))
    words = out.getvalue().split()
    assert {"1,", "Mallory!", "OPEN:", "checkpoints"} <= set(words)
