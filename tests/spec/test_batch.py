"""Group commit: one commit for all that wait, an answer for each.

The committer here is a list with a tongue: it fails where a real database would, on cue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from remit.errors import CommitUnknown, LeaseLost, StoreClosed, StoreUnavailable
from remit.facts.entry import Entry
from remit.store.batch import Answers, GroupCommit
from remit.store.protocol import Counters, Opening, RunRow, Unit


class Tongue:
    """Remembers each batch; refuses run keys in `poison`, loses those in `lost`, is down while `fails` is set."""

    def __init__(self, *, inline_max: int = 0) -> None:
        self.inline_max = inline_max
        self.batches: list[list[int]] = []
        self.inline: list[list[int]] = []
        self.written: list[Entry] = []
        self.poison: set[int] = set()
        self.lost: set[int] = set()
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
        won = [unit.run_key not in self.lost for unit in units]
        self.written += [e for unit, is_won in zip(units, won, strict=True) if is_won for e in unit.entries]
        opened: list[RunRow | None] = [None for _ in openings]
        return Answers([None if is_won else "lease" for is_won in won], opened)


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
