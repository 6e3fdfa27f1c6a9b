"""Decisions that were edited, copied or forged in the database: none of them becomes somebody's yes.

A decision lies in lane `post`, a chain of its own that anybody with the database can extend by the
rules. So what counts is not that it stands there: it names the very question by its hash, and the
decider is looked at again when it is used. What a whole forgery still can do is shown at the end.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

import remit
from remit.facts import kinds, machine
from remit.facts.entry import HEADER, Entry, Identity, Pen, entry_hash
from remit.facts.kinds import ApprovalDecided, DoubtResolved
from remit.facts.names import INCIDENTS
from tests.spec.conftest import Storage
from tests.support.journal import SALT
from tests.support.office import (
    BUYER,
    BY_DIRECTOR,
    DANA,
    DEREK,
    DORA,
    HOURS_72,
    ORDER,
    RUN,
    Office,
    answer,
    judged,
    staffed,
    voided,
)  # fmt: skip
from tests.support.vault import Kept, Ledger, Vault

OTHER = "po-1042"


def pen_of(kept: Kept, *, by: str) -> Pen:
    """The pen of an attacker who knows the format: it goes on behind the lane post of a stored run."""
    opened = HEADER.read(kept.main[0].header)
    identity = Identity(opened.ledger, opened.tenant, opened.run, opened.gen, kept.row["flow"])
    head, seq = kept.row["post_head"], kept.row["post_seq"]
    return Pen(identity, lane="post", by=by, epoch=0, head=head, seq=seq)


def posted(kept: Kept, fact: Any, *, by: str = DORA) -> None:
    """The fact in lane post, well-formed and linked, and the row's head moved to it."""
    pen = pen_of(kept, by=by)
    at = HEADER.read(kept.main[-1].header).at
    value = (SALT, b'{"detail":"as discussed"}')
    kept.post.append(pen.seal(type(fact).__name__, kinds.write(fact), at=at, value=value))
    kept.row |= {"post_head": pen.head, "post_seq": pen.seq}


def decision(kept: Kept) -> ApprovalDecided:
    """The last one that is stored."""
    fact = machine.FORMS["ApprovalDecided"].read(kept.post[-1].body)
    assert isinstance(fact, ApprovalDecided)
    return fact


def question(kept: Kept) -> tuple[str, str]:
    """Id and hash of the last one that was asked."""
    entry = next(e for e in reversed(kept.main) if HEADER.read(e.header).kind == "ApprovalAsked")
    fact = machine.FORMS["ApprovalAsked"].read(entry.body)
    assert isinstance(fact, kinds.ApprovalAsked)
    return fact.ask, entry_hash(entry.header).hex()


Forge = Callable[[Ledger], None]


async def forged(place: Storage, forge: Forge) -> None:
    vault = Vault(place.make(None))
    ledger = await vault.read()
    before = copy.deepcopy(ledger)
    forge(ledger)
    assert ledger != before
    await vault.write({run: kept for run, kept in ledger.items() if kept != before[run]})


async def asked_twice(place: Storage, office: Office) -> None:
    """Two runs wait for the same; the other one is answered with yes."""
    async with place.open() as rt:
        await staffed(rt)
        await office.go(rt, RUN)
        await office.go(rt, OTHER)
        (ask,) = [ask for ask in await rt.inbox() if ask.run == OTHER]
        await answer(rt, ask=ask)


# -- a recorded no stays a no --------------------------------------------------------------------------------------


def body_edited(kept: Kept) -> None:
    entry = kept.post[-1]
    kept.post[-1] = replace(entry, body=entry.body.replace(b'"deny"', b'"approve"'))


def body_and_header_edited(kept: Kept) -> None:
    """The entry made anew, under the same head of the lane."""
    fact = replace(decision(kept), choice="approve")
    kept.post.pop()
    head, seq = kept.row["post_head"], kept.row["post_seq"]
    kept.row |= {"post_head": _post_genesis(kept), "post_seq": 0}
    posted(kept, fact)
    kept.row |= {"post_head": head, "post_seq": seq}


def cut_off(kept: Kept) -> None:
    kept.post.pop()


def decider_edited(kept: Kept) -> None:
    entry = kept.post[-1]
    header = replace(HEADER.read(entry.header), by=DEREK)
    kept.post[-1] = replace(entry, header=HEADER.write(header))


def reason_edited(kept: Kept) -> None:
    kept.post[-1] = replace(kept.post[-1], value=b'{"detail":"never mind"}')


def put_in_front(kept: Kept) -> None:
    """A yes before the no; the no follows it as it was."""
    no, head, seq = kept.post.pop(), kept.row["post_head"], kept.row["post_seq"]
    kept.row |= {"post_head": _post_genesis(kept), "post_seq": 0}
    posted(kept, replace(_decision_of(no), choice="approve"))
    kept.post.append(replace(no, seq=2))
    kept.row |= {"post_head": head, "post_seq": seq + 1}


