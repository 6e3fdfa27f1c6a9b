"""What a changed type leaves unread of what is stored is found by values, whatever the type hides its names behind.

The table: a name of a record is gone in the new type; the record is of each kind, and stands behind each wrapping. The
same record with a field more is read everywhere.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from typing_extensions import TypeAliasType
from typing_extensions import TypedDict as AnyTypedDict

import remit
from remit.facts import unread
from remit.facts.value import Codec


def of_dataclass(*names: str) -> Any:
    return dataclasses.make_dataclass("R", [("id", int), *((name, bool, False) for name in names)])


def of_struct(*names: str) -> Any:
    return msgspec.defstruct("R", [("id", int), *((name, bool, False) for name in names)])


def of_model(*names: str) -> Any:
    return pydantic.create_model("R", id=(int, ...), **{name: (bool, False) for name in names})  # type: ignore[call-overload]


def of_typed_dict(*names: str) -> Any:
    return AnyTypedDict("R", {"id": int, **dict.fromkeys(names, bool)}, total=False)  # type: ignore[operator]


def of_pydantic_dataclass(*names: str) -> Any:
    return pydantic.dataclasses.dataclass(of_dataclass(*names))


class Sibling(BaseModel):
    """Has the name that the other lost."""

    other: int
    cleared: bool = False


def model_of(type_: Any) -> Any:
    return pydantic.create_model("M", x=(type_, ...))


RECORD = {"id": 1, "cleared": True}
KINDS = [of_dataclass, of_struct, of_model, of_typed_dict, of_pydantic_dataclass]
WRAPPINGS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "plain": (lambda r: r, RECORD),
    "list": (lambda r: list[r], [RECORD]),  # type: ignore[valid-type]
    "dict": (lambda r: dict[str, r], {"a": RECORD}),  # type: ignore[valid-type]
    "pair": (lambda r: tuple[int, r], [1, RECORD]),  # type: ignore[valid-type]
    "or none": (lambda r: list[r | None], [None, RECORD]),  # type: ignore[valid-type]
    "alias": (lambda r: TypeAliasType("T", r), RECORD),
    "alias of list": (lambda r: TypeAliasType("T", list[r]), [RECORD]),  # type: ignore[valid-type]
    "sibling": (lambda r: r | Sibling, RECORD),
    "alias of sibling": (lambda r: list[TypeAliasType("T", r | Sibling)], [RECORD]),  # type: ignore[misc]
    "list or one": (lambda r: list[r] | r, [RECORD]),  # type: ignore[valid-type]
    "record or dict": (lambda r: r | dict[str, list[int]], RECORD),
    "mapping": (lambda r: MutableMapping[str, r | Sibling], {"a": RECORD}),  # type: ignore[valid-type]
    "default dict": (lambda r: collections.defaultdict[str, Sequence[r | Sibling]], {"a": [RECORD]}),  # type: ignore[valid-type]
    "deque": (lambda r: collections.deque[r], [RECORD]),  # type: ignore[valid-type]
    "text": (lambda r: pydantic.Json[r], msgspec.json.encode(RECORD).decode()),  # type: ignore[misc, valid-type]
    "validated": (lambda r: Annotated[r, BeforeValidator(lambda given: given)], RECORD),
    "nested": (lambda r: Mapping[str, list[Annotated[r, "note"] | None]], {"a": [None, RECORD]}),  # type: ignore[valid-type]
}
OUTER: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "itself": (lambda t: t, lambda stored: stored),
    "model": (model_of, lambda stored: {"x": stored}),
    "root": (lambda t: pydantic.RootModel[t], lambda stored: stored),  # type: ignore[valid-type]
    "dataclass": (lambda t: dataclasses.make_dataclass("D", [("x", t)]), lambda stored: {"x": stored}),
}


def read(type_: Any, stored: Any) -> Any:
    return Codec(type_).read(msgspec.json.encode(stored))


def table() -> Iterable[Any]:
    for kind in KINDS:
        for wrapping, (wrap, stored) in WRAPPINGS.items():
            for outer, (put, lay) in OUTER.items():
                try:
                    kept, lost = (
                        Codec[Any](put(wrap(kind(*names)))) for names in (("cleared", "more"), ("is_cleared",))
                    )
                    kept.read(msgspec.json.encode(lay(stored)))
                except (remit.RemitError, pydantic.errors.PydanticUserError, TypeError, NameError):
                    continue  # nobody can declare it
                name = f"{kind.__name__}, {wrapping}, {outer}"
                yield pytest.param(kept, lost, msgspec.json.encode(lay(stored)), id=name)


TABLE = list(table())


@pytest.mark.parametrize(("kept", "lost", "stored"), TABLE)
def test_a_lost_name_is_found_and_an_added_one_is_none(kept: Any, lost: Any, stored: bytes):  # proves: RUN-12
    kept.read(stored)
    with pytest.raises(remit.ValueUnreadable, match="cleared, which the type has not"):
        lost.read(stored)


def test_the_table_has_each_kind_behind_each_wrapping():
    told = {str(row.id) for row in TABLE}
    wrapped = [f"{kind.__name__}, {wrapping}, model" for kind in KINDS for wrapping in WRAPPINGS if kind != of_struct]
    assert told >= set(wrapped)
    assert {"of_struct, plain, itself", "of_struct, nested, itself", "of_struct, list, dataclass"} <= told


class Clearing(BaseModel):
    is_cleared: bool = False
    confirmed: bool = True


class Drawing(BaseModel):
    id: uuid.UUID = Field(default_factory=uuid.uuid4)


class Card(BaseModel):
    kind: Literal["card"] = "card"
    cleared: bool = False


class Wire(BaseModel):
    kind: Literal["wire"] = "wire"
    is_cleared: bool = False


class Told(BaseModel):
    receipt: Annotated[Card | Wire, Field(discriminator="kind")]


class Status(enum.Enum):
    OPEN = "open"
    PAID = "paid"


class ReadsOld(BaseModel):
    status: Status = Field(default=Status.OPEN, validation_alias=AliasChoices("status", "state"))


class Forgets(BaseModel):
    status: Status = Status.OPEN
    other: int = 0


class Party(BaseModel):
    payee: str = Field(default="HOUSE", validation_alias=AliasChoices("payee", AliasPath("party", "name")))
    flags: dict[str, float] = Field(default_factory=dict, validation_alias=AliasChoices("flags", "marks"))


class Halves(BaseModel):
    first: ReadsOld
    second: Forgets


class Picking(BaseModel):
    total: Annotated[int, BeforeValidator(lambda given: given["net"] if isinstance(given, dict) else given)]


class Cleared(BaseModel):
    is_cleared: bool = Field(default=False, validation_alias=AliasChoices("is_cleared", "cleared"))


class Gathered(BaseModel):
    accounts: dict[str, int]

    @pydantic.model_validator(mode="before")
    @classmethod
    def upgraded(cls, given: Any) -> Any:
        return given if "accounts" in given else {"accounts": given}


class Converted(BaseModel):
    euros: float

    @pydantic.model_validator(mode="before")
    @classmethod
    def upgraded(cls, given: Any) -> Any:
        return {"euros": given["cents"] / 100} if "cents" in given else given


class Sparse(msgspec.Struct, omit_defaults=True, rename="camel"):
    the_status: Status = Status.OPEN
    count: int = 0
    inside: list[Sparse] = []


LOST = [
    (Clearing, {"cleared": True}, ("cleared",)),  # a default that says the same is no reader of it
    (Clearing, {"old": None}, ("old",)),
    (Clearing, {"old": []}, ("old",)),
    (Drawing, {"cleared": True}, ("cleared",)),  # nor is one that is another each time
    (Told, {"receipt": {"kind": "wire", "cleared": True}}, ("receipt", "cleared")),
    (pydantic.RootModel[list[ReadsOld | Forgets]], [{"state": "paid"}, {"state": "paid", "other": 1}], (1, "state")),
    (Halves, {"first": {"state": "paid"}, "second": {"state": "paid"}}, ("second", "state")),  # one alone reads it
    (Picking, {"total": {"net": 5, "tax": 1}}, ("total",)),
    (Party, {"party": {"name": "ACME", "iban": "X"}}, ("party",)),
    (Party, {"payee": "ACME", "party": {"name": "B"}}, ("party",)),
    (Sparse, {"theStatus": "open", "the_status": "open"}, ("the_status",)),
    (Sparse, {"inside": [{"theStatus": "open", "n": 0}]}, ("inside", 0, "n")),
    (Clearing, {f"a{n}": n for n in range(1000)}, ("a0",)),
]


@pytest.mark.parametrize(("type_", "stored", "place"), LOST)
def test_what_goes_nowhere_in_the_value_is_named(type_: Any, stored: Any, place: Any):  # proves: RUN-12
    with pytest.raises(remit.ValueUnreadable) as refused:
        read(type_, stored)
    assert refused.value.strange is not None and refused.value.strange[0] == place


@pydantic.dataclasses.dataclass(config=ConfigDict(populate_by_name=True))
class Line:
    amount: int = Field(alias="Amount")


class Entry(AnyTypedDict):
    amount: Annotated[int, Field(alias="Amount")]


@dataclasses.dataclass
class Money:
    cents: int


Shown = Annotated[
    Money,
    PlainSerializer(lambda money: {"value": money.cents}),
    BeforeValidator(lambda given: given if isinstance(given, Money) else Money(given["value"])),
]


class Typed(BaseModel):
    a: int

    @pydantic.model_serializer(mode="wrap")
    def typed(self, handler: Any) -> Any:
        return {**handler(self), "type": "S"}


def grown(type_: Any) -> Any:
    return pydantic.create_model("Grown", x=(type_, ...), note=(str, ""))


READ = [
    (grown(list[Line]), {"x": [{"Amount": 5}]}),
    (grown(Entry), {"x": {"Amount": 5}}),
    (grown(Shown), {"x": {"value": 5}}),
    (grown(Typed), {"x": {"a": 1, "type": "S"}}),
    (grown(Money), {"x": {"cents": 5}}),
    (ReadsOld, {"state": "open"}),
    (ReadsOld, {"state": "paid"}),
    (Party, {"party": {"name": "HOUSE"}}),
    (Party, {"marks": {"a": 1, "b": 2.5}}),
    (Party, {"marks": {}}),
    (Converted, {"cents": 250}),
    (Picking, {"total": {"net": 5}}),
    (Cleared, {"cleared": True}),
    (Cleared, {"cleared": False}),
    (list[Sparse], [{"theStatus": "open", "count": 0, "inside": [{"count": 0}]}]),
]


@pytest.mark.parametrize(("type_", "stored"), READ)
def test_honest_growth_is_read(type_: Any, stored: Any):  # proves: RUN-12
    read(type_, stored)


def steps(type_: Any, stored: Any) -> int:
    """Lines that are run in the room for what is read once."""
    count = 0

    def traced(frame: Any, event: str, arg: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename != unread.__file__:
            return None
        count += 1
        return traced

    sys.settrace(traced)
    try:
        read(type_, stored)
    finally:
        sys.settrace(None)
    return count


class Lit(BaseModel):
    op: Literal["lit"] = "lit"
    text: str = ""


class All(BaseModel):
    op: Literal["all"] = "all"
    of: list[Rule] = []


class Some(BaseModel):
    op: Literal["some"] = "some"
    of: list[Rule] = []
    note: str = ""


Rule = Annotated[Lit | All | Some, Field(discriminator="op")]
for each in (All, Some):
    each.model_rebuild()


class Top(BaseModel):
    rule: Rule


def tree(depth: int, text: str) -> Any:
    rule: Any = {"op": "lit", "text": text}
    for level in range(depth):
        rule = {"op": ("all", "some")[level % 2], "of": [rule, {"op": "lit", "text": text}]}
    return {"rule": rule}


def test_the_steps_grow_with_what_is_stored_and_not_with_the_ways_to_read_it():  # proves: RUN-12
    ten, thirty = steps(Top, tree(10, "x")), steps(Top, tree(30, "x"))
    assert 0 < thirty <= 3.5 * ten
    assert steps(Top, tree(30, "x" * 1_700)) == thirty  # 100 KB


@pytest.mark.parametrize(
    ("type_", "stored"),
    [(list[ReadsOld], [{"state": "paid"}] * 500), (Gathered, {f"a{n}": n for n in range(500)})],
)
def test_a_type_is_asked_once_about_many_places_or_many_names(type_: Any, stored: Any):  # proves: RUN-12
    codec: Codec[Any] = Codec(type_)
    asked: list[int] = []
    decode = codec._decode

    def counted(data: bytes) -> Any:
        asked.append(1)
        return decode(data)

    codec._decode = counted
    codec.read(msgspec.json.encode(stored))
    assert len(asked) == 4
