"""The command line: what a person types, what it answers, and with which exit status."""

from __future__ import annotations

import json
import re
import shlex
import signal
from pathlib import Path
from typing import Any

import apsw
import pytest
from typer.main import get_command

import remit
from remit.faces.cli.main import app
from tests.support.command import FLOWS, STORE, Desk
from tests.support.journal import open_held

KEY = "run_key = (SELECT run_key FROM remit_run WHERE run = '{}')"
SOURCES = sorted(Path(remit.__file__).parent.rglob("*.py"))


def edit(desk: Desk, statement: str, *values: bytes) -> list[tuple[bytes, ...]]:
    connection = apsw.Connection(str(desk.database))
    try:
        return list(connection.execute(statement, values))
    finally:
        connection.close()


# -- running ----------------------------------------------------------------------------------------------------------


def test_a_run_killed_by_sigkill_is_gone_on_with_by_the_same_command(desk: Desk):  # proves: RUN-5, RUN-1
    (desk.folder / "die-at").write_text("2")
    words = ("run", "flows:good", "--id", "r", "--input", "4")
    died = desk.child(*words)
    assert died.returncode == -signal.SIGKILL
    assert "dead; it can be taken over at once" in desk("why", "r")
    (desk.folder / "die-at").unlink()

    went_on = desk.child(*words, "--json")
    assert went_on.returncode == 0, went_on.stderr
    assert [outcome["n"] for outcome in json.loads(went_on.stdout)["value"]] == [0, 1, 2, 3]
    assert desk.ran() == ["0", "1", "2", "2", "3"]


def test_a_step_that_raises_exits_with_7_and_why_says_what_to_do(desk: Desk):  # proves: RUN-6, RUN-7
    (desk.folder / "broken").touch()
    words = ("run", "flows:good", "--id", "r", "--input", "1", "--by", "agent:buyer", "--behalf", "user:dana")
    complaint = desk(*words, exits=7)
    assert "step.failed" in complaint and "Mend the code" in complaint and "Traceback" not in complaint

    told = desk.json("why", "r")
    assert (told["status"], told["code"], told["waits_for"], told["holder"]) == (
        "waiting",
        "step.failed",
        "repair",
        "",
    )
    assert [(failed["call"], failed["error"]) for failed in told["failures"]] == [("fetch", "ValueError")]
    assert told["next"] == "mend what failed, then `remit resume r MODULE:FLOW`."  # which needs no input and no names
    assert "waiting for repair since 20" in desk("why", "r")

    (desk.folder / "broken").unlink()
    desk(*words)
    assert "it has ended" in desk("why", "r")


def test_a_run_that_ends_otherwise_than_completed_is_no_success(desk: Desk):  # proves: GATE-8
    (desk.folder / "flows.py").write_text(
        FLOWS.replace(
            'version="1", resume="anyone"', 'version="1", resume="anyone", window=timedelta(microseconds=1)'
        ).replace("import os\n", "import os\nfrom datetime import timedelta\n", 1)
    )
    told = desk.json("run", "flows:good", "--id", "r", "--input", "1", exits=8)
    assert (told["status"], told["code"]) == ("expired", "window_over")
    assert "value" not in told
    assert "expired" in desk("run", "flows:good", "--id", "r", "--input", "1", exits=8)


def test_with_json_standard_output_is_one_document_whatever_steps_print(desk: Desk):
    told = desk.child("run", "flows:chatty", "--id", "r", "--json")
    assert json.loads(told.stdout)["value"] == 1
    assert "said by a step" in told.stderr and "said by its child" in told.stderr
    aloud = desk.child("run", "flows:chatty", "--id", "other")
    assert aloud.stdout.splitlines() == ["said by a step", "said by its child", "1"]


def test_an_interrupt_gives_the_run_back_and_does_not_wait_for_a_step(desk: Desk):  # proves: FX-12
    child = desk.start("run", "flows:sleeper", "--id", "r")
    assert child.stdout is not None
    assert [child.stdout.readline() for _ in range(3)][-1] == "asleep\n"
    child.send_signal(signal.SIGINT)
    _, complaint = child.communicate(timeout=20)
    assert child.returncode == 130
    assert "interrupted" in complaint and "Traceback" not in complaint
    told = desk.json("why", "r")
    assert (told["status"], told["holder"], told["last_call"]) == ("running", "", "chat")
    assert told["next"].startswith("`remit resume r MODULE:FLOW`")


