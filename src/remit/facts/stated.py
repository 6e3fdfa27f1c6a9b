"""Stated: each field of a value stands in its bytes, or somebody would judge and approve less than is given.

A type may leave fields out of its JSON: a struct its defaults, a model what it excludes, a dataclass what its
constructor does not take. Read back, they are what the code at hand says they are, which nobody saw and nothing
is bound to. For what a flow keeps for itself that is its own affair; a request says all of itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import msgspec

from remit.facts.compare import is_model


def unstated(value: Any, plain: Any, path: str = "$") -> str | None:
    """The path of the first field of `value` that its JSON does not state; None where all are there.

    plain: what the value's bytes decode to, as JSON's own types.
    """
    if is_model(type(value)) and type(value).__pydantic_root_model__:
        return unstated(value.root, plain, path)
    names = _names_of(value)
    if names is not None:
        return _unstated_fields(value, names, plain, path)
    if isinstance(value, dict):
        pairs = [(f"{path}[{key!a}]", item, _at(plain, _key(key))) for key, item in value.items()]
    elif isinstance(value, list | tuple) and isinstance(plain, list) and len(value) == len(plain):
        pairs = [(f"{path}[{at}]", *both) for at, both in enumerate(zip(value, plain, strict=True))]
    elif isinstance(value, set | frozenset) and isinstance(plain, list):
        # In which order they are written is not known: each item has its JSON, and each JSON is of an item.
        items = (all(unstated(item, one) for one in plain) for item in value)
        ones = (all(unstated(item, one) for item in value) for one in plain)
        return f"{path}{{}}" if any(items) or any(ones) else None
    else:
        return None
    return _first(pairs)


def _unstated_fields(value: Any, names: list[tuple[str, str]], plain: Any, path: str) -> str | None:
    if isinstance(plain, list):  # a struct that is written as an array
        places = plain[1:] if len(plain) > len(names) else plain
        plain = {key: item for (_, key), item in zip(names, places, strict=False)}
    fields = [(name, key) for name, key in names if hasattr(value, name)]
    missing = next((name for name, key in fields if not isinstance(plain, dict) or key not in plain), None)
    if missing is not None:
        return f"{path}.{missing}"
    return _first((f"{path}.{name}", getattr(value, name), plain[key]) for name, key in fields)


def _first(pairs: Iterator[tuple[str, Any, Any]] | list[tuple[str, Any, Any]]) -> str | None:
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
