"""Makes `tests/vectors/entries.json`: python -m tests.vectors.make

Times, salts and ids are fixed, so the file is the same each time it is made. It changes only
with the format, and a changed format needs a new version in the header.
"""

from __future__ import annotations

import copy
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from remit.canonical import encode
from remit.facts import kinds
from remit.facts.entry import ENTRY_TAG, body_digest
from remit.facts.rules import ContractPin
from tests.vectors import crossings, uncrossed
from tests.vectors.writer import AT, PIN, Journal, Writer

FILE = Path(__file__).with_name("entries.json")


def document() -> dict[str, Any]:
    """All of the file, as JSON's own types."""
    return {
        "about": "Vectors for docs/formats.md: journals that hold, and journals that must be refused with `code`.",
        "holds": [_every_kind(), _odd_text(), _incidents(), *crossings.holds()],
        "refused": [{**_retitled(journal, title), "code": code} for title, code, journal in _refused()],
    }


def _every_kind() -> Journal:
    w = _purchase("po-1041")
    w.attempt(1, "4711-a1")
    w.add(kinds.ValueDrawn(source="now"), name="run.now", value=b'"2025-12-01T12:00:00Z"')
    w.add(kinds.StepDone(took=1_250), name="fetch_quote", value=b'{"price":120,"sku":"A-1"}')
    w.add(kinds.StepDone(beside=True, given="5d1ffe1ac9cb20e7", took=900), name="fetch_quote#2", value=b"null")
    w.add(kinds.StepFailed(error="OSError", took=40), name="send", value=b'{"detail":"the line is down"}')
    w.post(kinds.SignalSent(), name="note", value=b'"go on"')
    parked = kinds.RunParked(calls=["send"], code="step.failed", waits_for="repair")
    w.add(parked, value=b'{"detail":"send of run \'po-1041\' raised OSError: the line is down"}')
    w.attempt(2, "4712-b2")
    w.add(kinds.RaceWon(calls=["fetch_quote#2"], sides=["sleep", "fetch_quote#2"], winner=1), name="run.first")
    w.add(kinds.StepDone(took=77), name="supplier-a/send", value=b'["sent",1.5,true]')
    w.post(kinds.CancelAsked(), value=b'{"detail":"no longer needed"}')
    w.add(kinds.RunEnded(status="completed"), value=b'{"total":120}')
    return w.journal("a run of steps, and both lanes")


def _odd_text() -> Journal:
    odd = 'Bestellung "\u00dc" \\ \U0001f600'
    opened = kinds.RunOpened(
        authority=1,
        by="agent:k\u00e4ufer",
        behalf="user:dana",
        contract=PIN,
        flow="einkauf",
        window_end=AT + 86_400_000_000,
    )
    w = Writer(odd, "einkauf", by="agent:k\u00e4ufer", given='"\u00e9"'.encode(), opened=opened)
    w.attempt(3, "w")
    value = encode({"\U0001f600": "\u0000\u001f\u007f\u2028/", "\uffff": '"\\\b\f\n\r\t', "a": None})
    w.add(kinds.StepDone(took=0), name='z\u00e4hle "x"', value=value)
    w.add(kinds.RunEnded(code="window_over", status="expired"), value=b'{"detail":"late"}')
    return w.journal("text beyond ASCII, every escape, and keys whose order differs between UTF-16 and code points")


def _incidents() -> Journal:
    forever = 2**53 - 1
    pin = ContractPin(resume=["anyone"], risk="low", version="1", window=forever)
    opened = kinds.RunOpened(by="service:remit", contract=pin, flow="remit:incidents", window_end=forever)
    w = Writer("remit:incidents", "remit:incidents", by="service:remit", given=b"null", opened=opened)
    found = kinds.RunQuarantined(code="chain.hash", gen=1, lane="main", main=14, post=2, run="po-1041", seq=4)
    w.add(found, value=b'{"detail":"Entry main 4 of run \'po-1041\': the value is not the one that was written."}')
    w.add(kinds.QuarantineLifted(gen=1, run="po-1041"), value=b'{"detail":"restored from the backup of 30 November"}')
    again = kinds.RunQuarantined(code="run.truncated", gen=1, main=16, run="po-1041", seq=16)
    w.add(again, value=b'{"detail":"Entry main 16 of run \'po-1041\': it is missing."}')
    found_out = b'{"detail":"the bank has one payment, and the journal has it"}'
    w.add(kinds.QuarantineLifted(gen=1, run="po-1041", shorter=True), value=found_out)
    return w.journal("the journal of incidents")


