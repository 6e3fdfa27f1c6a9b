"""The command line once something moved: time passed, a run ended, the policy or a price is another one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.support.command import Desk, at_a_terminal

FLOWS = """
import json
import os
from datetime import timedelta
from pathlib import Path

import remit


def said(name: str, otherwise):
    return json.loads(Path(name).read_text()) if os.path.exists(name) else otherwise


@remit.effect
def pay(order: dict, *, key: str) -> dict:
    if os.path.exists("declined"):
        raise remit.Declined("no such account")
    if os.path.exists("die"):
        os.kill(os.getpid(), 9)
    if os.path.exists("huge"):
        return {"receipt": 2**70}
    if os.path.exists("timeout"):
        raise TimeoutError("no answer")
    return {"receipt": "R-1"}


def market() -> dict:
    return {"price": said("price", 6)}


def contract(*groups, within, resume="buyer"):
    asked = [remit.Approval(group, within) for group in groups]
    rule = remit.Rule(approval=asked[0] if asked else None, evidence={"quote"})
    return remit.Contract(version="1", resume={resume}, window=timedelta(days=5), effects={"pay": rule})


def state(run, again) -> None:
    as_of = run.now() - timedelta(hours=1)
    run.evidence("quote", {"price": 6}, as_of=as_of, fresh_for=timedelta(hours=48), again=again)


def flow(name, contract, again=None):
    @remit.flow(contract=contract, name=name)
    def buy(run: remit.SyncRun, payee: str) -> dict:
        state(run, again)
        return run.effect(pay, {"amount": said("amount", 380), "payee": payee}, rests_on=["quote"])

    return buy


