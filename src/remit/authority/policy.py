"""Policy: the rules that an operator sets, changed at run time. It can only be stricter than a contract.

    policy_from, policy_from_toml    from what people write to facts, refusing what is not understood
    policy_digest                    what judgements and approvals are bound to
    policy_difference                what would change, in words, to be read before it is set
    unheard_of                       names in it that no known effect has, so that a misspelt rule is told

Whatever the difference does not say has not changed: it is taken over all that a policy holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from hashlib import sha256
from typing import Any

from remit.authority import tables
from remit.authority.contract import WINDOW_MAX, WINDOWS
from remit.authority.durations import MICROSECOND, duration_text
from remit.authority.money import money
from remit.authority.tables import Fault, within
from remit.canonical import Form, encode
from remit.errors import Refused
from remit.facts.rules import ApprovalPin, CeilingPin, PolicyPin

_FORM = Form(PolicyPin)
_PIN_TAG = b"remit/policy/1\n"
_LONGEST_US = WINDOW_MAX // MICROSECOND
_KEYS = ("version", "ceilings", "windows", "approvals", "evidence", "forbid")


def policy_from(data: Mapping[str, Any] | PolicyPin) -> PolicyPin:
    """A policy from the plain form that people write, or from facts, which are held to the same:

        {"version": "4",
         "ceilings": {"pay.amount": 2_500_000, "refund.amount": {"max": 9_000_000, "currency": "GBP", "per": "day"}},
         "windows": {"high": "30m"},
         "approvals": {"pay": {"roles": ["director"], "within": "72h"}},
         "evidence": {"quote": "24h"},
         "forbid": ["wire"]}

    Only `version` must be there. ceilings: minor units by effect and field, one or a list of them; a number alone is
    for each effect. windows: by risk. Times are "5d", "72h", "30m", "90s", or timedelta; at most 3,650 days.
    Raises Refused, naming the place: `policy.form`, `policy.version`, `policy.ceilings`, `policy.windows`,
    `policy.approvals`, `policy.evidence`, `policy.forbid`.
    """
    try:
        return _checked(data) if isinstance(data, PolicyPin) else _read(data)
    except Fault as fault:
        raise _refused(fault) from None


def policy_from_toml(text: str) -> PolicyPin:
    """The same, written as TOML. Raises Refused `policy.*`."""
    try:
        return _read(tables.parse_toml(text))
    except Fault as fault:
        raise _refused(fault) from None


def policy_digest(pin: PolicyPin) -> str:
    """Hex SHA-256 over the canonical bytes of a policy."""
    return sha256(_PIN_TAG + encode(pin)).hexdigest()


def policy_difference(old: PolicyPin | None, new: PolicyPin) -> list[str]:
    """What setting `new` changes, a line for each rule that is added (+), dropped (-) or another one (old -> new).

    Empty exactly where both say the same, to the byte. old: None where there is no policy yet.
    """
    before, after = _rules_said(old), _rules_said(new)
    lines = []
    for rule in sorted(before.keys() | after.keys(), key=lambda rule: (rule != "version", rule)):
        if rule not in before:
            lines.append(f"+ {rule}: {after[rule]}")
        elif rule not in after:
            lines.append(f"- {rule}: {before[rule]}")
        elif before[rule] != after[rule]:
            lines.append(f"  {rule}: {before[rule]} -> {after[rule]}")
    if not lines and encode(old) != encode(new):
        lines.append("  the same rules, written in another order")
    return lines


def unheard_of(pin: PolicyPin, known: Collection[str]) -> dict[str, str]:
    """Names of effects in a policy that no known effect has, each with the known one most like it, or "".

    >>> unheard_of(policy_from({"version": "1", "forbid": ["refnd", "pay"]}), {"refund", "pay"})
    {'refnd': 'refund'}
    """
    named = {*pin.approvals, *pin.ceilings, *pin.forbid} - set(known)
    return {name: next(iter(get_close_matches(name, sorted(known), n=1)), "") for name in sorted(named)}


def _read(data: object) -> PolicyPin:
    given = tables.table(data, "", _KEYS)
    if "version" not in given:
        raise Fault("version", "it is missing")
    windows = tables.table(given.get("windows", {}), "windows", tuple(WINDOWS))
    evidence = tables.table(given.get("evidence", {}), "evidence")
    approvals = tables.table(given.get("approvals", {}), "approvals")
    return PolicyPin(
        approvals={
            tables.effect_name(name, within("approvals", name)): tables.approval(
                value, within("approvals", name), max_us=_LONGEST_US
            )
            for name, value in approvals.items()
        },
        ceilings=_read_ceilings(tables.table(given.get("ceilings", {}), "ceilings")),
        evidence={
            tables.identifier(name, within("evidence", name), "name of evidence"): tables.duration(
                value, within("evidence", name), max_us=_LONGEST_US
            )
            for name, value in evidence.items()
        },
        forbid=[tables.effect_name(name, "forbid") for name in tables.names(given.get("forbid", ()), "forbid")],
        version=tables.identifier(given["version"], "version", "version"),
        windows={
            risk: tables.duration(value, within("windows", risk), max_us=_LONGEST_US) for risk, value in windows.items()
        },
    )


def _checked(pin: PolicyPin) -> PolicyPin:
    """Facts look at no type when they are made: what could not be read again must not be written."""
    try:
        pin = _FORM.read(_FORM.write(pin))
        plain = _plain(pin)
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise Fault("", f"it can't be written down ({ascii(str(exc))[1:-1]})") from None
    _read(plain)
    for effect, approval in pin.approvals.items():
        if approval.predicate:
            raise Fault(within("approvals", effect), "it hangs on a predicate, and a policy has no code to ask")
    for effect, ceilings in pin.ceilings.items():  # of an effect whose own name has a dot the plain form can't tell
        place = within("ceilings", tables.effect_name(effect, "ceilings"))
        for each in ceilings:
            tables.ceiling({"currency": each.currency, "max": each.max, "per": each.per}, each.field, place)
    return pin


def _plain(pin: PolicyPin) -> dict[str, Any]:
    """The plain form of a policy, without its ceilings."""
    approvals = {
        name: {
            "alone": each.alone,
            "immaterial": each.immaterial,
            "roles": each.roles,
            "within": timedelta(microseconds=each.within),
        }
        for name, each in pin.approvals.items()
    }
    return {
        "approvals": approvals,
        "evidence": {name: timedelta(microseconds=us) for name, us in pin.evidence.items()},
        "forbid": pin.forbid,
        "version": pin.version,
        "windows": {risk: timedelta(microseconds=us) for risk, us in pin.windows.items()},
    }


def _read_ceilings(given: Mapping[str, Any]) -> dict[str, list[CeilingPin]]:
    found: dict[str, list[CeilingPin]] = {}
    seen: set[tuple[str, str, str, str]] = set()
    for path, value, place in _flattened(given, "", "ceilings"):
        effect, _, field = path.partition(".")
        if not field:
            raise Fault(place, 'it names no field: write the effect and the field of its request, "pay.amount"')
        tables.effect_name(effect, place)
        pin = tables.ceiling(value, field, place)
        if (key := (effect, field, pin.per, pin.currency)) in seen:
            raise Fault(place, f"it is there twice per {pin.per}")
        seen.add(key)
        found.setdefault(effect, []).append(pin)
    return {effect: sorted(pins, key=lambda pin: (pin.field, pin.per, pin.currency)) for effect, pins in found.items()}


def _flattened(given: Mapping[str, Any], prefix: str, place: str) -> Iterator[tuple[str, Any, str]]:
    """Each ceiling with its path. TOML makes tables of `pay.amount = 1`, which mean the same as the dotted key."""
    for key, value in tables.table(given, place).items():
        path, at = (f"{prefix}.{key}" if prefix else key), within(place, key)
        is_nested = isinstance(value, Mapping) and ("." not in path or "max" not in value)
        if is_nested and value:
            yield from _flattened(value, path, at)
        elif isinstance(value, (list, tuple)) and value:
            yield from ((path, each, at) for each in value)
        else:
            yield path, value, at


def _rules_said(pin: PolicyPin | None) -> dict[str, str]:
    """All that a policy says, by the rule's heading. Where two have one heading, neither hides the other."""
    rules: dict[str, str] = {}
    for heading, words in () if pin is None else _said(pin):
        rules[heading] = f"{rules[heading]}; {words}" if heading in rules else words
    return rules