def _purchase(run: str) -> Writer:
    opened = kinds.RunOpened(
        authority=1, by="agent:buyer", contract=PIN, flow="purchase", window_end=AT + 86_400_000_000
    )
    return Writer(run, "purchase", by="agent:buyer", given=b'{"sku":"A-1"}', opened=opened)


def _small(run: str = "po-1041") -> Writer:
    w = _purchase(run)
    w.attempt(1, "4711-a1")
    w.add(kinds.StepDone(took=9), name="decide", value=b'"denied"')
    return w


def _refused() -> list[tuple[str, str, Journal]]:
    return [
        *(*_edited(), *_moved(), *_malformed_headers(), *_malformed_bodies(), *_newer(), *_illegal()),
        *uncrossed.refused(),
    ]


def _edited() -> list[tuple[str, str, Journal]]:
    base = _posted("po-1041")
    middle, last, author = (_replaced(base, "main", n, "header", old, new) for n, old, new in _HEADER_EDITS)
    return [
        ("a time in a header was edited: the next entry does not follow", "chain.hash", middle),
        ("a time in the last header was edited: the row's head differs", "chain.head", last),
        ("the author in a header was edited", "chain.hash", author),
        ("a body was edited", "chain.hash", _replaced(base, "main", 2, "body", '"took":9', '"took":8')),
        ("a denial became an approval", "chain.hash", _replaced(base, "main", 2, "value", "denied", "approved")),
        ("a salt was edited", "chain.hash", _with(base, "main", 2, salt="00" * 16)),
        ("a value was removed, with its salt", "chain.hash", _with(base, "main", 2, salt=None, value=None)),
        ("a value was removed, its salt left", "chain.hash", _with(base, "main", 2, value=None)),
        ("a value was added where the header states none", "chain.hash", _with(base, "main", 1, salt="", value="1")),
        ("a value in lane post was edited", "chain.hash", _with(base, "post", 0, value="2")),
        ("an entry was removed from the middle", "chain.hash", _lane(base, "main", [0, 2])),
        ("two entries were swapped", "chain.hash", _lane(base, "main", [0, 2, 1])),
        ("an entry was put in twice", "chain.hash", _lane(base, "main", [0, 1, 1, 2])),
        ("the tail was cut", "run.truncated", _lane(base, "main", [0, 1])),
        ("lane post was cut", "run.truncated", _lane(base, "post", [])),
        ("nothing is left", "run.truncated", _lane(base, "main", [])),
        ("the row's head was edited", "chain.head", _heads(base, main="00" * 32)),
        ("the row's head of lane post was edited", "chain.head", _heads(base, post="00" * 32)),
        ("there are more entries than the row says", "chain.head", _heads(base, main_seq=2)),
    ]


_HEADER_EDITS = [
    (1, f'"at":{AT + 1_000}', f'"at":{AT + 1_001}'),
    (2, f'"at":{AT + 2_000}', f'"at":{AT + 2_001}'),
    (1, "agent:buyer", "agent:bayer"),
]


