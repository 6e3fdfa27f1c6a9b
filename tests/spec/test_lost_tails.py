"""A store that loses its newest entries while a worker lives: a failover to a standby that was behind, an older backup.

Others then write as many as were lost, under the same numbers. Who had read the lost ones takes none of
the new ones for them: nothing is done that rests on what nobody can read any more.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

import remit
from remit.clock import monotonic_ms
from remit.engine.process.lease import Keeper
from remit.facts.names import AUTHORITY
from tests.spec.conftest import Storage
from tests.support.journal import WORKER, Hand, open_held
from tests.support.till import Order, Till
from tests.support.vault import Kept, Vault

BUYER, DORA, ROOT = "agent:buyer", "user:dora", "user:root"


async def lose_posts(vault: Vault, run: Kept) -> None:
    """Take away all that was posted since the run was kept like this, and leave lane main to whoever is at it."""
    key, row = run.row["run_key"], run.row
    await vault.sql(
        f"DELETE FROM {vault._table('entry')} WHERE run_key = $1 AND lane = 1 AND seq > $2", key, row["post_seq"]
    )
    ends = f"UPDATE {vault._table('run')} SET post_head = $1, post_seq = $2 WHERE run_key = $3"
    await vault.sql(ends, row["post_head"], row["post_seq"], key)


async def test_a_revocation_in_the_place_of_a_grant_that_was_lost_is_not_taken_for_it(
    database: Storage,
):  # proves: GATE-4, GATE-5
    till, vault = Till(), Vault(database.make(None))
    pay, in_step, go_on = till.effect(), asyncio.Event(), asyncio.Event()

    @remit.step
    async def prepare() -> None:
        in_step.set()
        await go_on.wait()

    @remit.flow(contract=remit.Contract(version="1", resume={"buyer"}))
    async def purchase(run: remit.Run, is_prepared: bool) -> None:
        if is_prepared:
            await run.step(prepare)
        await run.effect(pay, Order())

    async with database.open() as worker:
        await worker.grant(BUYER, "buyer", by=ROOT)
        paying = asyncio.create_task(worker.run(purchase, True, id="r", by=BUYER))
        await in_step.wait()
        standby = {AUTHORITY: (await vault.read())[AUTHORITY]}
        async with database.open() as office:
            assert await office.grant("user:zoe", "visitor", by=ROOT) == 3
        assert (await worker.run(purchase, False, id="other", by=BUYER)).status == "completed"  # it has read entry 3
        paid = len(till.arrived)

        await vault.write(standby)
        async with database.open() as office:
            assert await office.revoke(BUYER, "buyer", by=ROOT) == 3
        go_on.set()
        outcome = await paying

        assert len(till.arrived) == paid
        assert (outcome.status, outcome.waits_for, outcome.code) == ("waiting", "gate", "authority.unreadable")
        with pytest.raises(remit.AuthorityUnreadable, match="another one than was read") as unread:
            await worker.authority()
        assert "restart this process" in unread.value.hint
    async with database.open() as late:
        assert (await late.run(purchase, True, id="r", by=BUYER)).code == "resume_denied"
    assert len(till.arrived) == paid


async def test_a_no_in_the_place_of_a_yes_that_was_lost_is_not_taken_for_it(database: Storage):  # proves: GATE-4, APR-2
    till, vault = Till(), Vault(database.make(None))
    pay, asked, go_on = till.effect(), asyncio.Event(), asyncio.Event()
    is_slow = False

    async def wanted(order: Order) -> bool:
        if is_slow:
            asked.set()
            await go_on.wait()
        return True

    rule = remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=1)), still_wanted=wanted)

    @remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"pay": rule}))
    async def purchase(run: remit.Run) -> None:
        await run.effect(pay, Order())

    async with database.open() as worker, database.open() as office:
        await office.grant(DORA, "director", by=ROOT)
        assert (await worker.run(purchase, id="r")).waits_for == "approval"
        before = (await vault.read())["r"]
        (ask,) = await office.inbox()
        await office.decide(ask.id, "approve", by=DORA, seen=ask.version)
        is_slow = True
        paying = asyncio.create_task(worker.run(purchase, id="r"))
        await asked.wait()

        await lose_posts(vault, before)
        await office.decide(ask.id, "deny", by=DORA, seen=ask.version)
        go_on.set()
        with pytest.raises(remit.Tampered, match=r"Entry post 1 .* does not go on behind what was read") as lost:
            await paying

        assert (lost.value.code, till.arrived) == ("run.truncated", [])
        assert "run it again" in lost.value.hint
        is_slow = False
        assert (await worker.run(purchase, id="r")).code == "denied"
        assert await worker.verify("r") is None
    assert till.arrived == []


async def test_a_renewal_tells_of_another_entry_in_the_place_of_the_one_that_was_read(
    database: Storage,
):  # proves: RUN-14
    vault, told = Vault(database.make(None)), asyncio.Queue[bytes]()
    async with database.open() as rt:
        store = rt._ready().store
        hand = await open_held(store, "r")
        before = (await vault.read())["r"]
        keeper = Keeper(store, WORKER, 1_000)
        keeper.hold(hand.row, sent_ms=monotonic_ms(), on_lost=lambda: None, on_posted=told.put_nowait)
        try:
            for value in (b"true", b"false"):
                post = Hand(store, hand.row, lane="post")
                await store.append(post.signal(value))
                async with asyncio.timeout(20):
                    while await told.get() != post.pen.head:  # a renewal may come while it is being lost
                        pass
                await lose_posts(vault, before)
        finally:
            await asyncio.to_thread(keeper.stop)


async def test_a_call_whose_entries_were_lost_is_sent_again_under_the_same_key(database: Storage):  # proves: FX-1
    """The outside is the only one that still knows, and it knows by the key."""
    till, vault, is_ready = Till(), Vault(database.make(None)), False
    pay = till.effect()

    @remit.step
    def prepare() -> None:
        assert is_ready

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"))
    async def purchase(run: remit.Run) -> None:
        await run.step(prepare)
        await run.effect(pay, Order())

    async with database.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(purchase, id="r")
        older = {"r": (await vault.read())["r"]}
        is_ready = True
        assert (await rt.run(purchase, id="r")).status == "completed"
    await vault.write(older)
    async with database.open() as rt:
        assert (await rt.run(purchase, id="r")).status == "completed"

    first, again = till.keys
    assert first == again