def _decision_of(entry: Entry) -> ApprovalDecided:
    fact = machine.FORMS["ApprovalDecided"].read(entry.body)
    assert isinstance(fact, ApprovalDecided)
    return fact


def _post_genesis(kept: Kept) -> bytes:
    return entry_hash(kept.main[0].header)


EDITS: list[tuple[str, str, Callable[[Kept], None]]] = [
    ("its word", "chain.hash", body_edited),
    ("its word and its header", "chain.head", body_and_header_edited),
    ("cut off", "run.truncated", cut_off),
    ("its decider", "chain.head", decider_edited),
    ("its reason", "chain.hash", reason_edited),
    ("a yes in front of it", "chain.hash", put_in_front),
]


@pytest.mark.parametrize(("code", "edit"), [e[1:] for e in EDITS], ids=[e[0] for e in EDITS])
async def test_a_recorded_denial_that_was_edited_is_no_yes(code, edit, lasting: Storage):  # proves: LOG-2, LOG-3, LOG-4
    office = Office()
    async with lasting.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await office.go(rt, OTHER)
        (ask,) = [ask for ask in await rt.inbox() if ask.run == RUN]
        await answer(rt, "deny", ask=ask)
    await forged(lasting, lambda ledger: edit(ledger[RUN]))
    async with lasting.open() as rt:
        with pytest.raises(remit.Tampered) as found:
            await office.go(rt)
        assert (found.value.code, found.value.lane) == (code, "post")
        for _ in range(2):
            with pytest.raises(remit.RunQuarantined):
                await office.go(rt)
        with pytest.raises(remit.RunQuarantined):
            await rt.decide(ask.id, "approve", by=DORA, seen=ask.version)
        assert [row.run for row in await rt.list(quarantined=True)] == [RUN]
        assert await rt.verify(INCIDENTS) is None
        # The neighbour goes on.
        (ask,) = await rt.inbox()
        await answer(rt, ask=ask)
        assert (await office.go(rt, OTHER)).status == "completed"
    assert office.sent == [ORDER]


async def test_a_denial_that_was_heard_cannot_be_written_anew(lasting: Storage):  # proves: LOG-2, LOG-4
    """Not even with its whole lane: what lane main took up names it by its hash."""
    office = Office()

    @remit.flow(contract=remit.Contract(effects={"pay": office.rule}, **office.contract), name="purchase")
    async def careful(run: remit.Run) -> str:
        try:
            await run.effect(office.pay, ORDER)
        except remit.Denied:
            await run.approve("another way", {}, roles={"director"}, within=HOURS_72)
        return "done"

    async with lasting.open() as rt:
        await staffed(rt)
        await rt.run(careful, id=RUN, by=BUYER, behalf=DANA)
        await answer(rt, "deny")
        assert (await rt.run(careful, id=RUN, by=BUYER, behalf=DANA)).waits_for == "approval"

    def rewrite(ledger: Ledger) -> None:
        kept = ledger[RUN]
        fact = replace(decision(kept), choice="approve")
        kept.post.clear()
        kept.row |= {"post_head": _post_genesis(kept), "post_seq": 0}
        posted(kept, fact)

    await forged(lasting, rewrite)
    async with lasting.open() as rt:
        with pytest.raises(remit.Tampered, match="did not say so") as found:
            await rt.run(careful, id=RUN, by=BUYER, behalf=DANA)
        assert found.value.code == "chain.move"
    assert office.sent == []


# -- 16: a yes from somewhere else ---------------------------------------------------------------------------------


def of_the_other_run(ledger: Ledger) -> None:
    """Copied fact for fact: it names a question that this run never asked."""
    posted(ledger[RUN], decision(ledger[OTHER]))


def of_the_other_run_under_this_id(ledger: Ledger) -> None:
    """Made out to this run's question, and still about what the other run showed."""
    ask, _ = question(ledger[RUN])
    posted(ledger[RUN], replace(decision(ledger[OTHER]), ask=ask))


def of_the_other_run_under_this_hash(ledger: Ledger) -> None:
    """Made out to what this run showed, under the id of the other's question."""
    _, asked_ = question(ledger[RUN])
    posted(ledger[RUN], replace(decision(ledger[OTHER]), asked=asked_))


