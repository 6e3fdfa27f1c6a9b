"""Which names a type has: a key that it has not is found, and nothing is called strange that may stand there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from remit.facts.shape import may_be_whole, missing_field, strange_key
from remit.facts.value import Codec


@dataclass
class Line:
    sku: str
    amount: int = 0


@dataclass
class Order:
    payee: str
    lines: list[Line] = field(default_factory=list)
    more: dict[str, Line] = field(default_factory=dict)
    free: Any = None
    one: Line | None = None
    pair: tuple[int, Line] | None = None


class Renamed(msgspec.Struct, rename="camel", omit_defaults=True):
    order_id: str
    note: str = "plain"


class Cat(msgspec.Struct, tag=True):
    lives: int = 9


class Dog(msgspec.Struct, tag=True):
    name: str = ""


class Typed(TypedDict):
    amount: int


class Model(pydantic.BaseModel):
    amount: int
    order: str = pydantic.Field(default="", alias="orderId")
    line: Line | None = None


class Open(pydantic.BaseModel, extra="allow"):
    amount: int = 0


class Choice(pydantic.BaseModel):
    amount: int = pydantic.Field(default=0, validation_alias=pydantic.AliasChoices("a", "b"))


def strange(type_: Any, plain: Any) -> Any:
    codec: Codec[Any] = Codec(type_)
    codec.read(msgspec.json.encode(plain))
    found = strange_key(codec.info, plain)
    return None if found is None else found[0]


@pytest.mark.parametrize(
    ("type_", "plain", "place"),
    [
        (Order, {"payee": "A", "nte": 1}, ("nte",)),
        (Order, {"payee": "A", "lines": [{"sku": "x"}, {"sku": "y", "amont": 1}]}, ("lines", 1, "amont")),
        (Order, {"payee": "A", "more": {"k": {"sku": "x", "z": 1}}}, ("more", "k", "z")),
        (Order, {"payee": "A", "free": {"z": 1}, "one": None}, None),
        (Order, {"payee": "A", "one": {"sku": "x", "z": 1}}, ("one", "z")),
        (Order, {"payee": "A", "pair": [1, {"sku": "x", "z": 1}]}, ("pair", 1, "z")),
        (list[Order], [{"payee": "A", "z": 1}], (0, "z")),
        (Renamed, {"orderId": "1", "note": "plain"}, None),
        (Renamed, {"orderId": "1", "order_id": "2"}, ("order_id",)),
        (Cat | Dog, {"type": "Dog", "name": "x"}, None),
        (Cat | Dog, {"type": "Dog", "lives": 9}, ("lives",)),
        (Typed, {"amount": 1, "nte": 2}, ("nte",)),
        (Model, {"amount": 1, "orderId": "x"}, None),
        (Model, {"amount": 1, "nte": "x"}, ("nte",)),
        (Model, {"amount": 1, "line": {"sku": "x", "z": 1}}, ("line", "z")),
        (Open, {"z": 1}, None),
        (Choice, {"b": 1}, None),
        (dict, {"z": 1}, None),
        (Any, {"z": 1}, None),
        (str, "z", None),
    ],
)
def test_a_key_that_no_field_has_is_found(type_: Any, plain: Any, place: Any):
    assert strange(type_, plain) == place


def test_a_path_leads_to_a_field_or_the_names_are_told_that_are_there():
    order = Codec(Order).info
    assert missing_field(order, ["payee"]) is None
    assert missing_field(order, ["payee", "z"]) == [] and missing_field(order, ["lines", "sku"]) == []
    assert missing_field(order, ["one", "amont"]) == ["amount", "sku"]
    assert missing_field(order, ["free", "whatever"]) is None and missing_field(Codec(dict).info, ["z"]) is None


def test_a_whole_number_can_stand_where_the_type_allows_one():
    order = Codec(Order).info
    assert may_be_whole(order, ["one", "amount"]) and may_be_whole(order, ["free", "z"])
    assert not may_be_whole(order, ["payee"]) and not may_be_whole(order, ["one"])
