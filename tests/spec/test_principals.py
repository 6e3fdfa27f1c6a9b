"""Principals: whom nobody takes for another one is let in, and of whom nobody knew when they were stopped is told."""

from __future__ import annotations

import pytest

import remit
from remit.authority.directory import Authority, Principal
from remit.authority.principals import check_new_principal, strangers
from remit.engine.process.standing import act
from remit.facts.kinds import RoleGranted
from tests.spec.conftest import Storage
from tests.support.office import BUYER, DANA, DORA, ROOT, RUN, Office, answer, asked, staffed

TWIN = "user:d\u043era"  # DORA, with a Cyrillic o


@pytest.mark.parametrize(
    ("name", "named"),
    [
        (TWIN, "U+043E CYRILLIC SMALL LETTER O at position 6"),
        ("agent:\u0440ayroll", "U+0440"),
        ("agent:b\u03bfb", "U+03BF"),  # Greek
        ("agent:b\u0585b", "U+0585"),  # Armenian
        ("agent:\uff42uyer", "U+FF42"),
        ("agent:\U0001d41buyer", "U+1D41B"),
        ("agent:desk-\u0441\u043e\u0440", "U+0441"),  # a word of twins beside a Latin one
        ("agent:\u0431uyer\u0430", "U+0431"),  # no twin, in a Latin word
        ("service:\u0663", "U+0663"),  # a digit that is not 0 to 9
        ("user:dana\u00a0lee", "a blank"),
        ("agent:desk for user:ceo", "a blank"),
    ],
)
def test_who_can_be_taken_for_another_one_is_not_let_in_and_the_letter_is_named(name: str, named: str):  # proves: C32
    with pytest.raises(remit.IdRefused) as refused:
        check_new_principal(name, "principal")
    assert named in str(refused.value) and str(refused.value).isascii()
    assert refused.value.code == "id.refused" and "nothing was done" in str(refused.value) and refused.value.hint


@pytest.mark.parametrize(
    "name",
    [
        "user:dana",
        "service:billing-2_eu.v3@acme.com",
        "user:jos\u00e9",
        "user:\u0141ukasz",
        "user:Gro\u00df",
        "user:\u0418\u0432\u0430\u043d",
        "user:\u0422\u0430\u0440\u0430\u0441",  # wholly Cyrillic, each letter like a Latin one
        "service:\u0391\u03b8\u03ae\u03bd\u03b1",
        "user:\u5c71\u7530",
        "user:\u0639\u0644\u064a",
        "user:\u0930\u0935\u093f",
    ],
)
def test_a_name_wholly_in_one_alphabet_is_let_in(name: str):
    assert check_new_principal(name, "principal") == name


async def test_nobody_acts_or_is_named_under_a_name_that_passes_for_another(storage: Storage):  # proves: C32, APR-4
    office = Office()
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        ask, before = await asked(rt), (await rt.authority()).version
        for call in (
            rt.grant(TWIN, "director", by=ROOT),
            rt.link(BUYER, person=TWIN, by=ROOT),
            rt.link(TWIN, person=DORA, by=ROOT),
            rt.disable(TWIN, by=ROOT),
            rt.grant("user:x", "director", by=TWIN),
            rt.set_policy({"version": "1"}, by=TWIN),
            rt.decide(ask.id, "approve", by=TWIN, seen=ask.version),
            rt.cancel(RUN, by=TWIN),
            rt.resolve(RUN, "pay", "ok", by=TWIN, evidence="seen", outcome=None),
            rt.run(office.flow, 1, id="r2", by=BUYER, behalf=TWIN),
            rt.run(office.flow, 1, id="r3", by="agent:buy\u0435r"),
        ):
            with pytest.raises(remit.IdRefused):
                await call
        assert (await rt.authority()).version == before and len(await rt.list()) == 1
        await rt.link(BUYER, person=DORA, by=ROOT)
        with pytest.raises(remit.ApprovalRefused) as refused:
            await answer(rt, by=DORA)
        assert refused.value.code in ("approval.self", "approval.stale") and office.sent == []


async def test_who_was_let_in_before_is_read_and_can_be_stopped(storage: Storage):  # proves: GATE-5
    async with storage.open() as rt:
        fact = RoleGranted(principal=TWIN, role="director")
        await act(rt._ready(), fact, "", by=ROOT, check=lambda known: None)
    async with storage.open() as rt:
        assert (await rt.authority()).who(TWIN).roles == ["director"]
        await rt.disable(TWIN, by=ROOT)
        await rt.revoke(TWIN, "director", by=ROOT)
        assert (await rt.authority()).who(TWIN).disabled


async def test_a_stop_of_whom_nobody_knows_is_done_and_told(storage: Storage, caplog):  # proves: GATE-3
    def told() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.name == "remit"]

    async with storage.open() as rt:
        await rt.grant(BUYER, "buyer", by=ROOT)
        await rt.grant(DANA, "director", by=ROOT)
        await rt.disable("agent:buyr", by=ROOT)
        assert len(told()) == 1 and "nothing about agent:buyr until now" in told()[0] and BUYER in told()[0]
        assert (await rt.authority()).who("agent:buyr").disabled
        caplog.clear()
        await rt.link("agent:seller", person="user:dan", by=ROOT)
        assert [name in line for name, line in zip(("agent:seller", "user:dan "), told(), strict=True)] == [True, True]
        assert "`remit who`" in told()[0] and DANA in told()[1]
        caplog.clear()
        await rt.link("user:dan", person=DANA, by=ROOT)
        await rt.disable(BUYER, by=ROOT)
        with pytest.raises(remit.Refused):
            await rt.disable("agent:buyr", by=ROOT)
        assert told() == [] and (await rt.authority()).person_of("agent:seller") == DANA


def test_names_are_alike_among_those_of_their_kind():
    known = Authority(directory={"agent:dana": Principal(), "user:dana": Principal(), "user:lee": Principal()})
    assert strangers(known, ["user:dan", "user:lee"]) == {"user:dan": ["user:dana"]}
    assert strangers(known, ["agent:lee"]) == {"agent:lee": []}
    assert strangers(known, ["user:dana-2", "user:dana"]) == {"user:dana-2": []}  # the other one is named beside it