@pytest.mark.parametrize("number", ["-1", str(2**63), str(10**23)])
def test_a_number_that_no_row_has_is_refused(desk: Desk, number: str):
    desk("run", "flows:good", "--id", "r", "--input", "1", exits=0)
    desk("inbox", f"--after={number}", exits=2)
    desk("list", f"--before={number}", exits=2)
    desk("inbox", f"--after={2**63 - 1}", exits=0)


def test_a_wrong_word_makes_no_store(desk: Desk):
    for words in (
        ("flows:nothing", "--id", "r"),
        ("nowhere:good", "--id", "r"),
        ("flows:good", "--id", "a\nb", "--input", "1"),
        ("flows:good", "--id", "r", "--input", '"one"'),
    ):
        desk("run", *words, exits=2)
    assert not desk.database.exists()


@pytest.mark.parametrize(
    ("words", "code", "exits"),
    [
        (("run", "flows:nothing", "--id", "r"), "flow.unknown", 2),
        (("run", "nowhere:good", "--id", "r"), "flow.unknown", 2),
        (("run", "flows", "--id", "r"), "flow.unknown", 2),
        (("run", ".flows:good", "--id", "r"), "flow.unknown", 2),
        (("run", "flows:OPEN", "--id", "r"), "flow.unknown", 2),
        (("run", "broke:good", "--id", "r"), "flow.unknown", 2),
        (("run", "undeclared:good", "--id", "r"), "contract.resume", 2),
        (("run", "flows:good", "--id", "r", "--input", "{"), "input.unreadable", 2),
        (("run", "flows:good", "--id", "r"), "input.unreadable", 2),
        (("run", "flows:good", "--id", "r", "--input", "1", "--input-file", "x"), "input.twice", 2),
        (("run", "flows:chatty", "--id", "r", "--input", "1"), "input.unexpected", 2),
        (("run", "flows:good", "--id", "a\nb", "--input", "1"), "id.refused", 2),
        (("run", "flows:good", "--id", "r", "--input", "1", "--by", "dana"), "id.refused", 2),
        (("run", "flows:good", "--id", "r", "--input-file", "absent.json"), "input.unreadable", 2),
        (("run", "flows:good", "--id", "r", "--input", "1", "--store", "mysql://x"), "url.refused", 2),
        (("why", "absent"), "run.absent", 2),
        (("run", "flows:good", "--id", "taken", "--input", "2"), "input_mismatch", 2),
        (("run", "flows:good", "--id", "taken", "--input", "1", "--by", "agent:x"), "executor_mismatch", 2),
        (("list", "--status", "bogus"), "status.unknown", 2),
        (("show",), "usage", 2),
        (("nosuch",), "usage", 2),
    ],
)
def test_bad_input_gets_a_code_and_a_hint(desk: Desk, words: tuple[str, ...], code: str, exits: int):
    (desk.folder / "broke.py").write_text("import remit\n1 / 0\n")
    (desk.folder / "undeclared.py").write_text('import remit\nremit.Contract(version="1")\n')
    desk("run", "flows:good", "--id", "taken", "--input", "1")
    error = desk.json(*words, exits=exits)["error"]
    assert error["code"] == code
    assert error["message"] and error["hint"]


def test_an_input_that_was_left_out_is_told_apart_from_a_wrong_one(desk: Desk):
    assert "was given none" in desk.json("run", "flows:good", "--id", "r", exits=2)["error"]["message"]


def test_usage_is_told_on_standard_error_with_status_2(desk: Desk):
    told = desk.child("nosuch")
    assert (told.returncode, told.stdout) == (2, "")
    assert "No such command" in told.stderr


# -- looking ----------------------------------------------------------------------------------------------------------


