"""What a unit may rest on, and what stands beside the runs: both ways, alone and in company.

BoundaryContract    within one opening, for every store
LastingBoundary     what is still there when it is opened again
SharedBoundary      what several openings see of each other
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from remit.errors import LeaseLost, Moved
from remit.facts.announced import AskDecided, AskOpened, DoubtTold, write
from remit.facts.kinds import SignalSent
from remit.facts.names import AUTHORITY, INCIDENTS
from remit.store.marks import Announce, CloseAsk, Fence, FreeKey, Ground, Mark, OpenAsk, Reserve, TakeKey, Unreserve
from remit.store.protocol import Store
from remit.store.rows import AskFilter, KeyRow, OutboxRow
from remit.store.tables import INLINE_BYTES_MAX
from remit.store.units import Overlay, Unit
from tests.contract.suite import row_of
from tests.support.journal import TENANT, Hand, fence_of, open_held, open_run, opening, read_stored, read_view

OTHER = "tenant-b"
WRITTEN = "written"
ELSEWHERE = b"\7" * 32  # where no lane ends


async def open_authority(store: Store) -> Hand:
    """A journal that others rest on. It needs no lease."""
    return Hand(store, await open_run(store, AUTHORITY, worker=None, flow=AUTHORITY))


async def hand_of(store: Store, run: str, *, tenant: str = TENANT, lane: Any = "main") -> Hand:
    """Goes on where the run ends now."""
    return Hand(store, await row_of(store, run, tenant=tenant), lane=lane)


def resting(hand: Hand, *marks: Mark, fence: Fence | None = None, post_head: bytes | None = None) -> Unit:
    """A step, or a signal of lane post, that rests on something."""
    unit = hand.signal() if hand.lane == "post" else hand.step()
    unit.fence, unit.post_head, unit.marks = fence, post_head, marks
    return unit


async def fate(store: Store, unit: Unit) -> str:
    """What became of a unit: written, or why not."""
    try:
        await store.append(unit)
    except LeaseLost:
        return "lease"
    except Moved as moved:
        return moved.what
    return WRITTEN


async def fates(store: Store, *units: Unit) -> list[str]:
    """The same of units that wait together."""
    return list(await asyncio.gather(*(fate(store, unit) for unit in units)))


async def fresh_fate(store: Store, run: str, *marks: Mark, tenant: str = TENANT, **rest: Any) -> str:
    """What becomes of a unit that goes on where the run ends now."""
    return await fate(store, resting(await hand_of(store, run, tenant=tenant), *marks, **rest))


async def ground_of(store: Store) -> Ground:
    """Where the authority ends now."""
    row = await row_of(store, AUTHORITY)
    return Ground(row.run_key, row.seq, row.head)


async def opened(store: Store, run: str, ground: Ground | None, **given: Any) -> str:
    """What became of an opening: written, taken, or what moved."""
    try:
        return "taken" if await store.open_run(opening(store, run, ground=ground, **given)) is None else WRITTEN
    except Moved as moved:
        return moved.what


def ask(name: str, *roles: str, call: str = "pay") -> OpenAsk:
    return OpenAsk(name, call, roles or ("buyer",), 1_000, 2_000)


async def holder(store: Store, key: str, tenant: str = TENANT) -> tuple[str, str] | None:
    """Run and call that hold a business key. The run key is that of the run's row."""
    held = await store.read_key(tenant, key)
    if held is None:
        return None
    row = await store.read_row(tenant, held.run)
    assert row is not None and row.run_key == held.run_key
    return held.run, held.call


def told(name: str) -> Announce:
    return Announce(AskOpened(ask=name))


