"""Those who ask together where a journal ends share a question, and no answer is older than its question."""

from __future__ import annotations

import asyncio

import pytest

from remit.errors import StoreUnavailable
from remit.store.postgres.peeks import Peeks
from remit.store.rows import Peek
from tests.spec.test_postgres_store import store
from tests.support.journal import Hand, open_held, open_run, read_stored

__all__ = ["store"]  # a fixture


class Journals:
    """Answers as a database does: with what holds when the question arrives, and later than it was asked."""

    def __init__(self) -> None:
        self.seqs = {1: 5, 2: 7}
        self.asked: list[list[int]] = []
        self.answers = asyncio.Semaphore(0)  # one is given for each release
        self.failure: Exception | None = None

    async def read(self, run_keys: list[int]) -> dict[int, Peek]:
        self.asked.append(run_keys)
        found = {key: Peek(self.seqs[key], b"", False, 0) for key in run_keys if key in self.seqs}
        failure = self.failure
        await self.answers.acquire()
        if failure is not None:
            raise failure
        return found


def seq_of(peek: Peek | None) -> int | None:
    return None if peek is None else peek.seq


async def until_asked(journals: Journals, count: int) -> None:
    async with asyncio.timeout(5):
        while len(journals.asked) < count:
            await asyncio.sleep(0)


async def test_all_who_ask_at_once_share_a_question():
    journals = Journals()
    peeks = Peeks(journals.read)
    journals.answers.release()
    found = await asyncio.gather(*(peeks.peek(key) for key in (2, 1, 3, 1, 2)))
    assert [seq_of(peek) for peek in found] == [7, 5, None, 5, 7]
    assert journals.asked == [[1, 2, 3]]


async def test_an_answer_is_never_older_than_its_question():  # proves: GATE-2
    journals = Journals()
    peeks = Peeks(journals.read)
    first = asyncio.create_task(peeks.peek(1))
    await until_asked(journals, 1)
    journals.seqs[1] = 6  # committed while the first question is under way
    second = asyncio.create_task(peeks.peek(1))
    await asyncio.sleep(0)
    journals.answers.release()
    journals.answers.release()
    assert (seq_of(await first), seq_of(await second)) == (5, 6)


async def test_one_who_goes_away_takes_the_answer_from_nobody():
    journals = Journals()
    peeks = Peeks(journals.read)
    one, other = asyncio.create_task(peeks.peek(1)), asyncio.create_task(peeks.peek(1))
    await until_asked(journals, 1)
    one.cancel()
    journals.answers.release()
    assert seq_of(await other) == 5
    with pytest.raises(asyncio.CancelledError):
        await one


async def test_a_failure_is_told_to_all_who_asked_and_to_nobody_after_them():
    journals = Journals()
    peeks = Peeks(journals.read)
    journals.failure = StoreUnavailable("gone")
    failed = [asyncio.create_task(peeks.peek(key)) for key in (1, 1, 2)]
    await until_asked(journals, 1)
    journals.failure = None
    later = asyncio.create_task(peeks.peek(1))
    await asyncio.sleep(0)
    journals.answers.release()
    journals.answers.release()
    for task in failed:
        with pytest.raises(StoreUnavailable):
            await task
    assert seq_of(await later) == 5


async def test_the_store_tells_the_end_of_each_journal_and_its_clock(store):
    hands = [await open_held(store, "po-1"), Hand(store, await open_run(store, "remit:authority", worker=None))]
    await store.append(hands[1].step())
    before = await store.now()
    found = await asyncio.gather(*(store.peek(key) for hand in hands for key in (hand.row.run_key, 999)))
    after = await store.now()
    rows = [(await read_stored(store, hand.row.run_key)).row for hand in hands]
    assert [(peek.seq, peek.head) for peek in found[::2]] == [(row.seq, row.head) for row in rows]
    assert all(before <= peek.now <= after for peek in found[::2]) and found[1::2] == [None, None]
