"""Sentences of promises that no other test says: each promise is proven where it lives, and what was left is here."""

from __future__ import annotations

import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import remit
from remit import Contract, Step
from remit.engine.turn import closing
from remit.store import memory, two_method
from remit.store.file import store as file
from remit.store.postgres import store as postgres
from remit.store.sqlite import store as sqlite
from tests.spec.conftest import Storage

OPEN = Contract(version="1", resume="anyone")


class Keeper:
    """A store of two methods, each of which fails where it is told to."""

    def __init__(self) -> None:
        self.saved: dict[str, str] = {}
        self.broken = ""

    def load(self, run_id: str) -> Any:
        if self.broken == "load":
            raise OSError("no disk")
        return json.loads(self.saved.get(run_id, "null"))

    def save(self, mapping: dict[str, Any]) -> None:
        if self.broken == "save":
            raise OSError("no disk")
        self.saved[mapping["run"]] = json.dumps(mapping)


def test_a_failed_load_a_failed_save_and_a_failed_step_are_told_apart_by_type():  # proves: RUN-6
    keeper = Keeper()
    ran: list[str] = []

    def work(state: dict[str, Any]) -> dict[str, int]:
        ran.append("work")
        if keeper.broken == "step":
            raise OSError("no disk")
        return {"done": 1}

    types = {"load": remit.LoadError, "save": remit.SaveError, "step": remit.StepError}
    for keeper.broken, type_ in types.items():
        with pytest.raises(remit.RemitError) as raised:
            remit.run("r", [Step("work", work)], keeper)
        assert [isinstance(raised.value, other) for other in types.values()] == [t is type_ for t in types.values()]
        assert isinstance(raised.value.__cause__, OSError)
    keeper.broken = ""
    assert remit.run("r", [Step("work", work)], keeper) == {"done": 1}
    assert ran.count("work") == 2  # where loading or opening failed, nothing was run


async def test_a_branch_of_the_code_is_taken_again_by_what_is_recorded(storage: Storage):  # proves: RUN-8
    """The world changed while the run waited; a loop and an `if` over recorded outcomes go the same way."""
    world = {"stock": 2}
    ran: list[str] = []
    is_open = False

    async def look() -> int:
        ran.append("look")
        return world["stock"]

    async def take() -> None:
        ran.append("take")

    async def reorder() -> None:
        ran.append("reorder")

    async def gate() -> None:
        if not is_open:
            raise PermissionError

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> int:
        stock: int = await run.step(look)
        if stock:
            for _ in range(stock):
                await run.step(take)
        else:
            await run.step(reorder)
        await run.step(gate)
        return stock

    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")
    world["stock"], is_open = 0, True
    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).value == 2
    assert ran == ["look", "take", "take"]


async def test_more_than_one_thing_left_over_is_told_without_end(storage: Storage):  # proves: RUN-8, RUN-4
    """A mismatch of hundreds of calls is told in a few lines, and both sides are there in full for code."""
    is_new = False

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        for n in range(300):
            await run.step(Step(f"new-{n}" if is_new else f"old-{n}", str), n)
        raise RuntimeError

    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")
        is_new = True
        with pytest.raises(remit.DefinitionIncompatible) as refused:
            await rt.run(flow, id="r")
        assert len(refused.value.recorded) == 300 and refused.value.asked == ("new-0",)
        assert "and 295 more" in refused.value.message and len(refused.value.message) < 400
        assert (await rt.read("r")).row.code == "definition_incompatible"


def test_plain_code_has_every_call_under_the_same_name():  # proves: RUN-10
    calls = {
        name
        for name, member in vars(remit.Runtime).items()
        if inspect.iscoroutinefunction(member) and not name.startswith("_")
    }
    twins = {name.removesuffix("_sync") for name in vars(remit.Runtime) if name.endswith("_sync")}
    assert twins == calls - {"open", "close"}  # those are what `with` does

    def public(cls: type) -> set[str]:
        return {name for name in vars(cls) if not name.startswith("_")}

    # A coroutine that nobody awaits yet has no like in plain code: there it is a named call.
    named = {f"{kind}_call" for kind in ("step", "effect", "transact", "approve")}
    assert public(remit.SyncRun) == public(remit.Run) | named


def test_the_end_of_an_attempt_is_no_exception_that_a_flow_would_catch():  # proves: RUN-15
    signal = closing.AttemptClosed
    assert issubclass(signal, BaseException) and not issubclass(signal, Exception)
    assert not issubclass(signal, remit.RemitError | KeyboardInterrupt | asyncio.CancelledError)


@pytest.mark.parametrize("module", [two_method, memory, file, sqlite, postgres], ids=lambda m: m.__name__)
def test_each_store_says_in_its_own_words_where_it_is_weaker(module: Any):  # proves: RUN-19
    assert "weaker than" in module.__doc__


def test_the_page_of_promises_says_of_each_store_where_it_is_weaker():  # proves: RUN-19
    page = (Path(__file__).resolve().parents[2] / "docs" / "guarantees.md").read_text(encoding="utf-8")
    _, _, section = page.partition("\n## Stores, and where each is weaker")
    section = section.partition("\n## ")[0]
    for store in ("Two methods", "`memory:`", "`file:`", "`sqlite:`", "`postgresql:`"):
        assert f"\n* **{store}**" in section, store


LOOKING = {"read_row", "read_run", "list_rows", "read_worker", "now", "examine", "peek"}


class Watched:
    """A store from outside: notes the calls that do more than look."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.did: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if inspect.iscoroutinefunction(found) and name not in LOOKING:
            self.did.append(name)
        return found


async def test_looking_at_a_run_executes_and_writes_nothing_in_any_state_of_it(storage: Storage):  # proves: RPL-1
    """Queued, waiting, ended, and under way in this very process."""
    ran: list[str] = []
    begun, go = asyncio.Event(), asyncio.Event()

    async def work(state: str) -> str:
        ran.append(state)
        if state == "under way":
            begun.set()
            await go.wait()
        if state == "waiting":
            raise OSError
        return state

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run, state: str) -> Any:
        return await run.step(work, state)

    async with storage.open() as rt:
        await rt.start(flow, "queued", id="queued")
        await rt.run(flow, "ended", id="ended")
        with pytest.raises(remit.StepError):
            await rt.run(flow, "waiting", id="waiting")
        under_way = asyncio.create_task(rt.run(flow, "under way", id="under way"))
        await begun.wait()

        host = rt._host
        assert host is not None
        store = host.store
        watched = Watched(store)
        object.__setattr__(host, "store", watched)
        before = ran.copy()
        for id in ("queued", "ended", "waiting", "under way"):
            stored = await rt.read(id)
            told = await rt.explain(id)
            assert (told.timeline.problem, told.view is not None) == (None, True)
            assert len(told.timeline.lines) == stored.row.seq + stored.row.post_seq
            assert (await rt.why(id)).run == id
            assert await rt.verify(id) is None
            assert (await rt.show(id)).row == stored.row
            assert (await rt.check(id, flow)).fit == "compatible"
            assert await rt.read(id) == stored
        assert (watched.did, ran) == ([], before)
        object.__setattr__(host, "store", store)

        go.set()
        assert (await under_way).value == "under way"
