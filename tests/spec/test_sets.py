"""Sets: each process has another order of one, so no flow is given any."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

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
