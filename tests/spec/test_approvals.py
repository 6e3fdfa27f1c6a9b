"""Approvals: a yes is good for these very bytes, this evidence, these rules and this time, and for one use."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import remit
from remit import ApprovalRefused
from remit.engine.people import newest
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.office import (
    BUYER,
    BY_DIRECTOR,
    DANA,
    DEREK,
    DORA,
    HOURS_72,
    ORDER,
    ROOT,
    RUN,
    Office,
    answer,
    asked,
    judged,
    kinds_of,
    staffed,
    voided,
)

HOUR = timedelta(hours=1)


# -- the whole way -------------------------------------------------------------------------------------------------


async def test_a_yes_lets_exactly_what_was_shown_happen_once(storage: Storage):  # proves: APR-1, APR-6, FX-4
    office = Office()
    async with storage.open() as rt:
        await staffed(rt)
        waiting = await office.go(rt)
        assert (waiting.status, waiting.waits_for, waiting.code) == ("waiting", "approval", "approval_needed")
        assert office.sent == []

        ask = await asked(rt)
        assert (ask.run, ask.flow, ask.by, ask.behalf, ask.effect, ask.call) == (
            RUN, "purchase", BUYER, DANA, "pay", "pay",
        )  # fmt: skip
        assert (ask.payload, ask.roles, ask.state, ask.difference) == (ORDER, (("director",),), "open", None)
        assert json.loads(ask.raw) == ORDER
        await answer(rt)
    async with storage.open() as rt:
        done = await office.go(rt)
        again = await office.go(rt)
        effect = (await rt.show(RUN)).view.boundary.effects["pay"]

        assert (done.status, done.value, again.value) == ("completed", "paid 82000", "paid 82000")
        assert office.sent == [ORDER]
        approved = effect.judged.question.answer
        assert approved is not None
        assert (effect.intended.ask, effect.intended.request) == (ask.id, approved.bound.request)
        assert (await rt.ask(ask.id)).state == "used"
        assert await rt.inbox() == []


async def test_nobody_is_asked_twice_and_a_question_survives_its_process(storage: Storage):  # proves: APR-6, C17
    office = Office()
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        first = await asked(rt)
        await office.go(rt)
        entries = await kinds_of(rt)
    for _ in range(2):
        async with storage.open() as rt:
            again = await office.go(rt)
            assert (again.status, again.waits_for) == ("waiting", "approval")
            assert await asked(rt) == first
            assert await kinds_of(rt) == entries
    assert entries == ["RunOpened", "AttemptStarted", "GateJudged", "ApprovalAsked", "RunParked"]


async def test_a_no_ends_a_run_that_does_not_catch_it_and_is_heard_by_one_that_does(storage):  # proves: APR-6, APR-10
    office, heard = Office(), []
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        denied = await answer(rt, "deny")
        assert (await rt.ask(denied.id)).state == "denied"
        outcome = await office.go(rt)
        assert (outcome.status, outcome.code) == ("failed", "denied")
        assert (await rt.ask(denied.id)).state == "void"

        @remit.flow(contract=remit.Contract(effects={"pay": office.rule}, **office.contract))
        async def careful(run: remit.Run) -> str:
            try:
                await run.effect(office.pay, ORDER)
            except remit.Denied as exc:
                heard.append((exc.code, exc.call, exc.ask))
            return "another way"

        await rt.run(careful, id="r-2", by=BUYER)
        ask = await answer(rt, "deny")
        assert (await rt.run(careful, id="r-2", by=BUYER)).value == "another way"
    assert office.sent == []
    assert heard == [("approval.denied", "pay", ask.id)]


async def test_a_no_to_one_request_is_none_to_another(storage: Storage):  # proves: APR-1, APR-6
    """It is void as a yes would be, and somebody is asked about what is wanted now."""
    office = Office()
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt, "deny")
        office.order |= {"amount": 41_000}
        outcome = await office.go(rt)
        assert (outcome.waits_for, outcome.code) == ("approval", "approval_payload")
        assert "denied by user:dora" in outcome.reason and "the request changed" in outcome.reason
        assert (await voided(rt))[0] == ["approval.payload", "approval.shown"]
        await answer(rt)
        assert (await office.go(rt)).status == "completed"
    assert office.sent == [office.order]


async def test_a_no_stands_for_a_rewording_and_the_same_code_goes_on_behind_it(
    storage: Storage,
):  # proves: APR-6, APR-10
    office, broken = Office(remit.Rule(approval=remit.Approval({"director"}, HOURS_72, immaterial={"note"}))), [True]

    def late() -> str:
        if broken:
            raise OSError("not now")
        return "another way"

    @remit.flow(contract=remit.Contract(effects={"pay": office.rule}, **office.contract))
    async def careful(run: remit.Run) -> str:
        with pytest.raises(remit.Denied):
            await run.effect(office.pay, office.order)
        outcome: str = await run.step(late)
        return outcome

    async with storage.open() as rt:
        await staffed(rt)
        await rt.run(careful, id="r", by=BUYER)
        await answer(rt, "deny")
        office.order |= {"note": "many thanks"}
        for _ in range(2):
            with pytest.raises(remit.StepError, match="not now"):
                await rt.run(careful, id="r", by=BUYER)
        office.order |= {"amount": 1}
        with pytest.raises(remit.DefinitionIncompatible, match="another request"):
            await rt.run(careful, id="r", by=BUYER)
        office.order |= {"amount": ORDER["amount"], "note": "thank you"}
        broken.clear()
        assert (await rt.run(careful, id="r", by=BUYER)).value == "another way"
    assert office.sent == []


async def test_setting_a_policy_tells_of_open_questions_of_older_runs_too(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
):  # proves: GATE-6
    """Who set it was told that it voids none."""
    office = Office()
    monkeypatch.setattr(newest, "RUNS_MAX", 2)
    monkeypatch.setattr(newest, "PAGE", 1)
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        ask = await asked(rt)
        for number in range(3):
            await rt.start(office.flow, id=f"later-{number}", by=BUYER, behalf=DANA)
        assert [one.id for one in await rt.voided_by({"version": "2"})] == [ask.id]


@pytest.mark.parametrize("is_answered", [True, False])
async def test_a_policy_that_is_set_again_brings_no_yes_and_no_question_back(
    is_answered: bool,
):  # proves: APR-1, GATE-6
    """Whoever set the one in between was told that they are void."""
    office = Office()
    policy = {"version": "1"}
    async with remit.open("memory:") as rt:
        await staffed(rt)
        await rt.set_policy(policy, by=ROOT)
        await office.go(rt)
        ask = await answer(rt) if is_answered else await asked(rt)
        assert [one.id for one in await rt.voided_by({"version": "2"})] == [ask.id]
        for each in ({"version": "2", "forbid": ["pay"]}, policy):
            await rt.set_policy(each, by=ROOT)
        assert await rt.voided_by({"version": "2"}) == []
        assert (await rt.ask(ask.id)).moved == ("policy",)
        assert (await office.go(rt)).waits_for == "approval"
        assert (await voided(rt))[0] == ["approval.policy", "approval.shown"]
    assert office.sent == []


async def test_a_recorded_yes_is_one_to_what_was_immaterial_when_it_was_asked():  # proves: APR-1
    """Code that calls more of the payload immaterial later is not told that somebody said yes to it."""
    broken = [True]

    def asking(amount: int, immaterial: list[str]) -> remit.Flow[str]:
        @remit.step
        async def late() -> None:
            if broken:
                raise OSError("not now")

        @remit.flow(contract=remit.Contract(version="1", resume="anyone"), name="terms")
        async def terms(run: remit.Run) -> str:
            terms = {"amount": amount, "note": "n"}
            yes = await run.approve("terms", terms, roles={"director"}, within=HOUR, immaterial=immaterial)
            await run.step(late)
            return yes.by

        return terms

    async with remit.open("memory:") as rt:
        await staffed(rt)
        await rt.run(asking(100, ["note"]), id="r")
        await answer(rt)
        with pytest.raises(remit.StepError):
            await rt.run(asking(100, ["note"]), id="r")
        broken.clear()
        for amount, immaterial in ((10**9, ["note"]), (10**9, ["amount", "note"])):
            with pytest.raises(remit.DefinitionIncompatible):
                await rt.run(asking(amount, immaterial), id="r")
        assert (await rt.run(asking(100, ["amount", "note"]), id="r")).value == DORA


async def test_a_yes_is_one_to_what_was_immaterial_when_it_was_asked():  # proves: APR-1
    """Before it is used, too: a field that is left out now was not left out of what somebody looked at."""

    def asking(terms: dict[str, Any], immaterial: list[str]) -> remit.Flow[str]:
        @remit.flow(contract=remit.Contract(version="1", resume="anyone"), name="terms")
        async def flow(run: remit.Run) -> str:
            return (await run.approve("terms", terms, roles={"director"}, within=HOUR, immaterial=immaterial)).by

        return flow

    shown = {"amount": 5, "note": "x"}
    async with remit.open("memory:") as rt:
        await staffed(rt)
        await rt.run(asking(shown, ["note"]), id="r")
        await answer(rt)
        moved = await rt.run(asking({**shown, "to": "mallory"}, ["note", "to"]), id="r")
        assert (moved.status, moved.code) == ("waiting", "approval_material")
        asks = (await rt.show("r")).view.boundary.asks.values()
        assert next(ask.voided for ask in asks) == ["approval.material", "approval.payload", "approval.shown"]


async def test_the_decision_is_the_recorded_outcome_of_a_question(storage: Storage):  # proves: APR-10, C11
    """It is not asked again, neither after a failure behind it nor when the run has ended."""
    told: list[remit.Yes] = []
    broken = [True]

    def late() -> int:
        if broken:
            raise OSError("not now")
        return 1

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"))
    async def terms(run: remit.Run) -> str:
        told.append(await run.approve("terms", {"days": 30}, roles={"director"}, within=HOUR))
        told.append(await run.approve("price", {"amount": 5}, roles={"director"}, within=HOUR))
        await run.step(late)
        return told[-1].by

    async with storage.open() as rt:
        await staffed(rt)
        assert (await rt.run(terms, id="r")).waits_for == "approval"
        assert (await answer(rt)).call == "terms"
    async with storage.open() as rt:
        # Gate 1 is answered; nobody answered gate 2, however often the run is called.
        for _ in range(2):
            assert (await rt.run(terms, id="r")).waits_for == "approval"
        assert (await asked(rt)).call == "price"
        await answer(rt, by=DEREK)
        with pytest.raises(remit.StepError):
            await rt.run(terms, id="r")
        broken.clear()
    async with storage.open() as rt:
        assert (await rt.run(terms, id="r")).value == DEREK
        assert (await kinds_of(rt, "r")).count("ApprovalAsked") == 2
    assert {(yes.by, yes.reason) for yes in told} == {(DORA, "as discussed"), (DEREK, "as discussed")}
    assert len({yes.at for yes in told}) == 2


async def test_an_approved_effect_does_not_run_twice_when_what_follows_fails(
    storage: Storage,
):  # proves: APR-10, RUN-6
    office, broken = Office(), [True]

    def late() -> int:
        if broken:
            raise OSError("not now")
        return 1

    @remit.flow(contract=remit.Contract(effects={"pay": office.rule}, **office.contract))
    async def purchase(run: remit.Run) -> str:
        paid: str = await run.effect(office.pay, ORDER)
        await run.step(late)
        return paid

    async with storage.open() as rt:
        await staffed(rt)
        await rt.run(purchase, id="r", by=BUYER)
        await answer(rt)
        with pytest.raises(remit.StepError):
            await rt.run(purchase, id="r", by=BUYER)
        broken.clear()
    async with storage.open() as rt:
        assert (await rt.run(purchase, id="r", by=BUYER)).value == "paid 82000"
    assert office.sent == [ORDER]


# -- what a yes is bound to ----------------------------------------------------------------------------------------

Change = Callable[[Office, remit.Runtime], Any]


def ordered(**fields: Any) -> Change:
    async def change(office: Office, rt: remit.Runtime) -> None:
        office.order |= fields

    return change


def declared(**options: Any) -> Change:
    async def change(office: Office, rt: remit.Runtime) -> None:
        office.effect |= options

    return change


def contracted(**fields: Any) -> Change:
    async def change(office: Office, rt: remit.Runtime) -> None:
        office.contract |= fields

    return change


def decreed(**policy: Any) -> Change:
    async def change(office: Office, rt: remit.Runtime) -> None:
        await rt.set_policy({"version": "2026-1", **policy}, by=ROOT)

    return change


BOUND: list[tuple[str, list[str], Change]] = [
    ("the amount", ["approval.payload", "approval.shown"], ordered(amount=820_000)),
    ("a field more", ["approval.payload", "approval.shown"], ordered(urgent=True)),
    ("another payee", ["approval.payload", "approval.shown"], ordered(payee="ACME Ltd.")),
    ("the type of a number", ["approval.payload", "approval.shown"], ordered(amount="82000")),
    ("where it goes", ["approval.connector", "approval.shown"], declared(connector="https://pay.example/v2")),
    ("what the other side promises", ["approval.connector", "approval.shown"], declared(sink="dedupes")),
    ("the effect's version", ["approval.shown", "approval.version"], declared(version="2")),
    ("the contract", ["approval.contract", "approval.shown"], contracted(version="4")),
    ("the policy", ["approval.policy", "approval.shown"], decreed()),
    (
        "who has to answer",
        ["approval.policy", "approval.roles", "approval.shown"],
        decreed(approvals={"pay": {"roles": ["treasurer"], "within": "72h"}}),
    ),
    (
        "the time for it",
        ["approval.policy", "approval.roles", "approval.shown", "approval.window"],
        decreed(approvals={"pay": {"roles": ["director"], "within": "1h"}}),
    ),
]


@pytest.mark.parametrize(("title", "codes", "change"), BOUND, ids=[b[0] for b in BOUND])
@pytest.mark.parametrize("is_answered", [True, False], ids=["answered", "open"])
async def test_what_moves_voids_the_question_by_name(title, codes, change, is_answered):  # proves: APR-1
    office, gained = Office(), ["approval.role"] if title == "who has to answer" else []
    async with remit.open("memory:") as rt:
        await staffed(rt)
        await office.go(rt)
        before = await asked(rt)
        if is_answered:
            await answer(rt)
        await change(office, rt)
        outcome = await office.go(rt)

        assert (outcome.status, outcome.waits_for) == ("waiting", "approval")
        assert office.sent == []
        # A yes from before does not have the role that is asked for now.
        told = [*codes, *gained] if is_answered else codes
        assert await voided(rt) == [told, []]
        now = await asked(rt)
        assert (now.id != before.id, now.void, now.payload) == (True, tuple(told), office.order)
        with pytest.raises(ApprovalRefused) as late:
            await answer(rt, ask=before)
        assert late.value.code == ("approval.decided" if is_answered else "approval.void")
        finding = (await judged(rt)).verdict.findings[7]
        assert finding.code == (codes[0] if is_answered else "approval.needed")


FLOWS_OWN: list[tuple[str, list[str], dict[str, Any]]] = [
    ("who has to answer", ["approval.roles", "approval.shown"], {"roles": {"director", "treasurer"}}),
    ("the time for it", ["approval.shown", "approval.window"], {"within": 2 * HOUR}),
    ("what is asked", ["approval.payload", "approval.shown"], {"payload": {"days": 31}}),
]


@pytest.mark.parametrize(("codes", "change"), [b[1:] for b in FLOWS_OWN], ids=[b[0] for b in FLOWS_OWN])
async def test_a_question_of_the_flows_own_is_bound_to_who_how_long_and_what(codes, change):  # proves: APR-1
    asks: dict[str, Any] = {"payload": {"days": 30}, "roles": {"director"}, "within": HOUR}

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"))
    async def terms(run: remit.Run) -> str:
        return (await run.approve("terms", asks["payload"], roles=asks["roles"], within=asks["within"])).by

    async with remit.open("memory:") as rt:
        await staffed(rt)
        await rt.run(terms, id=RUN)
        await answer(rt)
        asks |= change
        assert (await rt.run(terms, id=RUN)).waits_for == "approval"
        assert await voided(rt) == [codes, []]
        await answer(rt)
        assert (await rt.run(terms, id=RUN)).value == DORA


async def test_a_yes_to_a_question_of_the_flow_is_no_yes_to_an_effect_of_that_name(storage: Storage):  # proves: APR-1
    office = Office()
    contract = remit.Contract(effects={"pay": office.rule}, **office.contract)

    @remit.flow(contract=contract, name="purchase")
    async def asking(run: remit.Run) -> str:
        return (await run.approve("pay", ORDER, roles={"director"}, within=HOURS_72)).by

    async with storage.open() as rt:
        await staffed(rt)
        await rt.run(asking, id=RUN, by=BUYER, behalf=DANA)
        await answer(rt)
        assert (await office.go(rt)).waits_for == "approval"
        (codes, _) = await voided(rt)
    assert "approval.effect" in codes
    assert office.sent == []


async def test_an_order_of_keys_is_no_change(storage: Storage):  # proves: APR-1, FX-4
    office = Office()
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        office.order = dict(reversed(office.order.items()))
        assert (await office.go(rt)).status == "completed"
    assert office.sent == [ORDER]


async def test_the_approver_who_is_asked_again_sees_what_moved(storage: Storage):  # proves: APR-5, C14
    office = Office()
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        office.order = {"amount": 820_000, "payee": "ACME Ltd", "iban": "GB82"}
        await office.go(rt)
        ask = await asked(rt)
        assert ask.difference is not None
        told = [(change.path, change.old, change.new, change.is_material) for change in ask.difference.changes]
        assert told == [
            ("$.amount", "82000", "820000", True),
            ("$.iban", None, '"GB82"', True),
            ("$.note", '"thanks"', None, True),
        ]
        assert ask.difference.unchanged == 1
        await answer(rt)
        assert (await office.go(rt)).status == "completed"
    assert office.sent == [office.order]


async def test_a_rewording_of_what_does_not_matter_leaves_a_yes_standing(storage: Storage):  # proves: APR-1, C18
    rule = remit.Rule(approval=remit.Approval({"director"}, HOURS_72, immaterial={"note"}))
    office = Office(rule)
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        office.order["note"] = "many thanks"
        assert (await office.go(rt)).status == "completed"
        finding = (await rt.show(RUN)).view.boundary.effects["pay"].judged.verdict.findings[7]
        assert (finding.ok, finding.code) == (True, "approval.reworded")
        assert office.sent == [ORDER | {"note": "many thanks"}]

        # Anything else beside it is a change, and both are in the difference.
        await office.go(rt, "r-2")
        await answer(rt)
        office.order |= {"note": "hurry", "payee": "ACME Inc"}
        assert (await office.go(rt, "r-2")).waits_for == "approval"
        ask = await asked(rt)
        assert ask.difference is not None
        assert [(c.path, c.is_material) for c in ask.difference.changes] == [("$.note", False), ("$.payee", True)]
        assert (await voided(rt, "r-2"))[0] == ["approval.payload", "approval.shown"]


# -- time ----------------------------------------------------------------------------------------------------------


async def test_a_question_ends_with_its_time_and_is_asked_anew(storage: Storage, clock: MovedClock):  # proves: APR-2
    office = Office()
    async with storage.open(clock=clock) as rt:
        await staffed(rt)
        await office.go(rt)
        first = await asked(rt)
        assert first.until == first.asked_at + HOURS_72 // timedelta(microseconds=1)
        clock.move(HOURS_72)
        assert [ask.id for ask in await rt.inbox()] == [first.id]
        clock.move(timedelta(microseconds=1))
        assert await rt.inbox() == []
        with pytest.raises(ApprovalRefused) as late:
            await answer(rt, ask=first)
        assert late.value.code == "approval.expired"
        assert (await office.go(rt)).waits_for == "approval"
        assert (await voided(rt))[0] == ["approval.expired"]
        assert (await asked(rt)).id != first.id
    assert office.sent == []


async def test_another_policy_voids_what_still_stands(storage: Storage, clock: MovedClock):  # proves: APR-1, APR-2
    office, policy = Office(), {"version": "1"}
    async with storage.open(clock=clock) as rt:
        await staffed(rt)
        await office.go(rt)
        assert [(ask.call, ask.state) for ask in await rt.voided_by(policy)] == [("pay", "open")]
        await answer(rt)
        assert [(ask.call, ask.state) for ask in await rt.voided_by(policy)] == [("pay", "approved")]
        clock.move(HOURS_72 + timedelta(microseconds=1))
        assert await rt.voided_by(policy) == []


async def test_what_a_policy_would_void_is_not_told_by_a_directory_that_can_t_be_read(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
):  # proves: GATE-5
    """ "None" would be an answer, and somebody would set it."""

    async def nothing(run_key: int) -> None:
        return None

    office = Office()
    async with storage.open() as rt:
        await office.go(await staffed(rt))
        monkeypatch.setattr(rt._ready().store, "peek", nothing)  # the journal of the authority is gone
        with pytest.raises(remit.AuthorityUnreadable):
            await rt.voided_by({"version": "1"})
        assert len(await rt.inbox()) == 1, "a question is shown all the same"


async def test_a_yes_that_was_not_used_in_its_time_is_none(storage: Storage, clock: MovedClock):  # proves: APR-2
    office = Office()
    async with storage.open(clock=clock) as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        clock.move(HOURS_72 + timedelta(microseconds=1))
        assert (await office.go(rt)).waits_for == "approval"
        assert (await judged(rt)).verdict.findings[7].code == "approval.expired"
        await answer(rt)
        assert (await office.go(rt)).status == "completed"
    assert office.sent == [ORDER]


async def test_a_question_never_outlives_its_run(storage: Storage, clock: MovedClock):  # proves: APR-2, GATE-8
    office = Office(window=timedelta(days=3))
    office.before = lambda run: None
    async with storage.open(clock=clock) as rt:
        await staffed(rt)
        await rt.start(office.flow, id=RUN, by=BUYER, behalf=DANA)
        clock.move(timedelta(days=1))
        await office.go(rt)
        ask = await asked(rt)
        assert ask.until == (await rt.show(RUN)).view.opened.window_end
        clock.move(timedelta(days=2, microseconds=1))
        outcome = await office.go(rt)
        assert (outcome.status, outcome.code) == ("expired", "window_over")
        assert await rt.inbox() == []
        with pytest.raises(remit.Refused) as over:
            await answer(rt, ask=ask)
        assert over.value.code == "run.ended"
    assert office.sent == []


# -- whether one is needed -----------------------------------------------------------------------------------------

said: list[Any] = []
CANCELLED = "asyncio.exceptions.CancelledError"


def is_large(order: dict[str, Any]) -> Any:
    answer_ = said.pop() if len(said) > 1 else said[0]
    if isinstance(answer_, BaseException):
        raise answer_
    return answer_


WHEN: list[tuple[str, Any, str]] = [
    ("no", False, "completed"),
    ("yes", True, "waiting"),
    ("it raises", KeyError("limit"), "waiting"),
    ("what it waited for was cancelled", asyncio.CancelledError(), "waiting"),
    ("it exits", SystemExit(1), "waiting"),
    ("neither yes nor no", None, "waiting"),
    ("0, which is no False", 0, "waiting"),
]


@pytest.mark.parametrize(("answer_", "status"), [w[1:] for w in WHEN], ids=[w[0] for w in WHEN])
async def test_what_cannot_say_whether_it_is_needed_says_that_it_is(answer_: Any, status: str):  # proves: APR-1, C16
    office = Office(remit.Rule(approval=remit.Approval({"director"}, HOURS_72, when=is_large)))
    said[:] = [answer_]
    async with remit.open("memory:") as rt:
        await staffed(rt)
        outcome = await office.go(rt)
        assert outcome.status == status
        assert office.sent == ([ORDER] if status == "completed" else [])
        if status == "waiting":
            question = (await judged(rt)).question
            assert question.unanswered == {"KeyError": "KeyError", "CancelledError": CANCELLED}.get(
                type(answer_).__name__, "" if answer_ is True else type(answer_).__name__
            )
            await answer(rt)
            assert (await office.go(rt)).status == "completed"


class Unheard(Exception):
    """Of the application's own."""


