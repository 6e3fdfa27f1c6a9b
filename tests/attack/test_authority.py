"""Attacks on the journal `remit:authority`, and mistakes that would stop every run of a ledger.

Whatever rests on directory and policy rests on this one journal: it is not given what can't be
read again, and what was done to it from outside is refused before anything is paid by it.
"""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

import remit
from remit.engine.people.post import Letter, post
from remit.engine.process import incidents
from remit.engine.process.outcome import detail
from remit.engine.process.standing import act
from remit.facts.entry import HEADER, Pen, entry_hash
from remit.facts.kinds import CancelAsked, PolicySet, RoleGranted, write
from remit.facts.names import AUTHORITY, INCIDENTS
from remit.facts.rules import PolicyPin
from tests.attack.siege import VICTIM, Siege
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.journal import SALT, identity_of
from tests.support.office import BUYER, DORA, ORDER, ROOT, RUN, Office, answer, staffed
from tests.support.vault import Vault

# -- what can't be read again is not written --------------------------------------------------------------------------


async def test_a_policy_that_could_not_be_read_again_is_not_set(on_sqlite: Siege):  # proves: GATE-5
    """An operator's script reads the policy, changes a time, and makes a float of it."""
    office, place = Office(), on_sqlite.place
    async with place.open() as rt:
        await staffed(rt)
        before = await rt.set_policy({"version": "1", "ceilings": {"pay.amount": 100_000}}, by=ROOT)
        policy = (await rt.authority()).policy
        assert policy is not None
        with pytest.raises(remit.Refused) as refused:
            await rt.set_policy(replace(policy, version="2", windows={"high": 30 * 60 * 1e6}), by=ROOT)
        assert refused.value.code == "policy.form"
        assert (await rt.authority()).version == before
        await rt.set_policy(replace(policy, version="2", windows={"high": 30 * 60 * 1_000_000}), by=ROOT)
    async with place.open() as rt:
        await office.go(rt)
        await answer(rt)
        assert (await office.go(rt)).status == "completed"
    assert office.sent == [ORDER]


@pytest.mark.parametrize(
    "fact",
    [PolicySet(policy=PolicyPin(version=1)), RoleGranted(principal=5, role="director")],  # type: ignore[arg-type]
    ids=["policy", "grant"],
)
async def test_an_act_reads_its_own_bytes_back_before_they_are_written(fact: Any, on_sqlite: Siege):  # proves: GATE-5
    async with on_sqlite.place.open() as rt:
        before = await rt.grant(DORA, "director", by=ROOT)
        with pytest.raises(remit.Refused) as refused:
            await act(rt._ready(), fact, "", by=ROOT, check=lambda known: None)
        assert refused.value.code == "fact.form"
        assert (await rt.authority()).version == before
        assert await rt.verify(AUTHORITY) is None


async def test_what_cannot_be_seen_is_refused_at_the_door_and_read_where_it_stands(on_sqlite: Siege):  # proves: C32
    """A worker with a newer Python let a character in that this one can't see: everything goes on, and it may be
    taken out again."""
    hidden, newer = "user:da\u202ena", "user:\U0003fffd"
    async with on_sqlite.place.open() as rt:
        for call in (
            rt.grant(hidden, "director", by=ROOT),
            rt.grant(DORA, "director", by=hidden),
            rt.revoke(hidden, "director", by=ROOT),
            rt.disable(hidden, by=ROOT),
            rt.link(DORA, person=hidden, by=ROOT),
            rt.set_policy({"version": "1"}, by=hidden),
        ):
            with pytest.raises(remit.IdRefused):
                await call
        fact = RoleGranted(principal=newer, role="director")
        await act(rt._ready(), fact, "", by=ROOT, check=lambda known: None)
    async with on_sqlite.place.open() as rt:
        await staffed(rt)
        assert (await rt.authority()).who(newer).roles == ["director"]
        await rt.disable(newer, by=ROOT)
        assert await rt.verify(AUTHORITY) is None


async def test_a_name_of_a_class_of_its_own_is_kept_as_text(on_sqlite: Siege):  # proves: C32
    class Name(str):
        pass

    async with on_sqlite.place.open() as rt:
        await rt.grant(Name(DORA), "director", by=Name(ROOT))
        assert (await rt.authority()).who(DORA).roles == ["director"]


# -- the row of a journal of Remit's own ------------------------------------------------------------------------------


