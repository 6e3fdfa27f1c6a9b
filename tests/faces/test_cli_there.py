"""What a command tells to type names the store and the tenant that it was given: elsewhere the id is another run's."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path

import apsw
import pytest

from remit.faces.cli.target import there_of
from remit.faces.there import There
from tests.docs.pages import ROOT
from tests.support.command import Desk

PAYS = """
import os
from datetime import timedelta

import remit

ASKS = remit.Rule(approval=remit.Approval({"lead"}, timedelta(hours=8)))


def _contract(resume="anyone", **effects):
    return remit.Contract(version="1", resume=resume, effects=effects)


@remit.effect
def pay(order: dict, *, key: str) -> str:
    with open("bank.txt", "a") as bank:
        bank.write(f"{order}\\n")
    if os.path.exists("lost"):
        raise OSError("no answer")
    return "ok"


@remit.flow(contract=_contract())
def pays(run: remit.SyncRun, whose: str) -> str:
    return run.effect(pay, {"amount": 900, "of": whose})


@remit.flow(contract=_contract(pay=ASKS))
def asks(run: remit.SyncRun) -> str:
    return run.effect(pay, {"amount": 900})


@remit.flow(contract=_contract(resume={"buyer"}))
def bought(run: remit.SyncRun) -> str:
    return run.effect(pay, {"amount": 900})