class BoundaryContract:
    """What every store keeps; goes with StoreContract, which makes the store."""

    # -- the fence ----------------------------------------------------------------------------------------------------

    async def test_a_fenced_unit_is_written_while_the_journal_ends_where_it_says(self, store):  # proves: GATE-2
        authority, hand = await open_authority(store), await open_held(store, "po-1")
        await store.append(authority.step())
        assert await fate(store, resting(hand, fence=fence_of(authority))) == WRITTEN
        assert await fate(store, resting(hand, fence=fence_of(authority))) == WRITTEN
        await read_view(store, hand.row.run_key)

    @pytest.mark.parametrize("where", ["behind", "another"])
    async def test_where_the_journal_moved_nothing_of_a_fenced_unit_is_written(self, store, where):  # proves: GATE-2
        """It ends in another entry: under a higher number, or under that very one, as after a failover that lost it."""
        authority, hand = await open_authority(store), await open_held(store, "po-1")
        lost = Hand(store, authority.row)
        lost.step(b"lost")
        fence = fence_of(lost if where == "another" else authority)
        await store.append(authority.step())
        before = await read_stored(store, hand.row.run_key)
        marks = (TakeKey("5eed", "pay"), Reserve("a", 5, 10), ask("a-1"), told("a-1"))
        assert await fate(store, resting(hand, *marks, fence=fence)) == "authority"

        assert await read_stored(store, hand.row.run_key) == before
        assert await beside(store) == (None, 0, None, [])
        assert await fresh_fate(store, "po-1", *marks, fence=fence_of(authority)) == WRITTEN
        assert (await beside(store))[:2] == (KeyRow(hand.row.run_key, "po-1", "pay"), 5)

    async def test_a_fence_on_a_journal_that_is_not_there_holds_nothing(self, store):  # proves: GATE-2
        hand = await open_held(store, "po-1")
        assert await fate(store, resting(hand, fence=Fence(999_999, hand.row.head))) == "authority"

    # -- the ground of a new run --------------------------------------------------------------------------------------

    async def test_a_run_is_opened_while_the_journal_ends_where_it_says(self, store):  # proves: GATE-2
        authority = await open_authority(store)
        await store.append(authority.step())
        assert await opened(store, "po-1", await ground_of(store)) == WRITTEN
        assert await opened(store, "po-2", await ground_of(store)) == WRITTEN
        assert await opened(store, "po-1", await ground_of(store)) == "taken"

    @pytest.mark.parametrize("spoil", ["behind", "ahead", "another", "set aside", "gone"])
    async def test_where_the_journal_moved_no_run_is_opened(self, store, spoil):  # proves: GATE-2
        authority = await open_authority(store)
        await store.append(authority.step())
        ground = await ground_of(store)
        if spoil == "behind":
            await store.append(authority.step())
        elif spoil == "ahead":
            ground = replace(ground, seq=3)
        elif spoil == "another":
            ground = replace(ground, head=b"\1" * 32)
        elif spoil == "set aside":
            incidents = Hand(store, await open_run(store, INCIDENTS, worker=None, flow=INCIDENTS))
            set_aside = incidents.seal(SignalSent(), value=b"1")
            await store.append(incidents.unit(set_aside, quarantine=Overlay(ground.run_key, is_set=True)))
        else:
            ground = replace(ground, run_key=999_999)
        assert await opened(store, "po-1", ground) == "authority"
        assert await store.read_row(TENANT, "po-1") is None

    async def test_openings_that_wait_together_stand_each_on_its_own_ground(self, store):  # proves: GATE-2
        authority = await open_authority(store)
        old = await ground_of(store)
        await store.append(authority.step())
        new = await ground_of(store)
        await open_run(store, "po-0")
        wishes = (("po-0", new), ("po-1", old), ("po-2", new), ("po-3", None), ("po-4", old), ("po-5", new))
        fates = await asyncio.gather(*(opened(store, run, ground) for run, ground in wishes))
        assert fates == ["taken", "authority", WRITTEN, WRITTEN, "authority", WRITTEN]

    async def test_a_large_input_is_opened_on_its_ground_too(self, store):  # proves: GATE-2
        authority = await open_authority(store)
        old, large = await ground_of(store), b'"%s"' % (b"x" * INLINE_BYTES_MAX)
        await store.append(authority.step())
        assert await opened(store, "po-1", old, value=large) == "authority"
        assert await opened(store, "po-1", await ground_of(store), value=large) == WRITTEN
        assert (await read_view(store, (await row_of(store, "po-1")).run_key)).input == large

    async def test_who_lost_its_lease_hears_that_whatever_else_moved(self, store, clock):  # proves: OWN-3
        authority = await open_authority(store)
        for number, spoil in enumerate(("lease", "epoch", "head")):
            hand = await open_held(store, f"po-{number}")
            fence = Fence(authority.row.run_key, ELSEWHERE)
            unit = resting(hand, Reserve("a", 2, 1), TakeKey("5eed", "pay"), fence=fence)
            unit.post_head = ELSEWHERE
            if spoil == "lease":
                clock.move(timedelta(days=1))
            elif spoil == "epoch":
                unit.epoch = 2
            else:
                unit.head_before = b"\1" * 32
            assert await fate(store, unit) == "lease", spoil

    async def test_a_ceiling_is_compared_also_where_nothing_more_is_taken_of_it(self, store):  # proves: FX-12
        """A call that is sent again holds its room already, and others may have come in between."""
        hands = [await open_held(store, f"po-{i}") for i in range(5)]
        assert await fate(store, resting(hands[0], Reserve("a", 0, 10))) == WRITTEN
        assert await store.read_used(TENANT, "a") == 0
        assert await fate(store, resting(hands[0], Reserve("a", 5, 10))) == WRITTEN
        assert await fate(store, resting(hands[0], Reserve("a", 0, 5))) == WRITTEN
        assert await fate(store, resting(hands[1], Reserve("a", 0, 4))) == "ceiling"
        in_company = [
            resting(hands[2], Reserve("a", 0, 5)),
            resting(hands[3], Reserve("a", 3, 10)),
            resting(hands[4], Reserve("a", 0, 7)),
        ]
        assert await fates(store, *in_company) == [WRITTEN, WRITTEN, "ceiling"]
        assert await store.read_used(TENANT, "a") == 8

    async def test_notes_of_units_that_wait_together_are_written_with_them(self, store):  # proves: OWN-3
        hand, other = await open_held(store, "po-1"), await open_held(store, "po-2")
        lost = await open_held(store, "po-3")
        await store.append(resting(hand, TakeKey("5eed", "pay"), Reserve("a", 5, 10)))
        before = store.counters.units
        units = [
            hand.step(),
            resting(hand, FreeKey("5eed"), ask("a-1")),
            resting(hand, Unreserve("a", 2), told("a-1")),
            resting(other, told("a-2")),
            resting(lost, told("a-3"), ask("a-2")),
        ]
        units[-1].epoch = 9

        fates = await asyncio.gather(*(fate(store, unit) for unit in units))

        assert fates == [*[WRITTEN] * 4, "lease"]
        assert store.counters.units == before + 3  # those of one run are one
        assert await store.read_key(TENANT, "5eed") is None
        assert await store.read_used(TENANT, "a") == 3
        assert [row.ask for row in await store.list_asks(AskFilter(TENANT))] == ["a-1"]
        assert sorted(row.data for row in await store.read_outbox(TENANT, 0, 9)) == [b'{"ask":"a-1"}', b'{"ask":"a-2"}']
        assert (await read_stored(store, hand.row.run_key)).row.seq == 6

    async def test_each_of_a_batch_hears_its_own_answer(self, store):  # proves: OWN-3, GATE-2
        authority = await open_authority(store)
        right, wrong = fence_of(authority), Fence(authority.row.run_key, ELSEWHERE)
        hands = [await open_held(store, f"po-{i}") for i in range(8)]
        units = [
            resting(hands[0], fence=right),
            resting(hands[1], fence=wrong),
            hands[2].step(),
            resting(hands[3], post_head=hands[3].row.post_head),
            resting(hands[4], post_head=ELSEWHERE),
            resting(hands[5], Reserve("a", 2, 1)),
            resting(hands[6], TakeKey("5eed", "pay"), fence=right),
            resting(hands[7], fence=right),
        ]
        units[7].head_before = b"\1" * 32
        commits = store.counters.commits
        expected = [WRITTEN, "authority", WRITTEN, WRITTEN, "post", "ceiling", WRITTEN, "lease"]
        assert await fates(store, *units) == expected
        assert store.url.startswith("two-method:") or store.counters.commits == commits + 1
        for i, hand in enumerate(hands):
            is_there = expected[i] == WRITTEN
            assert len((await read_view(store, hand.row.run_key)).calls) == is_there

    async def test_what_moves_the_journal_goes_before_those_that_wait_with_it(self, store):  # proves: GATE-2
        """Whoever revokes and is answered together with an effect stopped it."""
        authority, hands = await open_authority(store), [await open_held(store, f"po-{i}") for i in range(3)]
        fenced = [resting(hand, fence=fence_of(authority)) for hand in hands]
        answers = await fates(store, fenced[0], fenced[1], authority.step(), fenced[2])
        assert answers == ["authority", "authority", WRITTEN, "authority"]

    async def test_the_journal_itself_may_be_fenced(self, store):
        authority = await open_authority(store)
        fence = fence_of(authority)
        assert await fate(store, resting(authority, fence=fence)) == WRITTEN
        assert await fresh_fate(store, AUTHORITY, fence=fence) == "authority"

    async def test_lane_post_may_be_fenced(self, store):  # proves: APR-2
        authority, hand = await open_authority(store), await open_held(store, "po-1")
        post, fence = await hand_of(store, "po-1", lane="post"), fence_of(authority)
        assert await fate(store, resting(post, fence=fence)) == WRITTEN
        await store.append(authority.step())
        assert await fate(store, resting(post, fence=fence)) == "authority"
        assert (await row_of(store, "po-1")).post_seq == 1
        await store.append(hand.step())

    # -- lane post ----------------------------------------------------------------------------------------------------

    async def test_a_unit_may_rest_on_where_lane_post_ends(self, store):  # proves: GATE-2
        hand = await open_held(store, "po-1")
        post_head = hand.row.post_head
        assert await fate(store, resting(hand, post_head=post_head)) == WRITTEN
        await store.append((await hand_of(store, "po-1", lane="post")).signal())
        before = await read_stored(store, hand.row.run_key)
        assert await fate(store, resting(hand, Reserve("a", 5, 10), post_head=post_head)) == "post"
        assert await read_stored(store, hand.row.run_key) == before
        assert await store.read_used(TENANT, "a") == 0
        assert await fresh_fate(store, "po-1", post_head=before.row.post_head) == WRITTEN

    async def test_another_entry_at_the_same_place_of_lane_post_is_not_the_one_that_was_read(self, store):
        """Such a one stands there after a failover, or the restore of a backup, that lost what was read."""
        hand = await open_held(store, "po-1")
        lost, post = [await hand_of(store, "po-1", lane="post") for _ in range(2)]
        lost.signal(b"false")
        await store.append(post.signal(b"true"))
        marked = (Reserve("a", 5, 10), told("a-1"))
        for marks in ((), marked[1:], marked):
            assert await fresh_fate(store, "po-1", *marks, post_head=lost.pen.head) == "post"
            assert await fresh_fate(store, "po-1", *marks, post_head=post.pen.head) == WRITTEN
        await read_view(store, hand.row.run_key)

    async def test_a_unit_that_ends_the_run_may_rest_on_it_too(self, store):
        hand = await open_held(store, "po-1")
        await store.append((await hand_of(store, "po-1", lane="post")).signal())
        unit = hand.end()
        unit.post_head = hand.row.post_head
        assert await fate(store, unit) == "post"
        row = await row_of(store, "po-1")
        assert (row.status, row.worker) == ("running", "w-1")
        hand = Hand(store, row)
        unit = hand.end()
        unit.post_head = row.post_head
        assert await fate(store, unit) == WRITTEN

    async def test_lane_post_may_rest_on_itself(self, store):
        await open_held(store, "po-1")
        post = await hand_of(store, "po-1", lane="post")
        assert await fate(store, resting(post, post_head=post.row.post_head)) == WRITTEN
        assert await fate(store, resting(post, post_head=post.row.post_head)) == "post"

    # -- in company of its own run ------------------------------------------------------------------------------------

    async def test_units_of_one_run_that_wait_together_keep_their_order(self, store):  # proves: RUN-3
        authority, hand = await open_authority(store), await open_held(store, "po-1")
        fence = fence_of(authority)
        units = [hand.step(), hand.step(), resting(hand, fence=fence), hand.step(), hand.step()]
        units += [resting(hand, Reserve("a", 1, 9)), resting(hand, fence=fence), hand.step()]
        assert await fates(store, *units) == [WRITTEN] * 8
        view = await read_view(store, hand.row.run_key)
        assert list(view.calls) == [f"s-{seq}" for seq in range(3, 11)]

    async def test_what_follows_a_refused_unit_is_refused_and_what_went_before_it_is_not(self, store):
        authority, hand = await open_authority(store), await open_held(store, "po-1")
        wrong = Fence(authority.row.run_key, ELSEWHERE)
        units = [hand.step(), resting(hand, fence=wrong), hand.step(), resting(hand, post_head=hand.row.post_head)]
        assert await fates(store, *units) == [WRITTEN, "authority", "lease", "lease"]
        assert await fresh_fate(store, "po-1") == WRITTEN
        assert list((await read_view(store, hand.row.run_key)).calls) == ["s-3", "s-4"]

    async def test_of_two_that_extend_one_head_the_one_that_may_be_written_is(self, store):
        authority, hand = await open_authority(store), await open_held(store, "po-1")
        row = await row_of(store, "po-1")
        refused = resting(Hand(store, row), fence=Fence(authority.row.run_key, ELSEWHERE))
        assert await fates(store, refused, Hand(store, row).step(), hand.step()) == ["authority", WRITTEN, "lease"]

    # -- business keys ------------------------------------------------------------------------------------------------

    async def test_a_business_key_is_held_by_one_call(self, store):  # proves: FX-8
        for run in ("po-1", "po-2"):
            await open_held(store, run)
        assert await store.read_key(TENANT, "5eed") is None
        assert await fresh_fate(store, "po-1", TakeKey("5eed", "pay")) == WRITTEN
        assert await holder(store, "5eed") == ("po-1", "pay")
        assert await fresh_fate(store, "po-1", TakeKey("5eed", "pay")) == WRITTEN
        assert await fresh_fate(store, "po-1", TakeKey("5eed", "pay#2")) == "business"
        assert await fresh_fate(store, "po-2", TakeKey("5eed", "pay")) == "business"
        assert await fresh_fate(store, "po-2", TakeKey("5eed0", "pay")) == WRITTEN
        assert await holder(store, "5eed") == ("po-1", "pay")

    async def test_a_business_key_is_given_back_by_its_holder_alone(self, store):  # proves: FX-8
        for run in ("po-1", "po-2"):
            await open_held(store, run)
        await fresh_fate(store, "po-1", TakeKey("5eed", "pay"))
        assert await fresh_fate(store, "po-2", FreeKey("5eed")) == WRITTEN
        assert await holder(store, "5eed") == ("po-1", "pay")
        assert await fresh_fate(store, "po-1", FreeKey("5eed")) == WRITTEN
        assert await store.read_key(TENANT, "5eed") is None
        assert await fresh_fate(store, "po-2", TakeKey("5eed", "pay")) == WRITTEN

    async def test_a_unit_may_give_a_key_back_and_take_it_for_another_call(self, store):
        await open_held(store, "po-1")
        await fresh_fate(store, "po-1", TakeKey("5eed", "pay"))
        assert await fresh_fate(store, "po-1", FreeKey("5eed"), TakeKey("5eed", "pay#2")) == WRITTEN
        assert await holder(store, "5eed") == ("po-1", "pay#2")

    async def test_of_many_that_want_a_business_key_at_once_one_has_it(self, store):  # proves: FX-8
        hands = [await open_held(store, f"po-{i}") for i in range(6)]
        answers = await fates(store, *(resting(hand, TakeKey("5eed", "pay")) for hand in hands))
        assert sorted(answers) == ["business"] * 5 + [WRITTEN]
        assert await holder(store, "5eed") == (f"po-{answers.index(WRITTEN)}", "pay")
        for i, hand in enumerate(hands):
            assert len((await read_stored(store, hand.row.run_key)).main) == 2 + (answers[i] == WRITTEN)

    async def test_a_key_that_one_of_a_batch_gives_back_is_had_at_the_latest_by_the_next(self, store):  # proves: FX-8
        for run in ("po-1", "po-2"):
            await open_held(store, run)
        await fresh_fate(store, "po-1", TakeKey("5eed", "pay"))
        free = resting(await hand_of(store, "po-1"), FreeKey("5eed"))
        take = resting(await hand_of(store, "po-2"), TakeKey("5eed", "pay"))
        first, second = await fates(store, free, take)
        assert first == WRITTEN and second in (WRITTEN, "business")
        if second == "business":
            assert await fresh_fate(store, "po-2", TakeKey("5eed", "pay")) == WRITTEN
        assert await holder(store, "5eed") == ("po-2", "pay")

    # -- ceilings -----------------------------------------------------------------------------------------------------

    async def test_a_ceiling_is_used_up_to_its_last_unit_and_not_beyond(self, store):  # proves: GATE-3
        await open_held(store, "po-1")
        assert await fresh_fate(store, "po-1", Reserve("pay:run", 70, 100)) == WRITTEN
        assert await fresh_fate(store, "po-1", Reserve("pay:run", 31, 100)) == "ceiling"
        assert await store.read_used(TENANT, "pay:run") == 70
        assert await fresh_fate(store, "po-1", Reserve("pay:run", 30, 100)) == WRITTEN
        assert await fresh_fate(store, "po-1", Reserve("pay:run", 0, 100)) == WRITTEN
        assert await fresh_fate(store, "po-1", Reserve("pay:run", 0, 99)) == "ceiling"  # it was lowered meanwhile
        assert await fresh_fate(store, "po-1", Reserve("pay", 101, 100)) == "ceiling"
        assert await fresh_fate(store, "po-1", Reserve("pay", 100, 100)) == WRITTEN
        assert await store.read_used(TENANT, "pay:run") == 100

    async def test_what_was_reserved_is_given_back_and_never_more(self, store):
        await open_held(store, "po-1")
        await fresh_fate(store, "po-1", Reserve("a", 70, 100))
        assert await fresh_fate(store, "po-1", Unreserve("a", 30), Reserve("a", 60, 100)) == WRITTEN
        assert await store.read_used(TENANT, "a") == 100
        assert await fresh_fate(store, "po-1", Unreserve("a", 101), Unreserve("b", 1)) == WRITTEN
        assert (await store.read_used(TENANT, "a"), await store.read_used(TENANT, "b")) == (0, 0)

    async def test_units_of_one_batch_see_what_the_others_reserve(self, store):  # proves: GATE-3
        hands = [await open_held(store, f"po-{i}") for i in range(5)]
        answers = await fates(store, *(resting(hand, Reserve("a", 30, 100)) for hand in hands))
        assert Counter(answers) == {WRITTEN: 3, "ceiling": 2}
        assert await store.read_used(TENANT, "a") == 90
        for i, hand in enumerate(hands):
            assert len((await read_stored(store, hand.row.run_key)).main) == 2 + (answers[i] == WRITTEN)

    async def test_a_unit_reserves_all_that_it_needs_or_nothing(self, store):  # proves: GATE-3
        await open_held(store, "po-1")
        twice = (Reserve("a", 60, 100), Reserve("a", 60, 100))
        both = (TakeKey("5eed", "pay"), Reserve("a", 60, 100), ask("a-1"), Reserve("b", 60, 50))
        assert await fresh_fate(store, "po-1", *twice) == "ceiling"
        assert await fresh_fate(store, "po-1", *both) == "ceiling"
        assert await beside(store) == (None, 0, None, [])
        assert (await row_of(store, "po-1")).seq == 2

    async def test_amounts_as_large_as_the_store_can_hold_are_counted_exactly(self, store):  # proves: GATE-3
        most = 2**63 - 1
        await open_held(store, "po-1")
        assert await fresh_fate(store, "po-1", Reserve("a", most - 1, most)) == WRITTEN
        assert await fresh_fate(store, "po-1", Reserve("a", 2, most)) == "ceiling"
        assert await fresh_fate(store, "po-1", Reserve("a", most, most)) == "ceiling"
        assert await fresh_fate(store, "po-1", Reserve("a", 1, most)) == WRITTEN
        assert await store.read_used(TENANT, "a") == most
        assert await fresh_fate(store, "po-1", Unreserve("a", most)) == WRITTEN
        assert await store.read_used(TENANT, "a") == 0

    # -- questions and announcements ----------------------------------------------------------------------------------

    async def test_open_questions_are_listed_oldest_first_by_role_and_in_pages(self, store):  # proves: APR-1
        await open_held(store, "po-1"), await open_held(store, "po-2")
        roles = [("buyer",), ("director", "buyer"), ("director",), ("buyer",)]
        for number, each in enumerate(roles):
            run = "po-2" if number % 2 else "po-1"
            assert await fresh_fate(store, run, ask(f"a-{number}", *each, call=f"pay#{number}")) == WRITTEN

        async def listed(**which: Any) -> list[str]:
            return [row.ask for row in await store.list_asks(AskFilter(TENANT, **which))]

        assert await listed() == ["a-0", "a-1", "a-2", "a-3"]
        assert await listed(role="buyer") == ["a-0", "a-1", "a-3"]
        assert await listed(role="director") == ["a-1", "a-2"]
        assert await listed(role="direct") == []
        for beyond in (2**63 - 1, 2**63, 10**23):
            assert await listed(limit=beyond, after=-beyond) == await listed()
            assert await listed(after=beyond) == await listed(limit=-beyond) == []
        page = await store.list_asks(AskFilter(TENANT, role="buyer", limit=2))
        assert [row.ask for row in page] == ["a-0", "a-1"]
        assert await listed(role="buyer", after=page[-1].number) == ["a-3"]
        assert await listed(limit=3, after=page[0].number) == ["a-1", "a-2", "a-3"]
        row = page[1]
        assert (row.run, row.call, row.roles, row.is_open) == ("po-2", "pay#1", ("director", "buyer"), True)
        assert (row.run_key, row.asked_at, row.until) == ((await row_of(store, "po-2")).run_key, 1_000, 2_000)
        assert await store.read_ask(TENANT, "a-1") == row

    async def test_a_closed_question_is_read_and_not_listed(self, store):  # proves: APR-1
        await open_held(store, "po-1")
        await fresh_fate(store, "po-1", ask("a-1", "buyer", "director"), ask("a-2"))
        assert await fresh_fate(store, "po-1", CloseAsk("a-1"), CloseAsk("never")) == WRITTEN
        for role in (None, "buyer", "director"):
            found = await store.list_asks(AskFilter(TENANT, role=role))
            assert [row.ask for row in found] == ([] if role == "director" else ["a-2"])
        closed = await store.read_ask(TENANT, "a-1")
        assert closed is not None and (closed.is_open, closed.roles) == (False, ("buyer", "director"))
        assert await store.read_ask(TENANT, "never") is None

    @pytest.mark.parametrize("is_closed", [False, True])
    async def test_a_question_that_is_opened_again_is_shown_under_its_number(self, store, is_closed):
        await open_held(store, "po-1")
        await fresh_fate(store, "po-1", ask("a-1", "buyer", "director"))
        before = await store.read_ask(TENANT, "a-1")
        if is_closed:
            await fresh_fate(store, "po-1", CloseAsk("a-1"))
        assert await fresh_fate(store, "po-1", ask("a-1", "director", "director", "auditor")) == WRITTEN
        row = await store.read_ask(TENANT, "a-1")
        assert before is not None and row is not None and (row.number, row.is_open) == (before.number, True)
        assert await store.list_asks(AskFilter(TENANT, role="buyer")) == []
        for role in ("director", "auditor"):
            assert await store.list_asks(AskFilter(TENANT, role=role)) == [row]

    async def test_what_is_announced_is_read_in_order_with_the_time_of_its_commit(self, store, clock):  # proves: APR-6
        await open_held(store, "po-1")
        first = clock.now()
        await fresh_fate(store, "po-1", told("a-1"), Announce(DoubtTold(call="£")))
        clock.move(timedelta(seconds=1))
        await fresh_fate(store, "po-1", told("a-2"))
        rows = await store.read_outbox(TENANT, 0, 10)
        assert rows == [
            OutboxRow(rows[0].number, TENANT, "po-1", "AskOpened", b'{"ask":"a-1"}', first),
            OutboxRow(rows[1].number, TENANT, "po-1", "DoubtTold", b'{"call":"\xc2\xa3"}', first),
            OutboxRow(rows[2].number, TENANT, "po-1", "AskOpened", b'{"ask":"a-2"}', first + 1_000_000),
        ]
        assert 0 < rows[0].number < rows[1].number < rows[2].number
        assert await store.read_outbox(TENANT, rows[0].number, 1) == rows[1:2]
        assert await store.read_outbox(TENANT, rows[2].number, 10) == []

    async def test_a_decision_in_lane_post_closes_its_question_and_announces(self, store):  # proves: APR-2, APR-6
        authority, hand = await open_authority(store), await open_held(store, "po-1")
        await fresh_fate(store, "po-1", ask("a-1"))
        marks, fence = (CloseAsk("a-1"), Announce(AskDecided(ask="a-1"))), fence_of(authority)
        post = await hand_of(store, "po-1", lane="post")
        assert await fate(store, resting(post, *marks, fence=fence)) == WRITTEN
        assert await fate(store, resting(await hand_of(store, "po-1", lane="post"), *marks, fence=fence)) == WRITTEN
        assert await store.list_asks(AskFilter(TENANT)) == []
        assert [row.kind for row in await store.read_outbox(TENANT, 0, 10)] == ["AskDecided"] * 2
        stored = await read_stored(store, hand.row.run_key)
        assert (stored.row.post_seq, len(stored.post)) == (2, 2)

    async def test_of_two_deciders_at_once_one_is_written_with_its_marks(self, store):  # proves: APR-5
        await open_held(store, "po-1")
        hands = [await hand_of(store, "po-1", lane="post") for _ in range(3)]
        units = [resting(hand, told(f"by-{i}"), post_head=hand.row.post_head) for i, hand in enumerate(hands)]
        answers = await fates(store, *units)
        assert sorted(answers) == ["lease", "lease", WRITTEN]
        assert [row.data for row in await store.read_outbox(TENANT, 0, 10)] == [
            write(told(f"by-{answers.index(WRITTEN)}").told)
        ]

    async def test_a_run_that_ended_takes_no_decision(self, store):  # proves: APR-5
        hand = await open_held(store, "po-1")
        await store.append(hand.end())
        post = await hand_of(store, "po-1", lane="post")
        assert await fate(store, resting(post, told("late"))) == "lease"
        assert await store.read_outbox(TENANT, 0, 10) == []

    # -- reading ------------------------------------------------------------------------------------------------------

    async def test_a_peek_says_where_a_journal_ends_and_what_time_it_is(self, store, clock):  # proves: GATE-2
        authority = await open_authority(store)
        for _ in range(2):
            row = await row_of(store, AUTHORITY)
            assert await store.peek(row.run_key) == (row.seq, row.head, False, clock.now())
            clock.move(timedelta(seconds=1))
            await store.append(authority.step())
        assert await store.peek(999_999) is None

    async def test_what_nobody_wrote_is_not_there(self, store):
        assert await beside(store) == (None, 0, None, [])
        assert await store.list_asks(AskFilter(TENANT)) == []

    # -- everything together ------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("seed", range(4))
    async def test_keys_and_ceilings_at_random_agree_with_a_model(self, store, seed):  # proves: FX-8, GATE-3
        chance = random.Random(seed)
        runs = [f"po-{i}" for i in range(4)]
        for run in runs:
            await open_held(store, run)
        held: dict[str, str] = {}
        used = {"a": 0, "b": 0}
        for _ in range(40):
            run, key, scope = chance.choice(runs), chance.choice("xyz"), chance.choice("ab")
            amount, is_taking = chance.randrange(0, 40), chance.random() < 0.6
            if is_taking:
                marks: tuple[Mark, ...] = (TakeKey(key, "pay"), Reserve(scope, amount, 100))
            else:
                marks = (FreeKey(key), Unreserve(scope, amount))
            expected = WRITTEN
            if is_taking and held.get(key, run) != run:
                expected = "business"
            elif is_taking and used[scope] + amount > 100:
                expected = "ceiling"
            elif is_taking:
                held[key], used[scope] = run, used[scope] + amount
            else:
                held = {k: r for k, r in held.items() if (k, r) != (key, run)}
                used[scope] = max(used[scope] - amount, 0)
            assert await fresh_fate(store, run, *marks) == expected
            found = {k: row.run for k in "xyz" if (row := await store.read_key(TENANT, k)) is not None}
            assert (found, {s: await store.read_used(TENANT, s) for s in "ab"}) == (held, used)


