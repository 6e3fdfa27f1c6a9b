"""A question about what is in doubt and would be sent again: whoever is asked is told that it may have happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Desk

FLOWS = """
from pathlib import Path

import remit


@remit.effect(doubt="resend", sink="dedupes")
def pay(order: dict, *, key: str) -> str:
    with open("paid.txt", "a") as file:
        file.write(f"{key}\\n")
    if not Path("calm").exists():
        raise TimeoutError("no answer")
    return "R-1"


OPEN = remit.Contract(version="1", resume="anyone")


@remit.flow(contract=OPEN)
def settle(run: remit.SyncRun) -> str:
    return run.effect(pay, {"amount": 100})


@remit.flow(contract=OPEN)
def both(run: remit.SyncRun) -> list:
    return run.gather(run.branch("a").effect_call(pay, {"amount": 1}), run.branch("b").effect_call(pay, {"amount": 2}))
"""
POLICY = '[approvals.pay]\nroles = ["director"]\nwithin = "8h"\n'


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    (tmp_path / "flows.py").write_text(FLOWS)
    for who, role in (("user:kim", "director"), ("user:dana", "director")):
        desk("grant", who, role, "--by", "user:ops")
    return desk


def asked_under(desk: Desk, version: str) -> dict[str, Any]:
    """The question of run r under another policy, which asks for a yes to what nobody was asked about before."""
    (desk.folder / "policy.toml").write_text(f'version = "{version}"\n{POLICY}')
    desk("policy", "set", "policy.toml", "--by", "user:ops", "--yes")
    desk("resume", "r", "flows:settle", exits=8)
    (ask,) = desk.json("inbox")
    told: dict[str, Any] = ask
    return told


def left_in_doubt(desk: Desk) -> dict[str, Any]:
    """The same of a run that paid, twice under its key, and heard nothing."""
    desk("run", "flows:settle", "--id", "r", exits=8)
    return asked_under(desk, "1")


def words(text: str) -> str:
    return " ".join(text.split())


def meant(desk: Desk) -> list[str]:
    """What was said by each answer, as it is kept."""
    entries = desk.json("explain", "r")["entries"]
    return [line["body"]["meaning"] for line in entries if line["kind"] == "ApprovalDecided"]


def keys(desk: Desk) -> list[str]:
    """Under which key each call came to the other side."""
    return (desk.folder / "paid.txt").read_text().split()


MAY_HAVE = "; yes sends it again under the same key, no leaves it in doubt: it may have happened."


@pytest.mark.parametrize("columns", [80, 160])
def test_whoever_is_asked_whether_it_may_be_sent_again_is_told_first_that_it_may_have_happened(
    desk: Desk, columns: int
):  # proves: APR-1, FX-2
    ask = left_in_doubt(desk)
    key, *_ = keys(desk)
    said = f"It was sent before in 2 calls under key {key} and nobody knows whether it happened{MAY_HAVE}"
    page = desk("ask", ask["id"], columns=columns)
    assert words(page).startswith(said) and "may this be sent again pay" in words(page)
    assert said in words(inbox := desk("inbox", columns=columns)) and "sent before" in inbox.splitlines()[1]
    sent = {"key": key, "calls": 2, "told_by": "", "told": ""}
    for told in (ask, desk.json("ask", ask["id"]), *desk.json("why", "r")["asks"]):
        assert {name: told["sent_before"][name] for name in sent} == sent
    assert words(desk("approve", ask["id"], "--by", "user:kim", "--yes", columns=columns)).startswith(said)


def test_a_no_is_answered_with_what_it_does_not_stop(desk: Desk):  # proves: APR-1, FX-2
    ask = left_in_doubt(desk)
    told = words(desk("deny", ask["id"], "--by", "user:kim", "--seen", ask["version"]))
    key = keys(desk)[0]
    assert f"What was sent before under key {key} may still have happened: nobody knows" in told
    assert "remit resolve r pay ok" in told and "--calls 2" in told, "and how that is found out"
    assert "yes sends it again" not in (page := words(desk("ask", ask["id"])))
    assert f"under key {key} and nobody knows whether it happened." in page
    desk("resume", "r", "flows:settle", exits=8)
    assert desk.json("why", "r")["status"] == "in_doubt" and len(keys(desk)) == 2
    assert meant(desk) == ["pay as pay must not be sent again"]


def test_a_no_in_json_says_so_too(desk: Desk):  # proves: APR-1
    ask = left_in_doubt(desk)
    said = desk.json("deny", ask["id"], "--by", "user:kim", "--seen", ask["version"])
    assert said["sent_before"] == ask["sent_before"] and said["sent_before"]["key"] == keys(desk)[0]


def test_a_yes_is_answered_with_what_it_does_and_sends_it_under_the_same_key(desk: Desk):  # proves: APR-1, FX-1
    ask = left_in_doubt(desk)
    told = words(desk("approve", ask["id"], "--by", "user:kim", "--seen", ask["version"]))
    key = keys(desk)[0]
    assert f"The next turn sends it again, under the same key {key}: what was sent before may have happened." in told
    (desk.folder / "calm").touch()
    desk("resume", "r", "flows:settle")
    assert keys(desk) == [key] * 3
    assert desk.json("ask", ask["id"])["sent_before"] is None, "it is known now"
    assert "was sent before" not in desk("ask", ask["id"])


def test_why_says_that_nobody_knows_while_a_yes_is_waited_for(desk: Desk):  # proves: FX-2
    ask = left_in_doubt(desk)
    why = desk("why", "r").splitlines()
    (doubt,) = (place for place, line in enumerate(why) if line.startswith("Nobody knows whether pay happened"))
    (waits,) = (place for place, line in enumerate(why) if line.startswith("pay waits for a yes from director"))
    assert doubt < waits and "A yes sends it again." in why[waits]
    desk("deny", ask["id"], "--by", "user:kim", "--yes")
    assert "Nobody knows whether pay happened" in desk("why", "r")
    desk("resume", "r", "flows:settle", exits=8)
    assert words(desk("why", "r")).count("Nobody knows whether pay") == 1, "by the run's own reason"


def test_what_somebody_found_out_since_is_told_instead(desk: Desk):  # proves: APR-1, FX-9
    ask = left_in_doubt(desk)
    desk("resolve", "r", "pay", "ok", "--by", "user:dana", "--evidence", "the statement", "--outcome", '"R-1"')
    said = "and user:dana said since that it happened; the next turn of its run settles it by that."
    for told in (desk("ask", ask["id"]), desk("approve", ask["id"], "--by", "user:kim", "--seen", ask["version"])):
        assert said in words(told) and "yes sends it again" not in told and "The next turn sends" not in told
    desk("disable", "user:dana", "--by", "user:ops")
    assert "nobody knows whether it happened" in words(desk("ask", ask["id"])), "their word counts no longer"


def test_the_inbox_says_changed_only_where_something_did(desk: Desk):  # proves: APR-5
    first = left_in_doubt(desk)
    again = asked_under(desk, "2")
    assert again["id"] != first["id"] and again["difference"]["changes"] == [] and "changed" not in desk("inbox")


def test_what_was_never_sent_is_asked_as_ever(desk: Desk):  # proves: APR-1
    (desk.folder / "policy.toml").write_text(f'version = "1"\n{POLICY}')
    desk("policy", "set", "policy.toml", "--by", "user:ops", "--yes")
    desk("run", "flows:settle", "--id", "r", exits=8)
    (ask,) = desk.json("inbox")
    assert ask["sent_before"] is None and "sent before" not in desk("inbox") + desk("ask", ask["id"]) + desk("why", "r")
    again = asked_under(desk, "2")
    assert again["difference"]["changes"] == [] and "again" in (inbox := desk("inbox")) and "changed" not in inbox
    assert "may this happen" in desk("ask", again["id"])
    told = desk("deny", again["id"], "--by", "user:kim", "--seen", again["version"])
    assert "may still have happened" not in told and "remit resolve" not in told
    assert meant(desk) == ["pay as pay must not happen"]


def test_judge_says_of_what_is_sent_again_that_it_was_sent_and_what_else_is_in_doubt(desk: Desk):  # proves: GATE-9
    desk("run", "flows:both", "--id", "r", exits=8)
    told, said = desk.json("judge", "r", "flows:both"), desk("judge", "r", "flows:both", columns=200)
    assert told["call"] == "a/pay" and "own" not in told["question"]["effect"], "the question is as it is journaled"
    seen = {one["check"]: (one["seen"], one["required"]) for one in told["findings"]}
    assert seen["duplicates"] == (
        "sent before under this key, and nobody knows whether it happened",
        "not known to have happened",
    )
    assert seen["effects"] == (
        "in doubt itself, and no effect before it",
        "no effect of this run before it in doubt",
    )
    assert "not performed before" not in said and "no other effect" not in said
    (beside,) = told["beside"]
    assert (beside["call"], beside["code"]) == ("b/pay", "effects_in_doubt")
