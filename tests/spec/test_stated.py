"""What is judged, shown and approved is all of what is given, by name: no field stands in the code alone."""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import pydantic
import pytest
from typing_extensions import TypedDict

import remit
from remit.facts.value import codec_of_value

HOUR = timedelta(hours=1)


class Omitting(msgspec.Struct, omit_defaults=True):
    amount: int
    payee: str = "ACME"


@dataclass
class Unasked:
    amount: int
    payee: str = dataclasses.field(init=False, default="ACME")


class Excluding(pydantic.BaseModel):
    amount: int
    payee: str = pydantic.Field(default="ACME", exclude=True)


class Whole(msgspec.Struct, frozen=True, omit_defaults=True):
    amount: int
    payee: str = "ACME"


@dataclass(frozen=True)
class Several:
    lines: frozenset[Whole]


class Writing(pydantic.BaseModel):
    amount: int
    payee: str = "ACME"

    @pydantic.model_serializer
    def written(self) -> dict[str, Any]:
        return {"amount": self.amount}


@dataclass
class Lines:
    by_name: dict[str, list[Omitting]]


class Holding(pydantic.BaseModel):
    order: Excluding


class Pay(msgspec.Struct, frozen=True, omit_defaults=True, tag=True):
    to: str
    amount: int = 5


class Memo(msgspec.Struct, frozen=True, tag=True):
    to: str


@dataclass(frozen=True)
class Sides:
    sides: frozenset[Pay | Memo]


class Extras(pydantic.BaseModel, extra="allow"):
    __pydantic_extra__: dict[str, Excluding]


class Initialised(pydantic.BaseModel, extra="allow"):
    __pydantic_extra__: dict[str, Excluding] = pydantic.Field(init=False)


class Private(pydantic.BaseModel):
    to: str = "ACME"
    _amount: int = pydantic.PrivateAttr(default=5)


@dataclass
class Beside:
    to: str = "ACME"

    def __post_init__(self) -> None:
        self.amount = 5  # no field


class Slotted:
    __slots__ = ("amount",)


@dataclass
class InSlots(Slotted):
    to: str = "ACME"

    def __post_init__(self) -> None:
        self.amount = 5  # no field either


class RootPrivate(pydantic.RootModel[tuple[int, ...]]):
    model_config = pydantic.ConfigDict(frozen=True)
    _payee: str = pydantic.PrivateAttr(default="ACME")


class RootBeside(pydantic.RootModel[list[int]]):
    def model_post_init(self, context: Any) -> None:
        object.__setattr__(self, "payee", "ACME")  # no field


class Rooting(pydantic.BaseModel):
    lines: RootPrivate
    others: list[RootBeside] = []


class RootSet(pydantic.BaseModel):
    lines: frozenset[RootPrivate]


class Stating(msgspec.Struct, frozen=True):
    amount: int
    payee: str = "ACME"


class Joined(pydantic.BaseModel):
    """Its lines are one text, of which nobody sees the payees."""

    lines: list[Stating]

    @pydantic.field_serializer("lines")
    def write(self, lines: list[Stating]) -> str:
        return ";".join(str(line.amount) for line in lines)

    @pydantic.field_validator("lines", mode="before")
    @classmethod
    def read(cls, lines: Any) -> Any:
        return [Stating(int(line)) for line in lines.split(";")] if isinstance(lines, str) else lines

    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)


class Sharing(pydantic.BaseModel):
    """Its payee is left out, and a note stands under the payee's name."""

    payee: str = pydantic.Field(default="ACME", exclude=True, validation_alias="account")
    note: str = pydantic.Field(alias="payee")


@pydantic.dataclasses.dataclass(frozen=True)
class Aside:
    amount: int = pydantic.Field(alias="theAmount")
    payee: str = pydantic.Field(default="ACME", exclude=True)


class Asides(pydantic.BaseModel):
    one: Aside
    more: frozenset[Aside] = frozenset()


class AsideSet(pydantic.BaseModel):
    more: frozenset[Aside]


class Tagged(pydantic.BaseModel):
    """What its serializer adds happens to be what it leaves out."""

    amount: int
    copies: int = pydantic.Field(default=1, exclude=True)

    @pydantic.model_serializer(mode="wrap")
    def written(self, write: Any) -> dict[str, Any]:
        return {**write(self), "version": 1}


@dataclass
class Account:
    iban: str
    bank: str = "B"


class Told(pydantic.BaseModel):
    """Its serializer says one field of two under a name of its own."""

    to: Account

    @pydantic.field_serializer("to")
    def write(self, to: Account) -> dict[str, str]:
        return {"account": to.iban}

    @pydantic.field_validator("to", mode="before")
    @classmethod
    def read(cls, to: Any) -> Any:
        return Account(to["account"]) if isinstance(to, dict) else to


