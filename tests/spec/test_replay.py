"""Replay: by name, in the order in which things happened, and refused where code and journal disagree."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

import remit
from remit import Contract, Step
from remit.engine.turn import replay
from tests.spec.conftest import Storage

OPEN = Contract(version="1", resume="anyone")


class Stage:
    """A flow in two versions: the first stops by raising, the second goes on with the same run."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    async def body(self, name: str) -> str:
        self.ran.append(name)
        return name.upper()

    def step(self, run: remit.Run, name: str) -> Any:
        return run.step(Step(name, self.body), name)


async def stop(*_: object) -> None:
    raise RuntimeError("stop here")


async def play(storage: Storage, first: Any, then: Any) -> Any:
    """Run `first` until it raises, then go on with `then` in another runtime."""
    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(remit.flow(contract=OPEN, name="staged")(first), id="r")
    async with storage.open() as rt:
        return (await rt.run(remit.flow(contract=OPEN, name="staged")(then), id="r")).value


async def test_a_loop_is_found_again_by_occurrence(storage: Storage):  # proves: RUN-4, RUN-8
    """Case C3: the counter is 3 after the resume, not 6."""
    stage = Stage()

    async def first(run: remit.Run) -> None:
        for _ in range(3):
            await stage.step(run, "tick")
        raise RuntimeError

    async def then(run: remit.Run) -> list[str]:
        return [await stage.step(run, "tick") for _ in range(4)]

    assert await play(storage, first, then) == ["TICK"] * 4
    assert stage.ran == ["tick"] * 4


async def test_steps_after_the_one_that_waits_may_be_inserted_removed_and_reordered(storage: Storage):  # proves: RUN-4
    """Case C21."""
    stage = Stage()

    async def first(run: remit.Run) -> None:
        await stage.step(run, "a")
        await run.step(stop)

    async def then(run: remit.Run) -> list[str]:
        return [await stage.step(run, name) for name in ("a", "new", "d", "c")]

    assert await play(storage, first, then) == ["A", "NEW", "D", "C"]
    assert stage.ran == ["a", "new", "d", "c"]


async def test_recorded_steps_may_be_asked_for_in_another_order(storage: Storage):  # proves: RUN-4
    stage = Stage()

    async def first(run: remit.Run) -> None:
        for name in ("a", "b", "c"):
            await stage.step(run, name)
        await run.step(stop)

    async def then(run: remit.Run) -> list[str]:
        return [await stage.step(run, name) for name in ("c", "b", "a")]

    assert await play(storage, first, then) == ["C", "B", "A"]
    assert stage.ran == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("now", "recorded", "asked"),
    [
        (["renamed", "c"], ("b",), ("renamed",)),  # renamed
        (["new", "b"], ("b",), ("new",)),  # inserted in front of a recorded one
        (["c"], ("b",), ("c",)),  # removed
        ([], ("b",), ()),  # removed, at the end
    ],
)
async def test_a_recorded_step_that_the_code_no_longer_asks_for_is_refused(  # proves: RUN-4
    storage: Storage, now: list[str], recorded: tuple[str, ...], asked: tuple[str, ...]
):
    """Cases C21 and C25: naming both sides, writing no step, and writing the refusal once."""
    stage = Stage()

    async def first(run: remit.Run) -> None:
        await stage.step(run, "a")
        await stage.step(run, "b")
        await run.step(stop)

    @remit.flow(contract=OPEN, name="staged")
    async def then(run: remit.Run) -> None:
        for name in ["a", *now]:
            await stage.step(run, name)

    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(remit.flow(contract=OPEN, name="staged")(first), id="r")
        steps = [entry.header.kind for entry in await entries(rt)].count("StepDone")
        lengths = []
        for _ in range(3):
            with pytest.raises(remit.DefinitionIncompatible) as refused:
                await rt.run(then, id="r")
            assert (refused.value.recorded, refused.value.asked) == (recorded, asked)
            lengths.append(len(await entries(rt)))
        kinds = [entry.header.kind for entry in await entries(rt)]

        assert lengths[0] == lengths[1] == lengths[2]
        assert kinds.count("StepDone") == steps == 2
        assert kinds[-2:] == ["AttemptStarted", "RunParked"]
        waiting = await rt.wait("r")
        assert (waiting.status, waiting.code) == ("waiting", "definition_incompatible")
        # The old code still goes on: nothing was lost.
        with pytest.raises(remit.StepError):
            await rt.run(remit.flow(contract=OPEN, name="staged")(first), id="r")
    assert stage.ran == ["a", "b"]


