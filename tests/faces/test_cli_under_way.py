"""What is said of a call while a living worker is at it, and of a question that nobody may answer any more."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.command import Desk

FLOWS = """
import os
import time
from datetime import timedelta

import remit

RULES = {"pay": remit.Rule(), "ask": remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=8)))}


@remit.effect
def pay(order: dict, *, key: str) -> str:
    open("called", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.01)
    raise OSError("the answer was lost")


@remit.effect
def ask(order: dict, *, key: str) -> str:
    return "paid"


@remit.flow(contract=remit.Contract(version="1", resume="anyone", effects=RULES))
def slow(run: remit.SyncRun) -> str:
    return run.effect(pay, {"a": 1})


@remit.flow(contract=remit.Contract(version="1", resume="anyone", effects=RULES))
def both(run: remit.SyncRun) -> list:
    return run.gather(run.effect_call(pay, {"a": 1}), run.effect_call(ask, {"a": 2}))
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    (tmp_path / "flows.py").write_text(FLOWS)
    return desk


@pytest.fixture
def go(desk: Desk) -> Generator[Path]:
    """Where it is, the call is over; nothing waits for it when the test is over."""
    go = desk.folder / "go"
    yield go
    go.touch()


def test_nobody_is_led_to_end_what_a_living_worker_is_at(desk: Desk, go: Path):  # proves: FX-9
    worker = desk.start("run", "flows:slow", "--id", "r")
    while not (desk.folder / "called").exists():
        assert worker.poll() is None
        time.sleep(0.01)

    shown, why = desk("effects", "r"), " ".join(desk("why", "r").split())
    assert "under_way" in shown and "now looks too early" in " ".join(shown.split())
    assert "pay is under way: it was called" in why and "nothing; somebody works at it." in why
    for told in (shown, why):
        assert "resolve" not in told and "in doubt" not in told and "Nobody knows" not in told
    assert desk.json("effects", "r")[0]["state"] == desk.json("why", "r")["doubts"][0]["state"] == "under_way"
    assert desk("effects", "--in-doubt") == desk("effects", "r", "--in-doubt") == "No effects.\n"
    word = ("resolve", "r", "pay", "did-not-happen", "--by", "user:kim", "--evidence", "the bank does not know the key")
    desk("grant", "user:kim", "clerk", "--by", "user:ops")
    error = desk.json(*word, exits=2)["error"]
    assert error["code"] == "doubt.under_way" and "Then look again" in error["hint"]

    go.touch()
    worker.communicate(timeout=60)
    shown, why = desk("effects", "r"), desk("why", "r")
    assert "in_doubt" in shown and "remit resolve r pay did-not-happen" in shown and "remit resolve r pay ok" in why
    assert json.loads(desk("effects", "--in-doubt", "--json"))[0]["state"] == "in_doubt"


def test_a_run_that_is_to_end_waits_for_no_yes(desk: Desk, go: Path):  # proves: FX-10
    go.touch()
    desk("run", "flows:both", "--id", "r", exits=8)
    assert "ask waits for a yes from director until" in desk("why", "r")
    desk("cancel", "r", "--by", "user:dana")
    why = desk("why", "r")
    assert "ask waits for no yes any more: user:dana asked for the run's end." in why and "a yes from" not in why
    assert desk("inbox") == "Nothing waits for an answer.\n" and "remit ask" not in why
    desk("grant", "user:kim", "clerk", "--by", "user:ops")
    desk("resolve", "r", "pay", "did-not-happen", "--by", "user:kim", "--evidence", "the bank's letter")
    assert "remit resume r MODULE:FLOW" in (why := desk("why", "r")) and "remit ask" not in why


OUTLIVED = """
import os
import time
from datetime import timedelta

import remit


@remit.effect(timeout=timedelta(milliseconds=100))
def pay(request: str, *, key: str) -> str:
    while not os.path.exists("go"):
        time.sleep(0.01)
    return "R-1"


@remit.flow(contract=remit.Contract(version="1", resume="anyone"))
def settle(run: remit.SyncRun) -> str:
    return run.effect(pay, "i-1")
"""


def test_who_is_told_of_a_call_that_outlived_its_turn_is_told_first_where_it_is_at_work(
    desk: Desk, go: Path
):  # proves: FX-9
    """The command that began it has given its answer, and its process lives on with the thread."""
    (desk.folder / "outlived.py").write_text(OUTLIVED)
    desk("grant", "user:kim", "director", "--by", "user:ops")
    worker = desk.start("run", "outlived:settle", "--id", "r")
    where = f"process {worker.pid} on {socket.gethostname()}"
    wait = f"first wait until pay has returned in {where}, and go on with the run there"
    for _ in range(200):
        if [run["status"] for run in desk.json("list")] == ["in_doubt"]:
            break
        time.sleep(0.05)
    for words in (("why", "r"), ("effects", "r")):
        told = " ".join(desk(*words).split())
        assert wait in told and told.index("first wait") < told.index("did-not-happen")
    assert f"Nobody holds it, but {where} has not returned from pay" in " ".join(desk("why", "r").split())
    said = ("resolve", "r", "pay", "did-not-happen", "--by", "user:kim", "--evidence", "not at the bank")
    refused = " ".join(desk(*said, exits=2).split())
    assert f"the call of 'pay' has not returned in {where}; nothing was done" in refused
    assert "remit resume r" in desk(*said, "--returned")
    go.touch()
    out, _ = worker.communicate(timeout=60)
    assert wait in " ".join(out.split())
    assert "first wait" not in desk("why", "r"), "its process has ended"
