"""Values in whole runs: what the flow gets first, what it gets on replay, and what a caller is shown.

Every case stops a run, opens the store again and goes on, so that the second half sees nothing
but stored bytes.
"""

from __future__ import annotations

import datetime as dt
import enum
import json
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import apsw
import asyncpg
import pydantic
import pytest

import remit
from remit import Contract, Step
from remit.store.tables import INLINE_BYTES_MAX
from tests.spec.conftest import Storage

OPEN = Contract(version="1", resume="anyone")
EMPTY: tuple[Any, ...] = ("", 0, False, [], {}, None)


async def twice(storage: Storage, flow: Any, given: Any = None) -> Any:
    """A flow that raises the first time and returns the second; its outcome, from another runtime each time."""
    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(flow, given, id="r")
    async with storage.open() as rt:
        await rt.run(flow, given, id="r")
    async with storage.open() as rt:
        return (await rt.run(flow, given, id="r")).value


async def test_empty_outcomes_stay_different_things(storage: Storage):  # proves: RUN-12
    """Case C26, for outcomes of steps and of flows; for inputs see `test_runs.py`."""
    seen: list[list[Any]] = []

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> Any:
        seen.append([await run.step(Step("empty", lambda value: value), value) for value in EMPTY])
        if len(seen) == 1:
            raise RuntimeError
        return seen[-1]

    outcome = await twice(storage, flow)
    for found in (*seen, outcome):
        assert [(type(value), value) for value in found] == [(type(value), value) for value in EMPTY]


TEXTS = {"nul": "a\x00b", "six": "\\u0000", "both": "\\u0000\x00", "a\x00key": "line\r\n\u2028"}


async def test_text_is_kept_as_given_in_input_outcome_error_and_reason(storage: Storage):  # proves: RUN-12
    """Case C27: U+0000 and the six characters that look like it."""
    seen: list[Any] = []
    text = "".join(TEXTS.values())

    def fail() -> None:
        raise ValueError(text)

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run, given: dict[str, str]) -> dict[str, str]:
        try:
            await run.step(fail)
        except remit.StepError as exc:
            seen.append((given, await run.step(Step("echo", lambda value: value), given), exc.detail))
        if len(seen) == 1:
            raise RuntimeError(text)
        return given

    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(flow, TEXTS, id="r")
        assert (await rt.wait("r")).reason == f"flow of run 'r' raised RuntimeError: {text}"
        assert text in (await rt.why("r")).reason
    async with storage.open() as rt:
        assert (await rt.run(flow, TEXTS, id="r")).value == TEXTS
    assert seen == [(TEXTS, TEXTS, text)] * 2


async def test_a_lone_surrogate_is_refused_at_its_step_with_its_path(storage: Storage):  # proves: RUN-12, RUN-6
    """Case C27: not at the commit, and nothing of it is stored."""

    def fetch() -> Any:
        return {"lines": [{"note": "fine"}, {"note": "half \ud83d"}]}

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run, given: Any) -> Any:
        return await run.step(fetch)

    async with storage.open() as rt:
        with pytest.raises(remit.ValueRefused) as door:
            await rt.run(flow, {"to": "\udc00"}, id="other")
        assert door.value.path == "$.to"
        assert await rt.list() == []
        with pytest.raises(remit.StepError) as raised:
            await rt.run(flow, 1, id="r")
        refused = raised.value.__cause__
        assert isinstance(refused, remit.ValueRefused)
        assert (raised.value.name, refused.where, refused.path) == ("fetch", "fetch", "$.lines[1].note")
        assert "$.lines[1].note" in (await rt.why("r")).failures[0].detail
        kinds = [line.kind for line in (await rt.explain("r")).timeline.lines]
        assert kinds == ["RunOpened", "AttemptStarted", "StepFailed", "RunParked"]


class Colour(enum.Enum):
    RED = "red"


