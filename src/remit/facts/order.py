"""Order: what has none in Python is written in one order, so that one value has one byte string.

A set comes in the order of its hashes, which change from process to process. Sets of plain
text or integers are sorted by the encoder. Other sets are sorted here by the bytes of their
elements, and dicts whose keys are not text by the text that their keys become.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect as shape

_encode = msgspec.json.Encoder(order="sorted").encode

SETS = (shape.SetType, shape.FrozenSetType)
_LISTS = (shape.ListType, shape.VarTupleType, shape.CollectionType)
_FIELDED = (shape.StructType, shape.DataclassType, shape.TypedDictType, shape.NamedTupleType)
_KEYS = (
    *(shape.StrType, shape.AnyType, shape.IntType, shape.FloatType, shape.EnumType, shape.LiteralType),
    *(shape.UUIDType, shape.DecimalType, shape.DateTimeType, shape.DateType, shape.TimeType, shape.TimeDeltaType),
    shape.BytesType,
)


def children(info: shape.Type) -> tuple[shape.Type, ...]:
    """The types directly inside `info`."""
    if isinstance(info, (shape.CollectionType, shape.VarTupleType)):
        return (info.item_type,)
    if isinstance(info, shape.TupleType):
        return info.item_types
    if isinstance(info, shape.DictType):
        return info.key_type, info.value_type
    if isinstance(info, shape.UnionType):
        return info.types
    if isinstance(info, _FIELDED):
        return tuple(field.type for field in info.fields)
    return ()


def is_unordered(info: shape.Type) -> bool:
    """Whether the encoder by itself can't give `info` one order."""
    if isinstance(info, SETS):
        return not isinstance(info.item_type, (shape.StrType, shape.IntType))
    return isinstance(info, shape.DictType) and not isinstance(info.key_type, (shape.StrType, shape.AnyType))


def is_key(info: shape.Type) -> bool:
    """Whether values of type `info` can be keys of a dict, that is, become text and come back."""
    if isinstance(info, shape.UnionType):
        return all(is_key(member) for member in info.types)
    return isinstance(info, _KEYS)


def arrange(info: shape.Type, plain: Any) -> Any:
    """`plain`, the decoded JSON of a value of type `info`, with its sets in one order."""
    if isinstance(info, shape.UnionType):
        info = _member(info, plain)
    if isinstance(plain, list):
        if isinstance(info, SETS):
            return sorted((arrange(info.item_type, item) for item in plain), key=_encode)
        if isinstance(info, _LISTS):
            return [arrange(info.item_type, item) for item in plain]
        return [arrange(*pair) for pair in zip(positions(info, plain), plain)]  # noqa: B905 - defaults may lack
    if isinstance(plain, dict):
        if isinstance(info, shape.DictType):
            return {key: arrange(info.value_type, item) for key, item in plain.items()}
        if isinstance(info, _FIELDED):
            inside = {field.encode_name: field.type for field in info.fields}
            return {key: arrange(inside[key], item) if key in inside else item for key, item in plain.items()}
    return plain


def positions(info: shape.Type, plain: list[Any]) -> list[shape.Type]:
    """What stands at each place of a list, and at further ones."""
    rest: list[shape.Type] = [shape.AnyType()] * len(plain)
    if isinstance(info, shape.TupleType):
        return [*info.item_types, *rest]
    if isinstance(info, shape.StructType):
        tag = [] if info.tag is None else rest[:1]
        return [*tag, *(field.type for field in info.fields), *rest]
    if isinstance(info, shape.NamedTupleType):
        return [*(field.type for field in info.fields), *rest]
    return rest


def _member(union: shape.UnionType, plain: Any) -> shape.Type:
    """The one member that `plain` can be of; the encoder allows one list, and one dict or several tagged structs."""
    for info in union.types:
        if isinstance(info, shape.StructType) and info.tag is not None:
            if isinstance(plain, list) and info.array_like and plain and plain[0] == info.tag:
                return info
            if isinstance(plain, dict) and not info.array_like and plain.get(info.tag_field) == info.tag:
                return info
        elif isinstance(plain, dict) and isinstance(info, (shape.DictType, *_FIELDED)):
            if not isinstance(info, shape.NamedTupleType):
                return info
        elif isinstance(plain, list) and (isinstance(info, shape.NamedTupleType) or _is_listed(info)):
            return info
    return shape.AnyType()


def _is_listed(info: shape.Type) -> bool:
    is_array = isinstance(info, shape.StructType) and info.array_like
    return is_array or isinstance(info, (shape.CollectionType, shape.VarTupleType, shape.TupleType))
