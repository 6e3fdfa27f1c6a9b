"""Contracts written as TOML, for those who keep rules beside code rather than in it.

What functions decide (`when`, `still_wanted`) can't be written as data; a contract that needs
them is declared in code.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, cast

from remit.authority import tables
from remit.authority.contract import WINDOW_MAX, Contract, Others, Risk
from remit.authority.durations import MICROSECOND
from remit.authority.rule import Approval, Ceiling, Rule
from remit.authority.tables import Fault, within
from remit.errors import DeclarationRefused

_LONGEST_US = WINDOW_MAX // MICROSECOND


def contract_from_toml(text: str) -> Contract:
    """The contract that a TOML text declares:

        version = "3"
        resume = ["buyer"]          # or "anyone"
        risk = "high"
        window = "5d"
        others = "free"             # effects that no rule names; else they are refused

        [effects.place_order]
        evidence = ["quote"]        # or {quote = "48h"}, each with how long it may be relied on at most
        approval = {roles = ["director"], within = "72h", immaterial = ["note"]}
        ceiling = {field = "amount", max = 2_500_000, currency = "GBP", per = "run"}    # or a list of them

    Times are "5d", "72h", "30m" or "90s".
    Raises DeclarationRefused: `contract.toml` naming the place of what can't be read, and all that Contract raises.
    """
    try:
        given = tables.table(tables.parse_toml(text), "", ("version", "resume", "risk", "window", "effects", "others"))
        effects = tables.table(given.get("effects", {}), "effects")
        return Contract(
            version=given.get("version", ""),
            resume=_resume(given.get("resume")),
            risk=cast("Risk", given.get("risk", "low")),
            window=_time(given["window"], "window") if "window" in given else None,
            effects={name: _rule(value, within("effects", name)) for name, value in effects.items()},
            others=cast("Others | None", given.get("others")),
        )
    except Fault as fault:
        raise DeclarationRefused(f"The contract can't be read: {fault}.", code="contract.toml") from None


def _resume(value: object) -> Any:
    """Roles as a set; text as it stands, which the contract refuses unless it says "anyone"."""
    return value if value is None or isinstance(value, str) else frozenset(tables.names(value, "resume"))


def _rule(value: object, place: str) -> Rule:
    given = tables.table(value, place, ("approval", "evidence", "ceiling"))
    ceilings = given.get("ceiling", [])
    if not isinstance(ceilings, list):
        ceilings = [ceilings]
    return Rule(
        approval=_approval(given["approval"], within(place, "approval")) if "approval" in given else None,
        evidence=_evidence(given.get("evidence", []), within(place, "evidence")),
        ceiling=[_ceiling(each, within(place, "ceiling")) for each in ceilings],
    )


def _evidence(value: object, place: str) -> Collection[str] | Mapping[str, timedelta]:
    if not isinstance(value, Mapping):
        return tables.names(value, place)
    return {name: _time(longest, within(place, name)) for name, longest in value.items()}


def _approval(value: object, place: str) -> Approval:
    pin = tables.approval(value, place, max_us=_LONGEST_US)
    return Approval(pin.roles, timedelta(microseconds=pin.within), immaterial=pin.immaterial, alone=pin.alone)


def _ceiling(value: object, place: str) -> Ceiling:
    given = tables.table(value, place, ("field", "max", "currency", "per"))
    bound: Mapping[str, Any] = {key: item for key, item in given.items() if key != "field"}
    pin = tables.ceiling(bound, tables.text(given.get("field"), within(place, "field")), place)
    return Ceiling(pin.field, max=pin.max, currency=pin.currency, per=pin.per)


def _time(value: object, place: str) -> timedelta:
    return timedelta(microseconds=tables.duration(value, place, max_us=_LONGEST_US))