buy = flow("buy", contract({"director"}, within=timedelta(hours=72)))
brief = flow("brief", contract({"director"}, within=timedelta(milliseconds=1)))
fetched = flow("fetched", contract({"director"}, within=timedelta(hours=72)), again=market)
free = flow("free", contract(within=None))
"""

WHO = ("--by", "agent:buyer", "--behalf", "user:dana")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    (tmp_path / "flows.py").write_text(FLOWS)
    for who, role in (("agent:buyer", "buyer"), ("user:dana", "buyer"), ("user:kim", "director")):
        desk("grant", who, role, "--by", "user:ops")
    return desk


def run(desk: Desk, flow: str = "buy", *, exits: int = 8) -> Any:
    return desk.json("run", f"flows:{flow}", "--id", "r", "--input", '"Acme"', *WHO, exits=exits)


def asked(desk: Desk, flow: str = "buy") -> dict[str, Any]:
    """The question of a run that waits for a director."""
    run(desk, flow)
    return newest_ask(desk)


def newest_ask(desk: Desk) -> dict[str, Any]:
    found = desk.json("why", "r")["asks"]
    assert found
    told: dict[str, Any] = found[-1]
    return told


def policy(desk: Desk, text: str) -> None:
    (desk.folder / "p.toml").write_text(text)
    desk("policy", "set", "p.toml", "--by", "user:ops", "--yes")


def words(text: str) -> str:
    return re.sub(r"\s+", " ", text)


# -- a question -------------------------------------------------------------------------------------------------------


def test_a_question_of_a_run_that_ended_is_not_open(desk: Desk):  # proves: APR-10
    ask = asked(desk)
    assert ask["state"] == "open" and "Next:" in desk("ask", ask["id"])
    desk("cancel", "r", "--by", "user:dana")
    shown = desk("ask", ask["id"])
    assert desk.json("ask", ask["id"])["state"] == "run_ended"
    assert re.search(r"^state +run ended$", shown, re.M) and "Next:" not in shown
    assert "run ended" in desk("show", "r")
    assert desk.json("approve", ask["id"], "--by", "user:kim", "--yes", exits=2)["error"]["code"] == "run.ended"


def test_a_question_past_its_time_is_over(desk: Desk):  # proves: APR-10
    ask = asked(desk, "brief")
    assert ask["state"] == "over" and "approve" not in desk("ask", ask["id"]) and desk.json("inbox") == []
    assert re.search(r"^state +over$", desk("ask", ask["id"]), re.M)
    assert desk.json("approve", ask["id"], "--by", "user:kim", "--yes", exits=2)["error"]["code"] == "approval.expired"


def test_a_question_of_a_run_that_somebody_wants_to_end_is_over(desk: Desk):
    ask = asked(desk)
    desk("approve", ask["id"], "--by", "user:kim", "--yes")
    (desk.folder / "timeout").touch()
    desk("resume", "r", "flows:buy", exits=8)
    desk("cancel", "r", "--by", "user:dana")
    desk("resolve", "r", "pay", "did-not-happen", "--by", "user:kim", "--evidence", "x")
    assert desk.json("ask", ask["id"])["state"] == "used"


def test_evidence_is_shown_as_fresh_as_the_policy_leaves_it(desk: Desk):  # proves: GATE-8
    ask = asked(desk)
    assert "fresh until" in desk("ask", ask["id"])
    policy(desk, 'version = "4"\n[evidence]\nquote = "1s"\n')
    capped = desk.json("ask", ask["id"])["evidence"][0]
    assert capped["until"] - capped["as_of"] == 1_000_000
    assert "as stated fresh until" in desk("show", "r") and "as stated fresh until" in desk("explain", "r", columns=160)


@pytest.mark.parametrize(
    ("since", "told"), [("relied", "since the flow made this request from it:"), ("asked", "since it was asked last:")]
)
def test_who_is_asked_is_told_which_evidence_changed_and_how(desk: Desk, since: str, told: str):  # proves: APR-1, APR-5
    if since == "asked":
        assert asked(desk, "fetched")["evidence"][0]["changes"] == []
    policy(desk, 'version = "4"\n[evidence]\nquote = "30m"\n')
    (desk.folder / "price").write_text("11")
    run(desk, "fetched")
    (evidence,) = newest_ask(desk)["evidence"]
    assert (evidence["since"], evidence["value"]) == (since, {"price": 11})
    assert [(one["path"], one["old"], one["new"]) for one in evidence["changes"]] == [("$.price", "6", "11")]
    shown = desk("ask", newest_ask(desk)["id"])
    assert "│ price: 6 -> 11" in shown and told in shown


def test_a_question_asked_again_says_in_words_why(desk: Desk):
    old = asked(desk)
    (desk.folder / "amount").write_text("38000")
    desk("resume", "r", "flows:buy", exits=8)
    shown = desk("ask", newest_ask(desk)["id"])
    assert "What was asked before holds no longer: the request changed" in words(shown)
    assert "approval.payload" not in shown and old["id"] not in shown


@pytest.mark.parametrize(
    ("moves", "moved", "told"),
    [
        ("policy", ["policy"], "Moved since it was asked: the policy. A yes may be void."),
        (
            "role",
            ["agent:buyer"],
            "Moved since it was asked: what the directory says of agent:buyer. A yes may be void.",
        ),
        ("other", [], ""),
    ],
)
def test_a_yes_that_may_be_void_is_not_given_unwarned(desk: Desk, moves: str, moved: list[str], told: str):
    ask = asked(desk)
    assert ask["moved"] == [] and "may be void" not in desk("ask", ask["id"])
    if moves == "policy":
        policy(desk, 'version = "4"\nforbid = ["pay"]\n')
    else:
        whom = "agent:buyer" if moves == "role" else "user:kim"
        desk("grant", whom, "clerk", "--by", "user:ops")
    shown = words(desk("ask", ask["id"]))
    assert desk.json("ask", ask["id"])["moved"] == moved and told in shown and "7 checks passed then." in shown
    said = words(desk("approve", ask["id"], "--by", "user:kim", "--seen", ask["version"]))
    assert told in said and ("may be void" in said) is bool(moved)


def test_whom_it_is_not_for_is_refused_before_anything_is_shown(desk: Desk):
    ask = asked(desk)
    child = at_a_terminal(desk, "approve", ask["id"], "--by", "user:dana")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 2 and "[y/N]" not in child.before and '"amount"' not in child.before
    assert "approval.role" in child.before
