"""Cases from the field, each as a whole run: begun, stopped, and gone on with in another runtime.

The pieces have tests of their own; here a case is told from the caller's side. Cases of effects
(C1, C2, C7) and of timers (C24) wait for what they are about.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
import unicodedata
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import remit
from remit import Contract, Step
from tests.contract.suite import ODD_IDS
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock

SOURCE = str(Path(remit.__file__).parents[1])
OPEN = Contract(version="1", resume="anyone")


class Gate:
    """A step that raises until somebody opens it: where a run waits."""

    def __init__(self) -> None:
        self.is_open = False

    def __call__(self) -> bool:
        if not self.is_open:
            raise PermissionError("not yet")
        return True


# -- crash windows and duplicates ---------------------------------------------------------------------------------

START_AND_DIE = """
import asyncio, os, signal, sys
import remit

@remit.flow(contract=remit.Contract(version="1", resume="anyone"), name="patient")
async def patient(run, given: dict) -> dict: ...

async def main():
    async with remit.open(sys.argv[1]) as rt:
        await rt.start(patient, {"n": 1}, id="r")
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_a_run_is_there_when_its_process_dies_right_after_start(database: Storage):  # proves: RUN-11, RUN-5
    """Case C8."""
    command = [sys.executable, "-c", START_AND_DIE, database.make(None)]
    died = subprocess.run(command, env={**os.environ, "PYTHONPATH": SOURCE}, capture_output=True, text=True)
    assert died.returncode == -signal.SIGKILL, died.stderr

    @remit.flow(contract=OPEN)
    async def patient(run: remit.Run, given: dict[str, int]) -> dict[str, int]:
        return given

    async with database.open() as rt:
        assert [(row.run, row.status) for row in await rt.list()] == [("r", "queued")]
        assert (await rt.resume("r", patient)).value == {"n": 1}


async def test_a_request_that_is_delivered_three_times_to_two_runtimes_makes_one_run(  # proves: RUN-11
    database: Storage,
):
    """Case C4."""
    ran: list[str] = []

    async def body() -> int:
        ran.append("body")
        return 7

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run, given: int) -> Any:
        return await run.step(body)

    async with database.open() as one, database.open() as two:
        assert await asyncio.gather(*(rt.start(flow, 1, id="r") for rt in (one, two, one))) == ["r"] * 3
        for rt in (one, two):
            for call in (rt.start, rt.run):
                with pytest.raises(remit.InputMismatch) as refused:
                    await call(flow, 2, id="r")
                assert refused.value.code == "input_mismatch"
        outcomes = await asyncio.gather(*(rt.run(flow, 1, id="r") for rt in (one, two, one)))
        assert len(await one.list()) == 1
    assert [outcome.value for outcome in outcomes] == [7] * 3
    assert ran == ["body"]


# -- code and versions ---------------------------------------------------------------------------------------------

APP = """
import datetime
import remit

ran = []
is_open = False


@remit.step
def fetch(sku: str) -> dict:
    ran.append("fetch")
    return {"sku": sku, "price": 120}


@remit.step
def gate() -> bool:
    if not is_open:
        raise PermissionError("not yet")
    return True


@remit.step
def order(quote: dict) -> str:
    ran.append("order")
    return f"ordered {quote['sku']} at {quote['price']}"


def unrelated(x):
    return x + 1


@remit.flow(contract=remit.Contract(version="1", resume="anyone", window=datetime.timedelta(days=30)))
def purchase(run: remit.SyncRun, sku: str) -> str:
    quote = run.step(fetch, sku)
    run.step(gate)
    return run.step(order, quote)
"""


def app(folder: Path, source: str, version: str) -> Any:
    """The application as one of its releases: source in a file, imported as its own module."""
    path = folder / f"app_{version}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_a_run_waits_two_weeks_while_an_unrelated_function_is_edited(  # proves: RUN-1, RUN-4, RUN-17
    storage: Storage, tmp_path: Path, clock: MovedClock
):
    """Case C20. An upgrade of the library is held to the journals of `tests/vectors`, which must verify for ever."""
    old = app(tmp_path, APP, "old")
    async with storage.open(clock=clock) as rt:
        with pytest.raises(remit.StepError):
            await rt.run(old.purchase, "A-1", id="po-1")

    clock.move(timedelta(days=14))
    edited = APP.replace("def unrelated(x):\n    return x + 1", "def quite_different(y, z=2):\n    return y * z")
    assert edited != APP
    new = app(tmp_path, edited, "new")
    new.is_open = True
    async with storage.open(clock=clock) as rt:
        told = await rt.check("po-1", new.purchase)
        assert (told.fit, told.call) == ("compatible", "gate")
        assert (await rt.run(new.purchase, "A-1", id="po-1")).value == "ordered A-1 at 120"
    assert (old.ran, new.ran) == (["fetch"], ["order"])