async def entries(rt: remit.Runtime) -> list[Any]:
    from remit.facts import chain
    from remit.facts.entry import Identity

    stored = await rt.read("r")
    row = stored.row
    identity = Identity(rt._store.ledger.origin, row.tenant, row.run, row.gen, row.flow)
    heads = chain.Heads(row.head, row.seq, row.post_head, row.post_seq)
    return chain.verify(identity, heads, stored.main, stored.post).main


async def test_gathered_calls_keep_their_pairing_whatever_finishes_first(storage: Storage):  # proves: RUN-8
    """Case C22."""
    gates = {"slow": asyncio.Event(), "fast": asyncio.Event()}
    ran: list[str] = []

    async def fetch(name: str) -> str:
        ran.append(name)
        if name == "slow":
            await gates["fast"].wait()
        else:
            gates["fast"].set()
        return name

    async def first(run: remit.Run) -> None:
        assert await run.gather(run.step(fetch, "slow"), run.step(fetch, "fast")) == ["slow", "fast"]
        raise RuntimeError

    async def then(run: remit.Run) -> list[str]:
        return list(await asyncio.gather(run.step(fetch, "slow"), run.step(fetch, "fast")))

    assert await play(storage, first, then) == ["slow", "fast"]
    assert ran == ["slow", "fast"]


async def test_completions_are_delivered_in_their_recorded_order(storage: Storage):  # proves: RUN-8
    order: list[list[str]] = []
    go = asyncio.Event()

    async def fetch(name: str) -> str:
        if name != "c":
            await go.wait()
        go.set()
        return name

    async def flow(run: remit.Run) -> None:
        seen: list[str] = []
        order.append(seen)

        async def one(name: str) -> None:
            seen.append(await run.branch(name).step(fetch, name))

        await asyncio.gather(*(one(name) for name in "abc"))
        if len(order) == 1:
            raise RuntimeError

    await play(storage, flow, flow)
    assert order[0] == order[1]
    assert order[0][0] == "c"


async def test_two_tasks_that_ask_for_one_name_without_a_branch_are_refused(storage: Storage):  # proves: RUN-8
    stage = Stage()

    @remit.flow(contract=OPEN)
    async def racing(run: remit.Run) -> None:
        async def ask() -> None:
            await stage.step(run, "a")

        await asyncio.gather(ask(), ask())

    async with storage.open() as rt:
        with pytest.raises(remit.NameAmbiguous) as refused:
            await rt.run(racing, id="r")
    assert refused.value.code == "name.ambiguous"


async def test_branches_have_names_of_their_own(storage: Storage):  # proves: RUN-8
    stage = Stage()

    async def flow(run: remit.Run) -> None:
        async def quote(branch: remit.Run) -> str:
            return f"{await stage.step(branch, 'fetch')}{await stage.step(branch, 'fetch')}"

        await asyncio.gather(*(quote(run.branch(name)) for name in ("a/b", "a%b", "c", "-d-e")))
        await quote(run.branch("c"))
        await run.step(stop)

    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(remit.flow(contract=OPEN, name="staged")(flow), id="r")
        view = (await rt.show("r")).view
    branches = ("%2Dd-e", "a%25b", "a%2Fb", "c#2", "c")
    assert sorted(view.calls) == [f"{branch}/fetch{again}" for branch in branches for again in ("", "#2")]


