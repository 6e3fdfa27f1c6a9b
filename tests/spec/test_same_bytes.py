"""One value has one byte string, in whichever process and however deep in it a set stands."""

from __future__ import annotations

import asyncio
import collections.abc
import dataclasses
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import pydantic
import pytest
from typing_extensions import TypedDict

import remit
from remit.facts.value import codec_for, codec_of_value, write_own

NAMES = frozenset({"ann", "bob", "cat", "dan", "eve", "fay", "gil"})


class Root(pydantic.RootModel[frozenset[str]]):
    model_config = pydantic.ConfigDict(frozen=True)


class Deep(pydantic.RootModel[list[Root]]): ...


@dataclasses.dataclass(frozen=True)
class Plain:
    names: frozenset[str]


@pydantic.dataclasses.dataclass(frozen=True)
class Checked:
    names: frozenset[str]


@pydantic.dataclasses.dataclass(frozen=True)
class Renamed:
    names: frozenset[str] = pydantic.Field(alias="Names")


@dataclasses.dataclass(frozen=True)
class Marked:
    names: Annotated[frozenset[str], pydantic.Field(alias="Names")]


class Typed(TypedDict):
    names: Annotated[frozenset[str], pydantic.Field(alias="Names")]


class Placed(NamedTuple):
    names: frozenset[str]


class Inner(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    names: frozenset[str]


class Extra(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, frozenset[str]] = pydantic.Field(init=False)


class Wrapped(pydantic.BaseModel):
    names: frozenset[str]

    @pydantic.model_serializer(mode="wrap")
    def written(self, write: Any) -> dict[str, Any]:
        return {**write(self), "type": "wrapped"}


Told = Annotated[
    Plain,
    pydantic.PlainSerializer(lambda value: {"value": value.names}),
    pydantic.BeforeValidator(lambda value: value if isinstance(value, Plain) else Plain(frozenset(value["value"]))),
]


def within(type_: Any, value: Any) -> Any:
    """A model whose one field is `value`."""
    return pydantic.create_model("Within", value=(type_, ...))(value=value)


SHAPES: dict[str, Any] = {
    "a root model": Root(NAMES),
    "a root model in another": Deep([Root(NAMES)]),
    "a root model in a model": within(Root, Root(NAMES)),
    "a set of root models": within(frozenset[Root], frozenset({Root(NAMES), Root(frozenset("xyz"))})),
    "a dataclass": Plain(NAMES),
    "a dataclass in a model": within(Plain, Plain(NAMES)),
    "a list of dataclasses in a model": within(list[Plain], [Plain(NAMES)]),
    "a set of dataclasses in a model": within(frozenset[Plain], frozenset({Plain(NAMES), Plain(frozenset("xyz"))})),
    "a pydantic dataclass in a model": within(Checked, Checked(NAMES)),
    "a pydantic dataclass with an alias": within(Renamed, Renamed(Names=NAMES)),
    "a dataclass with an alias": within(Marked, {"Names": NAMES}),
    "a set of dataclasses with an alias": within(frozenset[Marked], [{"Names": NAMES}, {"Names": set("xyz")}]),
    "a typed dict with an alias": within(Typed, {"Names": NAMES}),
    "a set in a set": within(frozenset[frozenset[str]], frozenset({NAMES, frozenset("xyz")})),
    "a set in a tuple in a set": within(frozenset[tuple[str, frozenset[str]]], frozenset({("a", NAMES), ("b", NAMES)})),
    "a set of models": within(frozenset[Inner], frozenset({Inner(names=NAMES), Inner(names=frozenset("xyz"))})),
    "a set in a tuple": within(tuple[frozenset[str], int], (NAMES, 1)),
    "a set in a mapping": within(collections.abc.Mapping[str, frozenset[str]], {"a": NAMES}),
    "a set under a key that is no text": within(dict[bool, frozenset[str]], {True: NAMES}),
    "a set in an extra": Extra(more=NAMES),  # type: ignore[call-arg]
    "a set beside what a serializer adds": Wrapped(names=NAMES),
    "a set where a serializer puts it": within(Told, Plain(NAMES)),
    "a set of two types": within(frozenset[str | int] | None, NAMES | {1, 2}),
}
UNNAMED: dict[str, Any] = {"a named tuple in a model": within(Placed, Placed(NAMES))}  # an outcome, no request


def printed() -> None:
    for what, value in SHAPES.items():
        print(what, codec_of_value(value).write_whole(value), write_own(value, where="evidence"))
    for what, value in {**SHAPES, **UNNAMED}.items():
        print(what, codec_for(type(value)).write(value)[0])


def in_process(seed: int, *told: str) -> str:
    env = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, *told], env=env, check=True, capture_output=True, text=True).stdout