async def test_16_a_yes_that_was_given_in_another_run_is_not_heard_here(database: Storage):  # proves: APR-7
    for forge in (of_the_other_run, of_the_other_run_under_this_hash):
        office = Office()
        if forge is of_the_other_run:
            await asked_twice(database, office)
        await forged(database, forge)
        async with database.open() as rt:
            assert (await office.go(rt)).waits_for == "approval"
            assert await voided(rt) == [[]]
            assert (await judged(rt)).verdict.findings[7].code == "approval.needed"
            assert await rt.verify(RUN) is None
        assert office.sent == []


async def test_16_made_out_to_this_question_it_is_not_bound_to_it(database: Storage):  # proves: APR-1, APR-7
    office = Office()
    await asked_twice(database, office)
    await forged(database, of_the_other_run_under_this_id)
    async with database.open() as rt:
        assert (await office.go(rt)).waits_for == "approval"
        assert (await judged(rt)).verdict.findings[7].code == "approval.binding"
        assert await voided(rt) == [["approval.binding"], []]
        assert office.sent == []
        # Somebody is asked anew, and that answer is one.
        await answer(rt)
        assert (await office.go(rt)).status == "completed"
    assert office.sent == [ORDER]


async def test_16_a_forged_no_that_is_not_bound_is_none_either(database: Storage):  # proves: APR-1, APR-7
    office = Office()
    await asked_twice(database, office)

    def forge(ledger: Ledger) -> None:
        ask, _ = question(ledger[RUN])
        posted(ledger[RUN], replace(decision(ledger[OTHER]), ask=ask, choice="deny"))

    await forged(database, forge)
    async with database.open() as rt:
        assert (await office.go(rt)).waits_for == "approval"
        assert await voided(rt) == [["approval.binding"], []]
        await answer(rt)
        assert (await office.go(rt)).status == "completed"
    assert office.sent == [ORDER]


async def test_16_a_yes_to_one_step_is_none_to_another_of_the_same_run(database: Storage):  # proves: APR-7, C13
    office = Office()

    @remit.flow(contract=remit.Contract(effects={"pay": office.rule}, **office.contract), name="purchase")
    async def both(run: remit.Run) -> list[Any]:
        return await run.gather(run.branch("a").effect(office.pay, ORDER), run.branch("b").effect(office.pay, ORDER))

    async with database.open() as rt:
        await staffed(rt)
        await rt.run(both, id=RUN, by=BUYER, behalf=DANA)
        a, b = await rt.inbox()
        await answer(rt, ask=a)

    def forge(ledger: Ledger) -> None:
        posted(ledger[RUN], replace(decision(ledger[RUN]), ask=b.id))

    await forged(database, forge)
    async with database.open() as rt:
        assert (await rt.run(both, id=RUN, by=BUYER, behalf=DANA)).waits_for == "approval"
        asks = (await rt.show(RUN)).view.boundary.asks
        assert (asks[a.id].used_by, asks[b.id].voided) == ("a/pay", ["approval.binding"])
    assert office.sent == [ORDER]


async def test_16_a_yes_from_another_deployment_is_none_here(tmp_path, database: Storage):  # proves: APR-7
    """The same run of the same code over there: neither its entry nor its fact is heard here."""
    there, office = f"sqlite:///{tmp_path / 'staging.db'}", Office()
    async with remit.open(there) as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
    foreign = (await Vault(there).read())[RUN]
    async with database.open() as rt:
        await staffed(rt)
        await office.go(rt)

    def fact(ledger: Ledger) -> None:
        ask, _ = question(ledger[RUN])
        posted(ledger[RUN], replace(decision(foreign), ask=ask))

    await forged(database, fact)
    async with database.open() as rt:
        assert (await office.go(rt)).waits_for == "approval"
        assert (await voided(rt))[0] == ["approval.binding"]

    def entry(ledger: Ledger) -> None:
        kept = ledger[RUN]
        kept.post[:] = foreign.post
        kept.row |= {name: foreign.row[name] for name in ("post_head", "post_seq")}

    await forged(database, entry)
    async with database.open() as rt:
        with pytest.raises(remit.Tampered) as found:
            await office.go(rt)
        assert found.value.code in ("chain.hash", "chain.genesis")
    assert office.sent == []


# -- by somebody who may not ---------------------------------------------------------------------------------------

FORGERS: list[tuple[str, str, list[str]]] = [
    ("who never held the role", "user:mallory", ["approval.role_lost"]),
    ("the executor", BUYER, ["approval.decider", "approval.role_lost", "approval.self"]),
    ("the one on whose behalf it acts", DANA, ["approval.role_lost", "approval.self"]),
    ("a service", "service:cron", ["approval.decider", "approval.role_lost"]),
]


