"""Vectors: the written format, a reader that knows only the page, and Remit agree on every journal."""

from __future__ import annotations

import ast
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from remit.authority.directory import fold_authority
from remit.authority.gate import judge
from remit.engine.process import incidents
from remit.errors import JournalNewer, Tampered
from remit.facts import chain, kinds, machine
from remit.facts.entry import Entry, Identity
from remit.facts.names import AUTHORITY, INCIDENTS
from remit.facts.view import fold
from remit.store.rows import RunRow, Stored
from tests.vectors import legal, make, reader, shapes

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
        if identity.run == INCIDENTS:
            incidents.verify(identity.ledger, Stored(row_of(identity, ends, journal), main, post))
        elif identity.run == AUTHORITY:
            fold_authority(chain.verify(identity, ends, main, post).main)
        else:
            fold(identity, chain.verify(identity, ends, main, post))
    except (Tampered, JournalNewer) as exc:
        return exc.code
    return ""


def row_of(identity: Identity, ends: chain.Heads, journal: Journal) -> RunRow:
    opening = journal["main"][0]
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
        opened_at=opening["fields"]["at"],
        window_end=json.loads(opening["body"])["window_end"],
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
    assert shown == set(machine.KINDS)


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
    for module in (reader, legal, shapes):
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        names |= {str(n.module) for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        own = {"tests.vectors.legal", "tests.vectors.shapes"}
        assert names <= {"__future__", "hashlib", "json", "typing", *own}


def bodies(kind: str) -> list[tuple[Journal, dict[str, Any], Any]]:
    """Entries of a kind in journals that hold, with their bodies."""
    lanes = ((journal, entry) for journal in HOLDS for lane in ("main", "post") for entry in journal[lane])
    return [(journal, e, json.loads(e["body"])) for journal, e in lanes if e["fields"]["kind"] == kind]


def test_the_gate_gives_the_verdict_again_that_stands_in_the_journal():  # proves: GATE-2
    """Whoever holds the journal can ask the judge again."""
    told = [machine.FORMS["GateJudged"].read(entry["body"].encode()) for _, entry, _ in bodies("GateJudged")]
    assert {fact.verdict.decision for fact in told if isinstance(fact, kinds.GateJudged)} == {
        "resume",
        "revalidate",
        "abandon",
    }
    assert [
        fact for fact in told if not isinstance(fact, kinds.GateJudged) or judge(fact.question) != fact.verdict
    ] == []


def test_an_idempotency_key_is_made_as_the_page_says():  # proves: LOG-1, FX-1
    for journal, entry, body in bodies("EffectIntended"):
        told = [journal["identity"][part] for part in ("ledger", "tenant", "run", "gen")]
        told.append(entry["fields"]["name"])
        assert body["key"] == reader.tagged("remit/key/1", reader.canonical(told))
        about = [body["effect"], "I-7"]
        assert body["business"] == reader.tagged("remit/business/1", reader.canonical(about))


def test_what_is_shown_is_digested_as_the_page_says():  # proves: LOG-1, APR-1
    for _, entry, body in bodies("ApprovalAsked"):
        salt, request, bound = bytes.fromhex(entry["salt"]), entry["value"].encode(), dict(body["bound"])
        assert bound["request"] == reader.tagged("remit/value/1", salt, request)
        shown = bound.pop("shown")
        said = reader.canonical({"bound": bound, "call": body["call"]})
        assert shown == reader.tagged("remit/shown/1", salt, said, b"\n", request)
        if "material" in bound:
            material = {key: item for key, item in json.loads(request).items() if key != "note"}
            assert bound["material"] == reader.tagged("remit/value/1", salt, reader.canonical(material))


def test_contract_policy_and_connector_are_digested_as_the_page_says():  # proves: LOG-1
    policy = next(body["policy"] for _, _, body in bodies("PolicySet"))
    for journal, _, body in bodies("EffectIntended"):
        opened = json.loads(journal["main"][0]["body"])
        assert opened["policy"] == reader.tagged("remit/policy/1", reader.canonical(policy))
        bound = next(
            judged["question"]["effect"]["bound"]
            for _, _, judged in bodies("GateJudged")
            if judged["question"]["effect"]["bound"]["request"] == body["request"]
        )
        assert bound["contract"] == reader.tagged("remit/contract/1", reader.canonical(opened["contract"]))
        told = {"connector": "bank", "doubt": "ask", "function": f"shop.{body['effect']}", "sink": None}
        assert bound["connector"] == reader.tagged("remit/connector/1", reader.canonical(told))
