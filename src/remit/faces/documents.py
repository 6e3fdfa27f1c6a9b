"""Documents: every answer as plain JSON types, for `--json` and for whoever asks from elsewhere.

What a document says is said here once, whatever it is printed with or sent by. Times are
microseconds UTC where they are numbers, bytes are hex, and values that others stored stand in
it as they are: nothing is cut, and what does not read as JSON is told as text.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import msgspec

from remit.authority.difference import Change
from remit.authority.directory import Authority
from remit.authority.leaves import Path, path_text
from remit.authority.moments import datetime_of
from remit.authority.policy import policy_digest
from remit.authority.suspicious import suspicious
from remit.engine.people.asks import Ask
from remit.engine.people.effected import Effected
from remit.engine.people.left_out import LeftOut
from remit.engine.process.admit import Found
from remit.engine.process.outcome import Outcome
from remit.engine.runs.dry import Judged
from remit.engine.runs.rehearsal import Compatibility
from remit.errors import RemitError
from remit.faces.explain import QUARANTINED, Explanation, Why
from remit.faces.next_step import next_step
from remit.faces.proving import CHECKED, NOT_COVERED, Proof
from remit.faces.there import There
from remit.facts.machine import Status
from remit.facts.rules import PolicyPin
from remit.facts.timeline import Line
from remit.store.rows import Checkup, RunRow

Document = dict[str, Any]

# -- runs --------------------------------------------------------------------------------------------------------------


def run_document(row: RunRow) -> Document:
    """A run's row. opened_at, window_end: microseconds UTC. head: of lane main. key: what `before` takes."""
    return {
        "run": row.run,
        "flow": row.flow,
        "status": status_name(row),
        "code": row.code,
        "by": row.by,
        "opened_at": row.opened_at,
        "window_end": row.window_end,
        "entries": row.seq,
        "head": row.head.hex(),
        "epoch": row.epoch,
        "worker": row.worker,
        "key": row.run_key,
    }


def outcome_document(outcome: Outcome, found: Found, there: There, why: Why | None = None) -> Document:
    """How a turn ended: the value of a run that completed; of another what it waits for and what comes next.

    there: what the command that comes next names. why: of a run that did not complete.
    """
    told = run_document(found.row) | {"reason": outcome.reason}
    if outcome.status is Status.COMPLETED:
        return told | value_document(found.view.last_value)
    return told | ({"waits_for": why.waits_for, "next": next_step(why).at(there).sentence} if why is not None else {})


def shown_document(found: Found, calls: Sequence[Line]) -> Document:
    """A run with its recorded calls."""
    return run_document(found.row) | {"calls": [line_document(one) for one in calls]}


def why_document(why: Why, there: There) -> Document:
    """Why a run stands where it stands, with the next step in words."""
    objections = [asdict(one) | {"required": there.told(one.required)} for one in why.objections]
    told = asdict(why) | {"asks": [ask_document(ask) for ask in why.asks], "objections": objections}
    return told | {"next": next_step(why).at(there).sentence}


def explanation_document(told: Explanation) -> Document:
    """A run's timeline. `opened_under` is null where the journal does not verify."""
    problem = told.timeline.problem
    return {
        "run": run_document(told.row),
        "problem": None if problem is None else {"code": problem.code, "message": problem.message},
        "opened_under": None if told.view is None else msgspec.to_builtins(told.view.opened),
        "entries": [line_document(one) for one in told.timeline.lines],
    }


def line_document(one: Line) -> Document:
    """An entry."""
    return {
        "lane": one.lane,
        "seq": one.seq,
        "at": moment(one.at).isoformat() if one.at else None,
        "kind": one.kind,
        "name": one.name or None,
        "by": one.by,
        "epoch": one.epoch,
        "body": one.body,
        "is_verified": one.is_verified,
        **value_document(one.value),
    }


def value_document(value: bytes | None) -> Document:
    """A stored value: `value` where it is JSON, `value_text` where it is not, none where there is none."""
    if value is None:
        return {}
    try:
        return {"value": json.loads(value)}
    except (ValueError, RecursionError):
        return {"value_text": value.decode("utf-8", "backslashreplace")}


# -- questions and effects ---------------------------------------------------------------------------------------------


def ask_document(ask: Ask) -> Document:
    """A question whole, with what in it may deceive."""
    told = asdict(ask)
    del told["raw"]
    told["findings"] = [msgspec.to_builtins(one) for one in ask.findings]
    for one, evidence in zip(told["evidence"], ask.evidence, strict=True):
        one["changes"] = [_change_document(change) for change in evidence.changes]
    if ask.difference is not None:
        told["difference"] = {
            "changes": [_change_document(change) for change in ask.difference.changes],
            "unchanged": ask.difference.unchanged,
            "is_material": ask.difference.is_material,
        }
    told["suspicious"] = [
        {"path": path, "code": code, "name": name, "trick": trick, "count": count}
        for (path, code, name, trick), count in suspects_in(ask).items()
    ]
    return told


def _change_document(change: Change) -> Document:
    return {"path": change.path, "old": change.old, "new": change.new, "is_material": change.is_material}


