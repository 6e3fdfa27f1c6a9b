"""A run that was set aside and restored from a backup: what was done since the backup was done, and nobody forgets it.

An older journal verifies as well as a newer one. So the incident keeps where the run ended, and a run that ends
earlier goes on only when an operator says that they found out outside what the lost entries did.
"""

from __future__ import annotations

import asyncio
import copy
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

import remit
from remit.canonical import INTEGER_MAX
from remit.engine.process import admit, incidents, reserved
from remit.engine.process.host import Host
from remit.errors import Moved
from remit.facts.kinds import QuarantineLifted, RunQuarantined
from remit.facts.names import INCIDENTS
from remit.store.rows import RunRow, Stored
from tests.attack.siege import noted_in, post
from tests.spec.conftest import Storage
from tests.support.till import OPEN, Order, Till
from tests.support.vault import Kept, Vault


async def lift(rt: remit.Runtime) -> None:
    """As the pages said before: nobody claims to have found out anything."""
    await rt.lift("r", by="user:dana", reason="restored from the backup")


@dataclass
class Shop:
    """A run that pays between two steps, each of which fails until its office is open."""

    place: Storage
    declared: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.till, self.vault, self.opened = Till(), Vault(self.place.make(None)), set[str]()
        pay = self.till.effect(**self.declared)

        @remit.step
        async def visit(office: str) -> None:
            if office not in self.opened:
                raise OSError(f"{office} is closed")

        @remit.flow(contract=OPEN, name="settle")
        async def settle(run: remit.Run) -> int:
            await run.step(visit, "the bank")
            receipt = await run.effect(pay, Order())
            await run.step(visit, "the archive")
            return receipt.amount

        self.flow = settle

    async def turn(self, *offices: str) -> None:
        """A turn of the run, which fails for want of an office."""
        self.opened |= {*offices}
        async with self.place.open() as rt:
            with pytest.raises(remit.StepError):
                await rt.run(self.flow, id="r")

    async def kept(self) -> Kept:
        return (await self.vault.read())["r"]

    async def put(self, kept: Kept) -> None:
        await self.vault.write({"r": kept})

    async def set_aside(self, kept: Kept) -> None:
        """A byte of it rots, and somebody comes upon it."""
        rotten = copy.deepcopy(kept)
        rotten.main[1] = msgspec.structs.replace(rotten.main[1], body=b"{}")
        await self.put(rotten)
        async with self.place.open() as rt:
            with pytest.raises(remit.Tampered):
                await rt.run(self.flow, id="r")

    async def restore(self, kept: Kept, **columns: Any) -> None:
        """Put the bytes back; the overlay is left as it is where nobody says otherwise."""
        kept = copy.deepcopy(kept)
        kept.row |= {"quarantined": True} | columns
        await self.put(kept)


async def paid_after_the_backup(place: Storage, **declared: Any) -> tuple[Shop, Kept]:
    """The shop of a run that paid, and what was kept of it before."""
    shop = Shop(place, declared)
    await shop.turn()
    backup = await shop.kept()
    await shop.turn("the bank")
    assert len(shop.till.arrived) == 1
    return shop, backup


async def test_a_run_restored_from_before_its_payment_is_not_lifted_unless_somebody_found_out(
    lasting: Storage,
):  # proves: LOG-3, FX-1
    shop, backup = await paid_after_the_backup(lasting)
    whole = await shop.kept()
    await shop.set_aside(whole)
    await shop.restore(backup)

    async with lasting.open() as rt:
        with pytest.raises(remit.Refused) as refused:
            await lift(rt)
        lacking = whole.row["seq"] - backup.row["seq"]
        assert refused.value.code == "lift.shorter"
        assert f"{lacking} of lane main behind {backup.row['seq']}" in refused.value.message
        assert "outside" in refused.value.hint and "--shorter" in refused.value.hint
        told = await rt.why("r")
        assert (told.is_whole, told.missing) == (True, f"{lacking} of lane main behind {backup.row['seq']}")
        with pytest.raises(remit.RunQuarantined):
            await rt.run(shop.flow, id="r")
        assert len(shop.till.arrived) == 1

        await rt.lift("r", shorter=True, by="user:dana", reason="the bank has no such payment")
        *_, lifted = await noted_in(rt)
        assert lifted == QuarantineLifted(gen=1, run="r", shorter=True)
        assert (await rt.why("r")).missing == ""