def _moved() -> list[tuple[str, str, Journal]]:
    base, other = _small().journal(""), _small("po-1042").journal("")
    spliced = copy.deepcopy(base)
    spliced["main"][2] = other["main"][2]
    borrowed = copy.deepcopy(base)
    borrowed["post"] = _posted("po-1042")["post"]
    borrowed["heads"]["post_seq"] = 1
    unopened = copy.deepcopy(base)
    unopened["main"] = unopened["main"][1:]
    return [
        ("an entry of another run was put in its place", "chain.genesis", spliced),
        ("lane post of another run", "chain.genesis", borrowed),
        ("the run was renamed", "chain.genesis", _identity(base, run="po-1042")),
        ("the run was copied to another tenant", "chain.genesis", _identity(base, tenant="other")),
        ("the run was copied to another deployment", "chain.genesis", _identity(base, ledger="ff" * 16)),
        ("the run is shown as a later one of its id", "chain.genesis", _identity(base, gen=2)),
        ("the row names another flow", "chain.genesis", _identity(base, flow="sale")),
        ("the first entry was removed", "chain.genesis", unopened),
    ]


def _posted(run: str) -> Journal:
    w = _small(run)
    w.post(kinds.SignalSent(), name="note", value=b"1")
    return w.journal("")


def _malformed_headers() -> list[tuple[str, str, Journal]]:
    """Other bytes of one meaning, or none; the chain is not even looked at."""
    edits = [
        ("a space in a header", '"seq":3', '"seq": 3'),
        ("1.0 for 1 in a header", '"epoch":1,', '"epoch":1.0,'),
        ("1e0 for 1 in a header", '"epoch":1,', '"epoch":1e0,'),
        ("a key twice in a header", '"epoch":1,', '"epoch":1,"epoch":1,'),
        ("an unknown field in a header", '"epoch":1,', '"epoch":1,"extra":1,'),
        ("a missing field in a header", '"epoch":1,', ""),
        ("two fields of a header in another order", '"epoch":1,"gen":1,', '"gen":1,"epoch":1,'),
        ("an escape that is not needed", '"name":"decide"', '"name":"\\u0064ecide"'),
        ("a lone surrogate, escaped", '"name":"decide"', '"name":"\\ud800"'),
        ("NaN in a header", '"epoch":1,', '"epoch":NaN,'),
        ("text where a number belongs", '"epoch":1,', '"epoch":"1",'),
        ("true where a number belongs", '"epoch":1,', '"epoch":true,'),
        ("2^53 in a header", '"epoch":1,', '"epoch":9007199254740992,'),
        ("a list", "{", "["),
    ]
    base = _small().journal("")
    return [(title, "chain.malformed", _replaced(base, "main", 2, "header", *edit)) for title, *edit in edits]


def _malformed_bodies() -> list[tuple[str, str, Journal]]:
    """The chain holds: somebody computed it anew over a body that no writer would write."""
    bodies = [
        ("a space in a body", "StepDone", '{"took": 9}'),
        ("a fraction in a body", "StepDone", '{"took":9.0}'),
        ("2^53 in a body", "StepDone", '{"took":9007199254740992}'),
        ("-2^53 in a body", "StepDone", '{"took":-9007199254740992}'),
        ("a key twice in a body", "StepDone", '{"took":9,"took":9}'),
        ("an unknown field in a body", "StepDone", '{"extra":1,"took":9}'),
        ("a missing field in a body", "StepDone", "{}"),
        ("a default written out", "RunEnded", '{"code":"","status":"completed"}'),
        ("a status that does not exist", "RunEnded", '{"status":"fine"}'),
        ("a body that is no object", "StepDone", "9"),
        ("a body that is no JSON", "StepDone", ""),
    ]
    return [(title, "chain.malformed", _rewritten(kind=kind, body=body)) for title, kind, body in bodies]


def _newer() -> list[tuple[str, str, Journal]]:
    return [
        (
            "a kind that is not known, in a chain that holds",
            "journal.newer",
            _rewritten(kind="StepDreamt"),
        ),
        ("a later version of the format, in a chain that holds", "journal.newer", _rewritten(v=2)),
    ]


