"""A type that changed while a run waited: what is stored is read whole, or not at all.

A field that was renamed would read as its default, and the flow would go another way than it went.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

import msgspec
import pydantic
import pytest

import remit
from remit.facts.value import Codec
from tests.spec.conftest import Storage

OPEN = remit.Contract(version="1", resume="anyone")


@dataclass
class Data:
    amount: int
    recipient: str = "HOUSE"


class Struct(msgspec.Struct):
    amount: int
    recipient: str = "HOUSE"


class Model(pydantic.BaseModel):
    amount: int
    recipient: str = "HOUSE"


class Typed(TypedDict):
    amount: int
    recipient: NotRequired[str]


class Placed(msgspec.Struct, array_like=True):
    amount: int
    recipient: str = "HOUSE"


class Tagged(msgspec.Struct, tag=True):
    inside: Struct | None = None


class Other(msgspec.Struct, tag=True):
    other: int = 0


class Rooted(pydantic.RootModel[list[Data]]):
    pass


class SideBySide(pydantic.BaseModel):
    lines: dict[str, list[Model | Data | None]]


class Allowing(pydantic.BaseModel, extra="allow"):
    __pydantic_extra__: dict[str, Model]
    line: Data | None = None


class Keyed(pydantic.BaseModel):
    recipient: str = pydantic.Field(default="HOUSE", alias="to")


class Choosing(pydantic.BaseModel):
    recipient: str = pydantic.Field(
        default="HOUSE",
        validation_alias=pydantic.AliasChoices("recipient", "payee", pydantic.AliasPath("party", "name")),
    )


OLD = {"amount": 5, "payee": "ACME"}

LOSING = [
    (Data, OLD, "$.payee"),
    (Struct, OLD, "$.payee"),
    (Model, OLD, "$.payee"),
    (Typed, OLD, "$.payee"),
    (list[Data], [{"amount": 5}, OLD], "$[1].payee"),
    (dict[str, Struct], {"a": OLD}, "$.a.payee"),
    (tuple[int, Model], [1, OLD], "$[1].payee"),
    (Data | None, OLD, "$.payee"),
    (Tagged | Other, {"type": "Tagged", "inside": OLD}, "$.inside.payee"),
    (Tagged | Other, {"type": "Other", "inside": None}, "$.inside"),
    (Placed, [5, "ACME", "more"], "$[2]"),
    (Rooted, [OLD], "$[0].payee"),
    (SideBySide, {"lines": {"a": [OLD, None]}}, "$.lines.a[0].payee"),
    (Allowing, {"line": OLD}, "$.line.payee"),
    (Allowing, {"further": OLD}, "$.further.payee"),
    (Keyed, {"recipient": "ACME"}, "$.recipient"),
    (Choosing, {"name": "ACME"}, "$.name"),
]

KEEPING = [
    (Data, {"amount": 5}, Data(5)),
    (Model, {"amount": 5}, Model(amount=5)),
    (Typed, {"amount": 5}, {"amount": 5}),
    (Placed, [5], Placed(5)),
    (Allowing, {"further": {"amount": 5}}, Allowing(further=Model(amount=5))),  # type: ignore[call-arg]
    (Choosing, {"payee": "ACME"}, Choosing(recipient="ACME")),
    (Choosing, {"party": {"name": "ACME"}}, Choosing(recipient="ACME")),
    (SideBySide, {"lines": {"a": [{"amount": 5}]}}, SideBySide(lines={"a": [Model(amount=5)]})),
]


def called(given: Any) -> str:
    return getattr(given, "__name__", str(given))


@pytest.mark.parametrize(("type_", "stored", "path"), LOSING, ids=called)
def test_what_the_type_does_not_know_is_not_dropped_in_silence(type_: Any, stored: Any, path: str):  # proves: RUN-12
    codec: Codec[Any] = Codec(type_)
    with pytest.raises(remit.ValueUnreadable) as refused:
        codec.read(msgspec.json.encode(stored), where="fetch")
    assert f": it has {path}, which the type has not." in refused.value.message


@pytest.mark.parametrize(("type_", "stored", "value"), KEEPING, ids=called)
def test_a_field_that_was_added_has_its_default(type_: Any, stored: Any, value: Any):  # proves: RUN-12
    codec: Codec[Any] = Codec(type_)
    assert codec.read(msgspec.json.encode(stored)) == value


@dataclass
class Receipt:
    cleared: bool = False


@dataclass
class Renamed:
    is_cleared: bool = False


class Bank:
    """Two ways to pay: the second is taken where the first did not clear."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.is_open = False
        self.sepa_raises: Exception | None = None

    def flow(self, receipt: Any, as_: str) -> remit.Flow[Any]:
        def sepa(order: dict[str, str], *, key: str) -> Any:
            self.paid.append("sepa")
            if self.sepa_raises is not None:
                raise self.sepa_raises
            return receipt(True)

        sepa.__annotations__["return"] = receipt
        first = remit.effect(recorded_as="sepa")(sepa)

        @remit.effect
        def swift(order: dict[str, str], *, key: str) -> str:
            self.paid.append("swift")
            return "ok"

        @remit.step
        def book() -> None:
            if not self.is_open:
                raise OSError("closed")

        @remit.flow(contract=OPEN, name="settle")
        def flow(run: remit.SyncRun) -> str:
            told = run.effect(first, {"invoice": "i-1"})
            run.step(book)
            return "sepa" if getattr(told, as_) else run.effect(swift, {"invoice": "i-1"})

        return flow


