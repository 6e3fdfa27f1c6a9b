"""What a store means. Each store subclasses this with one fixture; a change of meaning lands here first.

StoreContract    what holds within one opening, for every store
in lasting.py    what survives, and what several openings of one storage see of each other
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from remit.clock import Clock
from remit.errors import LeaseLost, Moved, StoreClosed
from remit.facts import chain
from remit.facts.kinds import QuarantineLifted, RunQuarantined
from remit.facts.names import INCIDENTS
from remit.store.protocol import Renewer, Store
from remit.store.rows import AskFilter, RunFilter, RunRow, WorkerRow
from remit.store.tables import INLINE_BYTES_MAX
from remit.store.units import Claim, Ended, Move, Overlay, Renewal, Unit
from tests.support.clock import MovedClock
from tests.support.journal import (
    INPUT,
    LEASE_MS,
    TENANT,
    WORKER,
    Hand,
    identity_of,
    open_held,
    open_run,
    opening,
    read_stored,
    read_view,
)

Make = Callable[[Clock | None], Store]

LEASE = timedelta(milliseconds=LEASE_MS)
WORKER_ROW = WorkerRow(WORKER, "boot/ns", 5)

ODD_IDS = [
    "100%",
    "1000",
    "a_b",
    "axb",
    "A_B",
    "a*b?[c]",
    "back\\slash",
    "'; DROP TABLE remit_run; --",
    '"quoted"',
    "$1 :name ?2 @x",
    "emoji 🧾🏽 ok",
    "é",
    "e\N{COMBINING ACUTE ACCENT}",
    "null",
    "../up",
    "€" * 200,
]


async def row_of(store: Store, run: str, *, tenant: str = TENANT) -> RunRow:
    row = await store.read_row(tenant, run)
    assert row is not None, f"no run {run!r}"
    return row


async def claim(store: Store, row: RunRow, worker: str, **other: Any) -> RunRow | None:
    return await store.claim(Claim(row.run_key, row.epoch, worker, LEASE_MS, **other))


async def win(store: Store, row: RunRow, worker: str, **other: Any) -> RunRow:
    claimed = await claim(store, row, worker, **other)
    assert claimed is not None, f"{worker} did not get {row.run}"
    return claimed


async def take(store: Store, row: RunRow, worker: str, **other: Any) -> Hand:
    """Claim, and begin an attempt."""
    hand = Hand(store, await win(store, row, worker, **other))
    await store.append(hand.start(worker))
    return hand


async def is_written(store: Store, unit: Unit) -> bool:
    try:
        await store.append(unit)
    except LeaseLost:
        return False
    return True


class StoreContract:
    """What every store keeps."""

    @pytest.fixture
    def make(self) -> Make:
        """Gives a store of this test's own storage, not opened; called again, another one of the same storage."""
        raise NotImplementedError

    @pytest.fixture
    async def store(self, make: Make, clock: MovedClock) -> AsyncIterator[Store]:
        store = make(clock)
        await store.open()
        yield store
        await store.close()

    # -- opening a run ------------------------------------------------------------------------------------------------

    async def test_a_run_that_was_opened_is_there_and_verifies(self, store):  # proves: RUN-11, LOG-1
        wish = opening(store, "po-1", worker=WORKER)
        row = await store.open_run(wish)

        assert row == await store.read_row(TENANT, "po-1")
        assert (row.run, row.gen, row.flow, row.by, row.status, row.code) == (
            "po-1",
            1,
            wish.flow,
            wish.by,
            "queued",
            "",
        )
        assert (row.head, row.seq, row.post_head, row.post_seq) == (wish.head, 1, wish.head, 0)
        assert (row.opened_at, row.window_end, row.quarantined) == (wish.opened_at, wish.window_end, False)
        stored = await read_stored(store, row.run_key)
        assert stored == (row, [wish.entry], [])
        assert (await read_view(store, row.run_key)).input == INPUT

    async def test_a_run_may_be_opened_held_or_unheld(self, store, clock):  # proves: OWN-1
        held, free = await open_run(store, "held"), await open_run(store, "free", worker=None)
        assert (held.epoch, held.worker, held.lease_until) == (1, WORKER, clock.now() + LEASE_MS * 1_000)
        assert (free.epoch, free.worker, free.lease_until) == (0, None, 0)

    async def test_opening_twice_makes_one_run(self, store):  # proves: RUN-11
        first = await open_run(store, "po-1")
        assert await store.open_run(opening(store, "po-1", worker="w-2", value=b'"other"')) is None
        assert await store.read_row(TENANT, "po-1") == first
        assert (await read_view(store, first.run_key)).input == INPUT

    async def test_an_id_is_taken_in_every_generation(self, store):  # proves: RUN-11, LOG-4
        """Or a run whose row says another generation would begin afresh beside its own journal."""
        first = await store.open_run(opening(store, "po-1", gen=2))
        assert [await store.open_run(opening(store, "po-1", gen=gen)) for gen in (1, 2, 3)] == [None] * 3
        assert await store.read_row(TENANT, "po-1") == first

    async def test_opening_twice_in_one_batch_makes_one_run(self, store):  # proves: RUN-11
        wishes = [opening(store, "po-1", worker=f"w-{i}", value=b"%d" % i) for i in range(5)]
        made = await asyncio.gather(*(store.open_run(wish) for wish in wishes))
        (row,) = [row for row in made if row is not None]
        assert row == await store.read_row(TENANT, "po-1")
        assert (await read_view(store, row.run_key)).input == row.worker[2:].encode()

    async def test_keys_grow_in_the_order_of_opening(self, store):
        keys = [(await open_run(store, f"r-{i}")).run_key for i in range(4)]
        assert all(a < b for a, b in pairwise(keys))

    async def test_what_does_not_exist_is_none(self, store):
        assert await store.read_row(TENANT, "nobody") is None
        assert await store.read_run(999_999) is None
        assert await store.read_worker("nobody") is None
        assert await store.claim(Claim(999_999, 0, WORKER, LEASE_MS)) is None
        assert await store.release(999_999, 1) is False
        assert await store.list_rows(RunFilter(TENANT)) == []

    # -- appending ----------------------------------------------------------------------------------------------------

    async def test_what_was_appended_comes_back_byte_for_byte(self, store):  # proves: LOG-1, RUN-3
        hand = await open_held(store, "po-1")
        units = [hand.step(b'{"at":"\\u0000"}'), hand.step('"£ 🧾"'.encode()), hand.step(b"1.50")]
        for unit in units:
            await store.append(unit)

        stored = await read_stored(store, hand.row.run_key)
        assert stored.main[2:] == [entry for unit in units for entry in unit.entries]
        assert (stored.row.head, stored.row.seq) == (hand.pen.head, 5)
        assert list((await read_view(store, hand.row.run_key)).calls) == ["s-3", "s-4", "s-5"]

    async def test_one_unit_may_hold_several_entries_and_an_entry_no_value(self, store):  # proves: LOG-1
        hand = Hand(store, await open_run(store, "po-1"))
        first, second = hand.start().entries[0], hand.step().entries[0]
        await store.append(hand.unit(first, second, move=Move("running")))
        stored = await read_stored(store, hand.row.run_key)
        assert stored.main[1:] == [first, second]
        assert (first.salt, first.value) == (None, None)

    async def test_a_move_changes_the_index_and_gives_the_lease_back(self, store):  # proves: OWN-1
        hand = await open_held(store, "po-1")
        assert (await row_of(store, "po-1")).status == "running"
        unit = hand.step()
        unit.move = Move("waiting", "step.failed")
        await store.append(unit)
        row = await row_of(store, "po-1")
        assert (row.status, row.code, row.worker, row.epoch) == ("waiting", "step.failed", WORKER, 1)

        unit = hand.step()
        unit.move = Move("failed", "boom", release=True)
        await store.append(unit)
        row = await row_of(store, "po-1")
        assert (row.status, row.code, row.worker, row.lease_until, row.epoch) == ("failed", "boom", None, 0, 1)
        assert not await is_written(store, hand.step())

    async def test_two_writers_of_the_same_seq_do_not_fork_the_journal(self, store):  # proves: LOG-1, OWN-3
        row = await open_run(store, "po-1")
        one, two = Hand(store, row), Hand(store, row)
        await store.append(one.start())
        with pytest.raises(LeaseLost):
            await store.append(two.start("w-2"))

        stored = await read_stored(store, row.run_key)
        assert (stored.row.seq, stored.row.head) == (2, one.pen.head)
        assert len(stored.main) == 2
        await read_view(store, row.run_key)

    async def test_a_unit_that_was_written_is_refused_when_it_comes_again(self, store):  # proves: LOG-1
        hand = await open_held(store, "po-1")
        unit = hand.step()
        await store.append(unit)
        assert not await is_written(store, unit)
        assert (await read_stored(store, hand.row.run_key)).row.seq == 3

    async def test_units_of_one_run_that_wait_together_are_all_written_in_order(self, store):  # proves: RUN-3
        hand = await open_held(store, "po-1")
        units = [hand.step(name=f"step-{i}") for i in range(20)]
        before = store.counters.commits
        await asyncio.gather(*(store.append(unit) for unit in units))
        assert store.counters.commits - before <= 2
        view = await read_view(store, hand.row.run_key)
        assert list(view.calls) == [f"step-{i}" for i in range(20)]

    async def test_a_losing_unit_does_not_disturb_the_others_of_its_batch(self, store):  # proves: OWN-3, RUN-3
        hands = [await open_held(store, f"r-{i}") for i in range(6)]
        hands[2].step(), hands[4].step()  # sealed and never written: what follows does not fit
        wishes = [store.append(hand.step()) for hand in hands]
        made = await asyncio.gather(*wishes, store.open_run(opening(store, "new")), return_exceptions=True)

        assert [type(answer) for answer in made[:6]] == [LeaseLost if i in (2, 4) else type(None) for i in range(6)]
        assert made[6] == await row_of(store, "new")
        for i, hand in enumerate(hands):
            assert len((await read_view(store, hand.row.run_key)).calls) == (0 if i in (2, 4) else 1)

    async def test_a_unit_whose_caller_went_away_is_written_all_the_same(self, store):  # proves: RUN-3
        hand = await open_held(store, "po-1")
        waiting = asyncio.create_task(store.append(hand.step()))
        await asyncio.sleep(0)
        waiting.cancel()
        await store.append(hand.step())
        await asyncio.wait([waiting])
        assert waiting.cancelled()  # told once it was written
        assert (await read_stored(store, hand.row.run_key)).row.seq == 4
        await read_view(store, hand.row.run_key)

    async def test_large_values_come_back_like_small_ones(self, store):  # proves: RUN-3, LOG-1
        sizes = [INLINE_BYTES_MAX - 2, INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1, 2 * INLINE_BYTES_MAX]
        values = [b'"' + b"x" * (size - 2) + b'"' for size in sizes]
        row = await store.open_run(opening(store, "po-1", worker=WORKER, value=values[-1]))
        hand = Hand(store, row)
        await store.append(hand.start())
        await asyncio.gather(*(store.append(hand.step(value)) for value in [*values, values[-1]]))

        view = await read_view(store, row.run_key)
        assert view.input == values[-1]
        assert [call.value for call in view.calls.values()] == [*values, values[-1]]

    # -- leases -------------------------------------------------------------------------------------------------------

    async def test_a_lease_that_ran_out_takes_no_append(self, store, clock):  # proves: OWN-1, OWN-3
        hand = await open_held(store, "po-1")
        clock.move(LEASE - timedelta(microseconds=1))
        await store.append(hand.step())
        clock.move(timedelta(microseconds=1))
        with pytest.raises(LeaseLost):
            await store.append(hand.step())
        assert (await read_stored(store, hand.row.run_key)).row.seq == 3

    async def test_a_held_run_is_not_given_to_another(self, store, clock):  # proves: OWN-1
        row = await open_run(store, "po-1")
        clock.move(LEASE - timedelta(microseconds=1))
        assert await claim(store, row, "w-2") is None
        assert await claim(store, row, "w-2", dead="w-3") is None
        assert await row_of(store, "po-1") == row

    async def test_a_free_run_is_given_to_one_of_many(self, store, clock):  # proves: OWN-1
        row = await open_run(store, "po-1", worker=None)
        got = await asyncio.gather(*(claim(store, row, f"w-{i}") for i in range(10)))
        (won,) = [row for row in got if row is not None]
        assert (won.epoch, won.lease_until) == (1, clock.now() + LEASE_MS * 1_000)
        assert won == await row_of(store, "po-1")

    async def test_a_run_whose_lease_ran_out_is_given_away_under_a_higher_epoch(self, store, clock):  # proves: OWN-1
        row = await open_run(store, "po-1")
        clock.move(LEASE)
        won = await win(store, row, "w-2")
        assert (won.epoch, won.worker) == (2, "w-2")

    async def test_the_run_of_a_proven_dead_worker_needs_no_waiting(self, store):  # proves: OWN-1
        row = await open_run(store, "po-1")
        won = await win(store, row, "w-2", dead=WORKER)
        assert (won.epoch, won.worker) == (2, "w-2")

    async def test_a_claim_on_an_epoch_that_moved_gets_nothing(self, store):  # proves: OWN-1
        row = await open_run(store, "po-1", worker=None)
        assert await store.claim(Claim(row.run_key, row.epoch + 1, "w-2", LEASE_MS)) is None
        first = await win(store, row, "w-2")
        assert await store.release(row.run_key, first.epoch)
        assert await claim(store, row, "w-3") is None  # free again, but not as it was seen

    async def test_a_run_that_ended_is_not_claimed(self, store):  # proves: OWN-1
        hand = await open_held(store, "po-1")
        await store.append(hand.end())
        assert await claim(store, await row_of(store, "po-1"), "w-2") is None

    async def test_a_released_run_is_free_at_once_and_keeps_its_epoch(self, store):  # proves: OWN-1
        hand = await open_held(store, "po-1")
        assert await store.release(hand.row.run_key, 1) is True
        assert await store.release(hand.row.run_key, 1) is False
        row = await row_of(store, "po-1")
        assert (row.epoch, row.worker, row.lease_until, row.status) == (1, None, 0, "running")
        assert not await is_written(store, hand.step())
        assert (await take(store, row, "w-2")).epoch == 2

    async def test_renewals_come_from_a_thread_of_their_own(self, store, clock):  # proves: OWN-1
        hands = [await open_held(store, f"r-{i}") for i in range(3)]
        renewals = [Renewal(hand.row.run_key, 1) for hand in hands]
        clock.move(LEASE / 2)

        async def renew() -> dict[int, bytes]:
            renewer: Renewer = await store.renewer()
            try:
                return await renewer.renew(WORKER, renewals, lease_ms=LEASE_MS)
            finally:
                await renewer.close()

        told = await asyncio.to_thread(lambda: asyncio.run(renew()))
        assert told == {hand.row.run_key: hand.row.post_head for hand in hands}
        clock.move(LEASE * 0.75)
        for hand in hands:
            assert (await row_of(store, hand.row.run)).lease_until == clock.now() + LEASE_MS * 250
            await store.append(hand.step())

    async def test_a_renewal_tells_which_leases_are_still_held(self, store, clock):  # proves: OWN-1, OWN-3
        kept, ended, released, stolen = [
            await open_held(store, name) for name in ("kept", "ended", "released", "stolen")
        ]
        await store.append(ended.end())
        await store.release(released.row.run_key, 1)
        clock.move(LEASE)
        await take(store, await row_of(store, "stolen"), "w-2")

        renewer = await store.renewer()
        wishes = [Renewal(hand.row.run_key, 1) for hand in (kept, ended, released, stolen)]
        assert await renewer.renew("w-2", wishes, lease_ms=LEASE_MS) == {}
        assert await renewer.renew(WORKER, [Renewal(kept.row.run_key, 2)], lease_ms=LEASE_MS) == {}
        # It ran out and nobody took it, so its worker may go on.
        assert await renewer.renew(WORKER, wishes, lease_ms=LEASE_MS) == {kept.row.run_key: kept.row.post_head}
        assert await renewer.renew(WORKER, [], lease_ms=LEASE_MS) == {}
        await renewer.close()
        assert await is_written(store, kept.step())

    async def test_a_renewal_tells_where_lane_post_ends(self, store):  # proves: RUN-14, OWN-8
        hands = [await open_held(store, f"r-{i}") for i in range(2)]
        renewals = [Renewal(hand.row.run_key, 1) for hand in hands]
        post = Hand(store, await row_of(store, "r-1"), lane="post")
        await store.append(post.signal())
        await store.append(post.signal())
        renewer = await store.renewer()
        told = await renewer.renew(WORKER, renewals, lease_ms=LEASE_MS)
        await renewer.close()
        assert told == {hands[0].row.run_key: hands[0].row.post_head, hands[1].row.run_key: post.pen.head}

    async def test_a_stale_attempt_writes_nothing_in_any_way(self, store, clock):  # proves: OWN-3
        sleeper = await open_held(store, "po-1")
        clock.move(LEASE)
        rival = await take(store, await row_of(store, "po-1"), "w-2")
        before = await read_stored(store, rival.row.run_key)

        with pytest.raises(LeaseLost):
            await store.append(sleeper.step())
        renewer = await store.renewer()
        assert await renewer.renew(WORKER, [Renewal(rival.row.run_key, 1)], lease_ms=LEASE_MS) == {}
        await renewer.close()
        assert await store.release(rival.row.run_key, 1) is False
        # Not even at the right place in the chain.
        forged = rival.step()
        forged.epoch = 1
        assert not await is_written(store, forged)

        assert await read_stored(store, rival.row.run_key) == before
        forged.epoch = 2
        assert await is_written(store, forged)

    # -- lane post ----------------------------------------------------------------------------------------------------

    async def test_lane_post_needs_no_lease_and_leaves_lane_main_alone(self, store):  # proves: LOG-1
        hand = await open_held(store, "po-1")
        post = Hand(store, await row_of(store, "po-1"), lane="post")
        await store.append(post.signal())
        await asyncio.gather(store.append(hand.step()), store.append(post.signal()))
        await store.append(hand.step())

        stored = await read_stored(store, hand.row.run_key)
        assert [entry.seq for entry in stored.main] == [1, 2, 3, 4]
        assert [entry.seq for entry in stored.post] == [1, 2]
        assert (stored.row.post_head, stored.row.post_seq) == (post.pen.head, 2)
        assert (await read_view(store, hand.row.run_key)).epoch == 1

    async def test_of_two_posts_at_the_same_place_one_is_written(self, store):  # proves: LOG-1
        row = await open_run(store, "po-1", worker=None)
        one, two = Hand(store, row, lane="post"), Hand(store, row, lane="post")
        await store.append(one.signal())
        with pytest.raises(LeaseLost):
            await store.append(two.signal(b"false"))
        stored = await read_stored(store, row.run_key)
        assert [entry.value for entry in stored.post] == [b"true"]

    async def test_nothing_is_posted_to_a_run_that_ended(self, store):  # proves: LOG-1
        hand = await open_held(store, "po-1")
        await store.append(hand.end())
        with pytest.raises(LeaseLost):
            await store.append(Hand(store, await row_of(store, "po-1"), lane="post").signal())
        assert (await read_stored(store, hand.row.run_key)).post == []

    # -- journals of our own, and quarantine ---------------------------------------------------------------------------

    async def test_an_incident_and_its_quarantine_are_one_commit(self, store):  # proves: LOG-3
        hand, other = await open_held(store, "po-1"), await open_held(store, "po-2")
        incidents = await open_incidents(store)
        await store.append(incident(incidents, hand.row, is_set=True))

        row = await row_of(store, "po-1")
        assert row.quarantined
        with pytest.raises(LeaseLost):
            await store.append(hand.step())
        assert not await is_written(store, Hand(store, row, lane="post").signal())
        assert await claim(store, row, "w-2", dead=WORKER) is None
        assert (await read_stored(store, row.run_key)).row.seq == 2
        await store.append(other.step())

        await store.append(incident(incidents, hand.row, is_set=False))
        assert not (await row_of(store, "po-1")).quarantined
        again = Hand(store, await row_of(store, "po-1"))
        await store.append(again.step())
        assert (await row_of(store, INCIDENTS)).seq == 3

    async def test_an_incident_that_came_too_late_sets_nobody_aside(self, store):  # proves: LOG-3
        hand = await open_held(store, "po-1")
        other = await open_held(store, "po-2")
        first = await open_incidents(store)
        late = Hand(store, await row_of(store, INCIDENTS))
        await store.append(incident(first, other.row, is_set=True))
        for unit in (incident(late, hand.row, is_set=True), incident(late, hand.row, is_set=False)):
            with pytest.raises(LeaseLost):
                await store.append(unit)
        assert not (await row_of(store, "po-1")).quarantined

    async def test_an_incident_says_where_the_run_ends_in_its_own_commit(self, store):  # proves: LOG-3
        """Its row was read before, and whoever holds the run went on until the commit."""
        hand = await open_held(store, "po-1")
        unit = telling(await open_incidents(store), hand.row)
        await store.append(hand.step())
        await store.append(Hand(store, await row_of(store, "po-1"), lane="post").signal())
        await store.append(unit)
        told, row = await told_last(store), await row_of(store, "po-1")
        assert (told.main, told.post) == (row.seq, row.post_seq) == (3, 1)
        own = await read_stored(store, (await row_of(store, INCIDENTS)).run_key)
        heads = chain.Heads(own.row.head, own.row.seq, own.row.post_head, own.row.post_seq)
        chain.verify(identity_of(store, own.row), heads, own.main, own.post)

    @pytest.mark.parametrize("place", range(4))
    async def test_what_is_written_beside_an_incident_is_counted_or_refused(self, store, place):  # proves: LOG-3
        """One batch has them all: nothing of a run stands behind where its incident says that it ended."""
        hand, other = await open_held(store, "po-1"), await open_held(store, "po-2")
        post = Hand(store, await row_of(store, "po-1"), lane="post")
        units = [hand.step(), other.step(), post.signal()]
        units.insert(place, telling(await open_incidents(store), hand.row))
        written = await asyncio.gather(*(is_written(store, unit) for unit in units))
        assert written[place] and written[units.index(next(u for u in units if u.run_key == other.row.run_key))]
        told, row = await told_last(store), await row_of(store, "po-1")
        assert (told.main, told.post) == (row.seq, row.post_seq)
        assert not await is_written(store, Hand(store, row).step())
        stored = await read_stored(store, row.run_key)
        assert (len(stored.main), len(stored.post)) == (told.main, told.post)

    async def test_a_worker_that_goes_on_writes_nothing_behind_the_incident(self, store):  # proves: LOG-3, OWN-3
        hand, incidents = await open_held(store, "po-1"), await open_incidents(store)

        async def work() -> None:
            with pytest.raises(LeaseLost):
                for _ in range(2_000):
                    await store.append(hand.step())

        worker = asyncio.create_task(work())
        while (await row_of(store, "po-1")).seq < 5:
            await asyncio.sleep(0)
        await store.append(telling(incidents, hand.row))
        await worker
        told, row = await told_last(store), await row_of(store, "po-1")
        assert told.main == row.seq == len((await read_stored(store, row.run_key)).main) > 4

    async def test_a_quarantine_is_laid_once_and_lifted_as_it_was_verified(self, store):  # proves: LOG-3
        """Of two who come upon a run the second would say where it ends by then, which a restore makes less."""
        row, incidents = (await open_held(store, "po-1")).row, await open_incidents(store)
        gone = replace(row, run_key=999_999)
        row = await row_of(store, "po-1")

        async def moved(overlay: Overlay) -> bool:
            hand = Hand(store, await row_of(store, INCIDENTS))
            unit = incident(hand, row, is_set=overlay.is_set)
            unit.quarantine = overlay
            try:
                await store.append(unit)
            except Moved as why:
                assert why.what == "quarantine"
                return True
            return False

        assert await moved(Overlay(gone.run_key, is_set=True))
        assert await moved(Overlay(row.run_key, is_set=False))
        assert not await moved(Overlay(row.run_key, is_set=True))
        assert await moved(Overlay(row.run_key, is_set=True))
        for ends in ((b"\1" * 32, row.post_head), (row.head, b"\1" * 32)):
            assert await moved(Overlay(row.run_key, is_set=False, ends=ends))
            assert (await row_of(store, "po-1")).quarantined
        assert not await moved(Overlay(row.run_key, is_set=False, ends=(row.head, row.post_head)))
        assert not (await row_of(store, "po-1")).quarantined
        assert (await row_of(store, INCIDENTS)).seq == 3 and incidents.row.seq == 1

    # -- reading ------------------------------------------------------------------------------------------------------

    async def test_odd_ids_are_literal(self, store):  # proves: C32
        for run in ODD_IDS:
            hand = await open_held(store, run)
            await store.append(hand.step())
            assert await store.open_run(opening(store, run)) is None
        for run in ODD_IDS:
            row = await row_of(store, run)
            assert row.run == run
            await read_view(store, row.run_key)
            found = await store.list_rows(RunFilter(TENANT, run_prefix=run))
            assert [other.run for other in found] == [run]

    async def test_a_prefix_has_no_wildcards(self, store):  # proves: C32
        for run in ODD_IDS:
            await open_run(store, run)

        async def found(prefix: str) -> set[str]:
            return {row.run for row in await store.list_rows(RunFilter(TENANT, run_prefix=prefix))}

        for prefix in ("%", "_", "a_", "a%", "*", "a*", "'", '"', "\\", "back\\", "emoji 🧾", "€€", "$1", "E"):
            assert await found(prefix) == {run for run in ODD_IDS if run.startswith(prefix)}, prefix

    async def test_tenants_see_their_own_runs(self, store):
        for tenant in ("a", "A", "a%"):
            await open_run(store, "po-1", tenant=tenant)
        assert (await row_of(store, "po-1", tenant="a")).tenant == "a"
        assert await store.read_row("b", "po-1") is None
        for tenant in ("a", "A", "a%"):
            assert [row.tenant for row in await store.list_rows(RunFilter(tenant))] == [tenant]

    async def test_lists_are_newest_first_filtered_and_paged(self, store):
        for i in range(6):
            await open_run(store, f"r-{i}", worker=None, flow="pay" if i % 2 else "ship")
        for i in (1, 2):
            hand = await take(store, await row_of(store, f"r-{i}"), WORKER)
            await store.append(hand.end())
        incidents = await open_incidents(store)
        await store.append(incident(incidents, await row_of(store, "r-3"), is_set=True))

        async def listed(**which: Any) -> list[str]:
            rows = await store.list_rows(RunFilter(TENANT, run_prefix="r-", **which))
            return [row.run for row in rows]

        assert await listed() == ["r-5", "r-4", "r-3", "r-2", "r-1", "r-0"]
        assert await listed(flow="pay") == ["r-5", "r-3", "r-1"]
        assert await listed(status="completed") == ["r-2", "r-1"]
        assert await listed(status="queued", flow="ship") == ["r-4", "r-0"]
        assert await listed(quarantined=True) == ["r-3"]
        assert "r-3" not in await listed(quarantined=False)
        assert await listed(limit=2) == ["r-5", "r-4"]
        assert await listed(limit=2, before_key=(await row_of(store, "r-4")).run_key) == ["r-3", "r-2"]
        everything = await listed(limit=99)
        for beyond in (2**63 - 1, 2**63, 10**23):
            assert await listed(limit=beyond, before_key=beyond) == everything
            assert await listed(limit=-beyond) == await listed(limit=9, before_key=-beyond) == []
        assert (await store.list_rows(RunFilter(TENANT, limit=1)))[0].run == "r-5"  # the incidents are no run
        assert await store.list_rows(RunFilter(TENANT, run_prefix="remit:")) == []
        assert [r.run for r in await store.list_rows(RunFilter(TENANT, status="completed"))] == ["r-2", "r-1"]

    async def test_what_was_read_is_not_changed_by_what_is_written_later(self, store):
        hand = await open_held(store, "po-1")
        before = await read_stored(store, hand.row.run_key)
        await store.append(hand.step())
        assert (before.row.seq, len(before.main)) == (2, 2)

    async def test_a_worker_is_known_by_what_it_said_last(self, store):  # proves: OWN-1
        await store.put_worker(WORKER_ROW)
        assert await store.read_worker(WORKER) == WORKER_ROW
        moved = WorkerRow(WORKER, "boot-2/ns", 6)
        await store.put_worker(moved)
        assert await store.read_worker(WORKER) == moved

    async def test_the_clock_that_was_given_is_the_stores(self, store, clock):
        assert await store.now() == clock.now()
        clock.move(timedelta(hours=1))
        assert await store.now() == clock.now()
        assert store.ledger.clock == "given"

    async def test_doctor_finds_a_new_store_in_order_and_counts_quarantine(self, store):
        assert [finding for finding in await store.examine() if not finding.ok] == []
        row = await open_run(store, "po-1")
        await store.append(incident(await open_incidents(store), row, is_set=True))
        (bad,) = [finding for finding in await store.examine() if not finding.ok]
        assert bad.name == "runs" and bad.hint

    # -- closing ------------------------------------------------------------------------------------------------------

    async def test_a_closed_store_refuses_everything(self, store):
        hand = await open_held(store, "po-1")
        renewer = await store.renewer()
        await renewer.close()
        await store.close()
        await store.close()
        for act in every_act(store, hand):
            with pytest.raises(StoreClosed) as refused:
                await act()
            assert refused.value.code == "store.closed"

    async def test_what_waits_when_the_store_closes_is_written(self, store):  # proves: RUN-3
        hand = await open_held(store, "po-1")
        waiting = asyncio.create_task(store.append(hand.step()))
        await asyncio.sleep(0)
        await store.close()
        await waiting
        await store.open()
        assert (await row_of(store, "po-1")).seq == 3

    async def test_a_store_belongs_to_the_loop_that_opened_it(self, store):
        hand = await open_held(store, "po-1")

        async def elsewhere() -> list[str]:
            codes = []
            for act in every_act(store, hand):
                with pytest.raises(StoreClosed) as refused:
                    await act()
                codes.append(refused.value.code)
            return codes

        assert set(await asyncio.to_thread(lambda: asyncio.run(elsewhere()))) == {"store.loop"}
        await store.append(Hand(store, await row_of(store, "po-1")).start())

    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the child does nothing but ask
    async def test_a_forked_child_is_refused_and_does_no_harm(self, store):
        hand = await open_held(store, "po-1")
        unit = hand.step()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                store.append(unit).send(None)
            except StoreClosed as refused:
                status = 0 if refused.code == "store.forked" else 2
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        await store.append(unit)
        assert (await read_stored(store, hand.row.run_key)).row.seq == 3

    # -- everything together ------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("seed", range(6))
    async def test_writers_at_random_agree_with_a_model(self, store, clock, seed):  # proves: OWN-1, OWN-3, LOG-1
        row = await open_run(store, "po-1", worker=None)
        await Rivals(store, clock, row, random.Random(seed)).play(turns=60)
        view = await read_view(store, row.run_key)
        assert len(view.attempts) >= 1