@pytest.mark.parametrize(("by", "codes"), [f[1:] for f in FORGERS], ids=[f[0] for f in FORGERS])
async def test_a_forged_yes_is_looked_at_again_when_it_is_used(by, codes, database):  # proves: APR-3, APR-4
    """Perfectly bound, and it claims whatever roles it likes: the directory says who held them."""
    office = Office()
    async with database.open() as rt:
        await staffed(rt)
        await office.go(rt)

    def forge(ledger: Ledger) -> None:
        ask, shown = question(ledger[RUN])
        posted(
            ledger[RUN],
            ApprovalDecided(
                ask=ask, asked=shown, authority=5, choice="approve", meaning="yes", roles=["director"], alone=True
            ),
            by=by,
        )

    await forged(database, forge)
    async with database.open() as rt:
        assert (await office.go(rt)).waits_for == "approval"
        assert (await voided(rt))[0] == codes
    assert office.sent == []


async def test_a_forged_yes_after_a_real_no_comes_too_late(database: Storage):  # proves: APR-6, LOG-2
    office = Office()
    async with database.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt, "deny")
    await forged(database, lambda ledger: posted(ledger[RUN], replace(decision(ledger[RUN]), choice="approve")))
    async with database.open() as rt:
        assert (await office.go(rt)).code == "denied"
    assert office.sent == []


async def test_a_word_about_a_doubt_that_was_forged_for_another_call_settles_nothing(database):  # proves: FX-9
    office = Office(remit.Rule())
    office.body = lambda order, key: 1 / 0
    async with database.open() as rt:
        await staffed(rt)
        await office.go(rt)
    stated = DoubtResolved(authority=1, call="pay", intended="00" * 32, state="did_not_happen")
    await forged(database, lambda ledger: posted(ledger[RUN], stated))
    async with database.open() as rt:
        assert (await office.go(rt)).status == "in_doubt"
    assert len(office.sent) == 1


async def test_a_posted_entry_of_another_kind_is_no_decision(database: Storage):  # proves: LOG-4, GATE-1
    office = Office()
    async with database.open() as rt:
        await staffed(rt)
        await office.go(rt)
    used = kinds.ApprovalUsed(ask="0" * 32, item="0" * 64)
    await forged(database, lambda ledger: posted(ledger[RUN], used))
    async with database.open() as rt:
        with pytest.raises(remit.Tampered) as found:
            await office.go(rt)
        assert (found.value.code, found.value.lane) == ("chain.move", "post")
    assert office.sent == []


# -- the question itself -------------------------------------------------------------------------------------------


def request_edited(kept: Kept) -> None:
    entry = kept.main[3]
    assert entry.value is not None
    kept.main[3] = replace(entry, value=entry.value.replace(b"82000", b"820000"))


def binding_edited(kept: Kept) -> None:
    entry = kept.main[3]
    kept.main[3] = replace(entry, body=entry.body.replace(b'"director"', b'"intern"'))


def request_blanked(kept: Kept) -> None:
    kept.main[3] = replace(kept.main[3], salt=None, value=None)


@pytest.mark.parametrize("edit", [request_edited, binding_edited, request_blanked])
async def test_18_bytes_that_change_in_the_database_after_the_yes_are_tampered(edit, lasting):  # proves: APR-1, LOG-2
    """As attack 1 is: `chain.hash`, stricter than `approval.payload`. The run is set aside, nobody is asked anew."""
    office = Office()
    async with lasting.open() as rt:
        await staffed(rt)
        await office.go(rt)
        ask = await answer(rt)
    await forged(lasting, lambda ledger: edit(ledger[RUN]))
    async with lasting.open() as rt:
        with pytest.raises(remit.Tampered) as found:
            await office.go(rt)
        assert (found.value.code, found.value.lane, found.value.seq) == ("chain.hash", "main", 4)
        with pytest.raises(remit.RunQuarantined):
            await rt.ask(ask.id)
        assert await rt.inbox() == []
    assert office.sent == []


# -- what is not caught --------------------------------------------------------------------------------------------


async def test_not_caught_a_yes_forged_whole_in_the_name_of_somebody_who_may(database: Storage):  # proves: LOG-5
    """Whoever writes the database as Dora is Dora, as long as nobody signs: her assurance says `asserted`."""
    office = Office(remit.Rule(approval=BY_DIRECTOR))
    async with database.open() as rt:
        await staffed(rt)
        await office.go(rt)

    def forge(ledger: Ledger) -> None:
        ask, shown = question(ledger[RUN])
        fact = ApprovalDecided(ask=ask, asked=shown, authority=5, choice="approve", meaning="yes", roles=["director"])
        posted(ledger[RUN], fact, by=DORA)

    await forged(database, forge)
    async with database.open() as rt:
        assert (await office.go(rt)).status == "completed"
        decided = next(iter((await rt.show(RUN)).view.boundary.asks.values())).decided
        assert decided is not None
        assert decided.fact.assurance == "asserted"
    assert office.sent == [ORDER]
