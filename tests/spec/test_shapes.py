"""Which names a type writes, and what it declares at a path; a key that it does not read is found in what is stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

import remit
from remit.facts.shape import holds_set, may_be_whole, missing_field, written_as
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
    try:
        Codec(type_).read(msgspec.json.encode(plain))
    except remit.ValueUnreadable as exc:
        assert exc.strange is not None
        return exc.strange[0]
    return None


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


class Both(pydantic.BaseModel):
    amount: int = pydantic.Field(alias="amountMinor")
    read_as: int = pydantic.Field(default=0, validation_alias="readAs", serialization_alias="writtenAs")
    hidden: int = pydantic.Field(default=0, exclude=True)
    lines: list[Model] = []


class Writing(pydantic.BaseModel):
    amount: int

    @pydantic.model_serializer
    def written(self) -> dict[str, int]:
        return {"sum": self.amount}


def test_only_what_stands_in_the_bytes_is_a_field_of_them():
    both = Codec(Both).info
    assert missing_field(both, ["amount"]) == ["amountMinor", "lines", "writtenAs"]
    assert missing_field(both, ["readAs"]) and missing_field(both, ["hidden"])
    assert missing_field(both, ["amountMinor"]) is missing_field(both, ["writtenAs"]) is None
    assert missing_field(Codec(Writing).info, ["sum"]) is None


def test_the_name_that_the_bytes_have_for_a_field_is_found_by_the_one_in_python():
    assert written_as(Codec(Both).info, ["amount"]) == "amountMinor"
    assert written_as(Codec(Both).info, ["read_as"]) == "writtenAs"
    assert written_as(Codec(Renamed).info, ["order_id"]) == "orderId"
    assert written_as(Codec(dict[str, int]).info, ["z"]) == written_as(Codec(Order).info, ["z"]) == ""


class Recursive(pydantic.BaseModel):
    inside: list[Recursive] = []
    pair: Model | dict[str, tuple[int, Choice]] | None = None


class Deep(pydantic.BaseModel):
    inside: Recursive
    choice: dict[str, list[Model | frozenset[int]]]


@dataclass
class Plain:
    one: Deep | None = None


@pytest.mark.parametrize(
    ("type_", "holds"),
    [
        (Plain, True),
        (Recursive, False),
        (Order, False),
        (list[set[str]], True),
        (dict[str, tuple[int, frozenset[int]]], True),
        (Any, False),
    ],
)
def test_a_set_is_found_wherever_it_can_stand(type_: Any, holds: bool):
    assert holds_set(Codec(type_).info) is holds