class Serialised(pydantic.BaseModel):
    lines: frozenset[Stating]

    @pydantic.field_validator("lines", mode="before")
    @classmethod
    def read(cls, lines: Any) -> Any:
        return frozenset(Stating(**line) if isinstance(line, dict) else line for line in lines)

    @pydantic.field_serializer("lines")
    def write(self, lines: frozenset[Stating]) -> list[dict[str, Any]]:
        return [{"amount": line.amount} for line in lines]

    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)


class Named(NamedTuple):
    payer: str
    payee: str


class Placed(msgspec.Struct, frozen=True, array_like=True):
    payer: str
    payee: str


class Naming(pydantic.BaseModel):
    sides: Named | None


@dataclass
class Placing:
    sides: dict[str, list[Placed]]


NAMELESS: list[tuple[Any, str]] = [
    (Named("us", "acme"), "$"),
    (Placed("us", "acme"), "$"),
    (Naming(sides=Named("us", "acme")), "$.sides"),
    (Placing({"a": [Placed("us", "acme")]}), "$.sides['a'][0]"),
]
LEFT_OUT = [
    (Omitting(amount=100), "$.payee"),
    (Unasked(amount=100), "$.payee"),
    (Excluding(amount=100), "$.payee"),
    (Writing(amount=100), "$.payee"),
    (Lines({"a": [Omitting(amount=1, payee="B"), Omitting(amount=2)]}), "$.by_name['a'][1].payee"),
    (Holding(order=Excluding(amount=100)), "$.order.payee"),
    (Several(frozenset({Whole(amount=1), Whole(amount=1, payee="B")})), "$.lines{}.payee"),
    (Sides(frozenset({Pay("a"), Pay("b", 7), Memo("a")})), "$.sides{}.amount"),
    (Serialised(lines=frozenset({Stating(amount=1)})), "$.lines{}"),
    (Extras(first={"amount": 3}), "$.first.payee"),  # type: ignore[call-arg]
    (Initialised(first={"amount": 3}), "$.first.payee"),  # type: ignore[call-arg]
    (Private(), "$._amount"),
    (Beside(), "$.amount"),
    (InSlots(), "$.amount"),
    (RootPrivate((1,)), "$._payee"),
    (RootBeside([1]), "$.payee"),
    (Rooting(lines=RootPrivate((1,))), "$.lines._payee"),
    (RootSet(lines=frozenset({RootPrivate((1,))})), "$.lines{}._payee"),
    (Joined(lines=[Stating(1)]), "$.lines[0].amount"),
    (Sharing(payee="n"), "$.payee"),  # type: ignore[call-arg]
    (Asides(one=Aside(theAmount=1)), "$.one.payee"),
    (AsideSet(more=frozenset({Aside(theAmount=1)})), "$.more{}"),
    (Tagged(amount=1), "$.copies"),
    (Told(to=Account("i")), "$.to.bank"),
]


class Colour(enum.Enum):
    RED = "red"


class Renamed(msgspec.Struct, rename="camel", tag=True):
    unit_price: int = 3
    note: str | None = None


class Holder(pydantic.BaseModel):
    at: datetime


class Amount(pydantic.RootModel[int]):
    pass


class Amounts(pydantic.BaseModel):
    low: int
    high: int


class Rooted(pydantic.BaseModel):
    amount: Amount
    names: pydantic.RootModel[list[str]]