def test_a_set_has_one_order_wherever_it_stands():  # proves: RUN-12, FX-4, APR-1
    program = "from tests.spec.test_same_bytes import printed; printed()"
    first, *others = [in_process(seed, "-c", program).splitlines() for seed in range(4)]

    assert len(first) == 2 * len(SHAPES) + len(UNNAMED)
    for other in others:
        assert other == first


@pytest.mark.parametrize("what", SHAPES)
def test_what_is_written_of_it_is_read_as_it_was(what: str):  # proves: RUN-12
    codec = codec_of_value(SHAPES[what])

    assert codec.read_exactly(codec.write_whole(SHAPES[what])) == SHAPES[what]


def test_a_list_that_holds_what_a_set_holds_keeps_its_order():
    class Both(pydantic.BaseModel):
        names: list[str]
        seen: set[str]

        @pydantic.model_serializer
        def written(self) -> dict[str, Any]:
            return {"n": self.names, "s": self.seen}

        @pydantic.model_validator(mode="before")
        @classmethod
        def read(cls, given: dict[str, Any]) -> dict[str, Any]:
            return {"names": given["n"], "seen": given["s"]} if "n" in given else given

    data = codec_of_value(Both(names=["b", "a"], seen={"a", "b"})).write_whole(Both(names=["b", "a"], seen={"a", "b"}))

    assert msgspec.json.decode(data) == {"n": ["b", "a"], "s": ["a", "b"]}


# One request in two processes: what a person said of it in the first holds in the second.


class Order(pydantic.BaseModel):
    amount: int
    tags: Root
    lines: frozenset[frozenset[str]]


BOSS = remit.Rule(approval=remit.Approval(roles={"boss"}, within=timedelta(hours=1)))


@remit.effect
def pay(order: Order, *, key: str) -> int:
    return order.amount


@remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"pay": BOSS}))
def paying(run: remit.SyncRun) -> int:
    return run.effect(pay, Order(amount=5, tags=Root(NAMES), lines=frozenset({NAMES})))


def turn(url: str, verdict: Any) -> None:
    async def say() -> None:
        async with remit.open(url) as rt:
            await rt.grant("user:kim", "boss", by="user:ops")
            (ask,) = await rt.inbox()
            await rt.decide(ask.id, verdict, by="user:kim", reason="said", seen=ask.version)

    with remit.open(url) as rt:
        print(rt.run_sync(paying, id="r", by="agent:a").status)
    if verdict != "none":
        asyncio.run(say())


@pytest.mark.parametrize(("verdict", "status"), [("approve", "completed"), ("deny", "failed")])
def test_what_was_said_of_a_request_holds_in_another_process(tmp_path: Path, verdict: str, status: str):
    # proves: APR-1, APR-6
    program = "import sys; from tests.spec.test_same_bytes import turn; turn(*sys.argv[1:])"
    url = f"sqlite:///{tmp_path}/r.db"

    assert in_process(0, "-c", program, url, verdict) == "waiting\n"
    assert in_process(3, "-c", program, url, "none") == f"{status}\n"
