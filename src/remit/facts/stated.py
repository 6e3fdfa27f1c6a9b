"""Stated: each field of a value stands in its bytes by name, or somebody would approve less than is given.

A type may leave fields out of its JSON: a struct its defaults, a model what it excludes or keeps private, a dataclass
what its constructor does not take. Read back, they are what the code at hand says they are, which nobody saw and
nothing is bound to. It may leave the names out: of a NamedTuple the bytes have the places alone, and a field that is
moved stands where another was approved. For what a flow keeps for itself that is its own affair; a request says all of
itself.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from remit.facts import model
from remit.facts.compare import beside_fields, is_model

Unstated = tuple[str, str]  # path, reason

_LEFT_OUT = "nobody would judge or see the field that its type leaves out of the bytes"
_PLACED = "a field that is moved would stand where another was approved, for its bytes have no names"
_encode = msgspec.json.Encoder(enc_hook=model.plain).encode


def unstated(value: Any, plain: Any, path: str = "$") -> Unstated | None:
    """The first field of `value` that its JSON does not state by name; None where all are there.

    plain: what the value's bytes decode to, as JSON's own types.
    """
    if is_model(type(value)) and type(value).__pydantic_root_model__:
        return unstated(value.root, plain, path)
    if _is_placed(value):
        return path, _PLACED
    names = _names_of(value)
    if names is not None:
        return _unstated_fields(value, names, plain, path)
    if isinstance(value, dict):
        pairs = [(f"{path}[{key!a}]", item, _at(plain, _key(key))) for key, item in value.items()]
    elif isinstance(value, list | tuple) and isinstance(plain, list) and len(value) == len(plain):
        pairs = [(f"{path}[{at}]", *both) for at, both in enumerate(zip(value, plain, strict=True))]
    elif isinstance(value, set | frozenset):
        return _unstated_items(value, plain, f"{path}{{}}")
    else:
        return None
    return _first(pairs)


def _unstated_fields(value: Any, names: list[tuple[str, str]], plain: Any, path: str) -> Unstated | None:
    fields = [(name, key) for name, key in names if hasattr(value, name)]
    extras = (value.__pydantic_extra__ or {}) if is_model(type(value)) else {}
    beside = [name for name, _ in beside_fields(value) if name not in extras and not name.startswith("__pydantic_")]
    fields += [(name, name) for name in extras]
    missing = [name for name, key in fields if not isinstance(plain, dict) or key not in plain]
    if hidden := [*missing, *beside]:
        return f"{path}.{hidden[0]}", _LEFT_OUT
    items = {**{name: getattr(value, name) for name, _ in fields if name not in extras}, **extras}
    return _first((f"{path}.{name}", items[name], plain[key]) for name, key in fields)


def _unstated_items(items: set[Any] | frozenset[Any], plain: Any, path: str) -> Unstated | None:
    """In which order they are written is not known: each is looked at by itself, and together they are all there."""
    try:
        alone = [(item, msgspec.json.decode(_encode(item))) for item in items if _has_inside(item)]
    except TypeError:  # something that only the model around it can write
        return path, _LEFT_OUT
    forms = Counter(_form(own) for _, own in alone)
    found = _first((path, item, own) for item, own in alone)
    if found is None and (not isinstance(plain, list) or not forms <= Counter(map(_form, plain))):
        return path, _LEFT_OUT
    return found


def _form(plain: Any) -> str:
    """Which names stand in it at which depth, in no order and without what they hold."""
    if isinstance(plain, dict):
        return "{" + ",".join(f"{key!r}:{_form(item)}" for key, item in sorted(plain.items())) + "}"
    return "[" + ",".join(sorted(map(_form, plain))) + "]" if isinstance(plain, list) else "."


def _has_inside(item: Any) -> bool:
    return isinstance(item, tuple | frozenset) or _names_of(item) is not None


def _is_placed(value: Any) -> bool:
    """Whether it is written as an array, and its fields have names in the code."""
    if isinstance(value, msgspec.Struct):
        return value.__struct_config__.array_like
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _first(pairs: Iterator[tuple[str, Any, Any]] | list[tuple[str, Any, Any]]) -> Unstated | None:
    return next((found for path, item, plain in pairs if (found := unstated(item, plain, path)) is not None), None)


def _names_of(value: Any) -> list[tuple[str, str]] | None:
    """Each field of a struct, dataclass, attrs class or model with the key that it has in JSON."""
    kind = type(value)
    if isinstance(value, msgspec.Struct):
        return list(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    if dataclasses.is_dataclass(value):
        return [(field.name, field.name) for field in dataclasses.fields(value)]
    if hasattr(kind, "__attrs_attrs__"):
        return [(attribute.name, attribute.name) for attribute in kind.__attrs_attrs__]
    if is_model(kind):
        fields = kind.__pydantic_fields__
        return [(name, field.serialization_alias or name) for name, field in fields.items()]
    return None


def _key(key: Any) -> Any:
    """A dict's key as JSON has it."""
    return key if isinstance(key, str) else next(iter(msgspec.to_builtins({key: None}, str_keys=True)))


def _at(plain: Any, key: Any) -> Any:
    return plain.get(key) if isinstance(plain, dict) else None