def test_explain_tells_the_timeline_and_executes_nothing(desk: Desk):  # proves: RPL-1, GATE-12
    desk("run", "flows:good", "--id", "r", "--input", "2", "--by", "agent:buyer", "--behalf", "user:dana")
    (desk.folder / "flows.py").write_text("raise SystemExit('explain imports no code')")
    before = desk.database.read_bytes()

    shown = desk("explain", "r")
    assert [word in shown for word in ("RunOpened", "StepDone", "fetch#2", "RunEnded", "attempt 1")] == [True] * 5
    assert "opened under" in shown and "agent:buyer for user:dana" in shown
    told = desk.json("explain", "r")
    kinds = ["RunOpened", "AttemptStarted", "StepDone", "StepDone", "RunEnded"]
    assert [entry["kind"] for entry in told["entries"]] == kinds
    assert told["opened_under"]["contract"]["version"] == "1"
    assert all(entry["is_verified"] for entry in told["entries"])
    assert desk.ran() == ["0", "1"]
    assert desk.database.read_bytes() == before


def test_a_long_value_is_cut_to_the_terminal_and_its_size_is_told(desk: Desk):
    (desk.folder / "flows.py").write_text(FLOWS.replace('"n": n,', '"n": n, "long": "x" * 9_000,'))
    desk("run", "flows:good", "--id", "r", "--input", "1")
    for columns in (60, 80, 120):
        for words in (("explain", "r"), ("show", "r"), ("list",), ("verify",), ("doctor",)):
            widest = max(len(line) for line in desk(*words, columns=columns).splitlines())
            assert widest <= columns, words
    assert re.search(r"StepDone +fetch +\(.*\{\"long\":\"x+… 9,\d\d\d bytes$", desk("explain", "r"), re.MULTILINE)
    assert "x" * 9_000 in desk("show", "r", "--raw")
    assert desk.json("show", "r")["calls"][0]["value"]["long"] == "x" * 9_000


def test_commands_that_look_make_no_store(desk: Desk):
    for words in looking("r"):
        assert desk.json(*words, exits=6)["error"]["code"] == "store.missing"
    assert not desk.database.exists()


def test_on_postgres_commands_that_look_make_no_tables(desk: Desk, postgres_database: str):
    for words in looking("r"):
        assert desk.json(*words, "--store", postgres_database, exits=6)["error"]["code"] == "store.missing"
    there = ("--store", postgres_database)
    desk("run", "flows:good", "--id", "r", "--input", "1", *there)
    assert [row["run"] for row in desk.json("list", *there)] == ["r"]


def looking(run: str) -> list[tuple[str, ...]]:
    return [
        ("list",),
        ("show", run),
        ("why", run),
        ("explain", run),
        ("verify",),
        ("doctor",),
        ("check", run, "flows:good"),
    ]


async def test_commands_leave_a_working_database_alone(desk: Desk):  # proves: OWN-8, C35
    store = remit.open(f"sqlite:///{desk.database}")._store
    await store.open()
    hand = await open_held(store, "held")
    await store.append(hand.step())
    log = Path(f"{desk.database}-wal")
    before = log.stat().st_ino
    for words in looking("held"):
        told = desk.child(*words)
        assert told.returncode in (0, 2, 4), (words, told.stderr)
    await store.append(hand.step())
    assert log.stat().st_ino == before
    row = await store.read_row("default", "held")
    assert row is not None and row.seq == hand.pen.seq
    await store.close()


def test_every_page_of_the_list_has_as_many_runs_as_were_asked_for(desk: Desk):
    for id in ("a", "b", "c_1", "c%1"):
        desk("run", "flows:good", "--id", id, "--input", "0")
    edit(desk, f"UPDATE remit_entry SET body = CAST('{{}}' AS BLOB) WHERE {KEY.format('b')} AND seq = 2")
    desk("show", "b", exits=5)
    assert [row["run"] for row in desk.json("list", "--limit", "2")] == ["c%1", "c_1"]
    key = desk.json("list", "--limit", "2")[-1]["key"]
    assert [row["run"] for row in desk.json("list", "--limit", "2", "--before", str(key))] == ["b", "a"]
    assert [row["run"] for row in desk.json("list", "--prefix", "c_")] == ["c_1"]
    for words in (("--status", "quarantined"), ("--quarantined",)):
        assert [row["run"] for row in desk.json("list", *words)] == ["b"]


# -- proving ----------------------------------------------------------------------------------------------------------


