"""A unit and rows of an application in one transaction: both are there, or neither is.

TransactContract   databases; goes with SharedContract
RefusedTransact    stores that have no tables of anybody else's
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

import pytest

from remit.errors import LeaseLost, Moved, Refused, RemitError
from remit.facts.announced import DoubtTold
from remit.store.marks import Announce, Fence, Reserve
from remit.store.protocol import Store
from remit.store.units import Unit
from tests.contract.boundary import ELSEWHERE, open_authority, resting
from tests.contract.suite import row_of
from tests.support.journal import LEASE_MS, TENANT, Hand, fence_of, open_held, read_stored, read_view

LIMIT_MS = 5_000


class App(Protocol):
    """An application beside the store: a table `invoice` of its own in the same database."""

    def build(self, unit: Unit, *numbers: int, fails: BaseException | None = None, takes_ms: int = 0) -> Any:
        """What `transact` is given: writes invoices, may take its time or raise, and gives the unit."""

    async def invoices(self) -> list[int]:
        """What is committed, seen from outside."""


class TransactContract:
    """What every store with tables keeps; needs the fixture `app`."""

    async def test_both_are_written(self, store: Store, app: App):  # proves: FX-6
        authority, hand = await open_authority(store), await open_held(store, "po-1")
        unit = resting(hand, Reserve("a", 5, 10), Announce(DoubtTold(call="pay")), fence=fence_of(authority))
        await store.transact(app.build(unit, 1, 2), limit_ms=LIMIT_MS)
        assert await app.invoices() == [1, 2]
        assert list((await read_view(store, hand.row.run_key)).calls) == ["s-3"]
        assert await store.read_used(TENANT, "a") == 5
        assert [row.kind for row in await store.read_outbox(TENANT, 0, 9)] == ["DoubtTold"]
        await store.append(hand.step())

    @pytest.mark.parametrize("why", ["lease", "head", "authority", "post", "ceiling"])
    async def test_where_the_unit_is_refused_neither_is(self, store: Store, app: App, clock, why: str):  # proves: FX-6
        authority, hand = await open_authority(store), await open_held(store, "po-1")
        fence = Fence(authority.row.run_key, ELSEWHERE) if why == "authority" else fence_of(authority)
        unit = resting(hand, Reserve("a", 5, 4 if why == "ceiling" else 10), fence=fence)
        unit.post_head = ELSEWHERE if why == "post" else hand.row.post_head
        if why == "head":
            unit.head_before = b"\1" * 32
        if why == "lease":
            clock.move(timedelta(milliseconds=LEASE_MS))
        before = await read_stored(store, hand.row.run_key)
        with pytest.raises(LeaseLost if why in ("lease", "head") else Moved) as refused:
            await store.transact(app.build(unit, 1), limit_ms=LIMIT_MS)
        assert getattr(refused.value, "what", why) == why
        assert await app.invoices() == []
        assert await read_stored(store, hand.row.run_key) == before
        assert await store.read_used(TENANT, "a") == 0

    async def test_what_it_raises_comes_out_and_neither_is_written(self, store: Store, app: App):  # proves: FX-6
        hand = await open_held(store, "po-1")
        unit = hand.step()
        for fails in (ValueError("mine"), KeyError("k"), asyncio.CancelledError()):
            with pytest.raises(type(fails)) as raised:
                await store.transact(app.build(unit, 1, fails=fails), limit_ms=LIMIT_MS)
            assert raised.value is fails
            assert await app.invoices() == []
        await store.transact(app.build(unit, 1), limit_ms=LIMIT_MS)
        assert await app.invoices() == [1]

    async def test_an_application_s_own_constraint_is_its_own_error(self, store: Store, app: App):  # proves: FX-6
        hand = await open_held(store, "po-1")
        unit = hand.step()
        with pytest.raises(Exception, match=r"(?i)unique") as raised:
            await store.transact(app.build(unit, 1, 1), limit_ms=LIMIT_MS)
        assert not isinstance(raised.value, RemitError)
        assert (await app.invoices(), (await row_of(store, "po-1")).seq) == ([], 2)

    async def test_what_takes_too_long_is_rolled_back(self, store: Store, app: App):  # proves: FX-6
        hand = await open_held(store, "po-1")
        unit = hand.step()
        with pytest.raises(Refused) as refused:
            await store.transact(app.build(unit, 1, takes_ms=80), limit_ms=40)
        assert refused.value.code == "transact.late"
        assert (await app.invoices(), (await row_of(store, "po-1")).seq) == ([], 2)
        await store.append(unit)

    async def test_a_batch_that_waits_meanwhile_is_written_after_it(self, store: Store, app: App):  # proves: FX-6
        hands = [await open_held(store, f"po-{i}") for i in range(4)]
        whole = asyncio.create_task(store.transact(app.build(hands[0].step(), 1, takes_ms=30), limit_ms=LIMIT_MS))
        await asyncio.sleep(0)
        others = [asyncio.create_task(store.append(hand.step())) for hand in hands[1:]]
        done, _ = await asyncio.wait([whole, *others], return_when=asyncio.FIRST_COMPLETED)
        assert whole in done and whole.exception() is None
        await asyncio.gather(*others)
        for hand in hands:
            assert len((await read_view(store, hand.row.run_key)).calls) == 1

    async def test_many_at_once_take_turns_and_all_are_written(self, store: Store, rival: Store, app: App):
        hands = [(s, await open_held(s, f"po-{i}")) for i, s in enumerate((store, rival) * 6)]
        for _ in range(3):
            wishes = [
                s.append(hand.step()) if i % 4 > 1 else s.transact(app.build(hand.step(), *[]), limit_ms=LIMIT_MS)
                for i, (s, hand) in enumerate(hands)
            ]
            await asyncio.gather(*wishes)
        for s, hand in hands:
            assert len((await read_view(s, hand.row.run_key)).calls) == 3

    async def test_it_is_finished_before_the_store_is_closed(self, store: Store, app: App):  # proves: FX-6
        hand = await open_held(store, "po-1")
        whole = asyncio.create_task(store.transact(app.build(hand.step(), 1, takes_ms=30), limit_ms=LIMIT_MS))
        await asyncio.sleep(0)
        await store.close()
        await whole
        assert await app.invoices() == [1]


class RefusedTransact:
    """Nothing of the caller's is run where nothing of it could be kept."""

    async def test_a_transaction_of_the_caller_s_is_refused(self, store: Store):  # proves: FX-6
        hand = await open_held(store, "po-1")
        called: list[Any] = []
        build: Callable[[Any], Any] = called.append
        with pytest.raises(Refused) as refused:
            await store.transact(build, limit_ms=LIMIT_MS)
        assert (refused.value.code, called) == ("transact.store", [])
        await store.append(Hand(store, await row_of(store, "po-1")).step())
        assert (await row_of(store, "po-1")).seq == hand.row.seq + 2
