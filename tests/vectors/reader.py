"""A reader of journals that shares nothing with Remit: the standard library's json and hashlib, and docs/formats.md.

It is here to show that the page is enough, and as a start for a reader in another language.
`check` answers with the code that Remit would refuse a journal with, or "" where it holds.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

TEXT, WHOLE, TEXT_OR_NULL, TEXTS, TEXT_TO_TEXT, CONTRACT = "text", "integer", "text or null", "texts", "map", "contract"
NEEDED = object()

HEADER = {
    **dict.fromkeys(("at", "epoch", "gen", "seq", "v"), WHOLE),
    **dict.fromkeys(("body", "by", "kind", "lane", "ledger", "prev", "run", "tenant"), TEXT),
    **dict.fromkeys(("name", "value"), TEXT_OR_NULL),
}
CONTRACT_FIELDS = {"resume": TEXTS, "risk": TEXT, "version": TEXT, "window": WHOLE}

Fields = dict[str, Any]

# Field -> (its type, the default that is left out of the bytes).
BODIES: dict[str, dict[str, tuple[str, Any]]] = {
    "RunOpened": {
        "behalf": (TEXT_OR_NULL, None),
        "by": (TEXT, NEEDED),
        "contract": (CONTRACT, NEEDED),
        "flow": (TEXT, NEEDED),
        "mandate": (TEXT_OR_NULL, None),
        "models": (TEXT_TO_TEXT, {}),
        "policy": (TEXT_OR_NULL, None),
        "prompts": (TEXT_TO_TEXT, {}),
        "tools": (TEXT_TO_TEXT, {}),
        "window_end": (WHOLE, NEEDED),
    },
    "AttemptStarted": {"contract": (TEXT, NEEDED), "version": (TEXT, NEEDED), "worker": (TEXT, NEEDED)},
    "StepDone": {"took": (WHOLE, NEEDED)},
    "StepFailed": {"error": (TEXT, NEEDED), "took": (WHOLE, NEEDED)},
    "ValueDrawn": {"source": (TEXT, NEEDED)},
    "RaceWon": {"of": (WHOLE, NEEDED), "winner": (WHOLE, NEEDED)},
    "RunParked": {"calls": (TEXTS, []), "code": (TEXT, NEEDED), "reason": (TEXT, NEEDED)},
    "RunEnded": {"code": (TEXT, ""), "status": (TEXT, NEEDED)},
    "SignalSent": {},
    "CancelAsked": {},
    "RunQuarantined": {
        "code": (TEXT, NEEDED),
        "gen": (WHOLE, NEEDED),
        "lane": (TEXT, ""),
        "run": (TEXT, NEEDED),
        "seq": (WHOLE, 0),
    },
    "QuarantineLifted": {"gen": (WHOLE, NEEDED), "run": (TEXT, NEEDED)},
}
CHOICES = {
    "source": {"now", "random", "uuid"},
    "reason": {"repair"},
    "status": {"completed", "failed", "abandoned", "expired", "cancelled"},
}


class Wrong(Exception):
    """The journal does not hold; the code says how."""


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


def status_of(main: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """The run's status, by the table of moves and the rules for epochs. Raises Wrong."""
    status, epoch = "", 0
    calls: dict[str, str] = {}
    for header, body in main:
        kind, name = header["kind"], header["name"]
        _demand((header["value"] is None) == (kind in ("AttemptStarted", "RaceWon")), "chain.move")
        if kind == "AttemptStarted":
            _demand(status in ("queued", "running", "waiting") and header["epoch"] > epoch, "chain.move")
            status, epoch = "running", header["epoch"]
            continue
        _demand(header["epoch"] == epoch and (status == "") == (kind == "RunOpened"), "chain.move")
        _demand(kind == "RunOpened" or status == "running", "chain.move")
        if kind == "RunOpened":
            status = "queued"
        elif kind in ("StepDone", "StepFailed", "ValueDrawn", "RaceWon"):
            _demand(name is not None and name not in calls, "chain.move")
            calls[name] = kind
        elif kind == "RunParked":
            status = "waiting"
            for call in body.get("calls", []):
                _demand(calls.pop(call, "") == "StepFailed", "chain.move")
        elif kind == "RunEnded":
            status = body["status"]
        else:
            raise Wrong("chain.move")
    return status