async def test_a_directory_that_was_marked_as_set_aside_lets_nothing_proceed(
    lasting: Storage,
):  # proves: GATE-5, LOG-10
    """No revocation could be written behind the mark: so nothing is paid either, also by a process that knew better."""
    office, vault = Office(), Vault(lasting.make(None))
    async with lasting.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
    await mark(vault, AUTHORITY)

    async with lasting.open() as rt:
        outcome = await office.go(rt)
        assert (outcome.waits_for, outcome.code) == ("gate", "authority.unreadable")
        assert "marked as set aside" in outcome.reason
        refused: list[Any] = [
            rt.revoke(DORA, "director", by=ROOT),
            rt.disable(BUYER, by=ROOT),
            rt.set_policy({"version": "1", "forbid": ["pay"]}, by=ROOT),
        ]
        for call in refused:
            with pytest.raises(remit.AuthorityUnreadable, match="marked as set aside"):
                await call
        (found,) = (found for found in await rt.doctor() if found.name == "own journals")
        assert not found.ok and "'remit:authority' is marked as set aside" in found.seen
        assert await rt.verify(AUTHORITY) is None  # its bytes are right
        await rt.lift(AUTHORITY, by=ROOT, reason="found who did it")
        await rt.revoke(DORA, "director", by=ROOT)
        assert (await office.go(rt)).waits_for == "approval"
        assert all(found.ok for found in await rt.doctor() if found.name == "own journals")
    assert office.sent == []


async def test_a_mark_that_comes_while_a_process_knows_the_directory_stops_it_too(database: Storage):  # proves: GATE-5
    office, vault = Office(), Vault(database.make(None))
    async with database.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        await mark(vault, AUTHORITY)
        assert (await office.go(rt)).code == "authority.unreadable"
    assert office.sent == []


@pytest.mark.parametrize(
    "edit",
    [{"status": "completed"}, {"code": "x"}, {"by": "user:evil"}, {"opened_at": 5}, {"window_end": 0}],
    ids=lambda edit: next(iter(edit)),
)
@pytest.mark.parametrize("journal", [AUTHORITY, INCIDENTS])
async def test_an_edited_column_of_its_row_is_found(journal: str, edit: Any, on_sqlite: Siege):  # proves: LOG-4, LOG-10
    place, vault = on_sqlite.place, on_sqlite.vault
    async with place.open() as rt:
        await staffed(rt)
        await set_one_aside(rt)
    ledger = await vault.read()
    ledger[journal].row |= edit
    await vault.write(ledger)
    async with place.open() as rt:
        found = await rt.verify(journal)
        assert found is not None
        assert (found.code, found.run) == ("run.index", journal)
        assert [found.name for found in await rt.doctor() if not found.ok and found.name == "own journals"]
        if journal == AUTHORITY:
            with pytest.raises(remit.AuthorityUnreadable):
                await rt.authority()


async def test_incidents_that_were_marked_as_set_aside_are_named(on_sqlite: Siege):  # proves: LOG-3, LOG-10
    """Nothing can be noted there any more, and a lift is a note: that row has to be set right by hand."""
    async with on_sqlite.place.open() as rt:
        await set_one_aside(rt)
    await mark(on_sqlite.vault, INCIDENTS)
    async with on_sqlite.place.open() as rt:
        with pytest.raises(remit.Tampered, match="marked as set aside") as refused:
            await rt.lift(INCIDENTS, by=ROOT, reason="it will be fine")
        assert refused.value.run == INCIDENTS
        (found,) = (found for found in await rt.doctor() if found.name == "own journals")
        assert not found.ok and "'remit:incidents' is marked" in found.seen


@pytest.mark.parametrize("edit", ["seq", "quarantined"])
async def test_what_was_found_first_is_heard_also_where_it_can_not_be_noted(
    edit: str, database: Storage
):  # proves: LOG-3
    """Whoever sets the incidents back keeps a run from being set aside, and not from being refused."""
    siege = Siege(database)
    await siege.prepare()
    async with siege.place.open() as rt:
        await set_one_aside(rt)
    ledger = await siege.vault.read()
    ledger[INCIDENTS].row[edit] = True if edit == "quarantined" else ledger[INCIDENTS].row["seq"] - 1
    ledger[VICTIM].row["code"] = "edited"
    await siege.vault.write(ledger)
    before = list(siege.desk.ran)
    async with siege.place.open() as rt:
        for _ in range(2):
            with pytest.raises(remit.Tampered) as refused:
                await rt.resume(VICTIM, siege.desk.flow)
            assert (refused.value.code, refused.value.run) == ("run.index", VICTIM)
            assert "It could not be set aside" in refused.value.__notes__[0]
        assert [found.name for found in await rt.doctor() if not found.ok and found.name == "own journals"]
    assert siege.desk.ran == before