class Aliased(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(populate_by_name=True)
    amount: Annotated[int, pydantic.Field(alias="theAmount")] = 3
    inside: dict[Literal["a"], list[Holder]] | None = None


@pydantic.dataclasses.dataclass(frozen=True)
class Line:
    amount: int = pydantic.Field(alias="theAmount")
    note: str = pydantic.Field(default="", alias="theNote")


@dataclass(frozen=True)
class Marked:
    line: Annotated[Line, pydantic.Field(alias="theLine")]


class Typed(TypedDict):
    line: Annotated[Line, pydantic.Field(alias="theLine")]


class Numbers(pydantic.RootModel[tuple[int, ...]]):
    model_config = pydantic.ConfigDict(frozen=True)


class ByAlias(pydantic.BaseModel):
    lines: list[Line]
    marked: Marked
    typed: Typed
    sets: frozenset[tuple[str, Marked] | Line | Marked | Numbers]


@dataclass
class Money:
    cents: int
    lines: list[Line]


class Serialising(pydantic.BaseModel):
    """Its serializers state each field under another name."""

    fee: Annotated[
        Money,
        pydantic.PlainSerializer(lambda fee: {"value": fee.cents, "of": [{"amount": fee.lines[0].amount, "note": ""}]}),
        pydantic.BeforeValidator(
            lambda fee: fee if isinstance(fee, Money) else Money(fee["value"], [Line(theAmount=fee["of"][0]["amount"])])
        ),
    ]
    price: Amounts

    @pydantic.field_serializer("price")
    def write(self, price: Amounts) -> dict[str, Any]:
        return {"lower": price.low, "upper": price.high}

    @pydantic.field_validator("price", mode="before")
    @classmethod
    def read(cls, price: Any) -> Any:
        return {"low": price["lower"], "high": price["upper"]} if isinstance(price, dict) else price


class Free(pydantic.BaseModel, extra="allow"):
    __pydantic_extra__: dict[str, Aliased] = pydantic.Field(init=False)


@dataclass
class Choices:
    pairs: frozenset[tuple[int, frozenset[str]]]


@dataclass
class Full:
    amount: int = 3
    by_colour: dict[Colour, tuple[Renamed, ...]] = dataclasses.field(default_factory=dict)
    names: frozenset[str] = frozenset()


STATED = [
    Renamed(),
    Renamed(note="n"),
    Full(by_colour={Colour.RED: (Renamed(),)}, names=frozenset({"b", "a"})),
    {"any": ["plain", 1, None]},
    Rooted(amount=Amount(5), names=pydantic.RootModel[list[str]]([])),
    Several(frozenset({Whole(amount=1, payee="A"), Whole(amount=1, payee="B")})),
    Sides(frozenset({Pay("a", 1), Pay("b", 7), Memo("a"), Memo("c")})),
    Free(first={"amount": 3}),  # type: ignore[call-arg]
    Choices(frozenset({(1, frozenset({"a", "b"})), (2, frozenset())})),
    ByAlias.model_validate(
        {
            "lines": [{"theAmount": 5}],
            "marked": {"theLine": {"theAmount": 6, "theNote": "n"}},
            "typed": {"theLine": {"theAmount": 7}},
            "sets": [["a", {"theLine": {"theAmount": 6}}], {"theAmount": 6}, {"theLine": {"theAmount": 8}}, [1, 2]],
        }
    ),
    Serialising(fee=Money(5, [Line(theAmount=5)]), price=Amounts(low=1, high=1)),
]


@pytest.mark.parametrize(("request_", "path"), LEFT_OUT + NAMELESS, ids=lambda given: type(given).__name__)
async def test_a_request_that_leaves_a_field_out_of_its_bytes_is_refused(
    request_: Any, path: str
):  # proves: FX-4, APR-1
    sent: list[Any] = []

    async def pay(order: Any, *, key: str) -> str:
        sent.append(order)
        return "paid"

    pay.__annotations__["order"] = type(request_)
    effect = remit.effect(pay)

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"))
    async def paying(run: remit.Run) -> str:
        return await run.effect(effect, request_)

    async with remit.open("memory:") as rt:
        with pytest.raises(remit.ValueRefused) as refused:
            await rt.run(paying, id="r")
        assert (refused.value.code, refused.value.path) == ("value.refused", path)
        assert not sent and not await rt.effects("r")


@pytest.mark.parametrize("value", STATED, ids=lambda given: type(given).__name__)
def test_one_that_states_all_of_itself_is_not(value: Any):  # proves: FX-4
    codec = codec_of_value(value)
    assert codec.read_exactly(codec.write_whole(value)) == value


def test_an_alias_is_where_the_field_stands():
    whole = Aliased(amount=5, inside={"a": [Holder(at=datetime(2026, 1, 5, tzinfo=UTC))]})
    assert b'"theAmount":5' in codec_of_value(whole).write_whole(whole)


async def test_nobody_is_asked_about_less_than_is_given_and_no_fact_is_taken():  # proves: APR-1
    @remit.flow(contract=remit.Contract(version="1", resume="anyone"), name="asks")
    async def asks(run: remit.Run) -> None:
        await run.approve("terms", Omitting(amount=1), roles={"director"}, within=HOUR)

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"), name="states")
    async def states(run: remit.Run) -> None:
        run.evidence("quote", Omitting(amount=1), as_of=datetime.now(UTC), fresh_for=HOUR)

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"), name="asks_placed")
    async def asks_placed(run: remit.Run) -> None:
        await run.approve("terms", Named("us", "acme"), roles={"director"}, within=HOUR)

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"), name="states_placed")
    async def states_placed(run: remit.Run) -> None:
        run.evidence("quote", Placed("us", "acme"), as_of=datetime.now(UTC), fresh_for=HOUR)

    async with remit.open("memory:") as rt:
        for flow in (asks, states, asks_placed, states_placed):
            with pytest.raises(remit.ValueRefused):
                await rt.run(flow, id=flow.name)
        assert not await rt.inbox()


async def test_what_a_step_gives_may_leave_its_defaults_out():  # proves: RUN-2
    @remit.step
    async def fetch() -> Omitting:
        return Omitting(amount=3)

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"))
    async def steps(run: remit.Run) -> int:
        return int((await run.step(fetch)).amount)

    async with remit.open("memory:") as rt:
        assert (await rt.run(steps, id="r")).value == 3
