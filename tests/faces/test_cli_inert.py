"""Attack 55: what others stored can't steer the terminal, whichever command shows it."""

from __future__ import annotations

import ast
import json
import logging
from pathlib import Path

import apsw
import pytest

import remit
from remit.canonical import encode
from remit.errors import JournalNewer, Tampered
from remit.faces.cli.inert import InertFormatter, cell, inert
from remit.faces.there import There
from remit.facts import chain, kinds
from remit.facts.entry import Entry, Identity, Pen, entry_hash, genesis, value_digest
from remit.facts.rules import ContractPin
from tests.support.command import Desk

ROOM = Path(remit.__file__).parent / "faces" / "cli"
HOSTILE = "[red]o'; DROP TABLE remit_run;-- %_\\ 🦀"
HOSTILE_KEY = "\x1b[2J\u202e"
STEERS = {chr(point) for point in (*range(32), *range(0x7F, 0xA0), 0x202E, 0x2066, 0x200B)} - {"\n"}


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("a\x1b[2J\n\r\t\x07", "a\\x1b[2J\\n\\r\\t\\x07"),
        ("\u202eevil\u2066", "\\u202eevil\\u2066"),
        ("\U000e0041é£🦀", "\\U000e0041é£🦀"),
        ("\x9b31m\u2028\x7f", "\\x9b31m\\u2028\\x7f"),
        ("[red]x[/red]", "[red]x[/red]"),
        ("\u2764\ufe0f and \u3164\u2800\u115f", "\u2764\\ufe0f and \\u3164\\u2800\\u115f"),
    ],
)
def test_inert_text_is_one_visible_line(stored: str, shown: str):
    assert inert(stored) == shown
    assert cell(stored).plain == shown and cell(stored).spans == []


def test_no_command_lets_stored_text_through(desk: Desk):  # proves: C29, C32
    (desk.folder / "broken").touch()
    desk("run", "flows:good", "--id", HOSTILE, "--input", "1", exits=7)
    (desk.folder / "broken").unlink()
    desk("run", "flows:good", "--id", "fine", "--input", "1")
    connection = apsw.Connection(str(desk.database))  # what an attacker writes past every door
    connection.execute(
        "UPDATE remit_run SET flow = 'f\x1b[2J\u202e', code = 'c\nc', worker = '\x1b]0;x\x07' WHERE run = 'fine'"
    )
    wrong = '{"\x1b[2J\u202e":1}'
    which = "run_key = (SELECT run_key FROM remit_run WHERE run = 'fine') AND seq = 3"
    connection.execute(f"UPDATE remit_entry SET header = CAST('{wrong}' AS BLOB) WHERE {which}")
    connection.close()
    for run, status in ((HOSTILE, 0), ("fine", 5)):
        for words, exits in (
            (("explain", run), status),
            (("why", run), status),
            (("verify",), 5),
            (("list",), 0),
            (("show", run), status),
            (("show", run, "--raw"), status),
            (("why", run), 0),
            (("explain", run), status),
            (("explain", "remit:incidents"), 0 if run == "fine" else 2),
        ):
            told = desk.child(*words)
            assert told.returncode == exits, (words, told.stdout, told.stderr)
            assert not set(told.stdout + told.stderr) & STEERS, words
            as_json = desk.child(*words, "--json").stdout
            assert as_json.isascii() and not set(as_json) & STEERS, words
            json.loads(as_json)
    assert "  │ [red]o'; DROP TABLE remit_run;-- %_\\\\ 🦀\n" in desk("list", columns=160)
    assert "no \\x1b[2Jpaper\\nleft [red]\\u202e" in desk("why", HOSTILE)


@pytest.mark.parametrize("field", ["lane", "ledger", "kind", "run", "tenant", "by", "name", HOSTILE_KEY])
def test_an_error_that_quotes_stored_bytes_is_inert_before_it_reaches_a_log(field: str):
    identity = Identity("ledger", "default", "r", 1, "f")
    start = genesis(identity, value_digest(b"salt", b"null"))
    pen = Pen(identity, lane="main", by="service:x", epoch=0, head=start, seq=0)
    opened = pen.seal("RunOpened", b"{}", at=1, value=(b"salt", b"null"))
    fields = dict(sorted((json.loads(opened.header) | {field: HOSTILE_KEY}).items()))
    header = encode(fields)
    row = chain.Heads(entry_hash(header), 1, entry_hash(header), 0)
    with pytest.raises((Tampered, JournalNewer)) as found:
        chain.verify(identity, row, [Entry("main", 1, header, b"{}", b"salt", b"null")], [])
    assert not set(str(found.value)) & STEERS


def test_a_newer_kind_is_quoted_as_inertly():
    identity = Identity("ledger", "default", "r", 1, "f")
    pen = Pen(identity, lane="main", by="x", epoch=0, head=genesis(identity, value_digest(b"s" * 16, b"null")), seq=0)
    body = kinds.write(
        kinds.RunOpened(
            by="service:x",
            contract=ContractPin(resume=["anyone"], risk="low", version="1", window=1),
            flow="f",
            window_end=9,
        )
    )
    opened = pen.seal("RunOpened", body, at=1, value=(b"s" * 16, b"null"))
    newer = pen.seal("\\u001b[2J", b"{}", at=2)
    row = chain.Heads(pen.head, 2, entry_hash(opened.header), 0)
    with pytest.raises(JournalNewer) as found:
        chain.verify(identity, row, [opened, newer], [])
    assert not set(str(found.value)) & STEERS


def test_a_line_of_the_log_is_inert():
    record = logging.LogRecord("remit", logging.CRITICAL, "", 0, "run %s\n", ("\x1b[2J",), None)
    assert InertFormatter(There()).format(record) == "critical: run \\x1b[2J\\n"


def test_text_is_made_in_one_place_and_printed_from_one_place():
    """Whatever is printed went through `inert`: nobody else can make what the console takes, or reach the terminal."""
    owners = {
        ("rich.text", "Text"): {"inert.py"},
        ("rich.table", "Table"): {"say.py"},
        ("rich.console", "Console"): {"inert.py", "say.py"},
    }
    wrong = []
    for path in sorted(ROOM.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                wrong += [f"{path.name}:{node.lineno} {called}"] * (
                    (called in ("Text", "rich.text.Text") and path.name != "inert.py")
                    or (called in ("Table", "Console") and path.name != "say.py")
                    or called in ("print", "typer.echo", "typer.secho", "rich.print", "sys.stdout.write")
                )
    assert wrong == [] and owners
