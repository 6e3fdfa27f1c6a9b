"""Stated: each field of a value stands in its bytes by name, or somebody would approve less than is given.

A type may leave fields out of its JSON: a struct its defaults, a model what it excludes or keeps private, a dataclass
what its constructor does not take. Read back, they are what the code at hand says they are, which nobody saw and
nothing is bound to. It may leave the names out: of a NamedTuple the bytes have the places alone, and a field that is
moved stands where another was approved. For what a flow keeps for itself that is its own affair; a request says all of
itself.
"""

from __future__ import annotations

import functools
import types
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from remit.facts import model
from remit.facts.compare import beside_fields, is_model
from remit.facts.placed import aliases, defaulted, keys_of, names_of, placed

Unstated = tuple[str, str]  # path, reason

_LEFT_OUT = "nobody would judge or see the field that its type leaves out of the bytes"
_PLACED = "a field that is moved would stand where another was approved, for its bytes have no names"
_encode = msgspec.json.Encoder(enc_hook=model.plain).encode


def unstated(value: Any, plain: Any, path: str = "$") -> Unstated | None:
    """The first field of `value` that its JSON does not state by name; None where all are there.

    plain: what the value's bytes decode to, as JSON's own types.
    """
    if hidden := next(_beside(value), None):
        return f"{path}.{hidden}", _LEFT_OUT
    if is_model(type(value)) and type(value).__pydantic_root_model__:
        return unstated(value.root, plain, path)
    if _is_placed(value):
        return path, _PLACED
    if isinstance(value, set | frozenset):
        return _unstated_items(value, plain, f"{path}{{}}")
    if isinstance(value, list | tuple):
        is_whole = isinstance(plain, list) and len(value) == len(plain)
        at = plain if is_whole else [None] * len(value)
        return _first((f"{path}[{place}]", *both) for place, both in enumerate(zip(value, at, strict=True)))
    found = placed(value, plain, model.plain)
    if found is None:
        return None
    if not isinstance(value, dict) and (missing := [name for name, _, key in found if _is_missing(value, name, key)]):
        return f"{path}{missing[0]}", _LEFT_OUT
    return _first((f"{path}{name}", part, None if key is None else plain[key]) for name, part, key in found)


def _is_missing(value: Any, name: str, key: str | None) -> bool:
    """Whether a field may be what the code says it is, not what stands in the bytes under `key`.

    A name that only a serializer gives is not enough where the field has a default, which may happen to be the same.
    """
    kind: type = type(value)
    return key is None or (key not in keys_of(kind) and name[1:] in defaulted(kind))


def _beside(value: Any) -> Iterator[str]:
    """What an object carries that is no field of its type, in its slots too."""
    kind: type = type(value)
    names = names_of(kind)
    if names is None:
        return
    known = {name for name, _ in names} | {*((value.__pydantic_extra__ or {}) if is_model(kind) else {})}
    beside = [*(name for name, _ in beside_fields(value)), *(name for name in _slots(kind) if hasattr(value, name))]
    yield from (name for name in beside if name not in known and not name.startswith("__pydantic_"))


@functools.lru_cache(maxsize=1024)
def _slots(kind: type) -> tuple[str, ...]:
    members = [(name, item) for base in kind.__mro__ for name, item in vars(base).items()]
    return tuple(name for name, item in members if isinstance(item, types.MemberDescriptorType))


def _unstated_items(items: set[Any] | frozenset[Any], plain: Any, path: str) -> Unstated | None:
    """In which order they are written is not known: each is looked at by itself, and together they are all there."""
    try:
        alone = [(item, msgspec.json.decode(_encode(item))) for item in items if _has_inside(item)]
    except TypeError:  # something that only the model around it can write
        return path, _LEFT_OUT
    if found := _first((path, item, own) for item, own in alone):
        return found
    there = Counter(map(_form, plain)) if isinstance(plain, list) else Counter()
    by_alias = ((item, _by_alias(item, own)) for item, own in alone)
    is_there = any(Counter(_form(own) for _, own in pairs) <= there for pairs in (alone, by_alias))
    return None if isinstance(plain, list) and is_there else (path, _LEFT_OUT)


def _by_alias(value: Any, own: Any) -> Any:
    """`own`, which `value` is by itself, under the names that it has within a model."""
    if is_model(type(value)):
        return own
    if isinstance(value, list | tuple) and isinstance(own, list) and len(value) == len(own):
        return [_by_alias(*both) for both in zip(value, own, strict=True)]
    if isinstance(value, set | frozenset) and isinstance(own, list):
        return [_by_alias(item, msgspec.json.decode(_encode(item))) for item in value]
    found = placed(value, own, model.plain)
    if found is None:
        return own
    other = {} if isinstance(value, dict) else aliases(type(value))
    return {other.get(name[1:], key): _by_alias(part, own[key]) for name, part, key in found if key is not None}


def _form(plain: Any) -> str:
    """Which names stand in it at which depth, in no order and without what they hold."""
    if isinstance(plain, dict):
        return "{" + ",".join(f"{key!r}:{_form(item)}" for key, item in sorted(plain.items())) + "}"
    return "[" + ",".join(sorted(map(_form, plain))) + "]" if isinstance(plain, list) else "."


def _has_inside(item: Any) -> bool:
    return isinstance(item, tuple | frozenset) or names_of(item.__class__) is not None


def _is_placed(value: Any) -> bool:
    """Whether it is written as an array, and its fields have names in the code."""
    if isinstance(value, msgspec.Struct):
        return value.__struct_config__.array_like
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _first(pairs: Iterator[tuple[str, Any, Any]]) -> Unstated | None:
    return next((found for path, item, plain in pairs if (found := unstated(item, plain, path)) is not None), None)