def test_a_tampered_run_is_refused_shown_in_red_and_named_by_verify(desk: Desk):  # proves: LOG-2, LOG-3
    for id in ("r", "other"):
        desk("run", "flows:good", "--id", id, "--input", "2")
    edit(desk, f"UPDATE remit_entry SET value = CAST('{{\"n\":7}}' AS BLOB) WHERE {KEY.format('r')} AND seq = 4")

    assert "2 of 3" in desk("verify", exits=5)
    told = desk.json("verify", exits=5)
    assert [(wrong["run"], wrong["code"]) for wrong in told["wrong"]] == [("r", "chain.hash")]
    assert "an older database put back" in told["not_covered"]
    again = ("run", "flows:good", "--id", "r", "--input", "2")
    refused = desk.child(*again, "--json")
    assert (refused.returncode, json.loads(refused.stdout)["error"]["code"]) == (5, "chain.hash")
    assert refused.stderr.startswith("critical: Run 'r' is quarantined")
    assert desk.json(*again, exits=2)["error"]["code"] == "run.quarantined"
    entries = desk.json("explain", "r", exits=5)["entries"]
    assert [entry["is_verified"] for entry in entries] == [True, True, True, False, False]
    assert "chain.hash" in desk("why", "r") and "still do not verify" in desk("why", "r")
    lift = ("lift", "r", "--by", "user:dana", "--reason", "restored from the backup")
    assert desk.json(*lift, exits=5)["error"]["code"] == "chain.hash"
    assert desk.json("run", "flows:good", "--id", "other", "--input", "2")["status"] == "completed"

    ((good,),) = edit(desk, f"SELECT value FROM remit_entry WHERE {KEY.format('other')} AND seq = 4")
    edit(desk, f"UPDATE remit_entry SET value = ? WHERE {KEY.format('r')} AND seq = 4", good)
    assert desk.json("verify")["quarantined"] == ["r"]
    assert "Its bytes verify now." in desk("why", "r")
    desk(*lift)
    assert "verified     1 of 1" in desk("verify", "r")
    assert desk.json(*again)["status"] == "completed"


def test_a_run_restored_from_an_older_backup_is_lifted_by_who_found_out_what_it_lacks(desk: Desk):  # proves: LOG-3
    desk("run", "flows:good", "--id", "r", "--input", "2")
    edit(desk, f"UPDATE remit_run SET seq = seq + 3 WHERE {KEY.format('r')}")
    assert "First find out outside what was done since the backup" in desk("show", "r", exits=5)
    assert "irst find out outside what was done since the backup" in desk("why", "r")
    edit(desk, f"UPDATE remit_run SET seq = seq - 3 WHERE {KEY.format('r')}")

    told = desk.json("why", "r")
    assert told["missing"].startswith("3 of lane main behind ") and "remit lift r --shorter --by" in told["next"]
    assert "entries are missing: 3 of lane main" in desk("why", "r")
    lift = ("lift", "r", "--by", "user:dana", "--reason", "asked the bank")
    refused = desk.json(*lift, exits=2)["error"]
    assert refused["code"] == "lift.shorter" and "`remit lift r --shorter --by user:YOU" in refused["hint"]
    desk(*lift, "--shorter")
    assert "lifted r, with entries missing: asked the" in desk("explain", "remit:incidents")
    assert desk.json("why", "r")["status"] == "completed"


def test_the_journal_of_incidents_can_be_looked_at_and_never_sets_itself_aside(desk: Desk):  # proves: LOG-3
    for id in ("r", "other"):
        desk("run", "flows:good", "--id", id, "--input", "1")
    edit(desk, f"UPDATE remit_entry SET body = CAST('{{}}' AS BLOB) WHERE {KEY.format('r')} AND seq = 2")
    desk("show", "r", exits=5)

    for command in ("show", "why"):
        assert desk.json(command, "remit:incidents", exits=2)["error"]["code"] == "run.absent"
    assert [entry["kind"] for entry in desk.json("explain", "remit:incidents")["entries"]][1:] == ["RunQuarantined"]
    assert desk.json("verify", "remit:incidents")["verified"] == 1
    assert desk.json("verify", exits=5)["verified"] == 3

    edit(desk, f"UPDATE remit_entry SET body = CAST('{{}}' AS BLOB) WHERE {KEY.format('other')} AND seq = 2")
    desk("show", "other", exits=5)  # incidents are still written
    assert desk.json("why", "other")["status"] == "quarantined"