async def is_wanted(order: dict[str, Any]) -> Any:
    (answer_,) = said
    if isinstance(answer_, BaseException):
        raise answer_
    return answer_


WANTED = [
    ("neither yes nor no", None, ("waiting", "unknown", "NoneType")),
    ("1, which is no True", 1, ("waiting", "unknown", "int")),
    ("an error", TimeoutError("no answer"), ("waiting", "unknown", "TimeoutError")),
    ("what it waited for was cancelled", asyncio.CancelledError(), ("waiting", "unknown", CANCELLED)),
    ("it exits", SystemExit(1), ("waiting", "unknown", "SystemExit")),
    ("an error of the application's", Unheard(), ("waiting", "unknown", f"{__name__}.Unheard")),
    ("no", False, ("abandoned", "no", "")),
]


@pytest.mark.parametrize(("answer_", "told"), [w[1:] for w in WANTED], ids=[w[0] for w in WANTED])
async def test_what_cannot_say_whether_it_is_wanted_says_why(
    answer_: Any, told: tuple[str, str, str]
):  # proves: GATE-2
    office = Office(remit.Rule(still_wanted=is_wanted))
    said[:] = [answer_]
    async with remit.open("memory:") as rt:
        await staffed(rt)
        outcome = await office.go(rt)
        question = (await judged(rt)).question
        assert (outcome.status, question.wanted, question.unwanted_by) == told
    assert office.sent == []