async def test_a_run_restored_whole_is_lifted_as_before(lasting: Storage):  # proves: LOG-3
    shop, _ = await paid_after_the_backup(lasting)
    whole = await shop.kept()
    await shop.set_aside(whole)
    await shop.restore(whole)
    shop.opened.add("the archive")
    async with lasting.open() as rt:
        assert (await rt.why("r")).missing == ""
        await lift(rt)
        assert (await rt.run(shop.flow, id="r")).value == 100
        *_, found, lifted = await noted_in(rt)
    assert isinstance(found, RunQuarantined) and (found.main, found.post) == (whole.row["seq"], 0)
    assert lifted == QuarantineLifted(gen=1, run="r")
    assert len(shop.till.arrived) == 1


async def test_what_others_posted_since_the_backup_is_missing_too(lasting: Storage):  # proves: LOG-3, GATE-4
    shop = Shop(lasting)
    await shop.turn()
    backup = await shop.kept()
    async with lasting.open() as rt:
        await post(rt._store, (await rt.show("r")).row)
    await shop.set_aside(await shop.kept())
    await shop.restore(backup)
    async with lasting.open() as rt:
        with pytest.raises(remit.Refused, match="2 of lane post behind 0") as refused:
            await lift(rt)
    assert refused.value.code == "lift.shorter"


@pytest.mark.parametrize("seq", [7_000_000, INTEGER_MAX])
async def test_a_number_that_somebody_wrote_into_the_row_keeps_no_run_for_good(
    lasting: Storage, seq: int
):  # proves: LOG-3
    shop, _ = await paid_after_the_backup(lasting)
    whole = await shop.kept()
    edited = copy.deepcopy(whole)
    edited.row["seq"] = seq
    await shop.set_aside(edited)
    await shop.restore(whole)
    shop.opened.add("the archive")
    async with lasting.open() as rt:
        with pytest.raises(remit.Refused) as refused:
            await lift(rt)
        assert refused.value.code == "lift.shorter" and "row was edited" in refused.value.hint
        await rt.lift("r", shorter=True, by="user:dana", reason="the row said more than there ever was")
        assert (await rt.run(shop.flow, id="r")).value == 100
    assert len(shop.till.arrived) == 1


async def test_only_the_newest_incident_says_where_a_run_ended(lasting: Storage):  # proves: LOG-3
    shop, backup = await paid_after_the_backup(lasting)
    await shop.set_aside(await shop.kept())
    await shop.restore(backup)
    async with lasting.open() as rt:
        await rt.lift("r", shorter=True, by="user:dana", reason="the bank was asked")
    await shop.set_aside(await shop.kept())
    await shop.restore(backup)
    async with lasting.open() as rt:
        await lift(rt)
        assert (await rt.why("r")).status == "waiting"


async def test_what_a_worker_did_until_its_run_was_set_aside_is_not_left_out(
    lasting: Storage, monkeypatch: pytest.MonkeyPatch
):  # proves: LOG-3, OWN-3
    """Somebody comes upon it while it is paying: it pays on until the commit that sets it aside, and not behind."""
    paid: list[int] = []
    begun = asyncio.Event()

    @remit.effect
    async def pay(number: int, *, key: str) -> int:
        paid.append(number)
        begun.set()
        return number

    @remit.flow(contract=OPEN)
    async def pay_all(run: remit.Run) -> None:
        for number in range(1_000):
            await run.effect(pay, number)

    read: list[int] = []
    write = reserved.append_behind

    async def later(host: Host, journal: str, make: Any) -> None:
        read.append(len(paid))
        while len(paid) < read[0] + 5:
            await asyncio.sleep(0)
        await write(host, journal, make)

    def is_wrong(origin: str, stored: Stored) -> Any:
        raise remit.Tampered("A byte of it rots.", code="chain.hash", run="r")

    async with lasting.open() as rt:
        worker = asyncio.create_task(rt.run(pay_all, id="r"))
        await begun.wait()
        with monkeypatch.context() as patched:
            patched.setattr(admit, "verify", is_wrong)
            patched.setattr(incidents, "append_behind", later)
            with pytest.raises(remit.Tampered):
                await rt.show("r")
        with pytest.raises(remit.LeaseLost):
            await worker
        (found,), row = await noted_in(rt), (await rt.read("r")).row
        assert isinstance(found, RunQuarantined) and (found.main, found.post) == (row.seq, row.post_seq)
        assert read[0] + 5 <= len(paid) < 1_000
        await lift(rt)
        done = [effect.request for effect in await rt.effects("r")]
        assert done[: len(paid)] == paid, "nothing was paid that the journal lacks"