async def test_the_winner_of_a_race_is_recorded_and_the_loser_never_begins(storage: Storage):  # proves: RUN-8
    """Case C6."""
    ran: list[str] = []
    hold = asyncio.Event()

    async def quick() -> str:
        ran.append("quick")
        return "quick"

    async def slow() -> str:
        ran.append("slow")
        await hold.wait()
        return "slow"

    async def first(run: remit.Run) -> None:
        assert await run.first(run.step(slow), run.step(quick)) == "quick"
        await run.step(Step("after", str), "x")
        await run.step(stop)

    async def then(run: remit.Run) -> list[Any]:
        hold.set()  # this time the loser would finish at once
        return [await run.first(run.step(slow), run.step(quick)), await run.step(Step("after", str), "x")]

    assert await play(storage, first, then) == ["quick", "x"]
    assert sorted(ran) == ["quick", "slow"]


async def test_a_race_that_the_crash_left_undecided_goes_by_the_recorded_order(storage: Storage):  # proves: RUN-8
    ran: list[str] = []

    async def fetch(name: str) -> str:
        ran.append(name)
        return name

    async def first(run: remit.Run) -> None:
        await run.first(run.step(Step("x", fetch), "x"), run.step(Step("y", fetch), "y"))
        await run.step(stop)

    async def then(run: remit.Run) -> str:
        winner: str = await run.first(run.step(Step("x", fetch), "x"), run.step(Step("y", fetch), "y"))
        return winner

    assert await play(storage, first, then) == "x"


async def test_draws_are_recorded_and_one_more_moves_no_other(storage: Storage):  # proves: RUN-9, RUN-8
    """Case C23."""
    drawn: dict[str, Any] = {}

    async def first(run: remit.Run) -> None:
        drawn.update(now=run.now(), random=[run.random(), run.random()], uuid=run.uuid())
        await run.step(Step("a", str), 1)
        await run.step(stop)

    async def then(run: remit.Run) -> dict[str, Any]:
        uuid = run.uuid()
        again: dict[str, Any] = {"random": [run.random(), run.random()], "now": run.now(), "uuid": uuid}
        assert again == drawn
        extra = run.random()
        assert extra not in again["random"]
        await run.step(Step("a", str), 1)
        return {"extra": extra, "is_uuid": isinstance(uuid, UUID), "is_aware": again["now"].tzinfo is not None}

    value = await play(storage, first, then)
    assert value["is_uuid"] and value["is_aware"] and 0 <= value["extra"] < 1


@pytest.mark.parametrize("kind", ["now", "random", "uuid"])
async def test_a_draw_with_a_name_is_moved_by_no_other(kind: str, storage: Storage):  # proves: RUN-9
    """One more in front of it takes the recorded value of one that has no name."""
    told: list[tuple[Any, Any, Any]] = []

    async def first(run: remit.Run) -> None:
        draw = getattr(run, kind)
        told.append((draw(), draw("order-id"), run.branch("a").uuid("order-id")))
        await run.step(stop)

    async def then(run: remit.Run) -> None:
        draw = getattr(run, kind)
        trace, fresh, plain = draw("trace"), draw("a/b#2"), draw()
        told.append((plain, draw("order-id"), run.branch("a").uuid("order-id")))
        assert len({trace, fresh, plain, draw("order-id"), *told[-1]}) == 6

    await play(storage, first, then)
    assert told[0] == told[1]


@pytest.mark.parametrize("name", ["", " order", "order\n", "order\u200b", 5])
async def test_the_name_of_a_draw_is_one_that_can_be_seen(name: Any):  # proves: RUN-9
    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        for draw in (run.now, run.random, run.uuid):
            with pytest.raises(remit.IdRefused, match="name of a draw"):
                draw(name)

    async with remit.open("memory:") as rt:
        assert (await rt.run(flow, id="r")).status == "completed"


