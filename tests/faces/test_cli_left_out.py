"""What an answer over many runs leaves out: it says so, and no empty one passes for "there is none"."""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import pytest

import remit
from remit.store.memory import MemoryStore
from tests.spec.test_newer import written_by_a_newer_one
from tests.support.command import Desk

FLOWS = """
from datetime import timedelta

import remit


@remit.effect
def pay(order: int, *, key: str) -> str:
    raise TimeoutError("no answer")


OPEN = remit.Contract(version="1", resume="anyone")


@remit.flow(contract=OPEN)
def settle(run: remit.SyncRun) -> str:
    return run.effect(pay, 100)


@remit.flow(contract=OPEN)
def ask(run: remit.SyncRun) -> None:
    run.approve("may I", 1, roles={"director"}, within=timedelta(hours=8))
"""
POLICY = 'version = "{}"\nforbid = ["wire"]\n'


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    (tmp_path / "flows.py").write_text(FLOWS)
    desk("grant", "user:kim", "director", "--by", "user:ops")
    for run in ("doubt-1", "doubt-2"):
        desk("run", "flows:settle", "--id", run, exits=8)
    for run in ("ask-1", "ask-2"):
        desk("run", "flows:ask", "--id", run, exits=8)
    return desk


def edit(desk: Desk, *runs: str) -> None:
    """Somebody edits the row of these runs, so that they verify no longer."""
    connection = apsw.Connection(str(desk.database))
    for run in runs:
        connection.execute("UPDATE remit_run SET window_end = window_end + 1 WHERE run = ?", (run,))
    connection.close()


@pytest.mark.parametrize("is_found", [True, False], ids=["set aside before", "found as it is looked for"])
def test_no_doubt_is_denied_that_stands_in_a_run_which_is_set_aside(desk: Desk, is_found: bool):  # proves: LOG-3, FX-9
    edit(desk, "doubt-1", "doubt-2")
    if is_found:
        for run in ("doubt-1", "doubt-2"):
            desk("show", run, exits=5)
    shown = desk("effects", "--in-doubt", exits=5)
    assert "No effects" not in shown and "None in the runs that can be read." in shown
    assert "This is not all, it leaves out doubt-" in shown and "`remit why RUN` tells more." in shown
    told = {one["run"]: (one["state"], one["code"]) for one in desk.json("effects", "--in-doubt", exits=5)}
    assert told == {"doubt-1": ("left_out", "run.quarantined"), "doubt-2": ("left_out", "run.quarantined")}


def test_the_other_doubts_are_listed_all_the_same(desk: Desk):  # proves: LOG-3, FX-9
    edit(desk, "doubt-1")
    told = desk.json("effects", "--in-doubt", exits=5)
    assert [(one["run"], one["state"]) for one in told] == [("doubt-2", "in_doubt"), ("doubt-1", "left_out")]
    shown = desk("effects", "--in-doubt", exits=5, columns=60)
    assert "doubt-2  pay" in shown and "it leaves out doubt-1" in shown and "`remit why doubt-1` tells" in shown
    assert desk.json("effects", "doubt-2", exits=0)[0]["state"] == "in_doubt", "of one run nothing is left out"


def test_a_run_that_is_set_aside_is_left_out_whatever_its_row_says(desk: Desk):  # proves: LOG-3, FX-9
    connection = apsw.Connection(str(desk.database))
    connection.execute("UPDATE remit_run SET status = 'completed', code = '' WHERE run = 'doubt-1'")
    connection.close()
    desk("show", "doubt-1", exits=5)
    assert [one["run"] for one in desk.json("effects", "--in-doubt", exits=5)] == ["doubt-2", "doubt-1"]


def test_many_are_named_by_their_number_and_all_of_them_in_json(desk: Desk):  # proves: LOG-3
    runs = [f"more-{number}" for number in range(6)]
    for run in runs:
        desk("run", "flows:settle", "--id", run, exits=8)
    edit(desk, *runs)
    shown = " ".join(desk("effects", exits=5).split())
    assert shown.count("(set aside)") + shown.count("(run.index)") == 5 and "and 1 more." in shown
    assert {one["run"] for one in desk.json("effects", exits=5) if one["state"] == "left_out"} == set(runs)


def test_the_inbox_says_which_runs_that_ask_are_left_out(desk: Desk):  # proves: LOG-3, APR-8
    edit(desk, "ask-1")
    shown = desk("inbox", exits=5)
    assert 'ask-2  "may I"' in shown and "it leaves out ask-1" in shown
    told = desk.json("inbox", exits=5)
    assert [(one["run"], one["state"]) for one in told] == [("ask-2", "open"), ("ask-1", "left_out")]
    edit(desk, "ask-2")
    assert "Nothing waits for an answer in the runs that can be read." in desk("inbox", exits=5)


def test_nobody_is_told_that_a_policy_voids_nothing_where_that_is_not_known(desk: Desk):  # proves: LOG-3, APR-1
    edit(desk, "ask-1", "ask-2")
    (desk.folder / "policy.toml").write_text(POLICY.format(1))
    shown = desk("policy", "set", "policy.toml", "--by", "user:ops", "--yes")
    assert "Setting it voids" not in shown and "it leaves out" in shown and "ask-1" in shown and "ask-2" in shown
    (desk.folder / "policy.toml").write_text(POLICY.format(2))
    told = json.loads(desk("policy", "set", "policy.toml", "--by", "user:ops", "--yes", "--json"))
    assert {one["run"] for one in told["left_out"]} == {"ask-1", "ask-2"} and told["voided"] == []


def test_a_list_shows_those_that_are_set_aside_among_the_others(desk: Desk):  # proves: LOG-3
    edit(desk, "doubt-1")
    desk("show", "doubt-1", exits=5)
    assert {row["run"]: row["status"] for row in desk.json("list", "--status", "in_doubt")} == {
        "doubt-1": "quarantined",
        "doubt-2": "in_doubt",
    }


async def test_a_journal_of_a_newer_version_is_left_out_and_named():  # proves: LOG-3
    store = MemoryStore()

    @remit.effect
    async def pay(order: int, *, key: str) -> str:
        raise TimeoutError("no answer")

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"))
    async def settle(run: remit.Run) -> str:
        outcome: str = await run.effect(pay, 1)
        return outcome

    async with remit.open(store) as rt:
        await rt.run(settle, id="r")
        await written_by_a_newer_one(rt, "r", "SignalDreamt", lane="post")
        doubts = await rt.effects(in_doubt=True)
        assert doubts == [] and [(one.run, one.code) for one in doubts.left_out] == [("r", "journal.newer")]
