"""The page of a question that holds no longer: what was answered, why that came to nothing, and where it goes on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Desk

FLOWS = """
from datetime import timedelta
from pathlib import Path

import remit


@remit.effect
def pay(amount: int, *, key: str) -> str:
    return f"paid {amount}"


RULE = remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=8)))


@remit.flow(contract=remit.Contract(version="1", resume={"buyer"}, effects={"pay": RULE}))
def buy(run: remit.SyncRun, payee: str) -> str:
    run.effect(pay, int(Path("amount").read_text()))
    return run.effect(pay, 5)
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    (tmp_path / "flows.py").write_text(FLOWS)
    for who, role in (("agent:buyer", "buyer"), ("user:dana", "buyer"), ("user:kim", "director")):
        desk("grant", who, role, "--by", "user:ops")
    return desk


def asked(desk: Desk, amount: int | str) -> dict[str, Any]:
    """The question that waits when the run was gone on with to pay this much."""
    (desk.folder / "amount").write_text(str(amount))
    by = ("--by", "agent:buyer", "--behalf", "user:dana")
    desk("run", "flows:buy", "--id", "r", "--input", '"Acme"', *by, exits=8)
    (ask,) = desk.json("inbox")
    told: dict[str, Any] = ask
    return told


def row(page: str, name: str) -> str | None:
    """What stands in a row of the page; None where there is no such row."""
    found = re.search(rf"^{name} {{2,}}(.+)$", page, re.M)
    return found[1] if found else None


@pytest.mark.parametrize(("verb", "choice", "said"), [("approve", "approve", "yes"), ("deny", "deny", "no")])
def test_a_void_question_says_what_was_answered_why_it_is_void_and_what_is_asked_now(
    desk: Desk, verb: str, choice: str, said: str
):  # proves: APR-1, APR-5
    old = asked(desk, 380)
    desk(verb, old["id"], "--by", "user:kim", "--yes", "--reason", "as I said")
    assert row(desk("ask", old["id"]), "void because") is None
    new = asked(desk, 390)
    page, told = desk("ask", old["id"]), desk.json("ask", old["id"])
    assert (row(page, "answered by"), row(page, "and said")) == (f"user:kim, {said}", "│ as I said")
    assert row(page, "void because") == "the request changed"
    assert row(page, "asked anew as") == new["id"]
    assert page.endswith(f"Next:\n  remit ask {new['id']}\nshows what was asked in its place.\n")
    assert (told["choice"], told["voided"], told["later"]) == (
        choice, ["approval.payload", "approval.shown"], new["id"],
    )  # fmt: skip
    again = desk(verb, old["id"], "--by", "user:kim", "--yes", exits=2)
    assert "error: approval.decided" in again and f"It is asked anew as {new['id']}." in again
    assert row(desk("ask", new["id"]), "asked anew as") is None


def test_a_yes_that_became_void_is_not_told_as_one_that_counts(desk: Desk):  # proves: APR-1
    desk("approve", asked(desk, 380)["id"], "--by", "user:kim", "--yes", "--reason", "agreed")
    assert "user:kim said yes to pay: agreed" in desk("why", "r")
    asked(desk, 390)
    told = desk("why", "r")
    assert "user:kim said yes to pay (which counts no longer): agreed" in told and "next turn takes that up" not in told
    assert [one["counts"] for one in desk.json("why", "r")["spoken"]] == [False]


def test_a_question_that_nobody_answered_says_so_by_saying_nothing(desk: Desk):
    old = asked(desk, 380)
    asked(desk, 390)
    page = desk("ask", old["id"])
    assert row(page, "answered by") is None and row(page, "void because") == "the request changed"


def test_a_yes_that_was_used_is_told_as_used(desk: Desk):  # proves: APR-6
    ask = asked(desk, 380)
    desk("approve", ask["id"], "--by", "user:kim", "--yes")
    assert asked(desk, 380)["call"] == "pay#2"
    page = desk("ask", ask["id"])
    assert (row(page, "state"), row(page, "answered by"), row(page, "asked anew as")) == (
        "used", "user:kim, yes", None,
    )  # fmt: skip
    again = desk("approve", ask["id"], "--by", "user:kim", "--yes", exits=2)
    assert "error: approval.used" in again and "user:kim said approve, and pay used that up" in again


@pytest.mark.parametrize(("verb", "said"), [("approve", "yes"), ("deny", "no")])
def test_asked_anew_it_is_compared_with_what_somebody_answered_and_so_had_looked_at(desk: Desk, verb: str, said: str):
    # proves: APR-5
    """Nobody need have looked at the question in between."""
    first = asked(desk, 380)
    desk(verb, first["id"], "--by", "user:kim", "--yes")
    between = asked(desk, 390)
    assert between["earlier"] == {
        "ask": first["id"], "by": "user:kim", "choice": verb, "call": "pay", "became": "void", "reason": "",
        "call_state": "",
    }  # fmt: skip
    last = asked(desk, 400)

    assert last["earlier"] == between["earlier"]
    assert [(change["old"], change["new"]) for change in last["difference"]["changes"]] == [("380", "400")]
    assert f"Asked again; 1 place changed since user:kim said {said}." in desk("ask", last["id"])


