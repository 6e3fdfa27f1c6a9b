"""What survives, and what several openings of one storage see of each other.

LastingContract   closed and opened again: memory (the same object), file, databases
SharedContract    opened by several at once: databases
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import pytest

from remit.errors import LeaseLost
from remit.store.protocol import Store
from remit.store.rows import RunFilter
from remit.store.tables import INLINE_BYTES_MAX
from tests.contract.suite import (
    LEASE,
    WORKER_ROW,
    Make,
    StoreContract,
    claim,
    incident,
    is_written,
    open_incidents,
    row_of,
    take,
    win,
)
from tests.support.clock import MovedClock
from tests.support.journal import TENANT, WORKER, Hand, open_held, open_run, opening, read_stored, read_view

Reopen = Callable[[], Awaitable[Store]]


class LastingContract(StoreContract):
    """What is still there when the storage is opened again."""

    @pytest.fixture
    async def reopen(self, make: Make, clock: MovedClock, store: Store) -> AsyncIterator[Reopen]:
        """Close what is open and open the same storage again."""
        opened = [store]

        async def reopen() -> Store:
            await opened[-1].close()
            again = make(clock)
            await again.open()
            opened.append(again)
            return again

        yield reopen
        await opened[-1].close()

    async def test_what_was_appended_is_there_when_opened_again(self, store, reopen):  # proves: RUN-3, RUN-11, LOG-1
        hand = await open_held(store, "po-1")
        values = [b'"small"', b'"' + b"x" * INLINE_BYTES_MAX + b'"']
        for value in values:
            await store.append(hand.step(value))
        await store.append(Hand(store, hand.row, lane="post").signal())
        before = await read_stored(store, hand.row.run_key)

        store = await reopen()
        assert await read_stored(store, hand.row.run_key) == before
        view = await read_view(store, hand.row.run_key)
        assert [call.value for call in view.calls.values()] == values

    async def test_a_writer_that_was_closed_in_between_goes_on_under_its_lease(self, store, reopen):  # proves: OWN-1
        hand = await open_held(store, "po-1")
        store = await reopen()
        await store.append(hand.step())
        assert await claim(store, await row_of(store, "po-1"), "w-2") is None
        await read_view(store, hand.row.run_key)

    async def test_an_epoch_is_never_used_twice(self, store, reopen, clock):  # proves: OWN-1, OWN-3
        row = await open_run(store, "po-1")
        clock.move(LEASE)
        assert (await win(store, row, "w-2")).epoch == 2
        store = await reopen()
        row = await row_of(store, "po-1")
        assert (row.epoch, row.worker) == (2, "w-2")
        clock.move(LEASE)
        assert (await win(store, row, "w-3")).epoch == 3

    async def test_a_release_a_quarantine_and_a_holder_last(self, store, reopen):  # proves: LOG-3, OWN-1
        await store.put_worker(WORKER_ROW)
        await open_run(store, "held")
        released, aside = await open_held(store, "released"), await open_held(store, "aside")
        await store.release(released.row.run_key, 1)
        incidents = await open_incidents(store)
        await store.append(incident(incidents, aside.row, is_set=True))

        store = await reopen()
        assert (await row_of(store, "released")).worker is None
        assert (await row_of(store, "aside")).quarantined
        assert not await is_written(store, aside.step())
        assert (await row_of(store, "held")).worker == WORKER
        assert await store.read_worker(WORKER) == WORKER_ROW

    async def test_ids_are_taken_and_keys_grow_for_ever(self, store, reopen):  # proves: RUN-11
        first = await open_run(store, "po-1")
        store = await reopen()
        assert await store.open_run(opening(store, "po-1")) is None
        second = await open_run(store, "po-2")
        assert second.run_key > first.run_key
        assert [row.run for row in await store.list_rows(RunFilter(TENANT))] == ["po-2", "po-1"]

    async def test_the_ledger_keeps_its_origin(self, store, reopen):  # proves: LOG-1
        ledger = store.ledger
        assert len(bytes.fromhex(ledger.origin)) == 16
        assert (await reopen()).ledger == ledger
        assert (await reopen()).ledger == ledger

    async def test_a_clock_that_was_given_once_is_told_for_ever(self, store, make):
        await store.close()
        again = make(None)
        await again.open()
        assert again.ledger.clock == "given"
        await again.close()

    async def test_opened_again_in_another_loop_it_is_the_same(self, store, reopen, make, clock):
        hand = await open_held(store, "po-1")
        await store.close()

        async def elsewhere() -> None:
            again = make(clock)
            await again.open()
            await again.append(hand.step())
            await again.close()

        await asyncio.to_thread(lambda: asyncio.run(elsewhere()))
        assert (await row_of(await reopen(), "po-1")).seq == 3


class SharedContract(LastingContract):
    """What several openings of one storage see of each other; each stands for a process."""

    @pytest.fixture
    async def rival(self, make: Make, clock: MovedClock, store: Store) -> AsyncIterator[Store]:
        rival = make(clock)
        await rival.open()
        yield rival
        await rival.close()

    async def test_both_see_one_ledger(self, store, rival):  # proves: RUN-11
        assert rival.ledger == store.ledger
        row = await open_run(store, "po-1")
        assert await rival.open_run(opening(rival, "po-1")) is None
        assert await rival.read_row(TENANT, "po-1") == row

    async def test_a_run_is_opened_by_one_of_many(self, store, rival):  # proves: RUN-11
        both = (store, rival) * 8
        wishes = [s.open_run(opening(s, "po-1", worker=f"w-{i}")) for i, s in enumerate(both)]
        made = [row for row in await asyncio.gather(*wishes) if row is not None]
        assert made == [await row_of(store, "po-1")]

    async def test_a_dead_workers_run_is_claimed_by_one_of_many(self, store, rival):  # proves: OWN-1
        row = await open_run(store, "po-1")
        both = (store, rival) * 8
        wishes = [claim(s, row, f"w-{i}x", dead=WORKER) for i, s in enumerate(both)]
        won = [row for row in await asyncio.gather(*wishes) if row is not None]
        assert won == [await row_of(rival, "po-1")]
        assert won[0].epoch == 2

    async def test_a_writer_that_slept_past_its_lease_writes_nothing(self, store, rival, clock):  # proves: OWN-3
        sleeper = await open_held(store, "po-1")
        clock.move(LEASE + timedelta(microseconds=1))
        owner = await take(rival, await row_of(rival, "po-1"), "w-2")
        before = await read_stored(rival, owner.row.run_key)
        with pytest.raises(LeaseLost):
            await store.append(sleeper.step())
        assert await read_stored(rival, owner.row.run_key) == before
        await rival.append(owner.step())

    async def test_two_who_race_for_one_place_do_not_fork_the_journal(self, store, rival):  # proves: LOG-1, OWN-3
        hand = await open_held(store, "po-1")
        for turn in range(10):
            row = (await read_stored(store, hand.row.run_key)).row
            one, two = Hand(store, row), Hand(rival, row)
            made = await asyncio.gather(
                is_written(store, one.step(b'"one"', name=f"t-{turn}")),
                is_written(rival, two.step(b'"two"', name=f"t-{turn}")),
            )
            assert sorted(made) == [False, True]
        assert len((await read_view(rival, hand.row.run_key)).calls) == 10