def _said(pin: PolicyPin) -> Iterator[tuple[str, str]]:
    yield "version", ascii(pin.version)
    for effect in pin.forbid:
        yield f"forbid {effect}", "nobody performs it"
    for risk, cap in pin.windows.items():
        yield f"window of {risk} risk", f"at most {duration_text(cap)}"
    for name, cap in pin.evidence.items():
        yield f"evidence {name}", f"relied on for at most {duration_text(cap)}"
    for effect, approval in pin.approvals.items():
        yield f"approval of {effect}", _approval_said(approval)
    for effect, pins in pin.ceilings.items():
        for each in pins:
            yield f"ceiling {effect}.{each.field} per {each.per}", f"at most {money(f'{each.max:,}', each.currency)}"


def _approval_said(pin: ApprovalPin) -> str:
    said = f"by one of {_listed(pin.roles)}, within {duration_text(pin.within)}"
    if pin.immaterial:
        said += f", whatever {_listed(pin.immaterial)} says"
    if pin.predicate:
        said += f", where {pin.predicate} says so"
    return said + (", also by the executor itself" if pin.alone else "")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def _refused(fault: Fault) -> Refused:
    part = fault.place.partition(".")[0]
    return Refused(
        f"The policy can't be set: {fault}; nothing was done.",
        code=f"policy.{part if part in _KEYS else 'form'}",
        hint="Correct it at the place that is named; the policy that held before holds on.",
    )