def test_check_says_whether_the_code_goes_on_and_runs_nothing(desk: Desk):  # proves: RUN-17
    (desk.folder / "die-at").write_text("2")
    desk.child("run", "flows:good", "--id", "r", "--input", "3")
    ran = desk.ran()
    assert desk.json("check", "r", "flows:good")["fit"] == "compatible"
    assert desk.json("check", "r", "flows:stricter")["fit"] == "compatible after the gate"
    (desk.folder / "flows.py").write_text(FLOWS.replace("range(count - 1)", "range(1)"))
    told = desk.json("check", "r", "flows:shorter", exits=4)
    assert (told["fit"], told["call"], told["recorded"]) == ("incompatible", "fetch#2", ["fetch#2"])
    assert "incompatible at fetch#2" in desk("check", "r", "flows:shorter", exits=4)
    assert desk.ran() == ran


def test_doctor_examines_without_changing_and_fails_on_a_finding(desk: Desk):  # proves: OWN-8
    desk("run", "flows:good", "--id", "r", "--input", "1")
    found = {one["name"]: one["ok"] for one in desk.json("doctor")}
    assert found and all(found.values())
    assert desk("doctor", STORE).count("ok") >= len(found)
    edit(desk, f"UPDATE remit_entry SET body = CAST('{{}}' AS BLOB) WHERE {KEY.format('r')} AND seq = 2")
    (wrong,) = (one for one in desk.json("doctor", exits=6) if not one["ok"])
    assert (wrong["name"], wrong["seen"]) == ("journals", "r: does not verify") and "`remit verify`" in wrong["hint"]
    edit(desk, "UPDATE remit_run SET quarantined = 1")
    assert [one["name"] for one in desk.json("doctor", exits=6) if not one["ok"]] == ["runs", "own journals"]


# -- the words themselves ---------------------------------------------------------------------------------------------

COMMAND = re.compile(r"`remit ([a-z][^`]*)`")
STAND_INS = {"RUN": "r", "URL": "sqlite:///x.db", "MODULE:FLOW": "a:b", "KEY": "1", "WHY": "x", "user:YOU": "user:x"}


def test_each_command_that_a_hint_names_can_be_typed():
    """The command line is parsed and nothing is done: `--help` is asked for at its end."""
    named = {
        re.sub(r"\{[^}]*\}", "r", text): f"{path.name}: {text}"
        for path in SOURCES
        for text in COMMAND.findall(path.read_text(encoding="utf-8"))
    }
    assert len(named) > 25
    for text, where in named.items():
        words = [STAND_INS.get(word, word) for word in shlex.split(text)]
        if words[0] == "COMMAND":
            continue
        command: Any = get_command(app)
        while words and hasattr(command, "commands"):
            command = command.commands.get(words.pop(0))
            assert command is not None, where
        options = {name for parameter in command.params for name in parameter.opts}
        assert [word for word in words if word.startswith("-") and word not in options] == [], where


TYPED = """
from dataclasses import dataclass

import remit


@dataclass
class Quote:
    price: int


@remit.step
def ask() -> Quote:
    return Quote(120)


@remit.step
def order(price: int) -> str:
    raise OSError("the office is closed")


@remit.flow(contract=remit.Contract(version="1", resume="anyone"))
def buy(run: remit.SyncRun) -> str:
    return run.step(order, run.step(ask).price)
"""


def test_a_value_whose_class_changed_names_type_and_step_and_can_be_shown_as_it_is(desk: Desk):  # proves: C30
    (desk.folder / "flows.py").write_text(TYPED)
    desk("run", "flows:buy", "--id", "r", exits=7)
    (desk.folder / "flows.py").write_text(
        TYPED.replace("price: int\n\n\n@remit.step\ndef ask", "cost: int\n\n\n@remit.step\ndef ask")
    )
    told = desk.json("run", "flows:buy", "--id", "r", exits=2)["error"]
    assert told["code"] == "value.unreadable" and "Quote" in told["message"] and "ask" in told["message"]
    assert desk.json("why", "r")["code"] == "value.unreadable"
    assert '{"price":120}' in desk("show", "r", "--raw")
    assert desk.json("check", "r", "flows:buy", exits=4)["call"] == "ask"
