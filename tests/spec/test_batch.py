"""Group commit: one commit for all that wait, an answer for each.

The committer here is a list with a tongue: it fails where a real database would, on cue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import pytest

from remit.errors import CommitUnknown, LeaseLost, Moved, StoreClosed, StoreUnavailable
from remit.facts.announced import AskOpened
from remit.facts.entry import Entry, Lane
from remit.store.batch import Answers, GroupCommit
from remit.store.marks import Announce, CloseAsk, Fence, FreeKey, Mark, Reserve, TakeKey, Unreserve
from remit.store.protocol import Counters
from remit.store.rows import RunRow
from remit.store.units import Loss, Opening, Unit


class Tongue:
    """Remembers each batch; chokes on run keys in `poison`, loses those in `lost`, is down while `fails` is set."""

    def __init__(self, *, inline_max: int = 0) -> None:
        self.inline_max = inline_max
        self.batches: list[list[int]] = []
        self.inline: list[list[int]] = []
        self.written: list[Entry] = []
        self.poison: set[int] = set()
        self.lost: set[int] = set()
        self.reasons: dict[tuple[int, int], Loss] = {}  # by run key and seq
        self.fails: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def commit(self, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        self.batches.append([unit.run_key for unit in units])
        await self.gate.wait()
        return self._answer(units, openings)

    def commit_now(self, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        self.inline.append([unit.run_key for unit in units])
        return self._answer(units, openings)

    def _answer(self, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        if self.fails:
            raise self.fails
        if self.poison & {unit.run_key for unit in units}:
            raise ZeroDivisionError("the database chokes on it")
        lost = [self._reason(unit) for unit in units]
        self.written += [e for unit, why in zip(units, lost, strict=True) if why is None for e in unit.entries]
        opened: list[RunRow | None] = [None for _ in openings]
        return Answers(lost, opened)

    def _reason(self, unit: Unit) -> Loss | None:
        return "lease" if unit.run_key in self.lost else self.reasons.get((unit.run_key, unit.seq_after))


def unit(key: int, seq: int = 1) -> Unit:
    entry = Entry("main", seq, b"h", b"b", None, None)
    return Unit(key, "main", bytes([seq - 1]) * 32, bytes([seq]) * 32, seq, [entry], epoch=1)


@pytest.fixture
async def tongue() -> Tongue:
    return Tongue()


async def test_all_that_wait_share_one_commit(tongue: Tongue):
    group = GroupCommit(tongue, Counters())
    await asyncio.gather(*(group.append(unit(key)) for key in range(100)))
    assert tongue.batches == [list(range(100))]


async def test_what_comes_during_a_commit_goes_into_the_next_one(tongue: Tongue):
    group = GroupCommit(tongue, Counters())
    tongue.gate.clear()
    first = asyncio.ensure_future(group.append(unit(1)))
    while not tongue.batches:
        await asyncio.sleep(0)
    others = [asyncio.ensure_future(group.append(unit(key))) for key in (2, 3)]
    await asyncio.sleep(0)
    tongue.gate.set()
    await asyncio.gather(first, *others)
    assert tongue.batches == [[1], [2, 3]]


async def test_entries_of_one_run_that_wait_ride_in_one_unit_in_their_order(tongue: Tongue):
    group = GroupCommit(tongue, Counters())
    await asyncio.gather(*(group.append(unit(1, seq)) for seq in (1, 2, 3)))
    assert tongue.batches == [[1]]
    assert [entry.seq for entry in tongue.written] == [1, 2, 3]


async def test_a_unit_that_loses_is_told_and_the_others_are_written(tongue: Tongue):  # proves: OWN-3
    counters = Counters()
    group = GroupCommit(tongue, counters)
    tongue.lost = {2}
    answers = await asyncio.gather(*(group.append(unit(key)) for key in (1, 2, 3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [type(None), LeaseLost, type(None)]
    assert (counters.units, counters.entries, counters.lost) == (3, 2, 1)


async def test_after_an_unexpected_error_each_unit_is_tried_alone(tongue: Tongue):
    group = GroupCommit(tongue, Counters())
    tongue.poison = {2}
    answers = await asyncio.gather(*(group.append(unit(key)) for key in (1, 2, 3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [type(None), ZeroDivisionError, type(None)]
    assert tongue.batches == [[1, 2, 3], [1], [2], [3]]


@pytest.mark.parametrize("error", [StoreUnavailable("away"), CommitUnknown("who knows")])
async def test_an_unavailable_store_is_told_to_everyone_and_not_tried_again(tongue: Tongue, error: Exception):
    group = GroupCommit(tongue, Counters())
    tongue.fails = error
    answers = await asyncio.gather(*(group.append(unit(key)) for key in (1, 2)), return_exceptions=True)
    assert answers == [error, error]
    assert len(tongue.batches) == 1


async def test_a_cancelled_waiter_neither_stops_nor_breaks_the_commit(tongue: Tongue):
    group = GroupCommit(tongue, Counters())
    tongue.gate.clear()
    waiters = [asyncio.ensure_future(group.append(unit(key))) for key in (1, 2)]
    while not tongue.batches:
        await asyncio.sleep(0)
    waiters[0].cancel()
    await asyncio.sleep(0)
    tongue.gate.set()
    await waiters[1]
    assert len(tongue.written) == 2


@pytest.mark.parametrize("moment", ["in line", "under way"])
async def test_who_is_cancelled_again_and_again_is_told_when_the_unit_is_answered(tongue: Tongue, moment: str):
    """What comes after it rests on that."""  # proves: OWN-3
    group = GroupCommit(tongue, Counters())
    tongue.gate.clear()
    before = asyncio.ensure_future(group.append(unit(1)))
    while not tongue.batches:
        await asyncio.sleep(0)
    waiting = asyncio.ensure_future(group.append(unit(2))) if moment == "in line" else before
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    tongue.gate.set()
    await asyncio.wait([before, waiting])
    assert waiting.cancelled() and len(tongue.written) == (2 if moment == "in line" else 1)


async def test_a_small_batch_of_an_embedded_store_is_written_on_the_calling_thread():
    tongue = Tongue(inline_max=2)
    group = GroupCommit(tongue, Counters())
    await group.append(unit(1))
    await asyncio.gather(group.append(unit(2)), group.append(unit(3)))
    assert (tongue.inline, tongue.batches) == ([[1], [2, 3]], [])
    await asyncio.gather(*(group.append(unit(key)) for key in (4, 5, 6)))
    await group.append(unit(7))  # one small batch after a large one may be the end of a wave
    assert tongue.batches == [[4, 5, 6], [7]]
    await group.append(unit(8))
    assert tongue.inline == [[1], [2, 3], [8]]


async def test_what_an_inline_commit_can_not_do_goes_the_ordinary_way():
    tongue = Tongue(inline_max=2)
    group = GroupCommit(tongue, Counters())
    tongue.poison = {2}
    answers = await asyncio.gather(group.append(unit(1)), group.append(unit(2)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [type(None), ZeroDivisionError]


async def test_closing_writes_what_waits_and_then_refuses(tongue: Tongue):
    group = GroupCommit(tongue, Counters())
    waiting = [asyncio.ensure_future(group.append(unit(key))) for key in (1, 2)]
    await asyncio.sleep(0)
    await group.close()
    await asyncio.gather(*waiting)
    assert len(tongue.written) == 2
    with pytest.raises(StoreClosed):
        await group.append(unit(3))


def test_another_event_loop_is_refused():
    tongue = asyncio.run(_made())

    async def use() -> None:
        with pytest.raises(StoreClosed) as refused:
            await tongue.append(unit(1))
        assert refused.value.code == "store.loop"

    asyncio.run(use())


async def _made() -> GroupCommit:
    return GroupCommit(Tongue(), Counters())


async def test_of_two_that_extend_the_same_head_one_is_written_and_the_other_told(tongue: Tongue):  # proves: OWN-3
    """Attack 8, inside one process."""
    group = GroupCommit(tongue, Counters())
    answers = await asyncio.gather(group.append(unit(1)), group.append(unit(1)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [type(None), LeaseLost]
    assert len(tongue.written) == 1


# Units with conditions of their own


def resting(key: int, seq: int = 1, *, lane: Lane = "main") -> Unit:
    made = unit(key, seq)
    made.lane, made.fence = lane, Fence(99, bytes(32))
    return made


async def test_a_unit_with_a_condition_is_never_joined_and_stands_in_line(tongue: Tongue):  # proves: GATE-2
    group = GroupCommit(tongue, Counters())
    units = [unit(1, 1), unit(1, 2), resting(1, 3), unit(1, 4), unit(1, 5), resting(1, 6), resting(1, 7)]
    await asyncio.gather(*(group.append(each) for each in units), group.append(unit(2)))
    assert tongue.batches == [[1, 2], [1], [1], [1], [1]]
    assert [entry.seq for entry in tongue.written] == [1, 2, 1, 3, 4, 5, 6, 7]
    assert [len(each.entries) for each in units] == [2, 1, 1, 2, 1, 1, 1]


async def test_what_can_not_be_refused_rides_with_the_entries_before_it(tongue: Tongue):  # proves: OWN-3
    group = GroupCommit(tongue, Counters())
    units = [unit(1, 1), unit(1, 2), unit(1, 3), unit(1, 4)]
    freed, told = (FreeKey("k"), Unreserve("s", 5)), (CloseAsk("a-1"), Announce(AskOpened(ask="a-2")))
    units[1].marks, units[2].marks = freed, told
    await asyncio.gather(*(group.append(each) for each in units))
    assert tongue.batches == [[1]]
    assert ([entry.seq for entry in tongue.written], units[0].marks) == ([1, 2, 3, 4], (*freed, *told))


@pytest.mark.parametrize("mark", [TakeKey("k", "pay"), Reserve("s", 5, 9)])
async def test_what_may_be_refused_rides_with_nothing(tongue: Tongue, mark: Mark):  # proves: OWN-3
    group = GroupCommit(tongue, Counters())
    units = [unit(1, 1), unit(1, 2), unit(1, 3)]
    units[1].marks = (CloseAsk("a-1"), mark)
    await asyncio.gather(*(group.append(each) for each in units))
    assert tongue.batches == [[1], [1], [1]]


async def test_a_line_moves_on_where_batches_are_written_on_the_calling_thread():
    tongue = Tongue(inline_max=2)
    group = GroupCommit(tongue, Counters())
    await asyncio.gather(*(group.append(resting(1, seq)) for seq in (1, 2, 3)))
    assert (tongue.inline, tongue.batches) == ([[1], [1], [1]], [])


async def test_a_refused_unit_does_not_speak_for_those_behind_it(tongue: Tongue):
    group = GroupCommit(tongue, Counters())
    tongue.reasons = {(1, 1): "authority", (1, 2): "lease"}
    made = await asyncio.gather(*(group.append(resting(1, seq)) for seq in (1, 2, 3)), return_exceptions=True)
    assert [type(answer) for answer in made] == [Moved, LeaseLost, type(None)]


@pytest.mark.parametrize("what", ["authority", "post", "business", "ceiling"])
async def test_what_moved_is_said(tongue: Tongue, what: Loss):  # proves: GATE-2
    counters = Counters()
    group = GroupCommit(tongue, counters)
    tongue.reasons = {(1, 1): what}
    with pytest.raises(Moved) as moved:
        await group.append(resting(1))
    assert (moved.value.what, counters.lost, counters.entries) == (what, 1, 0)


async def test_what_others_may_rest_on_goes_first(tongue: Tongue):  # proves: GATE-2
    group = GroupCommit(tongue, Counters())
    units = [resting(1), unit(2), resting(3, lane="post"), unit(4)]
    await asyncio.gather(*(group.append(each) for each in units))
    assert tongue.batches == [[2, 4, 3, 1]]


async def test_closing_writes_whole_lines(tongue: Tongue):
    group = GroupCommit(tongue, Counters())
    waiting = [asyncio.ensure_future(group.append(resting(1, seq))) for seq in (1, 2, 3)]
    await asyncio.sleep(0)
    await group.close()
    await asyncio.gather(*waiting)
    assert len(tongue.written) == 3


# Transactions of the caller's


class Whole:
    """Writes a unit in a transaction of its own; remembers what the committer had written when it began and ended."""

    def __init__(self, tongue: Tongue, *, lost: Loss | None = None, fails: BaseException | None = None) -> None:
        self.tongue, self.lost, self.fails = tongue, lost, fails
        self.gate, self.seen = asyncio.Event(), list[int]()
        self.gate.set()

    async def __call__(self) -> tuple[Unit, Loss | None]:
        self.seen.append(len(self.tongue.batches))
        await self.gate.wait()
        self.seen.append(len(self.tongue.batches))
        if self.fails is not None:
            raise self.fails
        return unit(50), self.lost


async def test_a_transaction_of_the_callers_is_alone_and_between_two_batches(tongue: Tongue):  # proves: FX-6
    group, whole = GroupCommit(tongue, Counters()), Whole(tongue)
    whole.gate.clear()
    before = [asyncio.ensure_future(group.append(unit(key))) for key in (1, 2)]
    alone = asyncio.ensure_future(group.transact(whole))
    while not whole.seen:
        await asyncio.sleep(0)
    after = [asyncio.ensure_future(group.append(unit(key))) for key in (3, 4)]
    await asyncio.gather(*before)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not any(each.done() for each in (alone, *after))
    whole.gate.set()
    await asyncio.gather(alone, *after)
    assert (whole.seen, tongue.batches) == ([1, 1], [[1, 2], [3, 4]])


async def test_a_transaction_goes_before_the_batch_that_gathered_while_it_waited(tongue: Tongue):  # proves: FX-6
    group, whole = GroupCommit(tongue, Counters()), Whole(tongue)
    tongue.gate.clear()
    first = asyncio.ensure_future(group.append(unit(1)))
    while not tongue.batches:
        await asyncio.sleep(0)
    alone = asyncio.ensure_future(group.transact(whole))
    late = asyncio.ensure_future(group.append(unit(2)))
    await asyncio.sleep(0)
    tongue.gate.set()
    await asyncio.gather(first, alone, late)
    assert (whole.seen, tongue.batches) == ([1, 1], [[1], [2]])


async def test_small_batches_do_not_slip_past_a_transaction():  # proves: FX-6
    tongue = Tongue(inline_max=2)
    group, whole = GroupCommit(tongue, Counters()), Whole(tongue)
    whole.gate.clear()
    alone = asyncio.ensure_future(group.transact(whole))
    while not whole.seen:
        await asyncio.sleep(0)
    late = asyncio.ensure_future(group.append(unit(1)))
    for _ in range(10):
        await asyncio.sleep(0)
    assert (tongue.inline, late.done()) == ([], False)
    whole.gate.set()
    await asyncio.gather(alone, late)
    assert tongue.inline == [[1]]


async def test_transactions_and_batches_take_turns_so_that_neither_starves(tongue: Tongue):  # proves: FX-6
    group, wholes = GroupCommit(tongue, Counters()), [Whole(tongue) for _ in range(4)]

    async def transact() -> None:
        for whole in wholes:
            await group.transact(whole)

    async def append() -> None:
        for seq in range(1, 9):
            await group.append(unit(1, seq))

    await asyncio.gather(transact(), append(), append_other(group))
    assert [whole.seen[0] for whole in wholes] == sorted({whole.seen[0] for whole in wholes})
    assert wholes[-1].seen[0] < len(tongue.batches)


async def append_other(group: GroupCommit) -> None:
    for seq in range(1, 9):
        await group.append(unit(2, seq))


@pytest.mark.parametrize("fails", [ValueError("mine"), asyncio.CancelledError(), SystemExit(3)])
async def test_what_a_transaction_raises_is_its_callers_alone(tongue: Tongue, fails: BaseException):  # proves: FX-6
    counters = Counters()
    group = GroupCommit(tongue, counters)
    other = asyncio.ensure_future(group.append(unit(1)))
    with pytest.raises(type(fails)) as raised:
        await group.transact(Whole(tongue, fails=fails))
    assert raised.value is fails
    await other
    await group.append(unit(1, 2))
    assert counters.units == 2


async def test_a_transaction_that_lost_is_told_why_and_counted(tongue: Tongue):  # proves: FX-6
    counters = Counters()
    group = GroupCommit(tongue, counters)
    with pytest.raises(Moved) as moved:
        await group.transact(Whole(tongue, lost="ceiling"))
    with pytest.raises(LeaseLost):
        await group.transact(Whole(tongue, lost="lease"))
    await group.transact(Whole(tongue))
    assert (moved.value.what, counters.lost, counters.entries) == ("ceiling", 2, 1)


async def test_a_transaction_whose_caller_went_away_before_it_began_is_not_begun(tongue: Tongue):
    group, whole = GroupCommit(tongue, Counters()), Whole(tongue)
    tongue.gate.clear()
    busy = asyncio.ensure_future(group.append(unit(1)))
    alone = asyncio.ensure_future(group.transact(whole))
    await asyncio.sleep(0)
    alone.cancel()
    await asyncio.sleep(0)
    tongue.gate.set()
    await busy
    await group.close()
    assert whole.seen == []


async def test_a_transaction_that_was_begun_is_finished_although_its_caller_went_away(tongue: Tongue):
    group, whole = GroupCommit(tongue, Counters()), Whole(tongue)
    whole.gate.clear()
    alone = asyncio.ensure_future(group.transact(whole))
    while not whole.seen:
        await asyncio.sleep(0)
    alone.cancel()
    await asyncio.sleep(0)
    whole.gate.set()
    await group.close()
    assert (alone.cancelled(), len(whole.seen)) == (True, 2)


async def test_a_transaction_runs_in_the_context_of_its_caller(tongue: Tongue):
    group, seen = GroupCommit(tongue, Counters()), list[str]()
    name: ContextVar[str] = ContextVar("name", default="nobody")

    async def whole() -> tuple[Unit, Loss | None]:
        seen.append(name.get())
        return unit(1), None

    async def caller(who: str) -> None:
        name.set(who)
        await group.transact(whole)

    await asyncio.gather(*(asyncio.create_task(caller(who)) for who in ("a", "b")))
    assert seen == ["a", "b"]
    await group.close()
    with pytest.raises(StoreClosed):
        await group.transact(whole)


@pytest.mark.parametrize("turns", range(1, 9))
@pytest.mark.parametrize("whom", ["the writers alone", "whoever is there"])
async def test_a_loop_that_ends_in_any_moment_leaves_nobody_without_an_answer(
    tongue: Tongue, turns: int, whom: str
):  # proves: RUN-15, OWN-3
    """It cancels all that runs in it, also what had no turn yet: closing waited for that for ever, busily."""
    group = GroupCommit(tongue, Counters())
    callers = [asyncio.ensure_future(group.append(unit(key))) for key in (1, 2)]
    callers.append(asyncio.ensure_future(group.transact(Whole(tongue))))
    spared = {asyncio.current_task(), *(callers if whom == "the writers alone" else ())}
    for _ in range(turns):
        await asyncio.sleep(0)
    for task in asyncio.all_tasks() - spared:
        task.cancel()
    async with asyncio.timeout(10):
        await group.close()
        answers = await asyncio.gather(*callers, return_exceptions=True)
    assert {type(answer) for answer in answers} <= {type(None), StoreUnavailable, CommitUnknown, asyncio.CancelledError}


@pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("where", ["taking", "writing on the calling thread", "beginning to write", "answering"])
def test_a_signal_that_raises_in_the_middle_leaves_nobody_without_an_answer(
    monkeypatch: pytest.MonkeyPatch, where: str, end: type[BaseException]
):  # proves: RUN-15, OWN-3
    """`asyncio.run` then cancels all tasks and waits for them, while the lease was renewed for ever."""
    answers: list[BaseException | None] = []

    class Met(GroupCommit):
        def _take(self) -> Any:
            taken = super()._take()
            if where == "taking":
                raise end
            return taken

        def _begin_to_write(self, batch: Any) -> None:
            raise end

        def _answer(self, batch: Any, told: Answers) -> None:
            raise end

    tongue = Tongue(inline_max=0 if where == "beginning to write" else 2)
    if where == "writing on the calling thread":
        monkeypatch.setattr(tongue, "commit_now", raising(end))

    async def caller(group: GroupCommit, key: int) -> None:
        try:
            await group.append(unit(key))
        except BaseException as exc:
            answers.append(exc)
            raise

    async def main() -> None:
        group = Met(tongue, Counters())
        async with asyncio.timeout(10):
            await asyncio.gather(caller(group, 1), caller(group, 2))

    with pytest.raises(end):
        asyncio.run(main())
    assert len(answers) == 2
    assert {type(answer) for answer in answers} <= {CommitUnknown, asyncio.CancelledError}
    assert CommitUnknown in {type(answer) for answer in answers}


def raising(end: type[BaseException]) -> Callable[..., Any]:
    def act(*_: Any) -> Any:
        raise end

    return act


@pytest.mark.parametrize("turns", range(1, 12))
async def test_a_loop_that_ends_while_each_unit_is_tried_alone_leaves_nobody_without_an_answer(
    turns: int,
):  # proves: RUN-15, OWN-3
    class Slow(Tongue):
        async def commit(self, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
            await asyncio.sleep(0)
            return await super().commit(units, openings)

    tongue = Slow()
    group = GroupCommit(tongue, Counters())
    tongue.poison = {2}
    callers = [asyncio.ensure_future(group.append(unit(key))) for key in (1, 2, 3, 4)]
    for _ in range(turns):
        await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    async with asyncio.timeout(10):
        answers = await asyncio.gather(*callers, return_exceptions=True)
        await group.close()
    known = {type(None), StoreUnavailable, CommitUnknown, asyncio.CancelledError, ZeroDivisionError}
    assert {type(answer) for answer in answers} <= known