def read(journal: dict[str, Any], lane: str, start: str) -> tuple[list[tuple[Fields, Fields | None]], str]:
    """Headers and bodies of one lane, verified, and the hash that it ends with. A body that is not known is None."""
    head, found = start, []
    identity = journal["identity"]
    for seq, entry in enumerate(journal[lane], 1):
        header = _fields(entry["header"], HEADER)
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
    return found, head


def _check(journal: dict[str, Any]) -> None:
    heads = journal["heads"]
    _demand(bool(journal["main"]), "run.truncated")
    opening = _fields(journal["main"][0]["header"], HEADER)
    _demand(opening["kind"] == "RunOpened" and opening["value"] is not None, "chain.genesis")
    main, main_end = read(journal, "main", genesis_of(journal["identity"], opening["value"]))
    _check_head(len(main), main_end, heads["main_seq"], heads["main"])
    post, post_end = read(journal, "post", tagged("remit/entry/1", journal["main"][0]["header"].encode()))
    _check_head(len(post), post_end, heads["post_seq"], heads["post"])
    _demand(all(body is not None for _, body in (*main, *post)), "journal.newer")
    if journal["identity"]["run"] == "remit:incidents":
        _demand(all(h["kind"] in ("RunQuarantined", "QuarantineLifted") for h, _ in main[1:]), "chain.move")
        return
    status_of([(header, body or {}) for header, body in main])
    _demand(all(header["kind"] in ("SignalSent", "CancelAsked") for header, _ in post), "chain.move")


def _check_head(count: int, end: str, stated_count: int, stated_end: str) -> None:
    _demand(count >= stated_count, "run.truncated")
    _demand((count, end) == (stated_count, stated_end), "chain.head")


def _value_digest(entry: dict[str, Any]) -> str | None:
    if entry["salt"] is None or entry["value"] is None:
        return None if entry["salt"] is None and entry["value"] is None else "half a value"
    return tagged("remit/value/1", bytes.fromhex(entry["salt"]), entry["value"].encode())


def _fields(text: str, shape: dict[str, str]) -> dict[str, Any]:
    """An object with exactly these fields, in canonical form."""
    try:
        found = json.loads(text)
        _demand(canonical(found) == text.encode(), "chain.malformed")
    except (ValueError, RecursionError):
        raise Wrong("chain.malformed") from None
    _demand(isinstance(found, dict) and set(found) == set(shape), "chain.malformed")
    _demand(all(_fits(found[key], type_) for key, type_ in shape.items()), "chain.malformed")
    fields: dict[str, Any] = found
    return fields


def _body(text: str, shape: dict[str, tuple[str, Any]]) -> dict[str, Any]:
    """A body: fields that hold their default are left out, no others may be."""
    try:
        found = json.loads(text)
    except ValueError:
        raise Wrong("chain.malformed") from None
    _demand(isinstance(found, dict), "chain.malformed")
    present = {key: type_ for key, (type_, default) in shape.items() if default is NEEDED or key in found}
    fields = _fields(text, present)
    _demand(all(shape[key][1] is NEEDED or shape[key][1] != item for key, item in fields.items()), "chain.malformed")
    _demand(all(fields[key] in CHOICES[key] for key in fields.keys() & CHOICES.keys()), "chain.malformed")
    return fields


def _fits(value: Any, type_: str) -> bool:
    if type_ == WHOLE:
        return type(value) is int
    if type_ == TEXTS:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if type_ == TEXT_TO_TEXT:
        return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
    if type_ == CONTRACT:
        whole = isinstance(value, dict) and value.keys() == CONTRACT_FIELDS.keys()
        return whole and all(_fits(value[key], inside) for key, inside in CONTRACT_FIELDS.items())
    return isinstance(value, str) or (type_ == TEXT_OR_NULL and value is None)


def _demand(holds: bool, code: str) -> None:
    if not holds:
        raise Wrong(code)
