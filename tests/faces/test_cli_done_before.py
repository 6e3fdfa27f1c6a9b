"""The command line of a run that ended early: what it did outside stays done, and whoever looks is told."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command import Desk

FLOWS = """
from datetime import timedelta

import remit


@remit.effect
def ship(crate: str, *, key: str) -> None:
    pass


@remit.effect
def pay(crate: str, *, key: str) -> None:
    raise AssertionError("nobody said yes")


RULES = {"ship": remit.Rule(), "pay": remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=8)))}


@remit.flow(contract=remit.Contract(version="1", resume={"buyer"}, effects=RULES))
def trade(run: remit.SyncRun, crate: str) -> None:
    run.effect(ship, crate)
    run.effect(pay, crate)
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A run that shipped, and waits for a yes to the payment."""
    desk = Desk(tmp_path)
    (tmp_path / "flows.py").write_text(FLOWS)
    for who, role in (("agent:buyer", "buyer"), ("user:dana", "buyer"), ("user:kim", "director")):
        desk("grant", who, role, "--by", "user:ops")
    by = ("--by", "agent:buyer", "--behalf", "user:dana")
    assert "Done before" not in desk("run", "flows:trade", "--id", "r", "--input", '"screws"', *by, exits=8)
    return desk


RESUME = ("resume", "r", "flows:trade")


def cancel(desk: Desk) -> str:
    return desk("cancel", "r", "--by", "user:dana", "--reason", "not needed")


def forbid(desk: Desk) -> str:
    (desk.folder / "p.toml").write_text('version = "4"\nforbid = ["pay"]\n')
    desk("policy", "set", "p.toml", "--by", "user:ops", "--yes")
    return desk(*RESUME, exits=8)


def deny(desk: Desk) -> str:
    (ask,) = desk.json("inbox")
    desk("deny", ask["id"], "--by", "user:kim", "--yes", "--reason", "too dear.")
    return desk(*RESUME, exits=8)


def dismiss(desk: Desk) -> str:
    desk("revoke", "agent:buyer", "buyer", "--by", "user:ops")
    return desk(*RESUME, exits=8)


@pytest.mark.parametrize(
    ("end", "status", "code"),
    [
        (cancel, "cancelled", "cancelled"),
        (forbid, "abandoned", "policy_forbids"),
        (deny, "failed", "denied"),
        (dismiss, "failed", "resume_denied"),
    ],
)
def test_whoever_looks_at_a_run_that_ended_early_reads_what_it_did(
    desk: Desk, end: Callable[[Desk], str], status: str, code: str
):  # proves: FX-10
    told = end(desk)
    seen = desk.json("why", "r")
    assert (seen["status"], seen["code"], seen["done"]) == (status, code, ["ship"])
    assert seen["reason"].endswith(". Done before: ship.")
    again = [desk("why", "r"), desk(*RESUME, exits=8)]
    for page in (told, *again):
        assert page.splitlines().count("Done before: ship.") == 1 and page.count("Done before") == 1, page
    shown = desk("show", "r")
    assert re.search(r"^done before +ship$", shown, re.M), shown
    for columns in (60, 100):
        ended = re.sub(r"\s+", "", desk("explain", "r", columns=columns).partition("RunEnded")[2])
        assert "Donebefore:ship." in ended, ended


def test_the_words_of_who_cancelled_end_before_what_was_done_is_said(desk: Desk):  # proves: FX-10
    cancel(desk)
    assert desk.json("why", "r")["reason"] == "user:dana cancelled it: not needed. Done before: ship."
