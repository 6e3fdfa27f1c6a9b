"""The command line for people: what they are asked, what they answer, and who may do what."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pexpect
import pytest

import remit
from remit.faces.cli.say import ago
from remit.faces.documents import moment
from tests.support.command import Desk, at_a_terminal

AGO = r"just now|[\d.]+ s ago"

FLOWS = """
import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import remit


@dataclass
class Order:
    payee: str
    amount: int
    note: str = "plain"


def said(name: str, otherwise: str) -> str:
    return Path(name).read_bytes().decode() if os.path.exists(name) else otherwise


@remit.effect
def pay(order: Order, *, key: str) -> dict:
    with open("paid.txt", "a") as file:
        file.write(f"{order.amount}\\n")
    if os.path.exists("timeout"):
        raise TimeoutError("no answer")
    return {"receipt": "R-1"}


RULE = remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=72), immaterial={"note"}), evidence={"quote"})


@remit.flow(contract=remit.Contract(version="1", resume={"buyer"}, window=timedelta(days=5), effects={"pay": RULE}))
def buy(run: remit.SyncRun, payee: str) -> dict:
    run.evidence("quote", {"price": 380}, as_of=run.now(), fresh_for=timedelta(hours=48))
    order = Order(payee, int(said("amount", "380")), said("note", "plain"))
    return run.effect(pay, order, rests_on=["quote"])