class Supplier(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(populate_by_name=True)

    full_name: str = pydantic.Field(alias="fullName")


@dataclass
class Line:
    sku: str
    price: Decimal
    total: Decimal = field(init=False)

    def __post_init__(self) -> None:
        self.total = self.price * 2


@dataclass
class Everything:
    aware: dt.datetime
    day: dt.date
    span: dt.timedelta
    amount: Decimal
    id: UUID
    raw: bytes
    pair: tuple[int, str]
    colour: Colour
    line: Line
    supplier: Supplier


EVERYTHING = Everything(
    aware=dt.datetime(2026, 3, 29, 2, 30, 0, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))),
    day=dt.date(2026, 2, 28),
    span=dt.timedelta(days=-1, microseconds=1),
    amount=Decimal("1.10"),
    id=UUID(int=7),
    raw=b"\x00\xff",
    pair=(1, "x"),
    colour=Colour.RED,
    line=Line("A-1", Decimal("3.00")),
    supplier=Supplier(fullName="Dana"),
)


def types_in(value: Everything) -> dict[str, type]:
    return {name: type(part) for name, part in vars(value).items()}


async def test_every_kind_of_value_comes_back_the_same_on_replay(storage: Storage):  # proves: RUN-12
    """Case C28: as input, as a step's outcome, as the flow's outcome, each of the same type."""
    seen: list[Everything] = []

    def make(given: Everything) -> Everything:
        return given

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run, given: Everything) -> Everything:
        seen.extend([given, await run.step(make, given)])
        if len(seen) == 2:
            raise RuntimeError
        return seen[-1]

    seen.append(await twice(storage, flow, EVERYTHING))
    assert len(seen) == 5
    for value in seen:
        assert value == EVERYTHING and types_in(value) == types_in(EVERYTHING)
        assert (value.aware.utcoffset(), str(value.amount)) == (dt.timedelta(hours=2), "1.10")
        assert value.line.total == Decimal("6.00")


class Demanding(Exception):
    """Can't be made from its own `args`, and can't say its text."""

    def __init__(self, code: int, *, detail: str) -> None:
        super().__init__()
        self.code, self.detail = code, detail

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


async def test_an_exception_class_that_needs_arguments_breaks_no_list_and_no_status(storage: Storage):  # proves: RUN-6
    """Case C29: nothing but its type's name and its text is kept, and nothing is made from them."""

    async def fetch() -> None:
        raise Demanding(7, detail="x")

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        try:
            await run.step(fetch)
        except remit.StepError as exc:
            caught = f"{exc.error_type.rpartition('.')[2]}: {exc.detail}"
        await run.step(fetch)
        return caught

    for _ in range(2):
        async with storage.open() as rt:
            with pytest.raises(remit.StepError) as raised:
                await rt.run(flow, id="r")
            assert raised.value.name == "fetch#2"
    async with storage.open() as rt:
        assert [(row.status, row.code) for row in await rt.list()] == [("waiting", "step.failed")]
        (failure,) = (await rt.why("r")).failures
        assert (failure.call, failure.error.rpartition(".")[2]) == ("fetch#2", "Demanding")
        assert failure.detail == "(its text could not be made: RuntimeError)"
        assert (await rt.show("r")).view.status == (await rt.wait("r")).status == "waiting"
        assert (await rt.explain("r")).timeline.problem is None


@dataclass
class Quote:
    price: Decimal


@dataclass
class Replacement:
    """What stands at the place of `Quote` in the next release."""

    amount_minor: int


def quoting(type_: Any, ran: list[str], *, is_open: bool, is_greedy: bool = False) -> remit.Flow[Any]:
    def fetch() -> Any:
        ran.append("fetch")
        return Quote(Decimal("3.50"))

    def stop() -> None:
        ran.append("stop")
        if not is_open:
            raise PermissionError

    fetch.__annotations__["return"] = type_

    @remit.flow(contract=OPEN, name="quoting")
    async def flow(run: remit.Run) -> Any:
        quote: Any = None
        try:
            quote = await run.step(fetch)
        except Exception:
            if not is_greedy:
                raise
        await run.step(stop)
        return type(quote).__name__

    return flow


