"""The bench: what it measures still runs. How long anything takes is no test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import remit
from bench import outward, parked, workloads

FLOWS = sorted(
    {each for module in (outward, parked, workloads) for each in vars(module).values() if isinstance(each, remit.Flow)},
    key=lambda flow: flow.name,
)


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
async def test_each_flow_that_is_measured_runs(flow: Any):
    async with remit.open("memory:") as rt:
        outcome = await rt.run(flow, *([1] if flow.takes_input else []), id="r")
    assert (outcome.status, outcome.code) in (("completed", ""), ("waiting", "approval_needed")), outcome


async def test_parked_runs_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(parked.PARKED, "1000")
    url = f"sqlite:///{tmp_path}/parked.db"
    await parked.park(url)
    assert set(await parked.parked(url)) == {
        "parked.memory",
        "parked.idle",
        "parked.inbox",
        "parked.role",
        "parked.answer",
    }
