"""A reader of journals that shares nothing with Remit: the standard library's json and hashlib, and docs/formats.md.

It is here to show that the page is enough, and as a start for a reader in another language.
`check` answers with the code that Remit would refuse a journal with, or "" where it holds.
What a body may hold stands in `shapes.py`, and which order of entries is legal in `legal.py`.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tests.vectors.legal import Boundary, Wrong
from tests.vectors.shapes import BODIES, HEADER, PARTS

Fields = dict[str, Any]
Found = tuple[Fields, Fields | None]  # header and body; a body that is not known is None

COMPLETIONS = {"StepDone", "StepFailed", "ValueDrawn", "RaceWon", "EffectSettled", "EffectRefused", "ApprovalUsed"}
VALUELESS = {"AttemptStarted", "RaceWon", "GateJudged", "ApprovalVoided"}
POSTED = {"SignalSent", "CancelAsked", "ApprovalDecided", "DoubtResolved"}
OWN_JOURNALS = {
    "remit:incidents": {"RunQuarantined", "QuarantineLifted"},
    "remit:authority": {
        *("RoleGranted", "RoleRevoked", "PrincipalDisabled", "PrincipalEnabled", "PrincipalLinked", "PolicySet"),
    },
}


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def tagged(tag: str, *parts: bytes) -> str:
    return hashlib.sha256(tag.encode() + b"\n" + b"".join(parts)).hexdigest()


def genesis_of(identity: dict[str, Any], input_digest: str) -> str:
    return tagged("remit/genesis/1", canonical({**identity, "input": input_digest}))


def check(journal: dict[str, Any]) -> str:
    try:
        _check(journal)
    except Wrong as wrong:
        return str(wrong)
    return ""


def status_of(main: list[tuple[Fields, Fields, str]], boundary: Boundary) -> str:
    """The run's status, by the table of moves and the legal order. main: header, body and hash. Raises Wrong."""
    status, epoch = "", 0
    calls: dict[str, bool] = {}  # what completed -> whether it may run again
    for header, body, hash_ in main:
        kind, name = header["kind"], header["name"]
        _demand((header["value"] is None) == (kind in VALUELESS), "chain.move")
        if kind == "AttemptStarted":
            _demand(status in ("queued", "running", "waiting", "in_doubt") and header["epoch"] > epoch, "chain.move")
            status, epoch = "running", header["epoch"]
            boundary.take(kind, header, body, hash_)
            continue
        _demand(header["epoch"] == epoch and (status == "") == (kind == "RunOpened"), "chain.move")
        _demand(kind == "RunOpened" or status == "running", "chain.move")
        boundary.take(kind, header, body, hash_)
        if kind == "RunOpened":
            status = "queued"
        elif kind in COMPLETIONS or (kind == "EvidenceTaken" and not body.get("again")):
            is_nothing = kind == "EffectSettled" and body["state"] == "did_not_happen"
            if is_nothing and body.get("found"):
                continue  # the call goes on, and the flow never heard of it
            _demand(name is not None and name not in calls, "chain.move")
            calls[name] = kind == "StepFailed" or is_nothing
        elif kind == "EffectIntended":
            _demand(calls.pop(name, True), "chain.move")
        elif kind == "RunParked":
            status = "in_doubt" if body["waits_for"] == "doubt" else "waiting"
            for call in body.get("calls", []):
                _demand(calls.pop(call, False), "chain.move")
        elif kind == "RunEnded":
            status = body["status"]
            _demand(not boundary.in_doubt, "chain.move")
        else:
            _demand(kind in ("GateJudged", "ApprovalAsked", "ApprovalVoided", "EvidenceTaken"), "chain.move")
    boundary.end()
    return status


def read(journal: dict[str, Any], lane: str, start: str) -> tuple[list[Found], list[str], str]:
    """Headers and bodies of one lane, verified; the hash of each; and the hash that it ends with."""
    head, found, hashes = start, [], []
    identity = journal["identity"]
    for seq, entry in enumerate(journal[lane], 1):
        header = _header(entry["header"])
        _demand(all(header[key] == identity[key] for key in ("gen", "ledger", "run", "tenant")), "chain.genesis")
        _demand(header["seq"] == seq and header["lane"] == lane, "chain.hash")
        _demand(header["prev"] == head, "chain.genesis" if seq == 1 else "chain.hash")
        _demand(header["body"] == tagged("remit/body/1", entry["body"].encode()), "chain.hash")
        _demand(header["value"] == _value_digest(entry), "chain.hash")
        body = None
        if header["v"] == 1 and header["kind"] in BODIES:
            body = _body(entry["body"], BODIES[header["kind"]])
        found.append((header, body))
        head = tagged("remit/entry/1", entry["header"].encode())
        hashes.append(head)
    return found, hashes, head