def every_act(store: Store, hand: Hand) -> list[Callable[[], Awaitable[Any]]]:
    """Everything that one can ask of a store."""
    key = hand.row.run_key
    unit, wish = hand.step(), opening(store, "late")
    return [
        lambda: store.append(unit),
        lambda: store.open_run(wish),
        lambda: store.claim(Claim(key, 1, "w-2", LEASE_MS)),
        lambda: store.release(key, 1),
        lambda: store.read_row(TENANT, "po-1"),
        lambda: store.read_run(key),
        lambda: store.list_rows(RunFilter(TENANT)),
        lambda: store.transact(lambda _: unit, limit_ms=1_000),
        lambda: store.peek(key),
        lambda: store.read_key(TENANT, "5eed"),
        lambda: store.read_used(TENANT, "a"),
        lambda: store.read_ask(TENANT, "a-1"),
        lambda: store.list_asks(AskFilter(TENANT)),
        lambda: store.read_outbox(TENANT, 0, 10),
        lambda: store.put_worker(WORKER_ROW),
        lambda: store.read_worker(WORKER),
        lambda: store.now(),
        lambda: store.examine(),
    ]


async def open_incidents(store: Store) -> Hand:
    """The journal `remit:incidents`, which nobody holds."""
    return Hand(store, await open_run(store, INCIDENTS, worker=None, flow=INCIDENTS))