async def test_nothing_is_paid_a_second_way_because_a_field_of_the_first_was_renamed(
    storage: Storage,
):  # proves: RUN-12, RUN-17, FX-3
    bank = Bank()
    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(bank.flow(Receipt, "cleared"), id="r")
        bank.is_open = True
        renamed = bank.flow(Renamed, "is_cleared")
        assert (await rt.check("r", renamed)).fit == "incompatible"
        with pytest.raises(remit.ValueUnreadable) as refused:
            await rt.run(renamed, id="r")
        assert "$.cleared" in refused.value.message
        assert (await rt.wait("r")).code == "value.unreadable"
        assert (await rt.run(bank.flow(Receipt, "cleared"), id="r")).value == "sepa"
    assert bank.paid == ["sepa"]


async def test_a_person_s_word_with_a_misspelt_name_is_not_read_as_the_default():  # proves: RUN-12, FX-10
    bank = Bank()
    bank.is_open, bank.sepa_raises = True, TimeoutError()
    flow = bank.flow(Receipt, "cleared")
    async with remit.open("memory:") as rt:
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        await rt.grant("user:kim", "clerk", by="user:ops")
        await rt.resolve("r", "sepa", "ok", outcome={"clearded": True}, by="user:kim", evidence="statement")
        for _ in range(2):
            with pytest.raises(remit.ValueUnreadable) as refused:
                await rt.run(flow, id="r")
        assert "$.clearded" in refused.value.message and "is not called again" in refused.value.message
    assert bank.paid == ["sepa"]


async def test_an_input_is_read_whole_and_a_flow_that_takes_none_any_more_is_not_run():  # proves: RUN-12, RUN-17
    ran: list[Any] = []

    def taking(type_: Any) -> remit.Flow[Any]:
        async def flow(run: remit.Run, given: Any) -> None:
            ran.append(given)

        flow.__annotations__["given"] = type_
        return remit.flow(contract=OPEN, name="flow")(flow)

    @remit.flow(contract=OPEN, name="flow")
    async def bare(run: remit.Run) -> None:
        ran.append(None)

    first = dataclasses.make_dataclass("Order", [("amount", int), ("payee", str)])
    second = dataclasses.make_dataclass("Order", [("amount", int), ("recipient", str, "HOUSE")])
    async with remit.open("memory:") as rt:
        await rt.start(taking(first), first(5, "ACME"), id="r")
        for changed, told in ((taking(second), "it has $.payee"), (bare, "takes no input any more")):
            assert (await rt.check("r", changed)).fit == "incompatible"
            with pytest.raises(remit.ValueUnreadable, match=r"input of run 'r'") as refused:
                await rt.resume("r", changed)
            assert told in refused.value.message
        assert not ran
        await rt.resume("r", taking(first))
        assert ran == [first(5, "ACME")]
        await rt.start(bare, id="none")
        assert (await rt.resume("none", taking(int | None))).status == "completed"