"""
STORE = "sqlite:///staging.db"
THERE = ("--store", STORE, "--tenant", "emea")
NAMED = "--store sqlite:///staging.db --tenant emea"
_COMMAND = re.compile(
    r"(?:`|^ *)(remit (?:--\S+ \S+ )*(?:run|resume|list|show|why|explain|cancel|inbox|ask|approve|deny|effects|resolve|"
    r"who|grant|lift|judge|check|verify|doctor)\b[^`\n]*)"
)
EACH = "`{}`"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "payments.py").write_text(PAYS)
    return Desk(tmp_path)


def typed(told: str) -> list[str]:
    """Each command that an answer has, in backticks or on its own line; one named in passing has no words behind it."""
    found = [command for line in told.splitlines() for command in _COMMAND.findall(line)]
    return [command.rstrip(" .") for command in found if len(command.split()) > 2]


def lost(desk: Desk, run: str, *words: str) -> None:
    (desk.folder / "lost").touch()
    desk("run", "payments:pays", "--id", run, "--input", '"it"', *words, exits=8)
    (desk.folder / "lost").unlink()


def test_what_is_told_of_a_run_elsewhere_is_typed_there(desk: Desk):  # proves: FX-9
    """The run of the same id in the default store is another one, whose payment landed."""
    for words in ((), THERE):
        lost(desk, "inv-7", *words)
        desk("grant", "user:lee", "lead", "--by", "user:ops", *words)
    said = next(one for one in typed(desk("why", "inv-7", *THERE)) if "did-not-happen" in one)
    filled = shlex.split(said.replace("user:YOU", "user:lee").replace("WHAT", "'no such key'"))[1:]
    then = typed(desk(*filled))
    assert then == [f"remit {NAMED} resume inv-7 MODULE:FLOW"]
    desk(*shlex.split(then[0].replace("MODULE:FLOW", "payments:pays"))[1:])
    assert desk.json("effects", "inv-7")[0]["state"] == "in_doubt", "nobody spoke of that one"
    assert "did-not-happen --by user:YOU --evidence WHAT" in typed(desk("why", "inv-7"))[-1], "and it has no options"


def _edit(desk: Desk, status: str) -> None:
    connection = apsw.Connection(str(desk.folder / "staging.db"))
    connection.execute("UPDATE remit_run SET status = ? WHERE run = 'inv-8'", (status,))
    connection.close()


def test_whoever_is_to_be_given_a_role_is_given_it_there(desk: Desk):  # proves: GATE-3
    desk("grant", "agent:a", "clerk", "--by", "user:ops", *THERE)
    told = desk("run", "payments:bought", "--id", "r", "--by", "agent:a", *THERE, exits=2)
    assert typed(told) == [f"remit {NAMED} grant agent:a buyer --by user:YOU"]
    found = desk.json("run", "payments:bought", "--id", "r", "--by", "agent:a", *THERE, exits=2)
    assert f"`remit {NAMED} grant agent:a buyer" in found["error"]["hint"]


def test_each_answer_names_where_it_was_looked_for(desk: Desk):  # proves: FX-9
    lost(desk, "inv-7", *THERE)
    desk("run", "payments:asks", "--id", "inv-8", *THERE, exits=8)
    desk("grant", "user:lee", "lead", "--by", "user:ops", *THERE)
    ask = desk.json("inbox", *THERE)[0]["id"]
    told = {
        "why": desk("why", "inv-7", *THERE),
        "effects": desk("effects", *THERE),
        "list": desk("list", "--status", "in_doubt", *THERE),
        "inbox": desk("inbox", *THERE),
        "ask": desk("ask", ask, *THERE),
        "unseen": desk("approve", ask, "--by", "user:lee", *THERE, exits=2),
        "approve": desk("approve", ask, "--by", "user:lee", "--yes", *THERE),
        "run": desk("run", "payments:pays", "--id", "inv-7", "--input", '"it"', *THERE, exits=8),
        "input": desk("run", "payments:pays", "--id", "inv-7", "--input", '"no"', *THERE, exits=2),
        "absent": desk("show", "nowhere", *THERE, exits=2),
        "json": json.dumps(desk.json("why", "inv-7", *THERE)["next"]),
        "ran": json.dumps(desk.json("resume", "inv-7", "payments:pays", *THERE, exits=8)["next"]),
    }
    assert desk("resume", "inv-8", "payments:asks", *THERE) == '"ok"\n'
    told["ended"] = desk("judge", "inv-8", "payments:asks", *THERE, exits=8)
    _edit(desk, "failed")
    told["log"] = desk.child("show", "inv-8", *THERE).stderr
    told["aside"] = desk("resume", "inv-8", "payments:asks", *THERE, exits=2)
    told["left out"] = desk("effects", *THERE, exits=5)
    _edit(desk, "completed")
    told["verify"] = desk("verify", "inv-8", *THERE)
    told["doctor"] = desk("doctor", STORE, "--tenant", "emea", exits=6)
    assert [name for name, text in told.items() if name != "absent" and not typed(text)] == []
    assert f"`remit {NAMED} list`" in told["absent"]
    found = [(name, command) for name, text in told.items() for command in typed(text)]
    assert [one for one in found if not one[1].startswith(f"remit {NAMED} ")] == []


def test_a_command_that_was_given_no_place_tells_none(desk: Desk):
    lost(desk, "inv-7")
    assert "--store" not in desk("why", "inv-7") and "--tenant" not in desk("why", "inv-7")


def test_a_command_is_completed_whatever_names_are_in_it():
    """A run id may have quotes and backticks; within a command it stands quoted."""
    there = There("sqlite:///a b.db", "emea")
    for name in ("a`b", "a'b", "`remit list`", "it's `odd`"):
        command = f"remit show {shlex.quote(name)} --raw"
        whole = f"remit --store 'sqlite:///a b.db' --tenant emea show {shlex.quote(name)} --raw"
        assert there.typed(command) == whole
        assert there.told(f"See {EACH.format(command)}, and look.") == f"See {EACH.format(whole)}, and look."
    assert there.typed("remit show r --tenant=apac") == "remit --store 'sqlite:///a b.db' show r --tenant=apac"
    assert there.typed("remit doctor URL") == "remit --tenant emea doctor URL"
    for command in ("remit --help", "remit COMMAND --help", "remit version", "remit policy check FILE"):
        assert there.typed(command) == command
    assert There().told("See `remit list`.") == "See `remit list`."


def test_a_password_of_the_store_is_not_told():
    there = there_of("postgresql://ops:secret@db/runs?password=secret", None)
    assert there.typed("remit list") == "remit --store postgresql://ops@db/runs list"
    assert there_of("postgresql://[", None) == There()


def test_no_answer_tells_a_command_as_it_was_written():
    """In the command line's own words each is completed: by `there`, or as part of a step."""
    plain = []
    for path in sorted((ROOT / "src/remit/faces/cli").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("cell", "line"):
                plain += [f"{path.name}:{node.lineno}" for one in node.args if "`remit " in ast.unparse(one)
                          and "there." not in ast.unparse(one)]  # fmt: skip
    assert plain == []


def test_a_store_that_is_missing_is_to_be_named_and_not_made(desk: Desk):  # proves: RUN-5
    for words in (("resume", "r", "payments:pays"), ("why", "r"), ("inbox",), ("effects",), ("list",)):
        told = desk.json(*words, "--store", "sqlite:///nowhere.db", exits=6)["error"]
        assert told["code"] == "store.missing" and "Name the store" in told["hint"]
        assert "knows nothing of any run that is there" in told["hint"] and "remit run" not in told["hint"]