async def test_a_run_that_is_set_aside_twice_lacks_what_it_lacked_the_first_time(lasting: Storage):  # proves: LOG-3
    """A backup's row clears the overlay; its bytes are wrong as well, and it is set aside where it ends by then."""
    shop, backup = await paid_after_the_backup(lasting)
    await shop.set_aside(await shop.kept())
    await shop.set_aside(backup)
    await shop.restore(backup)
    async with lasting.open() as rt:
        first, second = await noted_in(rt)
        assert isinstance(first, RunQuarantined) and isinstance(second, RunQuarantined) and second.main < first.main
        assert (await rt.why("r")).missing
        with pytest.raises(remit.Refused) as refused:
            await lift(rt)
    assert refused.value.code == "lift.shorter"


async def test_of_two_who_come_upon_a_run_one_sets_it_aside(lasting: Storage):  # proves: LOG-3
    """The slower one would say where it ends by then, and a restore may have made that less."""
    shop, backup = await paid_after_the_backup(lasting)
    whole = await shop.kept()
    await shop.set_aside(whole)
    await shop.restore(backup)
    async with lasting.open() as rt:
        row = (await rt.read("r")).row
        await incidents.quarantine(rt._ready(), row, remit.Tampered("A byte of it rots.", code="chain.hash", run="r"))
        (found,) = await noted_in(rt)
        assert isinstance(found, RunQuarantined) and found.main == whole.row["seq"]


@pytest.mark.parametrize("meanwhile", ["lifted", "other bytes"])
async def test_a_lift_is_of_the_bytes_that_were_verified(
    lasting: Storage, monkeypatch: pytest.MonkeyPatch, meanwhile: str
):  # proves: LOG-3
    shop, _ = await paid_after_the_backup(lasting)
    whole = await shop.kept()
    await shop.set_aside(whole)
    await shop.restore(whole)
    write, refused = incidents.lift, list[str]()

    async def later(host: Host, row: RunRow, **told: Any) -> None:
        """What comes between the look at a run and its lift."""
        if not refused and meanwhile == "lifted":
            await write(host, row, **told)
        elif not refused:
            row = replace(row, head=b"\1" * 32)
        try:
            await write(host, row, **told)
        except Moved as moved:
            refused.append(moved.what)
            raise

    monkeypatch.setattr(incidents, "lift", later)
    async with lasting.open() as rt:
        if meanwhile == "lifted":
            with pytest.raises(remit.Refused) as told:
                await lift(rt)
            assert told.value.code == "run.not_quarantined"
        else:
            await lift(rt)
        assert refused == ["quarantine"]
        assert [type(each) for each in await noted_in(rt)] == [RunQuarantined, QuarantineLifted]
        assert not (await rt.read("r")).row.quarantined


async def test_incidents_that_do_not_verify_keep_nobody_who_found_out(lasting: Storage):  # proves: LOG-3
    shop, backup = await paid_after_the_backup(lasting)
    await shop.set_aside(await shop.kept())
    await shop.restore(backup)
    own = (await shop.vault.read())[INCIDENTS]
    own.main[1] = msgspec.structs.replace(own.main[1], value=b'{"detail":"all is well"}')
    await shop.vault.write({INCIDENTS: own})
    async with lasting.open() as rt:
        with pytest.raises(remit.Tampered):
            await lift(rt)
        await rt.lift("r", shorter=True, by="user:dana", reason="the bank was asked")
        assert (await rt.list(quarantined=True)) == []