"""

BUY = ("run", "flows:buy", "--by", "agent:buyer", "--behalf", "user:dana")
POLICY = 'version = "4"\nforbid = ["wire"]\n[ceilings.pay]\namount = {max = 300, currency = "GBP", per = "month"}\n'


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    (tmp_path / "flows.py").write_text(FLOWS)
    for who, role in (("agent:buyer", "buyer"), ("user:dana", "buyer"), ("user:kim", "director")):
        desk("grant", who, role, "--by", "user:ops", "--reason", "hired")
    return desk


def asked(desk: Desk, run: str = "r", payee: str = "Acme") -> dict[str, Any]:
    """A run that waits for a director, and its question."""
    desk(*BUY, "--id", run, "--input", json.dumps(payee), exits=8)
    return next(ask for ask in desk.json("inbox") if ask["run"] == run)


def paid(desk: Desk) -> list[str]:
    path = desk.folder / "paid.txt"
    return path.read_text().split() if path.exists() else []


# -- answering --------------------------------------------------------------------------------------------------------


def test_what_is_not_a_second_old_is_from_just_now():
    assert [ago(us) for us in (-1, 0, 999_999)] == ["just now"] * 3 and ago(1_000_000) == "1.0 s ago"


def test_a_question_is_listed_shown_answered_and_the_run_goes_on(desk: Desk):  # proves: APR-1, APR-10, RPL-2
    ask = asked(desk)
    assert ask["id"] in desk("inbox", "--role", "director") and desk.json("inbox", "--role", "buyer") == []
    shown = desk("ask", ask["id"])
    assert [word in shown for word in ('"amount": 380', "agent:buyer for user:dana", "quote", "fresh until")] == [
        True
    ] * 4
    assert ask["version"] in desk("ask", ask["id"], columns=80).splitlines()  # in one piece, to be copied
    assert re.search(rf"\(({AGO})\)", desk("why", "r")) and re.search(AGO, desk("inbox"))
    assert "waits for a yes from director until" in desk("why", "r") and ask["id"] in desk("why", "r")

    words = ("approve", ask["id"], "--by", "user:kim", "--seen", ask["version"], "--reason", "fair price")
    assert "remit resume r MODULE:FLOW" in desk(*words)
    assert paid(desk) == []
    assert json.loads(desk("resume", "r", "flows:buy")) == {"receipt": "R-1"}
    assert paid(desk) == ["380"]
    assert desk.json("ask", ask["id"])["state"] == "used"
    told = desk("explain", "r", columns=160)
    assert "user:kim approved" in told and "as director: fair price" in told


def test_a_no_ends_the_run_and_nothing_is_done(desk: Desk):
    ask = asked(desk)
    reason = "too dear: the same screws cost half of that at Meier's, who delivers by Tuesday as well"
    desk("deny", ask["id"], "--by", "user:kim", "--seen", ask["version"], "--reason", reason)
    assert desk.json("resume", "r", "flows:buy", exits=8)["code"] == "denied"
    assert paid(desk) == [] and desk.json("inbox") == []
    for words in (("why", "r"), ("ask", ask["id"]), ("show", "r"), ("explain", "r")):
        told = re.sub(r"[\s│]+", "", desk(*words))  # folded at 100 columns, and whole
        assert "".join(reason.split()) in told, words
    assert "user:kim said no to pay: too dear" in desk("why", "r")


def test_a_run_cancelled_in_doubt_says_who_wanted_that_and_why(desk: Desk):  # proves: FX-10
    in_doubt(desk)
    desk("cancel", "r", "--by", "user:dana", "--reason", "the supplier is bankrupt")
    desk("resolve", "r", "pay", "did-not-happen", "--by", "user:kim", "--evidence", "the bank's letter of Monday")
    assert desk.json("resume", "r", "flows:buy", exits=8)["status"] == "cancelled"
    told = desk("why", "r")
    assert "user:dana asked for its end: the supplier is bankrupt" in told
    assert "user:kim said what became of pay, it did not happen: the bank's letter of Monday" in told
    assert [one["by"] for one in desk.json("why", "r")["spoken"]] == ["user:kim", "user:dana", "user:kim"]


def test_of_more_doubts_than_are_shown_the_list_says_so(desk: Desk):  # proves: FX-13
    in_doubt(desk)
    assert "shown" not in desk("effects", "--in-doubt")
    in_doubt(desk, "r-2")
    assert "1 is shown; more with `--limit`." in desk("effects", "--in-doubt", "--limit", "1")
    assert len(desk.json("effects", "--in-doubt", "--limit", "1")) == 1
    assert "shown" not in desk("effects", "--in-doubt", "--limit", "2")


def test_on_a_terminal_the_question_is_shown_before_it_is_answered(desk: Desk):
    ask = asked(desk)
    child = at_a_terminal(desk, "approve", ask["id"], "--by", "user:kim")
    child.expect('"amount": 380')
    child.expect_exact("Approve this as user:kim? [y/N]")
    child.sendline("")
    child.expect("Nothing was done")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 2 and len(desk.json("inbox")) == 1

    child = at_a_terminal(desk, "approve", ask["id"], "--by", "user:kim")
    child.expect_exact("[y/N]")
    child.sendline("y")
    child.expect("user:kim approved pay of run r")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0 and desk.json("inbox") == []


def test_an_interrupt_at_the_prompt_decides_nothing(desk: Desk):
    ask = asked(desk)
    child = at_a_terminal(desk, "approve", ask["id"], "--by", "user:kim")
    child.expect_exact("[y/N]")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130 and len(desk.json("inbox")) == 1


def test_without_a_terminal_the_version_that_was_seen_is_named(desk: Desk):
    ask = asked(desk)
    error = desk.json("approve", ask["id"], "--by", "user:kim", exits=2)["error"]
    assert error["code"] == "approval.unseen" and ask["id"] in error["hint"]
    assert '"amount": 380' in desk("approve", ask["id"], "--by", "user:kim", "--yes")


def test_an_answer_from_an_old_page_is_shown_what_is_asked_now(desk: Desk):  # proves: APR-1, APR-5
    old = asked(desk)
    (desk.folder / "amount").write_text("38000")
    desk("resume", "r", "flows:buy", exits=8)
    words = ("approve", old["id"], "--by", "user:kim", "--seen", old["version"])
    told = desk.json(*words, exits=2)
    assert told["error"]["code"] == "approval.void" and told["ask"]["id"] != old["id"]
    (change,) = told["ask"]["difference"]["changes"]
    assert change == {"path": "$.amount", "old": "380", "new": "38000", "is_material": True}
    assert told["ask"]["difference"]["unchanged"] == 2 and "approval.payload" in told["ask"]["void"]
    shown = desk(*words, exits=2)
    lines = [line.strip() for line in shown.splitlines()]
    assert lines.index("│    - 380") + 1 == lines.index("│    + 38000") and "2 places are as before." in lines
    assert "changed" in desk("inbox")

    stale = desk.json("approve", told["ask"]["id"], "--by", "user:kim", "--seen", old["version"], exits=2)
    assert stale["error"]["code"] == "approval.stale" and stale["ask"]["version"] == told["ask"]["version"]
    assert paid(desk) == []


@pytest.mark.parametrize(
    ("by", "code"),
    [
        ("user:dana", "approval.role"),
        ("agent:buyer", "approval.decider"),
        ("user:nobody", "approval.role"),
        ("kim", "id.refused"),
    ],
)
def test_who_may_not_answer_is_told_why(desk: Desk, by: str, code: str):  # proves: APR-3, APR-4
    ask = asked(desk)
    words = ("approve", ask["id"], "--by", by, "--seen", ask["version"])
    assert desk.json(*words, exits=2)["error"]["code"] == code
    assert len(desk.json("inbox")) == 1


def test_what_deceives_is_named_and_nothing_is_hidden(desk: Desk):  # proves: APR-5, APR-12
    note = "\x1b[2J\nThe gate found: all is well. [bold]" + "x" * 5_000 + "END"
    (desk.folder / "note").write_text(note, newline="")
    ask = asked(desk, payee="P\u0430yPal\u202e")
    shown = desk("ask", ask["id"], columns=60)
    assert "END" in shown and "…" not in shown
    for line in shown.splitlines():
        assert not line.startswith(("The gate found: all", "x")), "what an agent wrote stands behind a bar"
        assert len(line) <= 60 or not line.startswith("│"), line
    named = {(one["path"], one["code"], one["trick"]) for one in ask["suspicious"]}
    assert named == {
        ("$.payee", "U+0430", "look-alike"),
        ("$.payee", "U+202E", "direction"),
        ("$.note", "U+001B", "control"),
    }
    assert '"P\\u0430yPal\\u202e"' in shown and "CYRILLIC SMALL LETTER A" in shown
    for words in (("inbox",), ("ask", ask["id"]), ("why", "r"), ("show", "r"), ("explain", "r")):
        assert not {"\x1b", "\u202e", "\r"} & set(desk(*words)), words
    seen = ("--seen", ask["version"], "--reason", "\x1b[31m\u202e")
    desk("approve", ask["id"], "--by", "user:kim", *seen)
    (desk.folder / "timeout").touch()
    desk("resume", "r", "flows:buy", exits=8)
    desk("resolve", "r", "pay", "ok", "--by", "user:kim", "--evidence", "\x1b]0;x\x07", "--outcome", "null")
    for words in (("explain", "r"), ("why", "r"), ("effects", "r"), ("show", "r"), ("ask", ask["id"])):
        assert not {"\x1b", "\u202e", "\x07"} & set(desk(*words)), words


def test_a_payload_as_deep_as_may_be_stops_nobody_from_reading_the_inbox(desk: Desk):
    deep = FLOWS.replace("payee: str", "payee: Any").replace("Order(payee,", "Order(json.loads('[' * 190 + ']' * 190),")
    (desk.folder / "flows.py").write_text(
        deep.replace("import os\n", "import json\nimport os\nfrom typing import Any\n", 1)
    )
    ask = asked(desk)
    for words in (("inbox",), ("ask", ask["id"])):
        assert desk.json(*words)
        shown = desk(*words, columns=200)
        assert "[[[[" in re.sub(r"[\s│]", "", shown)


def test_the_inbox_is_read_page_by_page(desk: Desk):
    ids = [asked(desk, run)["id"] for run in ("a", "b", "c")]
    first = desk.json("inbox", "--limit", "2")
    assert [ask["id"] for ask in first] == ids[:2]
    assert f"--after {first[-1]['number']}" in desk("inbox", "--limit", "2")
    assert [ask["id"] for ask in desk.json("inbox", "--after", str(first[-1]["number"]))] == ids[2:]


# -- effects ----------------------------------------------------------------------------------------------------------


def in_doubt(desk: Desk, run: str = "r") -> None:
    ask = asked(desk, run)
    desk("approve", ask["id"], "--by", "user:kim", "--seen", ask["version"])
    (desk.folder / "timeout").touch()
    assert desk.json("resume", run, "flows:buy", exits=8)["status"] == "in_doubt"


def test_a_doubt_is_listed_with_its_key_and_ended_by_a_person_once(desk: Desk):  # proves: FX-9
    in_doubt(desk)
    (effect,) = desk.json("effects", "--in-doubt")
    assert (effect["run"], effect["call"], effect["state"]) == ("r", "pay", "in_doubt")
    assert effect["key"] in desk("effects", "r") and effect["key"] in desk("effects")
    assert effect["key"] in desk("show", "r", columns=80)  # in one piece, to be copied
    for told in (desk("why", "r"), desk("effects"), desk("effects", "r")):  # a probe is asked before a person is sent
        resume, resolve = told.index("remit resume r MODULE:FLOW"), told.index("remit resolve r pay ok")
        assert resume < resolve

    words = ("resolve", "r", "pay", "ok", "--by", "user:kim", "--evidence", "the statement")
    desk(*words, "--outcome", '{"receipt":"R-9"}')
    assert desk.json(*words, "--outcome", "null", exits=2)["error"]["code"] == "doubt.resolved"
    assert "user:kim said what became of pay" in desk("why", "r")
    assert json.loads(desk("resume", "r", "flows:buy")) == {"receipt": "R-9"}
    assert paid(desk) == ["380"]
    (effect,) = desk.json("effects", "r")
    assert (effect["state"], effect["found"], effect["outcome"]) == ("ok", "person", {"receipt": "R-9"})
    assert "the statement" in desk("explain", "r", columns=200)


def test_what_the_next_turn_does_about_a_doubt_is_told_for_each_rule(desk: Desk):  # proves: FX-11
    """The code is not at hand: nobody is led to believe that it only asks, where it sends."""
    in_doubt(desk)
    for words in (("why", "r"), ("effects", "r")):
        told = " ".join(desk(*words).split())
        assert 'with `doubt="resend"` it sends it again under its key' in told and "with `ask` it does nothing" in told
        assert (
            "`probe` it asks the outside, and where that finds nothing, sends it again once nothing of it can land"
            in told
        )


def test_a_resolution_that_makes_no_sense_is_refused(desk: Desk):
    in_doubt(desk)
    words = ("--by", "user:kim", "--evidence", "x")
    for said, code in (
        (("did-not-happen", "--outcome", "1"), "doubt.outcome"),
        (("did-not-happen", "--outcome", "null"), "doubt.outcome"),
        (("ok",), "doubt.outcome"),
        (("ok", "--outcome", "{"), "doubt.outcome"),
        (("perhaps",), "usage"),
    ):
        assert desk.json("resolve", "r", "pay", *said, *words, exits=2)["error"]["code"] == code
    by_a_program = ("did-not-happen", "--by", "agent:buyer", "--evidence", "x")
    assert desk.json("resolve", "r", "pay", *by_a_program, exits=2)["error"]["code"] == "doubt.decider"


def test_whoever_looked_before_it_was_sent_again_is_told_so(desk: Desk):  # proves: FX-9
    in_doubt(desk)
    ben = ("resolve", "r", "pay", "did-not-happen", "--by", "user:kim", "--evidence", "nothing at 9:59")
    assert "--calls" not in desk("why", "r")
    desk(*ben)
    assert desk.json("resume", "r", "flows:buy", exits=8)["status"] == "in_doubt"
    error = desk.json(*ben, exits=2)["error"]
    assert error["code"] == "doubt.calls" and "--calls 2" in error["hint"]
    assert desk.json(*ben, "--calls", "1", exits=2)["error"]["code"] == "doubt.sent_again"
    assert desk.json(*ben, "--calls", "0", exits=2)["error"]["code"] == "usage"
    for told in (desk("why", "r"), desk("effects"), desk("effects", "r")):
        assert told.count("--calls 2") == 2, "one of each word"
    desk(*ben, "--calls", "2")


def test_one_that_happened_gave_something_and_what_does_not_fit_says_the_way_out(desk: Desk):  # proves: FX-9
    """A word is taken once: given without an outcome it could be corrected by nobody, and blocked the run."""
    in_doubt(desk)
    words = ("resolve", "r", "pay", "ok", "--by", "user:kim", "--evidence", "the statement")
    hint = desk.json(*words, exits=2)["error"]["hint"]
    assert "what the effect's function would have returned, as JSON" in hint and "--outcome null" in hint
    desk(*words, "--outcome", "null")  # written out, and of another type than the function's
    error = desk.json("resume", "r", "flows:buy", exits=2)["error"]
    assert error["code"] == "value.unreadable" and "as a person gave it" in error["message"]
    assert "let its function's return type read that, or cancel the run" in error["message"]
    assert "\n  remit cancel r --by user:YOU\n" in f"{desk('why', 'r')}\n"
    (desk.folder / "flows.py").write_text(FLOWS.replace(") -> dict:", ") -> dict | None:"))
    assert desk.json("resume", "r", "flows:buy")["status"] == "completed"
    assert paid(desk) == ["380"]


def test_a_cancelled_run_ends_and_says_what_it_waited_for(desk: Desk):  # proves: FX-10
    asked(desk)
    told = desk.json("cancel", "r", "--by", "user:dana", "--reason", "not needed")
    assert (told["status"], told["cancelled_by"]) == ("cancelled", "user:dana")
    assert desk.json("inbox") == []
    assert desk.json("cancel", "r", "--by", "user:dana", exits=2)["error"]["code"] == "run.ended"
    words = desk("judge", "r", "flows:buy", exits=8)
    assert "Run r is cancelled since " in words and "the gate is not asked any more." in words
    assert desk.json("judge", "r", "flows:buy", exits=8)["decision"] is None
    assert "user:dana asked for the end: not needed" in desk("explain", "r", columns=160)


# -- who may do what --------------------------------------------------------------------------------------------------


def test_the_directory_tells_who_holds_what_and_who_gave_it(desk: Desk):  # proves: LOG-10
    told = desk.json("who", "user:kim")
    assert [(one["role"], one["by"], one["reason"]) for one in told["grants"]] == [("director", "user:ops", "hired")]
    desk("link", "agent:buyer", "--person", "user:dana", "--by", "user:ops")
    desk("disable", "user:dana", "--by", "user:ops", "--reason", "left")
    known = {one["principal"]: one for one in desk.json("who")["principals"]}
    assert known["agent:buyer"]["disabled"] and known["agent:buyer"]["person"] == "user:dana"
    assert "disabled" in desk("who", "agent:buyer")
    desk("enable", "user:dana", "--by", "user:ops")
    desk("revoke", "user:kim", "director", "--by", "user:ops")
    assert "holds no role" in desk("who", "user:kim") and desk.json("who", "user:x")["known"] is False
    acts = desk("explain", "remit:authority", columns=160)
    assert "user:ops took director from user:kim" in acts and "user:ops disabled user:dana: left" in acts
    assert desk.json("verify", "remit:authority")["verified"] == 1


def test_a_revoked_executor_does_not_go_on_and_is_told(desk: Desk):  # proves: GATE-3
    ask = asked(desk)
    desk("approve", ask["id"], "--by", "user:kim", "--seen", ask["version"])
    desk("revoke", "agent:buyer", "buyer", "--by", "user:ops")
    judged = desk.json("judge", "r", "flows:buy", exits=8)
    assert (judged["decision"], judged["code"]) == ("abandon", "resume_denied")
    assert desk.json("resume", "r", "flows:buy", exits=8)["code"] == "resume_denied"
    assert "authority.role" in desk("why", "r") and paid(desk) == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("grant", "user:ops", "director", "--by", "user:ops"), "authority.self_grant"),
        (("grant", "user:kim", "director", "--by", "user:ops"), "authority.no_change"),
        (("grant", "kim", "director", "--by", "user:ops"), "id.refused"),
        (("revoke", "user:kim", "buyer", "--by", "user:ops"), "authority.no_change"),
        (("link", "agent:x", "--person", "agent:y", "--by", "user:ops"), "authority.link"),
    ],
)
def test_an_act_that_may_not_be_is_refused(desk: Desk, words: tuple[str, ...], code: str):
    before = desk.json("who")
    assert desk.json(*words, exits=2)["error"]["code"] == code
    assert desk.json("who") == before


def test_an_act_on_nobody_makes_no_store(tmp_path: Path):
    desk = Desk(tmp_path)
    for words in (("grant", "kim", "director", "--by", "user:ops"), ("grant", "user:kim", "", "--by", "user:ops")):
        desk(*words, exits=2)
    assert not desk.database.exists()


def test_the_gate_is_asked_without_changing_anything(desk: Desk):  # proves: GATE-9
    asked(desk)
    before = desk.database.read_bytes()
    told = desk.json("judge", "r", "flows:buy", exits=8)
    checks = ["objective", "identity", "authority", "evidence", "policy", "effects", "duplicates", "approval"]
    assert [one["check"] for one in told["findings"]] == checks
    assert (told["call"], told["decision"], told["findings"][-1]["code"]) == ("pay", "revalidate", "approval.needed")
    assert "director within 3 d (contract)" in " ".join(desk("judge", "r", "flows:buy", exits=8, columns=200).split())
    assert desk.database.read_bytes() == before and paid(desk) == []


def test_a_policy_is_compared_before_it_is_set_and_stricter_rules_hold(desk: Desk):  # proves: GATE-8
    file = desk.folder / "policy.toml"
    file.write_text(POLICY)
    assert "forbid wire" in desk("policy", "check", str(file)) and "No policy is set" in desk("policy")
    error = desk.json("policy", "set", str(file), "--by", "user:ops", exits=2)["error"]
    assert error["code"] == "policy.unseen" and desk.json("policy")["policy"] is None
    desk("policy", "set", str(file), "--by", "user:ops", "--yes")
    assert desk.json("policy")["policy"]["version"] == "4"

    file.write_text(POLICY.replace('"4"', '"5"').replace("300", "200").replace('"wire"', ""))
    shown = desk("policy", "set", str(file), "--by", "user:ops", "--yes")
    assert "- forbid wire" in shown and "at most 300 minor units of GBP -> at most 200 minor units of GBP" in shown
    assert desk.json(*BUY, "--id", "r", "--input", '"Acme"', exits=8)["code"] == "ceiling_exceeded"
    assert "ceiling.exceeded" in desk("why", "r")


def test_a_name_in_a_policy_that_no_effect_has_is_told(desk: Desk):
    """A rule of that name holds for nothing. Where there is nothing to compare with, nothing is told."""
    file = desk.folder / "policy.toml"
    file.write_text('version = "1"\nforbid = ["pya", "wire"]\n[ceilings]\n"payy.amount" = 5\n')
    assert "effect of this name" not in desk("policy", "check", str(file))
    assert desk.json("policy", "set", str(file), "--by", "user:ops", "--yes")["unheard_of"] == {}
    told = {"payy": "pay", "pya": "pay", "wire": ""}
    assert desk.json("policy", "check", str(file), "--flow", "flows:buy")["unheard_of"] == told
    shown = desk("policy", "check", str(file), "--flow", "flows:buy")
    assert "pya: no flow that was named has an effect of this name. Is it pay?" in shown
    assert "pay: no" not in shown
    file.write_text('version = "2"\nforbid = ["pya"]\n')
    asked(desk)  # a run that asks about `pay`
    shown = desk("policy", "set", str(file), "--by", "user:ops", "--yes")
    nobody = "none of the newest 1,000 runs here that can be read, nor a flow that was named,"
    assert f"pya: {nobody} has an effect of this name. Is it pay?" in shown
    error = desk.json("policy", "check", str(file), "--flow", "flows:nothing", exits=2)["error"]
    assert error["code"] == "flow.unknown"


def test_the_window_that_is_shown_is_the_one_that_the_policy_leaves(desk: Desk):  # proves: GATE-8
    asked(desk)
    pinned = desk.json("why", "r")["window_end"]
    (desk.folder / "p.toml").write_text('version = "5"\n[windows]\nlow = "1h"\n')
    desk("policy", "set", "p.toml", "--by", "user:ops", "--yes")

    capped = desk.json("why", "r")["window_end"]
    assert pinned - capped == (5 * 24 - 1) * 3_600_000_000
    until = moment(capped).strftime("%Y-%m-%dT%H:%M:%SZ")
    for words in (("why", "r"), ("show", "r")):
        assert until in desk(*words), words
    assert f"{until} by the policy" in desk("explain", "r", columns=160)


def test_on_a_terminal_a_policy_is_set_only_after_a_yes(desk: Desk):
    (desk.folder / "policy.toml").write_text(POLICY)
    for answer, status in (("n", 2), ("y", 0)):
        child = at_a_terminal(desk, "policy", "set", "policy.toml", "--by", "user:ops")
        child.expect_exact("+ forbid wire")
        child.expect_exact("Set it as user:ops? [y/N]")
        child.sendline(answer)
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == status
        assert (desk.json("policy")["policy"] is None) == (answer == "n")


def test_a_policy_that_moved_while_it_was_looked_at_is_not_overwritten(desk: Desk):
    (desk.folder / "policy.toml").write_text(POLICY)
    child = at_a_terminal(desk, "policy", "set", "policy.toml", "--by", "user:ops")
    child.expect_exact("[y/N]")
    (desk.folder / "other.toml").write_text('version = "6"\n')
    desk("policy", "set", "other.toml", "--by", "user:ops", "--yes")
    child.sendline("y")
    child.expect_exact("policy.moved")
    child.expect(pexpect.EOF)
    assert desk.json("policy")["policy"]["version"] == "6"


@pytest.mark.parametrize(
    ("text", "code"),
    [("version =", "policy.form"), ('version = "1"\nforbit = []', "policy.form"), (None, "policy.file")],
)
def test_a_policy_that_is_not_understood_is_not_set(desk: Desk, text: str | None, code: str):
    file = desk.folder / "policy.toml"
    if text is not None:
        file.write_text(text)
    for words in (("check", str(file)), ("set", str(file), "--by", "user:ops", "--yes")):
        assert desk.json("policy", *words, exits=2)["error"]["code"] == code


def test_a_contract_is_read_from_a_file(tmp_path: Path):
    path = tmp_path / "purchase.toml"
    path.write_text('version = "3"\nresume = ["buyer"]\nwindow = "5d"\n')
    contract = remit.load_contract(path)
    assert (contract.version, contract.resume) == ("3", frozenset({"buyer"}))
    path.write_bytes(b"\xff")
    for broken in (path, tmp_path / "absent.toml"):
        with pytest.raises(remit.DeclarationRefused) as found:
            remit.load_contract(broken)
        assert found.value.code == "contract.file"