def suspects_in(ask: Ask) -> Counter[tuple[str, str, str, str]]:
    """Suspicious characters of all that the agent wrote: of its payload, its evidence and its call's name.

    A place begins with what it is in, where that is not the payload: `$.payee`, `evidence.quote.payee`, `call`.
    """
    found = suspects_of(ask.payload)
    of_evidence = suspects_of({one.name: one.value for one in ask.evidence})
    for (place, code, name, trick), count in of_evidence.items():
        found[f"evidence{place.removeprefix('$')}", code, name, trick] += count
    for segment in ask.call.split("/"):
        found.update(("call", each.code, each.name, each.trick) for each in suspicious(segment))
    return found


def suspects_of(payload: Any) -> Counter[tuple[str, str, str, str]]:
    """Suspicious characters of all texts and keys: place, code, name and trick, with how often."""
    return Counter(
        (path_text(path), suspect.code, suspect.name, suspect.trick)
        for path, text in _texts(payload, ())
        for suspect in suspicious(text)
    )


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key), key
            yield from _texts(item, (*path, key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _texts(item, (*path, place))


def left_out_document(found: LeftOut) -> Document:
    """A run that an answer was given without, as it stands behind what was found. code: why, as an error has it."""
    return {"run": found.run, "state": "left_out", "code": found.code, "detail": found.detail}


def effected_document(effect: Effected) -> Document:
    """A call of an effect."""
    return asdict(effect)


# -- what the gate would say, and whether the code goes on -------------------------------------------------------------


def judged_document(found: Judged, there: There) -> Document:
    """A verdict with its question: `judge` gives the same verdict to whoever asks it again."""
    return {
        "run": found.run,
        "call": found.call or None,
        "decision": found.verdict.decision,
        "code": found.verdict.code,
        "first": list(found.first),
        "waits": found.waits or None,
        "beside": [
            {"call": each.call, "decision": each.verdict.decision, "code": each.verdict.code} for each in found.beside
        ],
        "findings": [
            msgspec.to_builtins(finding) | {"ok": finding.ok, "seen": seen, "required": there.told(required)}
            for finding, seen, required in found.told()
        ],
        "question": msgspec.to_builtins(found.question),
    }


def ended_document(found: Found) -> Document:
    """The same of a run that is over: no verdict, because the gate is not asked any more."""
    told = run_document(found.row)
    return {"run": told["run"], "call": None, "decision": None, "code": told["code"], "status": told["status"]}


def compatibility_document(found: Compatibility) -> Document:
    """Whether code goes on with a run."""
    return asdict(found)


# -- the directory and the policy --------------------------------------------------------------------------------------


def directory_document(authority: Authority) -> Document:
    """All whom the directory knows."""
    everybody = [principal_document(authority, name) for name in sorted(authority.directory)]
    return {"version": authority.version, "principals": everybody}


def principal_document(authority: Authority, principal: str) -> Document:
    """One principal as it is now."""
    known = authority.who(principal)
    return {
        "principal": principal,
        "known": known.known,
        "disabled": known.disabled,
        "roles": known.roles,
        "person": authority.person_of(principal),
    }


def grants_document(authority: Authority, principal: str, acts: Sequence[Line]) -> list[Document]:
    """Each role of a principal with the entry of `remit:authority` that gave it. acts: the entries of that journal."""
    entry, by_seq = authority.directory.get(principal), {one.seq: one for one in acts}
    return [_granted(role, seq, by_seq.get(seq)) for role, seq in sorted(entry.grants.items())] if entry else []


def _granted(role: str, seq: int, given: Line | None) -> Document:
    told: Document = {"role": role, "version": seq, "at": 0, "by": "", "reason": ""}
    if given is not None:
        told |= {"at": given.at, "by": given.by, "reason": words_of(given.value) or ""}
    return told


def policy_document(pin: PolicyPin | None) -> Document:
    """A policy with its digest; null and "" where there is none."""
    return {
        "policy": None if pin is None else msgspec.to_builtins(pin),
        "digest": "" if pin is None else policy_digest(pin),
    }


# -- the store, and errors ---------------------------------------------------------------------------------------------


def checkup_document(found: Checkup, there: There) -> Document:
    """One thing that `doctor` looked at."""
    return {"name": found.name, "ok": found.ok, "seen": found.seen, "hint": there.told(found.hint)}


def proof_document(proof: Proof) -> Document:
    """Which journals verify, what was looked at, and what a chain can't see."""
    return {
        "verified": len(proof.verified),
        "wrong": [_wrong(name, error) for name, error in proof.wrong.items()],
        "unknown": [_wrong(name, error) for name, error in proof.unknown.items()],
        "quarantined": proof.aside,
        "checked": CHECKED,
        "not_covered": NOT_COVERED,
    }


def _wrong(name: str, error: RemitError) -> Document:
    return {"run": name, "code": error.code, "message": error.message}


def error_document(code: str, message: str, hint: str) -> Document:
    """An error: its code, what was done, what to do next."""
    return {"error": {"code": code, "message": message, "hint": hint}}


# -- what they are made of ---------------------------------------------------------------------------------------------


def status_name(row: RunRow) -> str:
    """A run's status; a quarantine lies over it."""
    return QUARANTINED if row.quarantined else row.status


def words_of(value: bytes | None) -> str | None:
    """The words in {"detail": words}, as failures and reasons are stored; None where it is something else."""
    try:
        return msgspec.json.decode(value or b"", type=dict[str, str]).get("detail")
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def moment(at: int) -> datetime:
    """Microseconds UTC as an aware datetime; the end of time where it lies beyond."""
    try:
        return datetime_of(at)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
