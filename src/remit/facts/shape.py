"""Shapes: which names the values of an annotated type have, for whoever compares before anything is read.

    missing_field  where a path of names leads to nothing in what is written of the type
    written_as     under which name a field stands there that Python calls by this one
    may_be_whole   whether a whole number can stand at a path
    holds_set      whether a set is declared inside, which has another order in each process

Where a type says nothing of its names (`dict`, `Any`, a model that allows more) any may be there.
"""

from __future__ import annotations

import collections.abc
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect as shape

from remit.facts import order
from remit.facts.compare import is_model

_NAMED = (shape.StructType, shape.DataclassType, shape.TypedDictType)
_WHOLE = (shape.IntType, shape.AnyType, shape.CustomType, shape.LiteralType, shape.EnumType, shape.RawType)
_ITEMS: Mapping[Any, Any] = {
    list: shape.ListType,
    collections.abc.Sequence: shape.ListType,
    set: shape.SetType,
    frozenset: shape.FrozenSetType,
    collections.abc.Set: shape.SetType,
}


class _Names(NamedTuple):
    """What stands in a value by name. rest: what stands under any other name; None where nothing may."""

    known: Mapping[str, shape.Type]
    rest: shape.Type | None = None


def missing_field(info: shape.Type, names: Sequence[str]) -> list[str] | None:
    """The names that are known where a path of names leads to nothing; None where it leads to a field, or may."""
    for name in names:
        fields = _written(info)
        if fields is None:
            return None
        if name not in fields:
            return sorted(fields)
        info = fields[name]
    return None


def written_as(info: shape.Type, names: Sequence[str]) -> str:
    """What stands in the bytes for the last of a path of names, where that is a field's name in Python; "" if nothing.

    The names before it are those of the bytes.
    """
    *before, last = names
    for name in before:
        info = (_written(info) or {}).get(name, shape.AnyType())
    for member in _members(info):
        if isinstance(member, _NAMED):
            found = next((field.encode_name for field in member.fields if field.name == last), "")
        elif isinstance(member, shape.CustomType) and is_model(member.cls):
            field = member.cls.__pydantic_fields__.get(last)  # type: ignore[attr-defined]
            found = "" if field is None else field.serialization_alias or last
        else:
            continue
        if found:
            return found
    return ""


def may_be_whole(info: shape.Type, names: Sequence[str]) -> bool:
    """Whether a whole number can stand at a path that leads to a field, or may."""
    for name in names:
        fields = _written(info)
        if fields is None:
            return True
        info = fields[name]
    return any(isinstance(each, _WHOLE) for each in _members(info))


def holds_set(info: shape.Type) -> bool:
    """Whether the type declares a set at any place. What it hides (an alias, a validator), only a value shows."""
    found: dict[Any, shape.Type] = {}
    waiting = [info]
    while waiting:
        part = waiting.pop()
        mark = part.cls if isinstance(part, shape.CustomType) else id(part)
        if isinstance(part, order.SETS):
            return True
        if mark not in found:
            found[mark] = part
            waiting.extend(order.children(part))
            if isinstance(part, shape.CustomType) and is_model(part.cls):
                waiting.extend(_inside_model(part.cls))
    return False


def _members(info: shape.Type) -> tuple[shape.Type, ...]:
    if not isinstance(info, shape.UnionType):
        return (info,)
    return tuple(member for each in info.types for member in _members(each))


def _written(info: shape.Type) -> Mapping[str, shape.Type] | None:
    """What stands in the bytes of a value, by name; None where anything may. What has no names has none."""
    each = [_names(member) for member in _members(info)]
    if any(names.rest is not None for names in each):
        return None
    return {name: inside for names in each for name, inside in names.known.items()}


def _names(info: shape.Type) -> _Names:
    """The names that are written of one type that is no union."""
    if isinstance(info, (shape.AnyType, shape.RawType)):
        return _Names({}, shape.AnyType())
    if isinstance(info, shape.DictType):
        return _Names({}, info.value_type)
    if isinstance(info, _NAMED):
        return _Names({field.encode_name: field.type for field in info.fields})
    if isinstance(info, shape.CustomType):
        if not is_model(info.cls):
            return _Names({}, shape.AnyType())
        return _written_of_model(info.cls)
    return _Names({})


def _written_of_model(cls: Any) -> _Names:
    if cls.__pydantic_root_model__ or cls.__pydantic_decorators__.model_serializers:
        return _Names({}, shape.AnyType())
    fields = cls.__pydantic_fields__.items()
    known = {field.serialization_alias or name: _info(field.annotation) for name, field in fields if not field.exclude}
    return _Names(known, _rest_of(cls))


def _rest_of(cls: Any) -> shape.Type | None:
    """What a model takes beside its fields; None where nothing."""
    if cls.model_config.get("extra") != "allow":
        return None
    extras = _info(typing.get_type_hints(cls).get("__pydantic_extra__", Any))
    return next((each.value_type for each in _members(extras) if isinstance(each, shape.DictType)), shape.AnyType())


def _inside_model(cls: Any) -> Iterable[shape.Type]:
    yield from (_info(field.annotation) for field in cls.__pydantic_fields__.values())
    if (rest := _rest_of(cls)) is not None:
        yield rest


def _info(annotation: Any) -> shape.Type:
    """What is known of a field of a model. Models side by side, which only pydantic tells apart, are a union here."""
    try:
        return msgspec.inspect.type_info(annotation)
    except Exception:  # a type that only the model itself can read, or one that has such inside
        origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _info(inside[0])
    if origin in (typing.Union, types.UnionType):
        return shape.UnionType(tuple(map(_info, inside)))
    if origin in _ITEMS:
        return _ITEMS[origin](_info(inside[0]))  # type: ignore[no-any-return]
    if origin is tuple and inside[-1] is not Ellipsis:
        return shape.TupleType(tuple(map(_info, inside)))
    if origin is tuple:
        return shape.VarTupleType(_info(inside[0]))
    if origin in (dict, collections.abc.Mapping):
        return shape.DictType(shape.AnyType(), _info(inside[1]))
    return shape.AnyType()