BY_INVOICE = {"business_key": "invoice"}


async def waits_for_what_was_lost(shop: Shop, how: str) -> None:
    """No turn pays, each says why, and the run can be ended."""
    paid = len(shop.till.arrived)
    shop.opened.add("the archive")
    async with shop.place.open() as rt:
        if how == "lifted":
            await rt.lift("r", shorter=True, by="user:dana", reason="nothing was found")
        for _ in range(2):
            outcome = await rt.run(shop.flow, id="r")
            assert (outcome.status, outcome.waits_for, outcome.code) == ("waiting", "repair", "duplicates_missing")
            assert "held by pay of this run, whose entries are missing" in outcome.reason
        judged = await rt.judge("r", shop.flow)
        assert (judged.verdict.code, judged.question.effect and judged.question.effect.lost) == (outcome.code, "pay")
        told = await rt.why("r")
        assert [each.code for each in told.objections] == ["duplicates.missing"]
        assert len(shop.till.arrived) == paid
        assert (await rt.cancel("r", by="user:dana")).status == "cancelled"
        assert (await rt.run(shop.flow, id="s")).code == "idempotency_conflict", "it may have happened"
    assert len(shop.till.arrived) == paid


@pytest.mark.parametrize("how", ["lifted", "by hand, with the flag of then"])
async def test_a_key_that_is_held_without_an_intention_says_that_entries_were_lost(
    lasting: Storage, how: str
):  # proves: FX-8, FX-12
    shop, backup = await paid_after_the_backup(lasting, **BY_INVOICE)
    await shop.set_aside(await shop.kept())
    await shop.restore(backup, quarantined=how == "lifted")
    await waits_for_what_was_lost(shop, how)


async def test_a_key_that_was_given_back_and_taken_again_since_the_backup_says_so_too(
    lasting: Storage,
):  # proves: FX-8, FX-12
    shop = Shop(lasting, BY_INVOICE)
    shop.till.next(remit.DidNotHappen("the line was down"))
    await shop.turn("the bank")
    backup = await shop.kept()
    await shop.turn()
    assert shop.till.times == [1]
    await shop.restore(backup, quarantined=False)
    await waits_for_what_was_lost(shop, "by hand")


async def test_a_key_that_is_held_for_what_is_in_doubt_is_its_own(lasting: Storage):  # proves: FX-2, FX-8
    shop = Shop(lasting, {**BY_INVOICE, "doubt": "probe"})
    shop.till.next(shop.till.pay_and_raise(ConnectionError("no answer")))
    shop.till.probe_says = remit.NotLanded()
    shop.opened.add("the bank")
    async with lasting.open() as rt:
        await rt.run(shop.flow, id="r")
    backup = await shop.kept()
    shop.till.probe_says = None
    await shop.turn()
    await shop.restore(backup, quarantined=False)
    shop.opened.add("the archive")
    async with lasting.open() as rt:
        assert (await rt.run(shop.flow, id="r")).value == 100
    assert shop.till.times == [1]


async def test_a_key_of_a_run_that_is_gone_is_another_s_though_its_number_is_given_out_again(
    database: Storage,
):  # proves: FX-8
    """Finished runs were deleted by hand, and the database counts from one again."""
    shop = Shop(database, BY_INVOICE)
    await shop.turn("the bank")
    shop.opened.clear()
    async with database.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(shop.flow, id="s")
    number = (await shop.vault.read())["s"].row["run_key"]
    keys = shop.vault._table("business_key")
    await shop.vault.sql(f"UPDATE {keys} SET run = $1, run_key = $2", "an-old-one", number)

    shop.opened |= {"the bank", "the archive"}
    async with database.open() as rt:
        outcome = await rt.run(shop.flow, id="s")
    assert (outcome.code, len(shop.till.arrived)) == ("idempotency_conflict", 1)
    assert "that of an-old-one pay" in outcome.reason