async def test_what_was_asked_at_the_opening_and_is_gone_from_the_code_cannot_say_either():  # proves: GATE-2
    office = Office(remit.Rule(still_wanted=is_wanted))
    said[:] = [None]
    async with remit.open("memory:") as rt:
        await staffed(rt)
        await office.go(rt)
        office.rule = remit.Rule()
        await office.go(rt)
        question = (await judged(rt)).question
        assert (question.wanted, question.unwanted_by) == ("unknown", "LookupError")
        assert question.wanted_lost.endswith("test_approvals.is_wanted")
    assert office.sent == []


async def test_a_question_that_no_rule_asks_any_more_is_closed_when_the_effect_happens():  # proves: APR-1
    office = Office(remit.Rule(approval=remit.Approval({"director"}, HOURS_72, when=is_large)))
    said[:] = [True]
    async with remit.open("memory:") as rt:
        await staffed(rt)
        await office.go(rt)
        said[:] = [False]
        assert (await office.go(rt)).status == "completed"
        assert await voided(rt) == [["approval.not_needed"]]
        assert await rt.inbox() == []
    assert office.sent == [ORDER]


def test_the_rule_of_these_stories_is_what_they_say() -> None:
    assert (BY_DIRECTOR.roles, BY_DIRECTOR.alone, BY_DIRECTOR.immaterial) == (("director",), False, ())