async def mark(vault: Vault, journal: str) -> None:
    """The flag that sets a run aside, written by hand."""
    ledger = await vault.read()
    ledger[journal].row["quarantined"] = True
    await vault.write({journal: ledger[journal]})


async def set_one_aside(rt: remit.Runtime) -> None:
    """So that there are incidents."""
    office = Office(resume="anyone")
    await office.go(rt, "r-0")
    await incidents.quarantine(rt._ready(), (await rt.read("r-0")).row, remit.Tampered("For a trial."))


# -- its newest entries gone -----------------------------------------------------------------------------------------


async def test_a_run_remembers_how_long_the_directory_was(lasting: Storage):  # proves: GATE-5, LOG-4
    """The policy that asks for the cfo is cut off with the row's head. A process that comes later finds a directory
    that verifies, and a run that was judged by more of it."""
    office, vault = Office(), Vault(lasting.make(None))
    async with lasting.open() as rt:
        await staffed(rt)
        await office.go(rt, "r-0")  # before there was a policy
        await rt.set_policy({"version": "1", "approvals": {"pay": {"roles": ["cfo"], "within": "1h"}}}, by=ROOT)
        await office.go(rt)
        ask = next(ask for ask in await rt.inbox() if ask.run == RUN)
        with pytest.raises(remit.ApprovalRefused):
            await answer(rt, ask=ask)
    whole = await vault.read()
    wrong = copy.deepcopy(whole[AUTHORITY])
    gone = wrong.main.pop()
    wrong.row |= {"head": bytes.fromhex(HEADER.read(gone.header).prev), "seq": wrong.row["seq"] - 1}
    await vault.write({AUTHORITY: wrong})

    async with lasting.open() as rt:
        assert await rt.verify(AUTHORITY) is None
        outcome = await office.go(rt)
        assert (outcome.status, outcome.waits_for, outcome.code) == ("waiting", "gate", "authority.behind")
        assert "rests on 6 entries of 'remit:authority', which has 5" in outcome.reason
        for call in (answer(rt, ask=ask), rt.judge(RUN, office.flow)):
            with pytest.raises(remit.AuthorityUnreadable) as refused:
                await call
            assert refused.value.code == "authority.behind"
        assert (await office.go(rt, "r-0")).waits_for == "approval"  # nothing says so of this one
    assert office.sent == []

    await vault.write({AUTHORITY: whole[AUTHORITY]})
    async with lasting.open() as rt:
        assert (await office.go(rt)).waits_for == "approval"


async def test_no_word_is_taken_up_under_a_directory_whose_end_is_gone(lasting: Storage):  # proves: GATE-5, FX-9
    """That she was disabled is cut off with the row's head, and the run is cancelled: nobody hears her all the same."""
    office, vault = Office(remit.Rule()), Vault(lasting.make(None))
    office.effect = {"doubt": "resend", "sink": "dedupes"}

    def lose(order: Any, key: str) -> None:
        raise ConnectionError("no answer")

    office.body = lose
    async with lasting.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await rt.resolve(RUN, "pay", "did_not_happen", by=DORA, evidence="trust me", calls=2)
        await rt.set_policy({"version": "1", "approvals": {"pay": {"roles": ["cfo"], "within": "1h"}}}, by=ROOT)
        await rt.disable(DORA, by=ROOT)
        assert (await office.go(rt)).status == "in_doubt"
        assert (await rt.show(RUN)).view.reach.authority == 7
    whole = (await vault.read())[AUTHORITY]
    wrong = copy.deepcopy(whole)
    gone = wrong.main.pop()
    wrong.row |= {"head": bytes.fromhex(HEADER.read(gone.header).prev), "seq": wrong.row["seq"] - 1}
    await vault.write({AUTHORITY: wrong})

    async with lasting.open() as rt:
        assert (await rt.cancel(RUN, by=ROOT)).status == "in_doubt"
        assert [effect.state for effect in await rt.effects(RUN)] == ["in_doubt"]
    await vault.write({AUTHORITY: whole})
    async with lasting.open() as rt:
        assert (await rt.cancel(RUN, by=ROOT)).status == "in_doubt"


