"""Placed: under which name each part of a value stands in its JSON.

A field has the name that its type gives it, or its alias, which only pydantic writes; a serializer may give it any
other. Such a one is known by what it holds: the name is the field's where nothing else has it and it holds the same.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from remit.facts.compare import is_model

Placed = list[tuple[str, Any, str | None]]  # the part's own name, the part, its name in JSON or None

_encode = msgspec.json.Encoder(order="sorted").encode


def placed(value: Any, plain: Any, hook: Callable[[Any], Any]) -> Placed | None:
    """Each field of `value`, or each item of a dict, with its name in `plain`; None for what has no named parts.

    plain: the JSON of `value`, as JSON's own types; its sets may be in any order.
    hook: what writes a model that is inside a part.
    """
    at_hand = plain if isinstance(plain, dict) else {}
    parts = _parts(value, at_hand)
    if parts is None:
        return None
    wanted = Counter(key for _, _, key in parts)
    found: Placed = [(name, part, key if key in at_hand and wanted[key] == 1 else None) for name, part, key in parts]
    taken = {key for _, _, key in found}
    strange = [key for key in at_hand if key not in taken]
    if strange and None in taken:
        found = _by_content(found, at_hand, strange, hook)
        if isinstance(value, dict):  # each of its items stands there, whatever was made of its key
            rest = iter([key for key in strange if key not in {key for _, _, key in found}])
            found = [(name, part, next(rest, None) if key is None else key) for name, part, key in found]
    return found


def aliases(kind: type) -> dict[str, str]:
    """The names that pydantic gives to fields of `kind`, where they are not their own."""
    return _aliases(kind) if dataclasses.is_dataclass(kind) or is_model(kind) else {}


@functools.lru_cache(maxsize=1024)
def names_of(kind: type) -> list[tuple[str, str]] | None:
    """Each field of a struct, dataclass, attrs class or model with the name that its type gives it in JSON."""
    if issubclass(kind, msgspec.Struct):
        return list(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    if dataclasses.is_dataclass(kind):
        return [(field.name, field.name) for field in dataclasses.fields(kind)]
    if hasattr(kind, "__attrs_attrs__"):
        return [(attribute.name, attribute.name) for attribute in kind.__attrs_attrs__]
    if is_model(kind):
        return [(name, aliases(kind).get(name, name)) for name in kind.__pydantic_fields__]  # type: ignore[attr-defined]
    return None


@functools.lru_cache(maxsize=1024)
def keys_of(kind: type) -> frozenset[str]:
    """The names that fields of `kind` have in JSON where no serializer gives them others."""
    return frozenset((*(key for _, key in names_of(kind) or ()), *aliases(kind).values()))


@functools.lru_cache(maxsize=1024)
def defaulted(kind: type) -> frozenset[str]:
    """The fields of `kind` that are there although nobody gave them."""
    if issubclass(kind, msgspec.Struct):
        return frozenset(field.name for field in msgspec.structs.fields(kind) if not field.required)
    if dataclasses.is_dataclass(kind):
        nothing = dataclasses.MISSING
        fields = dataclasses.fields(kind)
        return frozenset(
            field.name for field in fields if not (field.init and field.default is field.default_factory is nothing)
        )
    if is_model(kind):
        return frozenset(name for name, field in kind.__pydantic_fields__.items() if not field.is_required())  # type: ignore[attr-defined]
    return frozenset(attribute.name for attribute in getattr(kind, "__attrs_attrs__", ()))  # any of them may have one


def _parts(value: Any, plain: dict[str, Any]) -> list[tuple[str, Any, Any]] | None:
    kind: type = type(value)
    if isinstance(value, dict):
        return [(f"[{key!a}]", item, _key(key)) for key, item in value.items()]
    names = names_of(kind)
    if names is None:
        return None
    other = aliases(kind)
    if other and all(key in plain for key in other.values()):  # a dataclass: within a model it has them
        names = [(name, other.get(name, key)) for name, key in names]
    parts = [(f".{name}", getattr(value, name), key) for name, key in names if hasattr(value, name)]
    extras = (value.__pydantic_extra__ or {}) if is_model(kind) else {}
    return [*parts, *((f".{name}", item, name) for name, item in extras.items())]


def _by_content(found: Placed, plain: dict[str, Any], strange: list[str], hook: Callable[[Any], Any]) -> Placed:
    """`found`, where a part without a name takes the first strange one that holds the same."""
    encode = msgspec.json.Encoder(enc_hook=hook).encode
    holding: dict[bytes, list[str]] = {}
    for key in reversed(strange):
        holding.setdefault(_encode(_loose(plain[key])), []).append(key)

    def known(part: Any) -> str | None:
        try:
            keys = holding.get(_encode(_loose(msgspec.json.decode(encode(part)))))
        except (TypeError, ValueError):  # something that only the model around it can write
            return None
        return keys.pop() if keys else None

    return [(name, part, known(part) if key is None else key) for name, part, key in found]


def _loose(plain: Any) -> Any:
    """`plain` with each list in one order, whether it has an order of its own or not."""
    if isinstance(plain, dict):
        return {key: _loose(item) for key, item in plain.items()}
    return sorted(map(_loose, plain), key=_encode) if isinstance(plain, list) else plain


@functools.lru_cache(maxsize=1024)
def _aliases(kind: type) -> dict[str, str]:
    known = getattr(kind, "__pydantic_fields__", None)
    if known is not None:
        return {name: field.serialization_alias for name, field in known.items() if field.serialization_alias}
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except Exception:  # an annotation as text is code, and may raise anything
        return {}
    marks = [(name, mark) for name, hint in hints.items() for mark in getattr(hint, "__metadata__", ())]
    found = {name: getattr(mark, "serialization_alias", None) for name, mark in marks}
    return {name: alias for name, alias in found.items() if isinstance(alias, str)}


def _key(key: Any) -> str | None:
    """A dict's key as JSON has it; None where only a model can write it."""
    if isinstance(key, str):
        return key
    try:
        return str(next(iter(msgspec.to_builtins({key: None}, str_keys=True))))
    except TypeError:
        return None