@pytest.mark.parametrize("is_greedy", [False, True])
async def test_a_class_that_is_gone_when_the_value_is_read_parks_the_run(  # proves: RUN-12, RUN-15, RUN-17
    storage: Storage, is_greedy: bool
):
    """Case C30: the error names type and step, nothing runs, the bytes can be shown, the old class goes on.

    Cases C44 and C25: a flow that swallows every exception does not go on without its quote, and three tries
    write the reason once.
    """
    ran: list[str] = []
    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(quoting(Quote, ran, is_open=False), id="r")
    ran.clear()
    async with storage.open() as rt:
        changed = quoting(Replacement, ran, is_open=True, is_greedy=is_greedy)
        told = await rt.check("r", changed)
        assert (told.fit, told.call) == ("incompatible", "fetch")
        lengths = set()
        for _ in range(3):
            with pytest.raises(remit.ValueUnreadable) as raised:
                await rt.run(changed, id="r")
            assert (raised.value.where, raised.value.type_name) == ("fetch", "Replacement")
            lengths.add((await rt.read("r")).row.seq)
        assert len(lengths) == 1
        waiting = await rt.wait("r")
        assert (waiting.status, waiting.code, waiting.waits_for) == ("waiting", "value.unreadable", "repair")
        assert "of fetch" in waiting.reason and "as Replacement" in waiting.reason
        shown = {line.name: line.value for line in (await rt.explain("r")).timeline.lines if line.kind == "StepDone"}
        assert shown == {"fetch": b'{"price":"3.50"}'}
        assert ran == []
    async with storage.open() as rt:
        assert (await rt.run(quoting(Quote, ran, is_open=True, is_greedy=is_greedy), id="r")).value == "Quote"
    assert ran == ["stop"]


async def test_an_input_whose_class_is_gone_can_still_be_shown(storage: Storage):  # proves: RUN-12
    """Case C30, for the input."""

    def flow_of(type_: Any) -> remit.Flow[Any]:
        async def body(run: remit.Run, given: Any) -> None: ...

        body.__annotations__["given"] = type_
        return remit.flow(contract=OPEN, name="taking")(body)

    async with storage.open() as rt:
        await rt.start(flow_of(Quote), Quote(Decimal("3.50")), id="r")
    async with storage.open() as rt:
        lengths = set()
        for _ in range(3):
            with pytest.raises(remit.ValueUnreadable) as raised:
                await rt.resume("r", flow_of(Replacement))
            assert (raised.value.where, raised.value.type_name) == ("the input of run 'r'", "Replacement")
            lengths.add((await rt.read("r")).row.seq)
        assert len(lengths) == 1
        assert ((await rt.wait("r")).status, (await rt.why("r")).code) == ("waiting", "value.unreadable")
        assert json.loads((await rt.explain("r")).timeline.lines[0].value or b"") == {"price": "3.50"}
        assert (await rt.resume("r", flow_of(Quote))).status == "completed"


BIG = 50 * 1024 * 1024


async def test_an_outcome_of_50_MB_is_stored_aside_and_comes_back_equal(database: Storage):  # proves: RUN-12
    """Case C31, as far as steps go: one value, beside the entries and not among them."""
    seen: list[bool] = []
    data = "é" * (BIG // 2)

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> int:
        fetched = await run.step(Step("fetch", lambda: data))
        seen.append(fetched == data)
        if len(seen) == 1:
            raise RuntimeError
        return len(fetched)

    assert await twice(database, flow) == len(data)
    assert seen == [True, True]
    inline, aside = await sizes(database.make(None))
    assert inline < INLINE_BYTES_MAX
    assert aside == [len(data.encode()) + 2]


async def sizes(url: str) -> tuple[int, list[int]]:
    """Bytes of the largest value among the entries, and of each value beside them."""
    prefix = "remit_" if url.startswith("sqlite:") else "remit."
    inline, aside = f"SELECT max(length(value)) FROM {prefix}entry", f"SELECT length(value) FROM {prefix}large_value"
    if url.startswith("sqlite:"):
        file = apsw.Connection(str(Path(url.removeprefix("sqlite:///"))))
        found = file.execute(inline).get, [size for (size,) in file.execute(aside)]
        file.close()
        return found
    server: Any = await asyncpg.connect(url)
    try:
        return await server.fetchval(inline), [row[0] for row in await server.fetch(aside)]
    finally:
        await server.close()
