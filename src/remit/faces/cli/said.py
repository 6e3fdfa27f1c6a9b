"""Said: what an entry says besides its name, in a few words of ours before the words that others wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from remit.authority.called import evidence_name, id_name
from remit.authority.policy import policy_difference, policy_digest
from remit.errors.called import called
from remit.faces.cli.say import span, time_of, whose
from remit.faces.documents import words_of
from remit.faces.spoken import evidence_of
from remit.facts.names import RESERVED_PREFIX
from remit.facts.rules import PolicyPin
from remit.facts.timeline import Line

Told = tuple[str, bool]  # the words, and whether they tell the entry's value already
_FOUND = {
    "": "",
    "probe": ", found by asking the outside",
    "person": ", found by a person",
    "unsent": ", it never began",
}
_ID_SHOWN = 8  # characters of an id or a hash by which a reader finds its other places


def _took(one: Line) -> Told:
    return f"({span(one.body['took'])})", False


def _words(before: str) -> Callable[[Line], Told]:
    def said(one: Line) -> Told:
        return _worded(before.format(**one.body), one)

    return said


def _worded(start: str, one: Line) -> Told:
    """Our words, then those in {"detail": words}."""
    words = words_of(one.value)
    return (start, False) if words is None else (f"{start}: {words}" if words else start, True)


def _posted(start: str, one: Line) -> Told:
    """The same of an entry that somebody else than the executor wrote."""
    return _worded(f"{id_name(one.by)} {start}", one)


def _ended(one: Line) -> Told:
    if one.body["status"] == "completed":
        return "completed:", False
    code = one.body.get("code", "")
    return _worded(f"{one.body['status']}, {code}" if code else one.body["status"], one)


def _judged(one: Line) -> Told:
    """The verdict, and each finding that did not pass or has something to note."""
    verdict = one.body["verdict"]
    noted = [_finding(finding) for finding in verdict["findings"] if finding.get("code")]
    return ": ".join(part for part in (verdict["decision"], ", ".join(noted)) if part), True


def _finding(finding: dict[str, Any]) -> str:
    about = finding.get("detail", "")
    return f"{finding['code']} ({about})" if about else finding["code"]


def _intended(one: Line) -> Told:
    body = one.body
    approval = f", by the yes to {_short(body['ask'])}" if body.get("ask") else ""
    return f"key {_short(body['key'])}{approval}:", False


def _settled(one: Line) -> Told:
    body = one.body
    took = f" ({span(body['took'])})" if body.get("took") else ""
    found = _FOUND[body.get("found", "")]
    if lost := body.get("lost"):
        return f"{body['state']}{took}{found}, its outcome could not be stored: {lost['code']}", True
    start = f"{body['state']}{took}{found}"
    return (f"{start}:", False) if body["state"] == "ok" else _worded(start, one)


def _asked(one: Line) -> Told:
    roles = whose(one.body["bound"].get("roles", []))
    return f"{_short(one.body['ask'])} asks {roles} until {time_of(one.body['until'])}:", False


def _evidence(one: Line) -> Told:
    again = "taken again, " if one.body.get("again") else ""
    return f"{evidence_name(one.body['evidence'])}, {again}as stated fresh until {time_of(one.body['until'])}:", False


def _decided(one: Line) -> Told:
    body = one.body
    verb = "approved" if body["choice"] == "approve" else "denied"
    alone = ", its own run" if body.get("alone") else ""
    return _posted(f"{verb} {_short(body['ask'])} as {_listed(body['roles'])}{alone}", one)


def _lifted(one: Line) -> Told:
    shorter = ", with entries missing" if one.body.get("shorter") else ""
    return _posted(f"lifted {id_name(one.body['run'])}{shorter}", one)


def _resolved(one: Line) -> Told:
    what = "happened" if one.body["state"] == "ok" else "did not happen"
    said = f"{id_name(one.by)} said that {called(one.body['call'])} {what}"
    return f"{said}: {evidence_of(one.value)}{_given(one.value)}", True


def _given(value: bytes | None) -> str:
    """The outcome that a person gave for one that happened."""
    outcome = json.loads(value or b"{}").get("outcome")
    return "" if outcome is None else f"; outcome {json.dumps(outcome, ensure_ascii=False)}"


def _set(one: Line) -> Told:
    """Which policy, by its digest as well: two may bear one version. Then all that it says."""
    try:
        pin = msgspec.convert(one.body["policy"], PolicyPin)
    except msgspec.ValidationError:  # a newer version wrote it, with rules that this one does not know
        return _posted(f"set policy {one.body['policy']['version']}", one)
    _, *rules = policy_difference(None, pin)
    said = "; ".join(rule.removeprefix("+ ") for rule in rules) or "no rule"
    return _posted(f"set policy {pin.version} ({_short(policy_digest(pin))}: {said})", one)


def _on(does: str) -> Callable[[Line], Told]:
    """An act on the directory, by whom and to whom."""

    def said(one: Line) -> Told:
        return _posted(does.format(**one.body), one)

    return said


def _short(text: str) -> str:
    return text if len(text) <= _ID_SHOWN else f"{text[:_ID_SHOWN]}…"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nobody in particular"


def _opened(one: Line) -> Told:
    """A run's input. A journal of Remit's own has none, and what is stored there in its place says nothing."""
    is_own = one.body["flow"].startswith(RESERVED_PREFIX)
    return ("a journal of Remit's own begins", True) if is_own else ("", False)


def _started(one: Line) -> Told:
    dead = one.body.get("dead", ())
    told = f"; proven dead: {', '.join(dead)}" if dead else ""
    return f"worker {one.body['worker']}, attempt {one.epoch}{told}", True


SAID: dict[str, Callable[[Line], Told]] = {
    "RunOpened": _opened,
    "AttemptStarted": _started,
    "StepDone": _took,
    "StepFailed": _words("{error}"),
    "RaceWon": lambda one: (f"call {one.body['winner'] + 1} of {len(one.body['sides'])} was first", False),
    "EvidenceTaken": _evidence,
    "GateJudged": _judged,
    "EffectIntended": _intended,
    "EffectSettled": _settled,
    "EffectRefused": _words("{code}"),
    "ApprovalAsked": _asked,
    "ApprovalVoided": lambda one: (f"{_short(one.body['ask'])} holds no longer: {_listed(one.body['codes'])}", True),
    "ApprovalUsed": lambda one: _worded(f"by the yes to {_short(one.body['ask'])}", one),
    "RunParked": _words("for {waits_for}, {code}"),
    "RunEnded": _ended,
    "CancelAsked": lambda one: _posted("asked for the end", one),
    "ApprovalDecided": _decided,
    "DoubtResolved": _resolved,
    "RunQuarantined": _words("{run}"),
    "QuarantineLifted": _lifted,
    "RoleGranted": _on("gave {role} to {principal}"),
    "RoleRevoked": _on("took {role} from {principal}"),
    "PrincipalDisabled": _on("disabled {principal}"),
    "PrincipalEnabled": _on("enabled {principal}"),
    "PrincipalLinked": _on("said that {principal} and {person} are one person"),
    "PolicySet": _set,
}
