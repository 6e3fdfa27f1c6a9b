"""Comparison: a value and its decoded twin are the same, type by type, or the difference has a path.

    same_native(a, b)   for what JSON has by itself; the hot path of every step
    same(a, b)          for any type that a Codec can store
    difference(a, b)    where they part: the slow path, only to name it
    set_inside(a)       where a set is, which a type may hide

Python's own == is too kind for this: it lets True pass for 1, 1 for 1.0, -0.0 for 0.0,
Decimal("1.10") for Decimal("1.1"), a subclass for its base, and a dataclass may leave fields
out of it. A flow that branches on any of these would go one way at first and another on replay.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import json
import math
import sys
import uuid
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import msgspec

DEPTH_MAX = 200  # levels of containers; deeper than this, reading would depend on the stack of the day

_SCALARS = frozenset({str, int, float, bool, bytes, type(None)})

Comparer = Callable[[Any, Any, int], bool]


class _Absent:
    """Stands where one side has nothing."""


_ABSENT = _Absent()


def same_native(a: Any, b: Any, depth: int = DEPTH_MAX) -> bool:
    """Whether `a` is made of exact JSON types only and equals `b`, which was just decoded.

    False as well where `a` is nested deeper than `depth`.
    """
    kind = type(a)
    if kind is not type(b):
        return False
    if kind is dict:
        if not depth or len(a) != len(b):
            return False
        for key, x in a.items():
            if type(key) is not str:
                return False
            y = b.get(key, _ABSENT)
            kind = type(x)
            if kind is str or kind is int or kind is bool:
                if kind is not type(y) or x != y:
                    return False
            elif not same_native(x, y, depth - 1):
                return False
        return True
    if kind is list:
        if not depth or len(a) != len(b):
            return False
        for x, y in zip(a, b):  # noqa: B905 - equal lengths were just seen, and strict costs
            kind = type(x)
            if kind is str or kind is int or kind is bool:
                if kind is not type(y) or x != y:
                    return False
            elif not same_native(x, y, depth - 1):
                return False
        return True
    if kind is float:
        return _same_float(a, b, depth)
    return (kind is str or kind is int or kind is bool or a is None) and a == b


def same(a: Any, b: Any, depth: int = DEPTH_MAX) -> bool:
    """Whether `a` and `b` have the same types and contents at every place, `depth` levels down at most."""
    kind = type(a)
    if kind is not type(b):
        return False
    compare = _comparers.get(kind)
    if compare is None:
        compare = _comparers[kind] = _comparer_of(kind)
    return compare(a, b, depth)


def difference(a: Any, b: Any, path: str = "$", depth: int = DEPTH_MAX) -> tuple[str, str] | None:
    """The first place where `a` and its twin `b` part, as (path, reason); None if they are the same."""
    if same(a, b, depth):
        return None
    if type(a) is not type(b):
        return path, f"{_named(a)} would come back as {_named(b)}"
    if not depth:
        return path, f"it is nested too deep (more than {DEPTH_MAX} levels)"
    if isinstance(a, dict):
        keys = {key: key for key in b}
        for key in a:
            if key in keys and not same(key, keys[key]):
                return path, f"the key {shown(key)} would come back as {shown(keys[key])}"
    twins = dict(parts(b))
    for segment, x in parts(a):
        if segment not in twins:
            return path + segment, f"{_named(x)} would not come back"
        found = difference(x, twins.pop(segment), path + segment, depth - 1)
        if found:
            return found
    if twins:
        return path + next(iter(twins)), "something would come back that was not there"
    return path, f"{shown(a)} would come back as {shown(b)}"


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What a container holds, each with its segment of a path: ".amount", "[3]", '["odd key"]'."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield at_key(key), item
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            yield f"[{place}]", item
    elif isinstance(value, (set, frozenset)):
        for item in value:
            yield f"{{{shown(item)}}}", item
    elif _fields_of(type(value)) is not None:
        for name in _fields_of(type(value)) or ():
            item = getattr(value, name, _ABSENT)
            if item is not _ABSENT:
                yield f".{name}", item
        for name, item in beside_fields(value):
            yield f".{name}", item


def set_inside(value: Any) -> str | None:
    """The path of a set or frozenset in `value`, whatever its type declares; None where there is none."""
    waiting = [("$", value)]
    while waiting:
        path, item = waiting.pop()
        if isinstance(item, set | frozenset):
            return path
        waiting += [(path + segment, inside) for segment, inside in parts(item) if type(inside) not in _SCALARS]
    return None


def shown(value: Any, length_max: int = 60) -> str:
    """A short text of `value` that any terminal and any log can take."""
    try:
        text = ascii(value)
    except Exception:  # a repr of the user's that fails must not hide why the value was refused
        text = f"<{type(value).__qualname__}>"
    return text if len(text) <= length_max else text[: length_max - 3] + "..."


def is_model(kind: Any) -> bool:
    """Whether `kind` is a pydantic model; pydantic is never imported to find out."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def _same_float(a: float, b: float, depth: int) -> bool:
    return a == b and (a != 0.0 or math.copysign(1.0, a) == math.copysign(1.0, b))


def _equal(a: Any, b: Any, depth: int) -> bool:
    return bool(a == b)


