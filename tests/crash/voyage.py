"""Voyages: flows in which every kind of call happens once, and the stage on which they are played.

Each body writes its name outside of Remit before it does anything, so whoever reads the
folder knows what really ran. Every line of the flows, every body and every call of the
store passes the stage; a victim dies at one place of it, the others pass it without a trace.

    flow before plan   inside plan   end of plan   before append plan   after append plan   flow after plan
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import remit
from remit.facts.entry import HEADER
from remit.facts.names import RESERVED_PREFIX
from remit.store.units import Unit

OPEN = remit.Contract(version="1", resume="anyone")
EXIT_STATUS = 3

_WATCHED = frozenset(
    {"open_run", "claim", "release", "read_row", "read_run", "put_worker", "read_worker", "append", "close"}
)


class Stage:
    """Where one process stands. place: where it dies, "" for one that lives. arrived: tells who will kill it."""

    def __init__(self, folder: Path, place: str, way: str, arrived: Callable[[], None]) -> None:
        self.folder, self.place, self._way, self._arrived = folder, place, way, arrived
        self.is_left_recorded, self.has_slow_begun = asyncio.Event(), asyncio.Event()
        self.caller: asyncio.Task[Any] | None = None  # who waits for the run

    def count(self, name: str) -> None:
        """Outside of Remit, and there when this process is not any more."""
        file = os.open(self.folder / "ran", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"{name}\n".encode())
        os.close(file)

    def at(self, place: str) -> None:
        """Here this process may end; nothing of it moves on from its last place."""
        if place == "after append left":
            self.is_left_recorded.set()
        if place != self.place:
            return
        if self._way == "exit":
            os._exit(EXIT_STATUS)
        self._arrived()
        while True:
            signal.pause()

    def has(self, mark: str) -> bool:
        return (self.folder / mark).exists()


class Watched:
    """A store with a place before and after each of its calls.

    An append is named after the entry that it ends with, the opening of a journal of Remit's own after that.
    """

    def __init__(self, store: Any, stage: Stage) -> None:
        self._store, self._stage = store, stage

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._watch(name, found) if name in _WATCHED else found

    def _watch(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any) -> Any:
            place = name
            if name == "append":
                place = f"{name} {_named(args[0])}"
            elif name == "open_run" and args[0].run.startswith(RESERVED_PREFIX):
                place = f"{name} {args[0].run}"
            self._stage.at(f"before {place}")
            answer = await method(*args)
            self._stage.at(f"after {place}")
            return answer

        return call


def _named(unit: Unit) -> str:
    last = HEADER.read(unit.entries[-1].header)
    return last.name or last.kind


_stages: list[Stage] = []


def play(stage: Stage) -> None:
    """From here on the flows are played on this stage."""
    _stages[:] = [stage]


def _at(place: str) -> None:
    _stages[0].at(place)


def _begin(name: str) -> Stage:
    stage = _stages[0]
    stage.count(name)
    stage.at(f"inside {name}")
    return stage


@remit.step
async def plan(mark: str) -> str:
    _begin("plan").at("end of plan")
    return mark


@remit.step
def load(mark: str) -> dict[str, str]:
    _begin("load").at("end of load")
    return {"of": mark}


@remit.step
async def left() -> str:
    _begin("left").at("end of left")
    return "left"


@remit.step
async def right() -> str:
    stage = _stages[0]
    stage.count("right")
    if stage.place.endswith(("left", "right")):
        await stage.is_left_recorded.wait()  # so that exactly half of the calls is recorded when this process dies
    stage.at("inside right")
    stage.at("end of right")
    return "right"


@remit.step
async def quick() -> str:
    stage = _stages[0]
    await stage.has_slow_begun.wait()
    _begin("quick").at("end of quick")
    return "quick"


@remit.step
async def slow() -> str:
    stage = _begin("slow")
    stage.has_slow_begun.set()
    await asyncio.Event().wait()
    return "slow"


@remit.step
async def unload(cargo: list[str]) -> list[str]:
    _begin("unload").at("end of unload")
    return cargo[::-1]


@remit.step
async def toll() -> int:
    if _begin("toll").has("broken"):
        raise OSError("the bridge is closed")
    return 7


@remit.step
async def leave() -> int:
    """The caller gives up in the middle of it, as one whose client hung up."""
    stage = _begin("leave")
    if stage.has("broken") and stage.caller is not None:
        stage.caller.cancel()
        await asyncio.sleep(60)
    return 7


@remit.flow(contract=OPEN)
async def voyage(run: remit.Run, given: int) -> dict[str, Any]:
    mark = str(run.uuid())
    _at("flow before plan")
    planned = await run.step(plan, mark)
    _at("flow after plan")
    loaded = await run.step(load, planned)
    _at("flow after load")
    sides = await run.gather(run.step(left), run.step(right))
    _at("flow after gather")
    winner = await run.first(run.step(quick), run.step(slow))
    _at("flow after race")
    cargo = await run.step(unload, [*sides, winner])
    _at("flow after unload")
    return {"mark": mark, "planned": planned, "loaded": loaded, "cargo": cargo, "given": given}


@remit.flow(contract=OPEN)
def plain_voyage(run: remit.SyncRun, given: int) -> dict[str, Any]:
    mark = str(run.uuid())
    _at("flow before plan")
    planned = run.step(plan, mark)
    _at("flow after plan")
    loaded = run.step(load, planned)
    _at("flow after load")
    sides = run.gather(run.step_call(left), run.step_call(right))
    _at("flow after gather")
    winner = run.first(run.step_call(quick), run.step_call(slow))
    _at("flow after race")
    cargo = run.step(unload, [*sides, winner])
    _at("flow after unload")
    return {"mark": mark, "planned": planned, "loaded": loaded, "cargo": cargo, "given": given}


@remit.flow(contract=OPEN)
async def tolled(run: remit.Run, given: int) -> int:
    await run.step(plan, "")
    paid: int = await run.step(toll)
    return given + paid


@remit.flow(contract=OPEN)
async def withdrawn(run: remit.Run, given: int) -> int:
    await run.step(plan, "")
    left_with: int = await run.step(leave)
    return given + left_with


FLOWS: dict[str, remit.Flow[Any]] = {flow.name: flow for flow in (voyage, plain_voyage, tolled, withdrawn)}
GIVEN = 35