async def beside(store: Store) -> tuple[Any, ...]:
    """What the tests above write beside a run: nothing of it is there where a unit was refused."""
    key, used = await store.read_key(TENANT, "5eed"), await store.read_used(TENANT, "a")
    return key, used, await store.read_ask(TENANT, "a-1"), await store.read_outbox(TENANT, 0, 10)


class LastingBoundary(BoundaryContract):
    """What is still there when the storage is opened again."""

    async def test_what_belongs_to_one_tenant_is_nothing_to_another(self, store):  # proves: APR-1, FX-8
        for tenant in (TENANT, OTHER):
            hand = Hand(store, await open_run(store, "po-1", tenant=tenant))
            await store.append(hand.start())
        marks = (TakeKey("5eed", "pay"), Reserve("a", 60, 100), ask("a-1"))
        assert await fresh_fate(store, "po-1", *marks) == WRITTEN
        assert await store.read_key(OTHER, "5eed") is None
        assert await store.read_used(OTHER, "a") == 0
        assert await store.read_ask(OTHER, "a-1") is None
        assert await store.list_asks(AskFilter(OTHER)) == await store.list_asks(AskFilter(OTHER, role="buyer")) == []

        assert await fresh_fate(store, "po-1", *marks, tenant=OTHER) == WRITTEN
        assert await fresh_fate(store, "po-1", FreeKey("5eed"), CloseAsk("a-1"), Unreserve("a", 60)) == WRITTEN
        assert await holder(store, "5eed", OTHER) == ("po-1", "pay")
        assert await store.read_used(OTHER, "a") == 60
        for role in (None, "buyer"):
            assert [row.ask for row in await store.list_asks(AskFilter(OTHER, role=role))] == ["a-1"]

    async def test_what_is_announced_in_one_tenant_is_told_to_no_other(self, store):  # proves: APR-11
        for tenant in (TENANT, OTHER):
            await open_run(store, "po-1", tenant=tenant)
        for number in range(4):
            await fresh_fate(store, "po-1", told(f"a-{number}"), tenant=(TENANT, OTHER)[number % 2])
        mine, theirs = await store.read_outbox(TENANT, 0, 9), await store.read_outbox(OTHER, 0, 9)
        assert [row.data for row in mine] == [write(told(f"a-{number}").told) for number in (0, 2)]
        assert [row.data for row in theirs] == [write(told(f"a-{number}").told) for number in (1, 3)]
        assert mine[0].number < theirs[0].number < mine[1].number < theirs[1].number
        assert await store.read_outbox(OTHER, theirs[0].number, 1) == theirs[1:]
        assert await store.read_outbox("third", 0, 9) == []

    async def test_what_stands_beside_the_runs_lasts(self, store, reopen):  # proves: FX-8, GATE-3, APR-1
        await open_held(store, "po-1")
        marks = (TakeKey("5eed", "pay"), Reserve("a", 60, 100), ask("a-1"), ask("a-2"), told("one"))
        await fresh_fate(store, "po-1", *marks)
        await fresh_fate(store, "po-1", CloseAsk("a-1"))
        before = await beside(store)
        listed = await store.list_asks(AskFilter(TENANT, role="buyer"))

        store = await reopen()
        assert await beside(store) == before
        assert await store.list_asks(AskFilter(TENANT, role="buyer")) == listed
        assert await fresh_fate(store, "po-1", Reserve("a", 41, 100)) == "ceiling"
        assert await fresh_fate(store, "po-1", TakeKey("5eed", "other")) == "business"
        assert await fresh_fate(store, "po-1", ask("a-3"), told("two")) == WRITTEN
        numbers = [row.number for row in await store.list_asks(AskFilter(TENANT))]
        assert numbers[0] == listed[0].number and numbers[1] > numbers[0]
        first, second = await store.read_outbox(TENANT, 0, 10)
        assert (second.data, second.number > first.number) == (write(told("two").told), True)