def _identical(a: Any, b: Any, depth: int) -> bool:
    return a is b


def _never(a: Any, b: Any, depth: int) -> bool:
    return False


def _same_decimal(a: decimal.Decimal, b: decimal.Decimal, depth: int) -> bool:
    return a.is_finite() and a.as_tuple() == b.as_tuple()


def _same_datetime(a: datetime.datetime, b: datetime.datetime, depth: int) -> bool:
    # By the clock on the wall and its offset: == calls times in a repeated hour unequal to those of any other zone.
    offset = a.utcoffset()
    return offset is not None and offset == b.utcoffset() and _on_the_wall(a) == _on_the_wall(b)


def _on_the_wall(a: datetime.datetime) -> datetime.datetime:
    return a.replace(tzinfo=None, fold=0)


def _same_time(a: datetime.time, b: datetime.time, depth: int) -> bool:
    # An aware time whose zone needs a date to know its offset says None here and is refused.
    return a == b and a.utcoffset() == b.utcoffset() and (a.tzinfo is None) == (b.tzinfo is None)


def _same_sequence(a: Any, b: Any, depth: int) -> bool:
    if not depth or len(a) != len(b):
        return False
    return all(same(x, y, depth - 1) for x, y in zip(a, b))  # noqa: B905 - equal lengths were just seen


def _same_set(a: Any, b: Any, depth: int) -> bool:
    if not depth or len(a) != len(b):
        return False
    twins = {y: y for y in b}
    return all(same(x, twins.get(x, _ABSENT), depth - 1) for x in a)


def _same_dict(a: dict[Any, Any], b: dict[Any, Any], depth: int) -> bool:
    if not depth or len(a) != len(b):
        return False
    twins = {key: key for key in b}  # a key may be equal and yet of another type: 1 and True
    for key, x in a.items():
        twin = twins.get(key, _ABSENT)
        if twin is _ABSENT or not same(key, twin, depth - 1) or not same(x, b[twin], depth - 1):
            return False
    return True


_comparers: dict[type, Comparer] = {
    _Absent: _identical,
    type(None): _identical,
    bool: _equal,
    int: _equal,
    str: _equal,
    float: _same_float,
    bytes: _equal,
    bytearray: _equal,
    datetime.datetime: _same_datetime,
    datetime.date: _equal,
    datetime.time: _same_time,
    datetime.timedelta: _equal,
    decimal.Decimal: _same_decimal,
    uuid.UUID: _equal,
    list: _same_sequence,
    tuple: _same_sequence,
    dict: _same_dict,
    set: _same_set,
    frozenset: _same_set,
}


def _comparer_of(kind: type) -> Comparer:
    if issubclass(kind, enum.Enum):
        return _identical
    names = _fields_of(kind)
    if names is not None:
        return _comparer_of_fields(kind, names)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _same_sequence
    if kind.__eq__ is object.__eq__ or hasattr(kind, "__iter__"):
        return _never
    return _equal  # a scalar that only a pydantic model can hold: Path, Url, SecretStr


def _comparer_of_fields(kind_: type, names: tuple[str, ...]) -> Comparer:
    known = frozenset(names)
    has_extras = is_model(kind_)
    is_closed = kind_.__dictoffset__ == 0

    def compare(a: Any, b: Any, depth: int) -> bool:
        if not depth:
            return False
        for name in names:
            x, y = getattr(a, name, _ABSENT), getattr(b, name, _ABSENT)
            kind = type(x)
            if kind is str or kind is int or kind is bool:
                if kind is not type(y) or x != y:
                    return False
            elif not same(x, y, depth - 1):
                return False
        if not has_extras and (is_closed or a.__dict__.keys() <= known):
            return True
        return same(dict(beside_fields(a)), dict(beside_fields(b)), depth)

    return compare


def _fields_of(kind: type) -> tuple[str, ...] | None:
    """The names of the fields of a struct, dataclass, attrs class or pydantic model."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    if hasattr(kind, "__attrs_attrs__"):
        return tuple(attribute.name for attribute in kind.__attrs_attrs__)
    if is_model(kind):
        return tuple(kind.__pydantic_fields__)  # type: ignore[attr-defined]
    return None


def beside_fields(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object carries that is no field of its class. A cached property does not count: it comes again."""
    names = _fields_of(type(value)) or ()
    for name, item in getattr(value, "__dict__", {}).items():
        if name not in names and not isinstance(getattr(type(value), name, None), functools.cached_property):
            yield name, item
    if is_model(type(value)):
        yield from (value.__pydantic_extra__ or {}).items()
        yield from (value.__pydantic_private__ or {}).items()


def at_key(key: Hashable) -> str:
    """How a key stands in a path: ".amount", '["odd key"]'."""
    if isinstance(key, str) and key.isidentifier():
        return f".{key}" if key.isascii() else f"[{json.dumps(key)}]"
    if type(key) is str:
        return f"[{json.dumps(key)}]" if len(key) <= 60 else f"[{json.dumps(key[:57] + '...')}]"
    return f"[{shown(key)}]"


def _named(value: Any) -> str:
    name = type(value).__qualname__
    if value is None or value is _ABSENT:
        return "None" if value is None else "nothing"
    article = "an" if name[0].lower() in "aeio" else "a"
    return f"{article} {name}"
