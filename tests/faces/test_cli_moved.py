"""The command line once something moved: time passed, a run ended, the policy or a price is another one."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pexpect
import pytest

import remit
from remit.faces.next_step import next_step
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
        return {"receipt": object()}
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

@remit.effect
def wire(payee: str, *, key: str) -> None:
    raise TimeoutError("no answer")


ASKED = remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=8)))


@remit.flow(contract=remit.Contract(version="1", resume={"buyer"}, effects={"pay": ASKED, "wire": remit.Rule()}))
async def both(run: remit.Run, payee: str) -> None:
    await run.gather(run.effect(pay, {"amount": 380, "payee": payee}), run.effect(wire, payee))


UNSURE = {"pay": remit.Rule(still_wanted=lambda order: 1 / 0)}
unsure = flow("unsure", remit.Contract(version="1", resume={"buyer"}, effects=UNSURE))


@remit.step
def fail() -> None:
    if os.path.exists("timeout"):
        raise TimeoutError("no answer")


@remit.flow(contract=remit.Contract(version="1", resume="anyone", window=timedelta(days=5)))
def brittle(run: remit.SyncRun) -> None:
    run.step(fail)
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
    """It ends when the doubt of its other call is known, whatever anybody answers until then."""
    (desk.folder / "timeout").touch()
    assert run(desk, "both")["status"] == "in_doubt"
    (ask,) = desk.json("inbox")
    assert desk.json("cancel", "r", "--by", "user:dana")["status"] == "in_doubt"
    assert desk.json("ask", ask["id"])["state"] == "over" and desk.json("inbox") == []
    assert "Next:" not in desk("ask", ask["id"])
    refused = desk.json("approve", ask["id"], "--by", "user:kim", "--seen", ask["version"], exits=2)["error"]
    assert refused["code"] == "approval.void" and "user:dana asked for the run's end" in refused["message"]


def test_evidence_is_shown_as_fresh_as_the_policy_leaves_it(desk: Desk):  # proves: GATE-8
    ask = asked(desk)
    assert "fresh until" in desk("ask", ask["id"])
    policy(desk, 'version = "4"\n[evidence]\nquote = "1s"\n')
    capped = desk.json("ask", ask["id"])["evidence"][0]
    assert capped["until"] - capped["as_of"] == 1_000_000
    assert "as stated fresh until" in desk("show", "r") and "as stated fresh until" in desk("explain", "r", columns=160)


@pytest.mark.parametrize(
    ("before", "since", "told"),
    [
        ("", "relied", "since the flow made this request from it:"),
        ("asked", "asked", "since it was asked last:"),
        ("answered", "asked", "since it was asked, and user:kim said yes:"),
    ],
)
def test_who_is_asked_is_told_which_evidence_changed_and_how(desk: Desk, before: str, since: str, told: str):
    # proves: APR-1, APR-5
    if before:
        ask = asked(desk, "fetched")
        assert ask["evidence"][0]["changes"] == []
        if before == "answered":
            desk("approve", ask["id"], "--by", "user:kim", "--yes")
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
    assert "What was asked before holds no longer: the request changed. " in words(shown)
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
    is_void = moves == "policy"
    said = words(desk("approve", ask["id"], "--by", "user:kim", "--seen", ask["version"], exits=8 if is_void else 0))
    assert (told in said or is_void) and ("void already: the policy was set since" in said) is is_void


@pytest.mark.parametrize("as_seen", [True, False], ids=["seen", "yes"])
def test_a_yes_that_is_void_when_it_is_given_is_not_told_as_one_that_is_gone_on_with(
    desk: Desk, as_seen: bool
):  # proves: APR-1
    ask = asked(desk)
    policy(desk, 'version = "4"\n[ceilings]\n"pay.amount" = 500000\n')
    given = ("--seen", ask["version"]) if as_seen else ("--yes",)
    said = desk("approve", ask["id"], "--by", "user:kim", *given, exits=8)
    assert "That yes is void already: the policy was set since it was asked. It is kept, and releases nothing." in said
    assert "goes on with it" not in said
    assert (
        words(said)
        .rstrip()
        .endswith("remit resume r MODULE:FLOW asks anew where a yes is still needed, or ends the run.")
    )
    assert "(which counts no longer)" in desk("why", "r")
    desk("resume", "r", "flows:buy", exits=8)
    assert desk.json("effects", "r") == [], "nothing was paid"


def test_the_document_of_a_yes_says_whether_it_counts(desk: Desk):  # proves: APR-1
    ask = asked(desk)
    policy(desk, 'version = "4"\n[ceilings]\n"pay.amount" = 500000\n')
    assert desk.json("approve", ask["id"], "--by", "user:kim", "--yes", exits=8)["counts"] is False
    desk("resume", "r", "flows:buy", exits=8)
    assert desk.json("approve", newest_ask(desk)["id"], "--by", "user:kim", "--yes")["counts"] is True


def test_whom_it_is_not_for_is_refused_before_anything_is_shown(desk: Desk):
    ask = asked(desk)
    child = at_a_terminal(desk, "approve", ask["id"], "--by", "user:dana")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 2 and "[y/N]" not in child.before and '"amount"' not in child.before
    assert "approval.role" in child.before


# -- why --------------------------------------------------------------------------------------------------------------


def test_what_an_answer_has_overtaken_is_not_told_beside_it(desk: Desk):
    ask = asked(desk)
    before = desk.json("why", "r")
    assert "no answer" in desk("why", "r") and not before["is_answered"]
    desk("approve", ask["id"], "--by", "user:kim", "--yes", "--reason", "fair")
    told = desk("why", "r")
    assert "user:kim said yes to pay: fair" in told and "The next turn takes that up." in told
    assert (
        "no answer" not in told and "approval.needed" not in told and told.endswith("`remit resume r MODULE:FLOW`.\n")
    )
    after = desk.json("why", "r")
    assert after["is_answered"] and after["since"] == before["since"], "it waits for as long as before"


def test_a_doubt_that_somebody_ended_is_none_any_more(desk: Desk):
    ask = asked(desk)
    desk("approve", ask["id"], "--by", "user:kim", "--yes")
    (desk.folder / "timeout").touch()
    desk("resume", "r", "flows:buy", exits=8)
    before, told = desk.json("why", "r")["since"], desk("why", "r")
    assert "obody knows" in told and "The next turn takes that up" not in told, "the yes was taken up"
    desk("resolve", "r", "pay", "ok", "--by", "user:kim", "--evidence", "the statement", "--outcome", "null")
    told = desk("why", "r")
    assert "user:kim said what became of pay" in told and "obody knows" not in told
    assert desk.json("why", "r")["since"] == before


def test_evidence_that_stays_expired_is_not_gone_on_with_for_ever(desk: Desk):
    """A yes that was given is no reason to say that the next turn brings it on."""
    ask = asked(desk)
    policy(desk, 'version = "4"\n[evidence]\nquote = "30m"\n')
    desk("approve", ask["id"], "--by", "user:kim", "--yes", exits=8)
    told = desk.json("resume", "r", "flows:buy", exits=8)
    assert told["code"] == "evidence_expired"
    assert "remit cancel r --by user:YOU" in desk.json("why", "r")["next"]
    assert "open a new run: it stays expired" in desk.json("why", "r")["next"]


def test_a_no_of_the_other_side_is_for_the_flow_to_hear(desk: Desk):
    (desk.folder / "declined").touch()
    assert run(desk, "free", exits=7)["error"]["code"] == "effect.declined"
    told = desk.json("why", "r")["next"]
    assert "let the flow catch `EffectDeclined`" in told and "remit cancel r" in told and "mend what failed" not in told


def test_a_run_whose_window_is_over_ends_at_the_next_turn_as_it_is_told(desk: Desk):
    (desk.folder / "timeout").touch()
    desk("run", "flows:brittle", "--id", "r", exits=7)
    with remit.open(f"sqlite:///{desk.database}") as rt:
        rt.set_policy_sync({"version": "4", "windows": {"low": timedelta(milliseconds=1)}}, by="user:ops")
    told = desk.json("why", "r")
    assert told["waits_for"] == "repair" and told["window_end"] < told["now"]
    assert told["next"] == "`remit resume r MODULE:FLOW` ends it as expired. Where it is still wanted, open a new run."
    assert desk.json("resume", "r", "flows:brittle", exits=8)["status"] == "expired"


def test_what_failed_is_gone_on_with_by_what_needs_no_input(desk: Desk):
    (desk.folder / "timeout").touch()
    desk("run", "flows:brittle", "--id", "r", "--by", "user:dana", exits=7)
    assert desk.json("why", "r")["next"] == "mend what failed, then `remit resume r MODULE:FLOW`."


async def test_a_run_in_its_first_step_is_worked_at_although_nothing_is_written_yet(tmp_path: Path):
    begun, go = asyncio.Event(), asyncio.Event()

    @remit.step
    async def first() -> None:
        begun.set()
        await go.wait()

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"))
    async def one(run: remit.Run) -> None:
        await run.step(first)

    async with remit.open(f"sqlite:///{tmp_path}/runs.db") as rt:
        under_way = asyncio.create_task(rt.run(one, id="r"))
        await begun.wait()
        told = await rt.why("r")
        assert told.status == "queued" and next_step(told).sentence.startswith("nothing; somebody works at it.")
        go.set()
        await under_way


# -- effects, and runs whose worker was killed -------------------------------------------------------------------------


def test_an_outcome_that_could_not_be_stored_is_lost_and_not_null(desk: Desk):  # proves: FX-8
    (desk.folder / "huge").touch()
    assert run(desk, "free")["code"] == "effect.value_lost"
    (effect,) = desk.json("effects", "r")
    assert effect["state"] == "ok" and effect["lost"].startswith("value.") and effect["outcome"] is None
    told = words(desk("effects", "r"))
    assert f"its outcome is lost: │ {words(effect['detail'])}" in told and "null" not in told
    judged = desk.json("judge", "r", "flows:free", exits=8)  # the gate lets it go on, and it waits all the same
    assert (judged["decision"], judged["code"]) == ("resume", "") and "its outcome is lost" in judged["waits"]
    assert "Then it waits: pay" in words(desk("judge", "r", "flows:free", exits=8))


def test_a_run_killed_inside_its_effect_is_found_from_where_one_looks(desk: Desk):
    (desk.folder / "die").touch()
    assert desk.child("run", "flows:free", "--id", "r", "--input", '"Acme"', *WHO).returncode < 0
    assert "remit effects --in-doubt" in desk("list", "--status", "in_doubt")
    assert "remit why RUN" in desk("list", "--status", "running") and "remit why RUN" in desk("list")
    assert re.search(r"^held by +\S+ \(dead\)$", desk("show", "r"), re.M)
    assert [one["run"] for one in desk.json("effects", "--in-doubt")] == ["r"]


# -- said once, and in our words --------------------------------------------------------------------------------------


def test_what_a_run_waits_at_or_for_is_said_in_words(desk: Desk):
    assert run(desk, "unsure")["waits_for"] == "gate"
    assert "is waiting at the gate since" in desk("why", "r")


def test_who_cancelled_and_why_is_said_once(desk: Desk):
    asked(desk)
    told = desk("cancel", "r", "--by", "user:dana", "--reason", "not needed")
    assert told.count("not needed") == 1 and "user:dana asked for its end: not needed" in told


def test_a_lone_question_is_one_and_each_column_has_a_heading(desk: Desk):
    asked(desk)
    (desk.folder / "timeout").touch()
    desk("run", "flows:buy", "--id", "s", "--input", '"Acme"', *WHO, exits=8)
    assert "1 is shown; the next ones" in desk("inbox", "--limit", "1")
    desk("approve", desk.json("why", "s")["asks"][-1]["id"], "--by", "user:kim", "--yes")
    desk("resume", "s", "flows:buy", exits=8)
    told = desk("show", "s")
    assert re.search(r"^call +kind +stands +what$", told, re.M)
    (effect,) = desk.json("effects", "s")
    assert f"\nBy these keys the outside knows them:\n  {effect['key']}  pay\n" in told


def test_what_is_wrong_with_a_journal_is_said_once(desk: Desk):
    """The log calls for a person, and the answer says what was found."""
    asked(desk)
    connection = apsw.Connection(str(desk.database))
    connection.execute("UPDATE remit_entry SET value = CAST('1' AS BLOB) WHERE seq = 3 AND lane = 0 AND run_key = 2")
    connection.close()
    told = desk.child("show", "r")
    assert told.returncode == 5
    assert told.stderr.startswith("critical: Run 'r' is quarantined: chain.hash at main 3; `remit why r` tells more.\n")
    assert told.stderr.count("restore the run's bytes") == 1 and told.stderr.count("Entry main 3") == 1
    hint = desk.json("show", "r", exits=2)["error"]["hint"]
    assert "`remit verify r`" in hint and "`remit lift r --by" in hint, "by its own name"


def test_a_hint_on_the_command_line_does_not_speak_python(desk: Desk):
    asked(desk)
    other = desk.json("run", "flows:buy", "--id", "r", "--input", '"Else"', *WHO, exits=2)["error"]
    assert other["code"] == "input_mismatch" and "`remit resume r MODULE:FLOW`" in other["hint"]
    somebody = desk.json("run", "flows:buy", "--id", "r", "--input", '"Acme"', "--by", "user:dana", exits=2)["error"]
    assert somebody["code"] == "executor_mismatch" and "name the same one" in somebody["hint"]
    absent = desk.json("resolve", "r", "x", "did-not-happen", "--by", "user:kim", "--evidence", "x", exits=2)["error"]
    assert absent["hint"] == "See `remit effects r`."
    for error in (other, somebody, absent):
        assert "rt." not in error["hint"] and "`by`" not in error["hint"]