def incident(incidents: Hand, row: RunRow, *, is_set: bool) -> Unit:
    fact = (
        RunQuarantined(code="chain.hash", gen=row.gen, run=row.run)
        if is_set
        else QuarantineLifted(gen=row.gen, run=row.run)
    )
    entry = incidents.seal(fact, value=b'{"detail":"why"}')
    return incidents.unit(entry, quarantine=Overlay(row.run_key, is_set=is_set))


def telling(incidents: Hand, row: RunRow) -> Unit:
    """An incident that says where the run ends, by its row in that very commit."""
    head, seq = incidents.pen.head, incidents.pen.seq

    def tell(run: Ended) -> Unit:
        incidents.pen.head, incidents.pen.seq = head, seq
        fact = RunQuarantined(code="chain.hash", gen=row.gen, main=run.seq, post=run.post_seq, run=row.run)
        return incidents.unit(incidents.seal(fact, value=b'{"detail":"why"}'))

    unit = tell(row)
    unit.quarantine = Overlay(row.run_key, is_set=True, tell=tell)
    return unit


async def told_last(store: Store) -> RunQuarantined:
    """The newest incident."""
    entries = (await read_stored(store, (await row_of(store, INCIDENTS)).run_key)).main
    return msgspec.json.decode(entries[-1].body, type=RunQuarantined)


