"""Shapes: which names the values of an annotated type have, for whoever compares before anything is read.

    strange_key    a key in plain JSON that no field of the type has: reading would drop it in silence
    missing_field  where a path of names leads to nothing in the type
    may_be_whole   whether a whole number can stand at a path

Where a type says nothing of its names (`dict`, `Any`, a model that allows more) none is strange.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import inspect as shape

from remit.facts.compare import is_model

Path = tuple[str | int, ...]

_NAMED = (shape.StructType, shape.DataclassType, shape.TypedDictType)
_LISTS = (shape.CollectionType, shape.VarTupleType)
_WHOLE = (shape.IntType, shape.AnyType, shape.CustomType, shape.LiteralType, shape.EnumType, shape.RawType)


def strange_key(info: shape.Type, plain: Any) -> tuple[Path, list[str]] | None:
    """The first key that no field has, as its place, with the names that are known there; None where all are.

    plain: decoded JSON that reads as `info`. Of a union it is held to the member in which the fewest are strange.
    """
    found = _strange(info, plain, ())
    return found[0] if found else None


def missing_field(info: shape.Type, names: Sequence[str]) -> list[str] | None:
    """The names that are known where a path of names leads to nothing; None where it leads to a field, or may."""
    for name in names:
        fields = _fields(info)
        if fields is None:
            return None
        if name not in fields:
            return sorted(fields)
        info = fields[name]
    return None


def may_be_whole(info: shape.Type, names: Sequence[str]) -> bool:
    """Whether a whole number can stand at a path that leads to a field, or may."""
    for name in names:
        fields = _fields(info)
        if fields is None:
            return True
        info = fields[name]
    return any(isinstance(each, _WHOLE) for each in _members(info))


def _strange(info: shape.Type, plain: Any, path: Path) -> list[tuple[Path, list[str]]]:
    each_way = [_strange_in(member, plain, path) for member in _members(info) if _is_for(member, plain)]
    return min(each_way, key=len, default=[])


def _strange_in(info: shape.Type, plain: Any, path: Path) -> list[tuple[Path, list[str]]]:
    found: list[tuple[Path, list[str]]] = []
    if isinstance(plain, list):
        for place, item in enumerate(plain):
            if isinstance(info, _LISTS):
                found += _strange(info.item_type, item, (*path, place))
            elif isinstance(info, shape.TupleType) and place < len(info.item_types):
                found += _strange(info.item_types[place], item, (*path, place))
    elif isinstance(info, shape.DictType):
        for key, item in plain.items():
            found += _strange(info.value_type, item, (*path, key))
    elif isinstance(plain, dict) and (fields := _fields(info)) is not None:
        tag = info.tag_field if isinstance(info, shape.StructType) else None
        for key, item in plain.items():
            if key in fields:
                found += _strange(fields[key], item, (*path, key))
            elif key != tag:
                found.append(((*path, key), sorted(fields)))
    return found


def _is_for(info: shape.Type, plain: Any) -> bool:
    """Whether a member of a union can be what a list or a dict was read as; of anything else nothing is asked."""
    if isinstance(plain, list):
        return isinstance(info, (*_LISTS, shape.TupleType, shape.AnyType))
    if isinstance(plain, dict):
        if isinstance(info, shape.StructType) and info.tag is not None:
            return bool(plain.get(str(info.tag_field)) == info.tag)
        return isinstance(info, (*_NAMED, shape.DictType, shape.AnyType, shape.CustomType))
    return False


def _members(info: shape.Type) -> tuple[shape.Type, ...]:
    return info.types if isinstance(info, shape.UnionType) else (info,)


def _fields(info: shape.Type) -> Mapping[str, shape.Type] | None:
    """What stands in a value of this type, by name; None where anything may. What has no names has none."""
    found: dict[str, shape.Type] = {}
    for member in _members(info):
        if isinstance(member, (shape.AnyType, shape.DictType, shape.RawType)):
            return None
        if isinstance(member, _NAMED):
            found |= {field.encode_name: field.type for field in member.fields}
        elif isinstance(member, shape.CustomType):
            inside = _fields_of_model(member.cls)
            if inside is None:
                return None
            found |= inside
    return found


def _fields_of_model(cls: Any) -> dict[str, shape.Type] | None:
    """The same of a pydantic model: each name under which a field is read."""
    if not is_model(cls) or cls.model_config.get("extra") == "allow":
        return None
    found: dict[str, shape.Type] = {}
    for name, field in cls.__pydantic_fields__.items():
        alias = field.validation_alias
        if alias is not None and not isinstance(alias, str):
            return None  # a choice of places, which is pydantic's own to make
        found |= dict.fromkeys({name, alias or name}, _info(field.annotation))
    return found


def _info(annotation: Any) -> shape.Type:
    try:
        return msgspec.inspect.type_info(annotation)
    except Exception:  # a type that only the model itself can read
        return shape.AnyType()