def _illegal() -> list[tuple[str, str, Journal]]:
    """Chains that hold and tell what can't have happened."""
    done = kinds.StepDone(took=9)
    unbegun = _purchase("r")
    unbegun.add(done, name="a", value=b"1")
    twice = _small("r")
    twice.add(done, name="decide", value=b'"approved"')
    after = _small("r")
    after.add(kinds.RunEnded(status="completed"), value=b"null")
    after.add(done, name="b", value=b"1")
    again = _small("r")
    again.attempt(1, "w")
    stale = _small("r")
    stale.attempt(2, "w")
    stale._main = stale._pen(1, stale._main.head, stale._main.seq)
    stale.add(done, name="b", value=b"1")
    parked = _small("r")
    parked.add(kinds.RunParked(calls=["decide"], code="step.failed", waits_for="repair"), value=b'{"detail":""}')
    posted = _small("r")
    posted.post(done, name="b", value=b"1")
    unnamed = _small("r")
    unnamed.add(done, value=b"1")
    undone = _small("r")
    undone.add(done, name="b")
    undrawn = _small("r")
    undrawn.add(kinds.ValueDrawn(source="now"), name="run.now")
    unsaid = _small("r")
    unsaid.add(kinds.RunEnded(status="completed"))
    talkative = _small("r")
    talkative.add(kinds.RaceWon(sides=["a", "b"], winner=0), name="run.first", value=b"1")
    quarantined = _small("r")
    quarantined.add(kinds.QuarantineLifted(gen=1, run="r"))
    stories = [
        ("a step before any attempt", unbegun),
        ("a step that completed twice", twice),
        ("a step after the end", after),
        ("an attempt under an epoch that was used before", again),
        ("an entry under the epoch of an earlier attempt", stale),
        ("a step that did not fail is to run again", parked),
        ("a step in lane post", posted),
        ("a step without a name", unnamed),
        ("a step that is done and has no outcome", undone),
        ("a draw that drew nothing", undrawn),
        ("an end without an outcome", unsaid),
        ("a race with a value", talkative),
        ("an incident in a run's own journal", quarantined),
    ]
    return [(title, "chain.move", writer.journal("")) for title, writer in stories]


def _rewritten(*, kind: str = "StepDone", body: str = '{"took":9}', v: int = 1) -> Journal:
    """The small journal, its last entry written anew and its head computed anew."""
    journal = _small().journal("")
    entry = journal["main"][2]
    header = json.loads(entry["header"])
    header.update(kind=kind, v=v, body=body_digest(body.encode()))
    entry["header"], entry["body"] = encode(header).decode(), body
    entry["hash"] = sha256(ENTRY_TAG + entry["header"].encode()).hexdigest()
    journal["heads"]["main"] = entry["hash"]
    return journal


def _retitled(journal: Journal, title: str) -> Journal:
    bare = {lane: [{k: e[k] for k in ("header", "body", "salt", "value")} for e in journal[lane]] for lane in _LANES}
    return {"title": title, "identity": journal["identity"], "heads": journal["heads"], **bare}


_LANES = ("main", "post")


def _replaced(journal: Journal, lane: str, index: int, part: str, old: str, new: str) -> Journal:
    text = journal[lane][index][part]
    assert text.count(old) >= 1, (part, old, text)
    return _with(journal, lane, index, **{part: text.replace(old, new, 1)})


def _with(journal: Journal, lane: str, index: int, **parts: str | None) -> Journal:
    changed = copy.deepcopy(journal)
    changed[lane][index].update(parts)
    return changed


def _lane(journal: Journal, lane: str, order: list[int]) -> Journal:
    changed = copy.deepcopy(journal)
    changed[lane] = [journal[lane][index] for index in order]
    return changed


def _heads(journal: Journal, **heads: str | int) -> Journal:
    changed = copy.deepcopy(journal)
    changed["heads"].update(heads)
    return changed


def _identity(journal: Journal, **parts: str | int) -> Journal:
    changed = copy.deepcopy(journal)
    changed["identity"].update(parts)
    return changed


def text() -> str:
    """The file as it is written."""
    return json.dumps(document(), indent=1, ensure_ascii=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
