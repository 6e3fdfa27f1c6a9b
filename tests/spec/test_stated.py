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


class Stating(msgspec.Struct, frozen=True):
    amount: int
    payee: str = "ACME"


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


class Rooted(pydantic.BaseModel):
    amount: Amount
    names: pydantic.RootModel[list[str]]


class Aliased(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(populate_by_name=True)
    amount: Annotated[int, pydantic.Field(alias="theAmount")] = 3
    inside: dict[Literal["a"], list[Holder]] | None = None


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
