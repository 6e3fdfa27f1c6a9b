"""What somebody types, and what they are told to type: read as text or refused, and copied whole."""

from __future__ import annotations

import io

import pytest

from remit.faces.cli.say import Voice
from remit.faces.cli.typed import LINE_CHARACTERS_MAX, next_of
from remit.faces.next_step import doubt_step, step
from remit.faces.there import There
from remit.facts.names import AUTHORITY
from tests.support.command import Desk

NO_TEXT = "\udcff"  # what Python makes of the byte FF on a command line

LOOKING = ("show", "why", "explain", "verify", "effects", "ask", "who")


class Terminal(io.StringIO):
    """Somebody sits at it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def told_at_a_terminal(monkeypatch: pytest.MonkeyPatch):
    """What somebody sees who has 60 columns."""
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    voice = Voice(is_json=False, is_colored=False, out=out)

    def told(*shown) -> list[str]:
        voice.answer(None, *shown)
        return [_plain(line) for line in out.getvalue().splitlines()]

    return told


def _plain(line: str) -> str:
    return line.replace("\x1b[1m", "").replace("\x1b[0m", "")


# -- what they are told to type ----------------------------------------------------------------------------------------


def test_each_command_of_a_long_next_step_stands_whole_on_a_line_of_its_own(told_at_a_terminal):
    told = told_at_a_terminal(next_of(doubt_step("po-8", "wire", 1), There()))
    assert [line.removeprefix("  ") for line in told if line.startswith("  ")] == [
        "remit resume po-8 MODULE:FLOW",
        "remit effects po-8",
        "remit resolve po-8 wire ok --by user:YOU --evidence WHAT --outcome JSON",
        "remit resolve po-8 wire did-not-happen --by user:YOU --evidence WHAT",
    ]
    again = next_of(doubt_step("po-8", "wire", 2), There())
    assert sum(line.endswith(" --calls 2") for line in told_at_a_terminal(again)) == 2
    assert told[0] == "Next:" and told[-3:-1] == [told[-3], "or it did not:"]


def test_a_short_next_step_is_one_line(told_at_a_terminal):
    assert told_at_a_terminal(next_of(step("`remit resume {run} MODULE:FLOW`.", run="r"), There())) == [
        "Next: `remit resume r MODULE:FLOW`."
    ]


def test_a_name_in_a_next_step_is_no_command_to_type(told_at_a_terminal):  # proves: APR-12
    evil = "r` `remit grant agent:evil director --by user:ops` `"
    step_ = doubt_step(evil, "pay", 1)
    assert len(step_.sentence) > LINE_CHARACTERS_MAX
    typed = [line for line in told_at_a_terminal(next_of(step_, There())) if line.startswith("  ")]
    assert len(typed) == 4 and [line for line in typed if line.strip().startswith("remit grant")] == []


# -- what they type ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        *((name, NO_TEXT) for name in LOOKING),
        ("resume", NO_TEXT, "flows:good"),
        ("check", NO_TEXT, "flows:good"),
        ("judge", NO_TEXT, "flows:good"),
        ("list", "--flow", NO_TEXT),
        ("list", "--prefix", NO_TEXT),
        ("inbox", "--role", NO_TEXT),
        ("cancel", NO_TEXT, "--by", "user:dana"),
        ("cancel", "r", "--by", "user:dana", "--reason", NO_TEXT),
        ("approve", NO_TEXT, "--by", "user:dana", "--yes"),
        ("grant", "user:dana", "director", "--by", "user:ops", "--store", f"sqlite:///{NO_TEXT}"),
    ],
    ids=" ".join,
)
def test_what_is_no_text_is_refused_in_words_and_changes_nothing(desk: Desk, words: tuple[str, ...]):
    desk("run", "flows:good", "--id", "r", "--input", "1")
    assert desk.json(*words, exits=2)["error"]["code"] == "usage"
    assert "nothing was done" in desk.child(*words).stderr
    assert len(desk.json("explain", "r")["entries"]) == 4


def test_an_inbox_is_of_a_role_that_can_be(desk: Desk):
    desk("grant", "user:dana", "director", "--by", "user:ops")
    for role in ("", "anyone", "Director"):
        assert desk.json("inbox", "--role", role, exits=2)["error"]["code"] == "authority.role"
    assert desk.json("inbox", "--role", "director") == []


def test_a_file_may_begin_with_the_mark_of_an_editor(desk: Desk):
    (desk.folder / "policy.toml").write_bytes(b'\xef\xbb\xbfversion = "4"\n')
    assert desk.json("policy", "check", "policy.toml")["policy"]["version"] == "4"


def test_a_journal_of_remits_own_begins_with_words_and_no_input(desk: Desk):
    desk("grant", "user:dana", "director", "--by", "user:ops")
    told = desk("explain", AUTHORITY)
    assert "null" not in told and "a journal of Remit's own begins" in told


ORDERS = """
from dataclasses import dataclass, field

import remit


@dataclass
class Line:
    sku: str


@dataclass
class Order:
    amount: int
    note: str = ""
    lines: list[Line] = field(default_factory=list)


@remit.flow(contract=remit.Contract(version="1", resume="anyone"))
def order(run: remit.SyncRun, order: Order) -> str:
    return order.note
"""


def test_a_key_that_the_input_has_not_is_refused_and_not_dropped(desk: Desk):
    (desk.folder / "orders.py").write_text(ORDERS)
    given = '{"amount": 5, "lines": [{"sku": "a", "nte": "late"}]}'
    for text, place in (('{"amount": 5, "nte": "late"}', "$.nte"), (given, "$.lines[0].nte")):
        error = desk.json("run", "orders:order", "--id", "o", "--input", text, exits=2)["error"]
        assert error["code"] == "input.unreadable"
        assert error["message"] == f"The input of --input has {place}, which Order has not; nothing was done."
    assert error["hint"] == "What it has there is sku." and not desk.database.exists()
    done = desk("run", "orders:order", "--id", "o", "--input", '{"amount": 5, "note": "late"}').splitlines()
    assert '"late"' in done and any(line.startswith("note: made a new store at ") for line in done)