class Rivals:
    """Two writers of one run who claim, append, release, renew and sleep at random, against a small model of it."""

    def __init__(self, store: Store, clock: MovedClock, row: RunRow, chance: random.Random) -> None:
        self.store, self.clock, self.chance = store, clock, chance
        self.key, self.head, self.seq = row.run_key, row.head, row.seq
        self.epoch, self.holder, self.until = row.epoch, "", 0
        self.hands: dict[str, Hand | None] = {"w-1": None, "w-2": None}

    async def play(self, turns: int) -> None:
        for _ in range(turns):
            worker = self.chance.choice(list(self.hands))
            acts = [self._append] * 4 + [self._claim] * 3 + [self._release, self._renew, self._sleep]
            await self.chance.choice(acts)(worker)
            row = (await read_stored(self.store, self.key)).row
            assert (row.head, row.seq, row.epoch, row.worker or "") == (self.head, self.seq, self.epoch, self.holder)

    async def _claim(self, worker: str) -> None:
        is_free = not self.holder or self.until <= self.clock.now()
        row = (await read_stored(self.store, self.key)).row
        claimed = await claim(self.store, row, worker)
        assert (claimed is not None) == is_free
        if claimed is not None:
            self.epoch, self.holder = self.epoch + 1, worker
            self.until = self.clock.now() + LEASE_MS * 1_000
            hand = self.hands[worker] = Hand(self.store, claimed)
            await self._write(hand, hand.start(worker))

    async def _append(self, worker: str) -> None:
        hand = self.hands[worker]
        if hand is not None and not await self._write(hand, hand.step()):
            # It goes on as a careless writer would: its next unit does not fit either.
            assert not await self._write(hand, hand.step())

    async def _write(self, hand: Hand, unit: Unit) -> bool:
        fits = unit.head_before == self.head and unit.epoch == self.epoch and self.until > self.clock.now()
        assert await is_written(self.store, unit) == fits
        if fits:
            self.head, self.seq = unit.head_after, unit.seq_after
        return fits

    async def _release(self, worker: str) -> None:
        hand = self.hands[worker]
        if hand is not None and hand.epoch is not None:
            is_held = bool(self.holder) and hand.epoch == self.epoch
            assert await self.store.release(self.key, hand.epoch) == is_held
            if is_held:
                self.holder, self.until = "", 0

    async def _renew(self, worker: str) -> None:
        hand = self.hands[worker]
        if hand is not None and hand.epoch is not None:
            is_held = self.holder == worker and hand.epoch == self.epoch
            renewer = await self.store.renewer()
            held = await renewer.renew(worker, [Renewal(self.key, hand.epoch)], lease_ms=LEASE_MS)
            await renewer.close()
            assert held.keys() == ({self.key} if is_held else set())
            if is_held:
                self.until = self.clock.now() + LEASE_MS * 1_000

    async def _sleep(self, worker: str) -> None:
        self.clock.move(LEASE * self.chance.choice([0.5, 1]))