class Release:
    """One release of a flow: a list of names, `gate` among them, whose steps write down that they ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.gate = Gate()

    def flow(self, *names: str) -> remit.Flow[Any]:
        @remit.flow(contract=OPEN, name="released")
        async def released(run: remit.Run) -> list[Any]:
            return [await run.step(Step(name, self.body(name))) for name in names]

        return released

    def body(self, name: str) -> Any:
        def body() -> Any:
            self.ran.append(name)
            return self.gate() if name == "gate" else name.upper()

        return body


@pytest.mark.parametrize(
    ("names", "at"),
    [
        (("a", "b", "gate", "renamed", "d"), "gate"),
        (("a", "b", "gate", "d"), "gate"),  # removed
        (("a", "b", "gate", "new", "c", "d"), "gate"),  # inserted
        (("a", "b", "gate", "d", "c"), "gate"),  # reordered
        (("b", "a", "gate", "c", "d"), "gate"),  # reordered in front of the gate: both are recorded
        (("a", "b", "new", "gate", "c", "d"), "new"),  # inserted where nothing recorded follows
        (("a", "b", "c", "d"), "c"),  # the gate itself: its failure was the caller's to mend
    ],
)
async def test_what_comes_after_the_gate_may_change_in_every_way(  # proves: RUN-4, RUN-17
    storage: Storage, names: tuple[str, ...], at: str
):
    """Case C21: the answer is known before anything runs, and is the answer that the run then gives."""
    release = Release()
    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(release.flow("a", "b", "gate", "c", "d"), id="r")
    release.gate.is_open = True
    release.ran.clear()
    async with storage.open() as rt:
        before = await rt.read("r")
        told = await rt.check("r", release.flow(*names))
        assert (told.fit, told.call) == ("compatible", at)
        assert (await rt.read("r"), release.ran) == (before, [])
        outcome = await rt.run(release.flow(*names), id="r")
    assert outcome.value == [True if name == "gate" else name.upper() for name in names]
    assert release.ran == [name for name in names if name not in ("a", "b")]


@pytest.mark.parametrize(
    ("names", "recorded", "asked"),
    [
        (("a", "renamed", "gate", "c"), ("b",), ("renamed",)),
        (("a", "gate", "c"), ("b",), ("gate",)),  # removed
        (("a", "new", "b", "gate", "c"), ("b",), ("new",)),  # inserted
        (("gate", "a", "b", "c"), ("a", "b"), ("gate",)),  # the gate moved in front of what is done
        (("c", "b", "gate", "a"), ("a", "b"), ("c",)),  # reordered across the gate
        (("a",), ("b",), ()),  # nothing is asked for any more: the flow ends without it
    ],
)
async def test_what_is_recorded_before_the_gate_is_not_left_out(  # proves: RUN-4, RUN-17
    storage: Storage, names: tuple[str, ...], recorded: tuple[str, ...], asked: tuple[str, ...]
):
    """Cases C21 and C25."""
    release = Release()
    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(release.flow("a", "b", "gate", "c"), id="r")
    release.gate.is_open = True
    release.ran.clear()
    async with storage.open() as rt:
        told = await rt.check("r", release.flow(*names))
        assert (told.fit, told.call, told.recorded, told.asked) == ("incompatible", recorded[0], recorded, asked)
        lengths = set()
        for _ in range(3):
            with pytest.raises(remit.DefinitionIncompatible) as refused:
                await rt.run(release.flow(*names), id="r")
            assert (refused.value.recorded, refused.value.asked) == (recorded, asked)
            lengths.add((await rt.read("r")).row.seq)
        assert (len(lengths), release.ran) == (1, [])
        assert (await rt.run(release.flow("a", "b", "gate", "c"), id="r")).value == ["A", "B", True, "C"]


# -- values: ids ---------------------------------------------------------------------------------------------------


@remit.flow(contract=OPEN)
async def echo(run: remit.Run, given: Any) -> Any:
    return await run.step(Step("echo", lambda value: value), given)


async def test_odd_ids_are_literal_in_every_call(storage: Storage):  # proves: C32, RUN-11
    """Case C32. Control and 500 characters, and separate marks, are refused at the door: `test_declarations.py`."""
    ids = [*(id for id in ODD_IDS if unicodedata.is_normalized("NFC", id)), "x" * 200]
    async with storage.open() as rt:
        for id in ids:
            await rt.start(echo, id, id=id)
    async with storage.open() as rt:
        for id in ids:
            assert (await rt.run(echo, id, id=id)).value == id
            assert (await rt.wait(id)).value == id
            assert json.loads((await rt.show(id)).view.input) == id
            assert (await rt.explain(id)).row.run == (await rt.why(id)).run == id
            assert await rt.verify(id) is None
            assert [row.run for row in await rt.list(prefix=id)] == [id]
        assert [row.run for row in await rt.list(limit=100)] == ids[::-1]
        assert [row.run for row in await rt.list(prefix="%")] == []
        for bad in ("x" * 500, "a\nb"):
            for call in (rt.show(bad), rt.read(bad), rt.explain(bad), rt.why(bad), rt.wait(bad)):
                with pytest.raises(remit.Refused):
                    await call


# -- swallowing flows ----------------------------------------------------------------------------------------------


async def test_a_flow_that_swallows_every_exception_is_still_cancelled(storage: Storage):  # proves: RUN-15
    """Case C44."""
    begun = asyncio.Event()
    ran: list[str] = []

    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def later() -> None:
        ran.append("later")

    @remit.flow(contract=OPEN)
    async def greedy(run: remit.Run) -> str:
        for body in (hang, later):
            try:
                await run.step(body)
            except Exception:
                pass
        return "went on regardless"

    async with storage.open() as rt:
        task = asyncio.create_task(rt.run(greedy, id="r"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        row = (await rt.read("r")).row
        assert (row.status, row.worker, ran) == ("queued", None, [])


# -- forks ---------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the child does nothing but ask
async def test_a_runtime_is_refused_in_a_forked_child_and_goes_on_in_its_parent(storage: Storage):  # proves: OWN-8
    """Case C36."""
    async with storage.open() as rt:
        await rt.start(echo, 1, id="r")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                rt.run(echo, 1, id="r").send(None)
            except remit.RemitError as refused:
                status = 0 if refused.code == "store.forked" else 2
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert (await rt.run(echo, 1, id="r")).value == 1