async def test_a_run_remembers_how_much_was_posted_when_it_was_judged(
    lasting: Storage, clock: MovedClock
):  # proves: LOG-4
    """A yes that was found too late is cut off with the row's head, so that the question would be open again."""
    office, vault = (
        Office(remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=1)))),
        Vault(lasting.make(None)),
    )
    async with lasting.open(clock=clock) as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        clock.move(timedelta(hours=2))
        assert (await office.go(rt)).waits_for == "approval"
    ledger = await vault.read()
    kept = ledger[RUN]
    kept.row |= {"post_head": bytes.fromhex(HEADER.read(kept.post.pop().header).prev), "post_seq": 0}
    await vault.write({RUN: kept})
    async with lasting.open(clock=clock) as rt:
        with pytest.raises(remit.Tampered, match="lane post, which has 0") as refused:
            await office.go(rt)
        assert refused.value.code == "chain.move"
    assert office.sent == []


# -- another journal in its place -------------------------------------------------------------------------------------


async def test_the_directory_of_another_tenant_is_not_believed(on_sqlite: Siege):  # proves: GATE-5, LOG-4
    """The run keys of both are swapped, rows and entries, so that each journal verifies for itself.

    A process that knows the directory holds on to whose it was; one that comes later finds it by its name.
    """
    office, vault, database = Office(), on_sqlite.vault, on_sqlite.place
    async with database.open(tenant="bank") as bank, database.open(tenant="shop") as shop:
        await staffed(bank)
        await shop.grant("user:mallory", "director", by="user:m2")
        for n in range(4):
            await shop.grant("user:mallory", f"r{n}", by="user:m2")
        await office.go(bank)
        (ask,) = await bank.inbox()
        await swap(vault, *[(await rt.read(AUTHORITY)).row.run_key for rt in (bank, shop)])

        outcome = await office.go(bank)
        assert (outcome.waits_for, outcome.code) == ("gate", "authority.unreadable")
        for call in (bank.authority(), bank.decide(ask.id, "approve", by="user:mallory", seen=ask.version)):
            with pytest.raises(remit.AuthorityUnreadable, match=r"stands there as .*'shop'"):
                await call
    async with database.open(tenant="bank") as bank:
        assert "user:mallory" not in (await bank.authority()).directory
    assert office.sent == []


@pytest.mark.parametrize("more", [0, 1], ids=["as long", "longer"])
async def test_a_directory_that_was_rewritten_below_what_is_known_is_not_believed(
    more: int, database: Storage
):  # proves: GATE-5, LOG-4
    """What was revoked is written anew as something else, by the rules: whoever read it does not forget."""
    vault = Vault(database.make(None))
    async with database.open() as rt:
        await rt.grant(DORA, "director", by=ROOT)
        await rt.revoke(DORA, "director", by=ROOT)
        kept = (await vault.read())[AUTHORITY]
        del kept.main[2:]
        head = entry_hash(kept.main[-1].header)
        pen = Pen(
            identity_of(rt._store, (await rt.read(AUTHORITY)).row), lane="main", by=ROOT, epoch=0, head=head, seq=2
        )
        for n in range(1 + more):
            fact = RoleGranted(principal=f"user:x{n}", role="director")
            kept.main.append(pen.seal("RoleGranted", write(fact), at=5, value=(SALT, b'{"detail":""}')))
        kept.row |= {"head": pen.head, "seq": pen.seq}
        await vault.write({AUTHORITY: kept})
        with pytest.raises(remit.AuthorityUnreadable, match=r"Entry 3 .* is another one than was read") as unread:
            await rt.authority()
        assert "restart this process" in unread.value.hint
        assert await rt.verify(AUTHORITY) is None  # a chain alone can't tell


async def test_what_is_posted_under_another_runs_key_is_not_read_for_this_one(on_sqlite: Siege):  # proves: LOG-4
    """While a turn is under way its run changes places with one that somebody cancelled."""

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"))
    async def flow(run: remit.Run) -> str:
        keys = [(await rt.read(each)).row.run_key for each in ("r-1", "r-2")]
        await swap(on_sqlite.vault, *keys)
        await rt._ready().to_tell[keys[0]]()
        return "done"

    async with on_sqlite.place.open() as rt:
        await rt.start(flow, id="r-2")
        letter = Letter(CancelAsked(), detail("not this one"))
        await post(rt._ready(), "r-2", by=ROOT, write=lambda _: letter, is_fenced=False)
        with pytest.raises(remit.Tampered) as refused:
            await rt.run(flow, id="r-1")
        assert (refused.value.code, refused.value.run) == ("chain.genesis", "r-1")


async def swap(vault: Vault, one: int, other: int) -> None:
    """Each row and its entries under the run key of the other."""
    for table in ("run", "entry"):
        for now, then in ((one, -1), (other, one), (-1, other)):
            await vault.sql(f"UPDATE {vault._table(table)} SET run_key = $1 WHERE run_key = $2", then, now)