def _check(journal: dict[str, Any]) -> None:
    heads = journal["heads"]
    _demand(bool(journal["main"]), "run.truncated")
    opening = _header(journal["main"][0]["header"])
    _demand(opening["kind"] == "RunOpened" and opening["value"] is not None, "chain.genesis")
    main, hashes, main_end = read(journal, "main", genesis_of(journal["identity"], opening["value"]))
    _check_head(len(main), main_end, heads["main_seq"], heads["main"])
    post, post_hashes, post_end = read(journal, "post", tagged("remit/entry/1", journal["main"][0]["header"].encode()))
    _check_head(len(post), post_end, heads["post_seq"], heads["post"])
    _demand(all(body is not None for _, body in (*main, *post)), "journal.newer")
    own = OWN_JOURNALS.get(journal["identity"]["run"])
    if own is not None:
        _demand(all(h["kind"] in own for h, _ in main[1:]), "chain.move")
        return
    salts = [entry["salt"] for entry in journal["main"]]
    boundary = Boundary()
    for (header, body), hash_ in zip(post, post_hashes, strict=True):
        _demand(header["kind"] in POSTED, "chain.move")
        boundary.take_post(header["kind"], body or {}, hash_)
    told = [({**h, "salt": salt}, b or {}, hash_) for (h, b), hash_, salt in zip(main, hashes, salts, strict=True)]
    status_of(told, boundary)


def _check_head(count: int, end: str, stated_count: int, stated_end: str) -> None:
    _demand(count >= stated_count, "run.truncated")
    _demand((count, end) == (stated_count, stated_end), "chain.head")


def _value_digest(entry: dict[str, Any]) -> str | None:
    if entry["salt"] is None or entry["value"] is None:
        return None if entry["salt"] is None and entry["value"] is None else "half a value"
    return tagged("remit/value/1", bytes.fromhex(entry["salt"]), entry["value"].encode())


def _decoded(text: str) -> Any:
    """What canonical JSON says."""
    try:
        found = json.loads(text)
        _demand(canonical(found) == text.encode(), "chain.malformed")
    except (ValueError, RecursionError):
        raise Wrong("chain.malformed") from None
    return found


def _header(text: str) -> Fields:
    """An object with exactly these fields."""
    found: Any = _decoded(text)
    _demand(isinstance(found, dict) and set(found) == set(HEADER), "chain.malformed")
    _demand(all(_fits(found[key], type_) for key, type_ in HEADER.items()), "chain.malformed")
    fields: Fields = found
    return fields


def _body(text: str, shape: dict[str, str]) -> Fields:
    found: Any = _decoded(text)
    _demand(_is_of(found, shape), "chain.malformed")
    fields: Fields = found
    return fields


def _is_of(found: Any, shape: dict[str, str]) -> bool:
    """Whether an object has these fields: those that hold their default are left out, no others may be there."""
    if not isinstance(found, dict) or not found.keys() <= shape.keys():
        return False
    for key, told in shape.items():
        type_, has_default, default = told.partition(" = ")
        if key not in found:
            if not has_default:
                return False
        elif not _fits(found[key], type_) or (has_default and found[key] == json.loads(default)):
            return False
    return True


def _fits(value: Any, type_: str) -> bool:
    if type_.endswith(" or null"):
        return value is None or _fits(value, type_.removesuffix(" or null"))
    if type_.startswith("list of "):
        return isinstance(value, list) and all(_fits(item, type_.removeprefix("list of ")) for item in value)
    if type_.startswith("map of "):
        return isinstance(value, dict) and all(_fits(item, type_.removeprefix("map of ")) for item in value.values())
    if type_.startswith("one of "):
        return value in type_.removeprefix("one of ").split("|")
    if type_ in PARTS:
        return _is_of(value, PARTS[type_])
    if type_ == "integer":
        return type(value) is int and abs(value) < 2**53
    kind = {"boolean": bool, "text": str}[type_]
    return type(value) is kind


def _demand(holds: bool, code: str) -> None:
    if not holds:
        raise Wrong(code)