async def test_a_step_is_not_called_inside_a_step_nor_past_the_run(storage: Storage):
    """DESIGN 10: crossings are made by the flow, where the gate sees them."""

    @remit.step
    async def inner() -> int:
        return 1

    async def nested(run: remit.Run) -> Any:
        async def outer() -> Any:
            return await run.step(inner)

        return await run.step(outer)

    async def bare(run: remit.Run) -> Any:
        return await inner()

    async with storage.open() as rt:
        with pytest.raises(remit.StepError) as raised:
            await rt.run(remit.flow(contract=OPEN, name="nested")(nested), id="r1")
        assert isinstance(raised.value.__cause__, remit.CallRefused)
        assert raised.value.__cause__.code == "call.nested"
        with pytest.raises(remit.CallRefused) as refused:
            await rt.run(remit.flow(contract=OPEN, name="bare")(bare), id="r2")
        assert refused.value.code == "call.direct"
    assert await inner() == 1  # outside a run it is a plain function


async def test_check_says_before_anything_runs_whether_the_code_goes_on(storage: Storage):  # proves: RUN-17
    stage = Stage()

    def version(*names: str, contract: Contract = OPEN) -> remit.Flow[Any]:
        @remit.flow(contract=contract, name="staged")
        async def flow(run: remit.Run) -> None:
            for name in names:
                await stage.step(run, name)
            await run.step(stop)

        return flow

    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(version("a", "b"), id="r")
        before, ran = await rt.read("r"), list(stage.ran)

        same = await rt.check("r", version("a", "b"))
        longer = await rt.check("r", version("a", "b", "c"))
        changed = await rt.check("r", version("a", "c"))
        stricter = await rt.check("r", version("a", "b", contract=Contract(version="2", resume="anyone", risk="high")))

        assert (same.fit, same.call) == ("compatible", "stop")
        assert (longer.fit, longer.call) == ("compatible", "c")
        assert (changed.fit, changed.call, changed.recorded, changed.asked) == ("incompatible", "b", ("b",), ("c",))
        assert stricter.fit == "compatible after the gate"
        assert await rt.read("r") == before
    assert stage.ran == ran


async def test_a_branch_that_is_busy_with_something_else_is_waited_for(storage: Storage):  # proves: RUN-8
    """A task that waits for a foreign thing before its recorded call is not a disagreement of code and journal."""
    stage = Stage()
    is_first = True

    async def flow(run: remit.Run) -> list[str]:
        async def late() -> str:
            branch = run.branch("late")
            if not is_first:
                await asyncio.sleep(0.3)  # several times what counts as standing still
            return str(await stage.step(branch, "recorded"))

        async def early() -> str:
            if is_first:
                await run.branch("early").step(stop)
            return str(await stage.step(run.branch("early"), "new"))

        return await run.gather(late(), early())

    async def then(run: remit.Run) -> list[str]:
        nonlocal is_first
        is_first = False
        return await flow(run)

    assert await play(storage, flow, then) == ["RECORDED", "NEW"]
    assert stage.ran == ["recorded", "new"]


async def test_a_race_in_code_that_does_not_fit_is_refused_as_well(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
):  # proves: RUN-4, RUN-8
    """Its contestants are told, and it must not wait then for a replay that goes on no more."""
    monkeypatch.setattr(replay, "STILL_SECONDS_OF_TASKS", 0.2)
    is_new: list[bool] = []

    @remit.step
    async def quote() -> int:
        return 1

    @remit.step
    async def report() -> int:
        raise ConnectionError

    @remit.flow(contract=Contract(version="1", resume="anyone"))
    async def flow(run: remit.Run) -> int:
        if not is_new:
            await run.step(quote)
            await run.step(report)
        won: int = await run.first(run.branch("l").step(quote), run.branch("m").step(quote))
        return won

    async with storage.open() as rt, asyncio.timeout(30):
        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")
        is_new.append(True)
        with pytest.raises(remit.DefinitionIncompatible) as refused:
            await rt.run(flow, id="r")
        assert refused.value.recorded == ("quote",)
        assert (await rt.check("r", flow)).fit == "incompatible"