class SharedBoundary(LastingBoundary):
    """What several openings of one storage see of each other; each stands for a process."""

    async def test_a_revocation_by_another_process_stops_what_rests_on_it(self, store, rival):  # proves: GATE-2
        authority = await open_authority(rival)
        hand = await open_held(store, "po-1")
        fence = fence_of(authority)
        assert await fate(store, resting(hand, fence=fence)) == WRITTEN
        await rival.append(authority.step())
        assert await fate(store, resting(hand, fence=fence)) == "authority"

    async def test_no_fenced_unit_is_written_behind_a_revocation_that_was_answered(self, store, rival):
        """Effects and revocations race: what was judged under a version is written before the next one is answered."""
        authority = await open_authority(rival)
        hands = [await open_held(store, f"po-{i}") for i in range(8)]
        version, answered, seen_as = 1, 1, {1: fence_of(authority)}

        async def work(hand: Hand) -> None:
            for _ in range(12):
                seen = version
                was_answered = answered
                what = await fresh_fate(store, hand.row.run, fence=seen_as[seen])
                assert what == WRITTEN or what == "authority"
                if what == WRITTEN:
                    assert was_answered <= seen  # or the revocation had been answered before we began
                await asyncio.sleep(0)

        async def revoke() -> None:
            nonlocal version, answered
            for _ in range(12):
                await rival.append(authority.step())
                answered = authority.pen.seq
                seen_as[answered] = fence_of(authority)
                await asyncio.sleep(0)
                version = authority.pen.seq  # seen by the workers a turn later: some come with an old one

        await asyncio.gather(revoke(), *(work(hand) for hand in hands))
        for hand in hands:
            await read_view(rival, hand.row.run_key)

    async def test_of_processes_that_race_for_a_business_key_one_has_it(self, store, rival):  # proves: FX-8
        hands = [(s, await open_held(s, f"po-{i}")) for i, s in enumerate((store, rival) * 4)]
        for turn in range(6):
            key = f"key-{turn}"
            wishes = [fate(s, resting(hand, TakeKey(key, "pay"))) for s, hand in hands]
            answers = await asyncio.gather(*wishes)
            assert sorted(answers) == ["business"] * 7 + [WRITTEN]
            winner = f"po-{answers.index(WRITTEN)}"
            assert await holder(store, key) == await holder(rival, key) == (winner, "pay")
            hands = [(s, await hand_of(s, hand.row.run)) for s, hand in hands]

    async def test_processes_together_stay_under_a_ceiling(self, store, rival):  # proves: GATE-3
        hands = [(s, await open_held(s, f"po-{i}")) for i, s in enumerate((store, rival) * 6)]
        answers: list[str] = []
        for _ in range(3):
            answers += await asyncio.gather(*(fate(s, resting(hand, Reserve("a", 7, 100))) for s, hand in hands))
            hands = [(s, await hand_of(s, hand.row.run)) for s, hand in hands]
        assert Counter(answers) == {WRITTEN: 14, "ceiling": 22}
        assert await store.read_used(TENANT, "a") == await rival.read_used(TENANT, "a") == 98

    async def test_processes_that_want_the_same_in_another_order_all_get_an_answer(self, store, rival):
        """Locks are taken in one order, whatever the order of the marks is."""
        hands = [(s, await open_held(s, f"po-{i}")) for i, s in enumerate((store, rival) * 4)]
        ahead = (Reserve("a", 1, 999), Reserve("b", 1, 999), Reserve("c", 1, 999))
        for _ in range(6):
            units = [(s, resting(hand, *(ahead if s is store else ahead[::-1]))) for s, hand in hands]
            assert set(await asyncio.gather(*(fate(s, unit) for s, unit in units))) == {WRITTEN}
        assert [await store.read_used(TENANT, scope) for scope in "abc"] == [48, 48, 48]