def test_where_nobody_answered_it_is_compared_with_the_question_directly_before(desk: Desk):  # proves: APR-5
    first = asked(desk, 380)
    assert (first["earlier"], first["difference"]) == (None, None)
    between = asked(desk, 390)
    last = asked(desk, 400)

    assert last["earlier"] == {
        "ask": between["id"], "by": "", "choice": "", "call": "pay", "became": "", "reason": "",
        "call_state": "",
    }  # fmt: skip
    assert [(change["old"], change["new"]) for change in last["difference"]["changes"]] == [("390", "400")]
    assert "Asked again; 1 place changed since." in desk("ask", last["id"])


def test_back_at_what_was_answered_nothing_of_the_request_changed(desk: Desk):  # proves: APR-5
    """And yet the yes holds no longer: it was void when something else was asked."""
    first = asked(desk, 380)
    desk("approve", first["id"], "--by", "user:kim", "--yes")
    asked(desk, 390)
    last = asked(desk, 380)

    assert last["earlier"]["ask"] == first["id"] and last["difference"]["changes"] == []
    assert "Asked again; nothing of the request changed since user:kim said yes." in desk("ask", last["id"])


AGAIN = """
import json
from datetime import timedelta
from pathlib import Path

import remit


@remit.effect
def pay(amount: int, *, key: str) -> str:
    return f"paid {amount}"


RULE = remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=8)))


@remit.flow(contract=remit.Contract(version="1", resume={"buyer"}, effects={"pay": RULE}))
def buy(run: remit.SyncRun, payee: str) -> str:
    for branch in json.loads(Path("amount").read_text()):
        try:
            (run.branch(branch) if branch else run).effect(pay, 380)
        except remit.Denied:
            pass
    return "over"
"""

SAID = "Asked again as {}; nothing of the request changed since user:kim said {}."


@pytest.mark.parametrize(
    ("verb", "said"), [("approve", "yes to pay, which was done"), ("deny", "no to pay")]
)  # fmt: skip
def test_asked_again_as_another_call_the_page_says_what_was_said_to_the_first(desk: Desk, verb: str, said: str):
    # proves: APR-5, APR-6, APR-10
    (desk.folder / "flows.py").write_text(AGAIN)
    first = asked(desk, '["", ""]')
    desk(verb, first["id"], "--by", "user:kim", "--yes", "--reason", "once only\u202e")
    second = asked(desk, '["", ""]')
    page = desk("ask", second["id"])
    assert f"{SAID.format('pay#2', said)}\n  │ once only\\u202e\n" in page
    assert "again" in desk("inbox") and "changed" not in desk("inbox")
    assert second["elsewhere"] == second["earlier"]


def test_a_branch_s_name_can_t_end_the_sentence_that_it_stands_in(desk: Desk):  # proves: APR-12
    (desk.folder / "flows.py").write_text(AGAIN)
    names = '["x, which was done. user:kim said yes to y", ""]'
    desk("deny", asked(desk, names)["id"], "--by", "user:kim", "--yes")
    page = " ".join(desk("ask", asked(desk, names)["id"]).split())
    assert SAID.format("pay", 'no to "x, which was done. u…"/pay') in page


UNASKED = """
from pathlib import Path

import remit


@remit.effect
def pay(amount: int, *, key: str) -> str:
    return f"paid {amount}"


@remit.step
def enter() -> None:
    if not Path("open").exists():
        raise OSError("busy")


@remit.flow(contract=remit.Contract(version="1", resume={"buyer"}, effects={"pay": remit.Rule()}))
def twice(run: remit.SyncRun, payee: str) -> str:
    run.effect(pay, 5)
    run.step(enter)
    return run.effect(pay, 5)
"""


def test_that_the_same_was_made_and_nobody_was_asked_stands_on_the_page(desk: Desk):  # proves: APR-5
    (desk.folder / "flows.py").write_text(UNASKED)
    desk("run", "flows:twice", "--id", "r", "--input", '"Acme"', "--by", "agent:buyer", exits=7)
    (desk.folder / "p.toml").write_text('version = "1"\n[approvals]\npay = {roles = ["director"], within = "4h"}\n')
    desk("policy", "set", "p.toml", "--by", "user:ops", "--yes")
    (desk.folder / "open").touch()
    desk("resume", "r", "flows:twice", exits=8)
    (ask,) = desk.json("inbox")
    assert (ask["made_before"]["call"], ask["made_before"]["state"]) == ("pay", "ok")
    assert re.search(r"^r +pay#2 +director .* again$", desk("inbox"), re.M)
    for columns in (40, 100):
        page = " ".join(desk("ask", ask["id"], columns=columns).split())
        assert re.search(r" The same was sent before as pay, \S+Z; it was done, and a yes does it once more\. ", page)
