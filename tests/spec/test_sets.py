"""Sets: each process has another order of one, so no flow is given any."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pydantic
import pytest
from typing_extensions import TypeAliasType

import remit

OPEN = remit.Contract(version="1", resume="anyone")


@dataclass(frozen=True)
class Due:
    payees: frozenset[str]


class Batch(pydantic.BaseModel):
    by_day: dict[str, list[Due | int | None]]


def step(type_: Any) -> Any:
    def due(day: int) -> Any: ...

    due.__annotations__["return"] = type_
    return remit.step(due)


def unnamed_step(type_: Any) -> Any:
    async def due(day: int) -> Any: ...

    due.__annotations__["return"] = type_
    return remit.Step("due", due)


def effect(type_: Any) -> Any:
    def pay(order: int, *, key: str) -> Any: ...

    pay.__annotations__["return"] = type_
    return remit.effect(pay)


def transaction(type_: Any) -> Any:
    def book(connection: Any, order: int) -> Any: ...

    book.__annotations__["return"] = type_
    return remit.transaction(book)


def flow(type_: Any) -> Any:
    async def paying(run: remit.Run, given: Any) -> None: ...

    paying.__annotations__["given"] = type_
    return remit.flow(contract=OPEN)(paying)


@pytest.mark.parametrize("type_", [set[str], frozenset[int], dict[str, set[str]], Due, list[Due], Batch | None])
@pytest.mark.parametrize("declare", [step, unnamed_step, effect, transaction, flow])
def test_what_a_flow_is_given_holds_no_set(declare: Callable[[Any], Any], type_: Any):  # proves: RUN-12
    with pytest.raises(remit.DeclarationRefused) as refused:
        declare(type_)
    assert "a set has another order in each process" in refused.value.message
    assert "sorted list" in refused.value.hint


Payees = TypeAliasType("Payees", set[str])


class Aliased(pydantic.BaseModel):
    payees: Payees


class Made(pydantic.BaseModel):
    payees: Annotated[list[str], pydantic.AfterValidator(set)]


class Free(pydantic.BaseModel):
    payees: Any

    @pydantic.model_validator(mode="after")
    def made(self) -> Free:
        self.payees = frozenset(self.payees)
        return self


@dataclass
class Posted:
    payees: list[str]

    def __post_init__(self) -> None:
        self.payees = set(self.payees)  # type: ignore[assignment]


HIDING = [Aliased, Made, Free, Posted]


@pytest.mark.parametrize("type_", HIDING)
async def test_a_set_that_a_type_hides_is_given_to_no_flow_either(type_: Any):  # proves: RUN-12
    def due() -> Any:
        return [type_(payees=["a", "b"])]

    due.__annotations__["return"] = list[type_]
    step = remit.step(due)

    @remit.flow(contract=OPEN)
    async def paying(run: remit.Run, given: Any) -> None:
        await run.step(step)

    paying.fn.__annotations__["given"] = type_
    taking = remit.flow(contract=OPEN, name="taking")(paying.fn)
    async with remit.open("memory:") as rt:
        with pytest.raises(remit.StepError, match=r"a set has another order in each process at \$\[0\]\.payees"):
            await rt.run(paying, None, id="r")
        with pytest.raises(remit.ValueRefused, match=r"a set has another order in each process at \$\.payees"):
            await rt.start(taking, type_(payees=["a"]), id="s")


@pytest.mark.parametrize("type_", HIDING)
async def test_a_person_s_word_that_is_read_as_a_set_is_given_to_no_flow(type_: Any):  # proves: RUN-12, FX-10
    def pay(order: int, *, key: str) -> Any:
        raise TimeoutError

    pay.__annotations__["return"] = type_
    paid = remit.effect(pay)

    @remit.flow(contract=OPEN)
    def paying(run: remit.SyncRun) -> None:
        run.effect(paid, 3)

    async with remit.open("memory:") as rt:
        assert (await rt.run(paying, id="r")).status == "in_doubt"
        await rt.grant("user:kim", "clerk", by="user:ops")
        await rt.resolve("r", "pay", "ok", outcome={"payees": ["a"]}, by="user:kim", evidence="statement")
        with pytest.raises(remit.ValueUnreadable, match=r"a set has another order in each process at \$\.payees"):
            await rt.run(paying, id="r")


async def test_a_request_evidence_and_a_flow_s_own_result_may_hold_one():  # proves: RUN-12
    @remit.effect
    async def pay(order: Due, *, key: str) -> list[str]:
        return sorted(order.payees)

    @remit.flow(contract=OPEN)
    async def paying(run: remit.Run) -> set[str]:
        return {*await run.effect(pay, Due(frozenset({"b", "a"})))}

    async with remit.open("memory:") as rt:
        assert (await rt.run(paying, id="r")).value == {"a", "b"}


ASKED = """
import remit, sys

@remit.step
def due() -> {returned}: return {value}

@remit.step
def iban_of(payee: str) -> str: return "IBAN of " + payee

@remit.step
def stop() -> None:
    if sys.argv[2] == "0": raise OSError

@remit.flow(contract=remit.Contract(version="1", resume="anyone"))
def flow(run: remit.SyncRun) -> dict[str, str]:
    payees = run.step(due)
    ibans = {{payee: run.step(iban_of, payee) for payee in payees}}
    run.step(stop)
    return ibans

with remit.open("sqlite:///" + sys.argv[1]) as rt:
    try:
        print(rt.run_sync(flow, id="r").value)
    except remit.StepError as error:
        print(error.name)
"""


def test_each_payee_has_its_own_outcome_in_another_process(tmp_path: Any):  # proves: RUN-12, RUN-5
    names = ", ".join(f'"p{n}"' for n in range(8))
    code = ASKED.format(returned="list[str]", value=f"sorted({{{names}}})")

    def run(code: str, seed: str) -> str:
        told = [sys.executable, "-c", code, str(tmp_path / "r.db"), seed]
        done = subprocess.run(told, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True)
        return done.stdout + done.stderr

    assert "DeclarationRefused" in run(ASKED.format(returned="set[str]", value=f"{{{names}}}"), "0")
    assert run(code, "0") == "stop\n"
    assert run(code, "1") == f"{ {f'p{n}': f'IBAN of p{n}' for n in range(8)} }\n"
