"""Vectors: the written format, a reader that knows only the page, and Remit agree on every journal."""

from __future__ import annotations

import ast
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from remit.engine import incidents
from remit.errors import JournalNewer, Tampered
from remit.facts import chain, kinds
from remit.facts.entry import Entry, Identity
from remit.facts.view import fold
from remit.store.protocol import RunRow, Stored
from tests.vectors import make, reader

DOCUMENT: dict[str, Any] = json.loads(make.FILE.read_text(encoding="utf-8"))
HOLDS, REFUSED = DOCUMENT["holds"], DOCUMENT["refused"]

Journal = dict[str, Any]


def titled(journal: Journal) -> str:
    title: str = journal["title"]
    return title


def entries(journal: Journal, lane: Any) -> list[Entry]:
    """As a store would give them: its own numbering, whatever the headers say."""
    found = []
    for seq, entry in enumerate(journal[lane], 1):
        salt = None if entry["salt"] is None else bytes.fromhex(entry["salt"])
        value = None if entry["value"] is None else entry["value"].encode()
        found.append(Entry(lane, seq, entry["header"].encode(), entry["body"].encode(), salt, value))
    return found


def refusal(journal: Journal) -> str:
    """The code that Remit refuses a journal with, "" where it holds."""
    identity = Identity(**journal["identity"])
    heads = journal["heads"]
    ends = chain.Heads(bytes.fromhex(heads["main"]), heads["main_seq"], bytes.fromhex(heads["post"]), heads["post_seq"])
    main, post = entries(journal, "main"), entries(journal, "post")
    try:
        if identity.run == incidents.INCIDENTS:
            incidents.verify(identity.ledger, Stored(row_of(identity, ends), main, post))
        else:
            fold(identity, chain.verify(identity, ends, main, post))
    except (Tampered, JournalNewer) as exc:
        return exc.code
    return ""


def row_of(identity: Identity, ends: chain.Heads) -> RunRow:
    return RunRow(
        run_key=1,
        tenant=identity.tenant,
        run=identity.run,
        gen=identity.gen,
        flow=identity.flow,
        by="service:remit",
        status="queued",
        code="",
        quarantined=False,
        opened_at=0,
        window_end=0,
        head=ends.main,
        seq=ends.main_seq,
        post_head=ends.post,
        post_seq=ends.post_seq,
        epoch=0,
        worker=None,
        lease_until=0,
    )


def test_the_vectors_are_what_this_code_writes():  # proves: LOG-1
    """A changed format shows here first; it needs a new version in the header, and a new page."""
    assert make.FILE.read_text(encoding="utf-8") == make.text()


def test_each_kind_has_a_vector():  # proves: LOG-1
    shown = {entry["fields"]["kind"] for journal in HOLDS for lane in ("main", "post") for entry in journal[lane]}
    assert shown == set(kinds.KINDS)


@pytest.mark.parametrize("journal", HOLDS, ids=titled)
def test_a_journal_that_holds_is_taken_by_both(journal: Journal):  # proves: LOG-1
    assert (refusal(journal), reader.check(journal)) == ("", "")


@pytest.mark.parametrize("journal", REFUSED, ids=titled)
def test_a_journal_that_does_not_hold_is_refused_by_both_with_one_code(journal: Journal):  # proves: LOG-1, LOG-4
    assert (refusal(journal), reader.check(journal)) == (journal["code"], journal["code"])


@pytest.mark.parametrize("journal", HOLDS, ids=titled)
def test_a_header_can_be_written_from_its_fields_and_nothing_else(journal: Journal):  # proves: LOG-1
    """The other way round: not reading bytes, but making them, with json and hashlib alone."""
    identity = journal["identity"]
    assert reader.genesis_of(identity, journal["input"]) == journal["genesis"]
    for lane in ("main", "post"):
        prev = journal["genesis"] if lane == "main" else journal["main"][0]["hash"]
        for seq, entry in enumerate(journal[lane], 1):
            value = None
            if entry["value"] is not None:
                value = reader.tagged("remit/value/1", bytes.fromhex(entry["salt"]), entry["value"].encode())
            whole = {
                **entry["fields"],
                **{key: identity[key] for key in ("gen", "ledger", "run", "tenant")},
                **{"lane": lane, "seq": seq, "prev": prev, "v": 1, "value": value},
                "body": reader.tagged("remit/body/1", entry["body"].encode()),
            }
            assert reader.canonical(whole) == entry["header"].encode()
            prev = hashlib.sha256(b"remit/entry/1\n" + entry["header"].encode()).hexdigest()
            assert prev == entry["hash"]
        assert prev == journal["heads"][lane]


def test_the_vectors_cover_every_code_that_a_journal_is_refused_with():  # proves: LOG-1
    codes = {
        "chain.malformed",
        "chain.genesis",
        "chain.hash",
        "chain.head",
        "chain.move",
        "run.truncated",
        "journal.newer",
    }
    assert {journal["code"] for journal in REFUSED} == codes


def test_the_reader_knows_nothing_of_remit():  # proves: LOG-1
    tree = ast.parse(Path(reader.__file__).read_text(encoding="utf-8"))
    names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    names |= {str(n.module) for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert names == {"__future__", "hashlib", "json", "typing"}
