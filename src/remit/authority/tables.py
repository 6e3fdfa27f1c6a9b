"""Tables: rules that people write as data, read strictly.

Each fault names its place ("effects.pay.approval.within"), and a key that nobody knows is a
fault, because a rule that is misspelt and passed over is a rule that does not hold.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

from remit.authority.durations import MICROSECOND, duration_us
from remit.authority.roles import role_fault
from remit.authority.rule import bound_fault, path_fault
from remit.errors import IdRefused
from remit.facts.names import check_effect_name, check_id, plain
from remit.facts.rules import ApprovalPin, CeilingPin, Period


class Fault(Exception):
    """What is wrong at a place; each reader makes its own error of it."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(f"{place or 'the whole'}: {what}")
        self.place = place


def parse_toml(text: object) -> dict[str, Any]:
    """The table that a TOML text is. Raises Fault."""
    if not isinstance(text, str):
        raise Fault("", f"TOML is text, not {type(text).__name__}")
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as exc:
        raise Fault("", f"it is not TOML ({ascii(str(exc))[1:-1]})") from None


def table(value: object, place: str, keys: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """A table, whose keys are among `keys` where any are given."""
    if not isinstance(value, Mapping):
        raise Fault(place, f"it is a table, not {_kind(value)}")
    for key in value:
        if not isinstance(key, str):
            raise Fault(place, f"the key {key!a} is no text")
        if keys and key not in keys:
            raise Fault(within(place, key), f"nobody knows this key; there are {', '.join(keys)}")
    return {plain(key): held for key, held in value.items()}


def within(place: str, key: str) -> str:
    """The place of a key of a table."""
    written = key if key.isascii() and key.replace("_", "").replace("-", "").isalnum() else ascii(key)
    return f"{place}.{written}" if place else written


def text(value: object, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise Fault(place, f"it is text, not {_kind(value)}")
    return plain(value)


def flag(value: object, place: str) -> bool:
    if not isinstance(value, bool):
        raise Fault(place, f"it is true or false, not {_kind(value)}")
    return value


def duration(value: object, place: str, *, max_us: int) -> int:
    """Microseconds of "72h" (d, h, m, s) or a timedelta; more than 0, at most `max_us`."""
    us = value // MICROSECOND if isinstance(value, timedelta) else None
    if isinstance(value, str):
        us = duration_us(value)
    if us is None:
        raise Fault(place, f'it is a time like "5d", "72h", "30m" or "90s", not {value!a}')
    if not 0 < us <= max_us:
        raise Fault(place, f"it is more than 0 and at most {max_us // 86_400_000_000} days, not {value!s}")
    return us


def names(value: object, place: str) -> list[str]:
    """Several texts, in order and once each; text alone would fall apart into letters."""
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise Fault(place, f"it is a list of names, not {_kind(value)}")
    return sorted({text(each, place) for each in value})


def identifier(value: object, place: str, what: str) -> str:
    """A name that may be stored and shown."""
    try:
        return check_id(value, what)
    except IdRefused as refusal:
        raise Fault(place, refusal.message.partition(";")[0]) from None


def effect_name(value: str, place: str) -> str:
    try:
        return check_effect_name(value, "effect name")
    except IdRefused as refusal:
        raise Fault(place, refusal.message.partition(";")[0]) from None


def approval(value: object, place: str, *, max_us: int) -> ApprovalPin:
    """{roles, within, immaterial, alone}. What functions decide can't be written as data."""
    given = table(value, place, ("roles", "within", "immaterial", "alone"))
    roles = names(given.get("roles", ()), within(place, "roles"))
    if not roles:
        raise Fault(within(place, "roles"), "it names no role whose holders may decide")
    if fault := next(filter(None, map(role_fault, roles)), ""):
        raise Fault(within(place, "roles"), fault)
    if "within" not in given:
        raise Fault(within(place, "within"), "it is missing")
    immaterial = names(given.get("immaterial", ()), within(place, "immaterial"))
    if fault := next(filter(None, map(path_fault, immaterial)), ""):
        raise Fault(within(place, "immaterial"), fault)
    return ApprovalPin(
        alone=flag(given.get("alone", False), within(place, "alone")),
        immaterial=immaterial,
        roles=roles,
        within=duration(given["within"], within(place, "within"), max_us=max_us),
    )


def ceiling(value: object, field: str, place: str) -> CeilingPin:
    """A whole number, or {max, currency, per}; without `per` it holds for each effect."""
    given = table(value if isinstance(value, Mapping) else {"max": value}, place, ("max", "currency", "per"))
    if fault := path_fault(field):
        raise Fault(place, fault)
    currency, per = given.get("currency", ""), given.get("per", "effect")
    if fault := bound_fault(given.get("max"), currency, per):
        raise Fault(place, fault)
    return CeilingPin(currency=plain(currency), field=plain(field), max=given["max"], per=cast("Period", plain(per)))


def _kind(value: object) -> str:
    return "nothing" if value is None else type(value).__name__
