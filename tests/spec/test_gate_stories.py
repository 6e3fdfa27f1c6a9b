"""The gate, told as stories: who goes on with a run, what is read again each time, and what if it can't be."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any

import pytest

import remit
from remit.authority.gate import judge
from remit.engine.process.journal import read_journal
from remit.errors import StoreUnavailable
from remit.facts.entry import HEADER
from remit.facts.kinds import GateJudged, RunEnded
from remit.facts.names import AUTHORITY
from remit.store.memory import MemoryStore
from remit.store.rows import Peek, RunRow
from remit.store.units import Opening
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.office import (
    BUYER,
    BY_DIRECTOR,
    DANA,
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
)
from tests.support.vault import Vault

HOUR = timedelta(hours=1)
Authority_ = Any


async def main_of(rt: remit.Runtime, run: str = RUN) -> list[Any]:
    return list(read_journal(rt._store.ledger.origin, await rt.read(run))[1].main)


async def refusal(going: Awaitable[Any]) -> tuple[str, str, str]:
    """Code of a refusal, whom it is about, and the command that mends it."""
    with pytest.raises(remit.Refused) as refused:
        await going
    assert refused.value.message.endswith("No run was opened.")
    return refused.value.code, refused.value.message.split()[0].rstrip(","), refused.value.hint.partition("` ")[0] + "`"


# -- who goes on ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resume", [{"buyer"}, "anyone"], ids=["by role", "by anyone"])
async def test_nothing_is_opened_under_a_name_that_nothing_could_go_on_under(storage, resume: Any):  # proves: GATE-3
    office = Office(remit.Rule(), resume=resume)
    async with storage.open() as rt:
        await staffed(rt)
        await rt.disable(BUYER, by=ROOT)
        for opening in (office.go(rt), rt.start(office.flow, id=RUN, by=BUYER)):
            assert await refusal(opening) == ("executor.disabled", BUYER, f"`remit who {BUYER}`")
        await rt.enable(BUYER, by=ROOT)
        await rt.disable(DANA, by=ROOT)
        assert (await refusal(office.go(rt)))[:2] == ("executor.disabled", DANA)
        await rt.enable(DANA, by=ROOT)
        if resume != "anyone":
            await rt.revoke(BUYER, "buyer", by=ROOT)
            await rt.grant(BUYER, "clerk", by=ROOT)
            assert (await refusal(office.go(rt)))[:2] == ("executor.role", BUYER)
            with pytest.raises(remit.Refused, match="Where no executor is named"):
                await rt.run(office.flow, id=RUN)
            await rt.grant(BUYER, "buyer", by=ROOT)
        assert await rt.list() == []
        assert (await office.go(rt)).status == "completed"


async def test_what_another_process_grants_and_revokes_holds_for_the_next_run(
    database: Storage,
):  # proves: GATE-2, GATE-3
    office = Office(remit.Rule())
    async with database.open() as rt, database.open() as other:
        await staffed(rt)
        assert (await office.go(rt, "r-1")).status == "completed"  # from here on it knows the directory by heart
        await other.revoke(BUYER, "buyer", by=ROOT)
        assert (await refusal(office.go(rt, "r-2")))[0] == "executor.role"
        await other.grant(BUYER, "buyer", by=ROOT)
        assert (await office.go(rt, "r-3")).status == "completed"
        assert {row.run for row in await rt.list()} == {"r-1", "r-3"}


async def test_a_role_that_is_revoked_while_a_run_is_being_opened_opens_nothing():  # proves: GATE-2, GATE-3
    class Slow(MemoryStore):
        async def open_run(self, opening: Opening) -> RunRow | None:
            if opening.run == "r-2":
                await rt.revoke(BUYER, "buyer", by=ROOT)
            return await super().open_run(opening)

    office = Office(remit.Rule())
    async with remit.open(Slow()) as rt:
        await staffed(rt)
        assert (await office.go(rt, "r-1")).status == "completed"
        assert (await refusal(office.go(rt, "r-2")))[0] == "executor.role"
        assert [row.run for row in await rt.list()] == ["r-1"]


async def test_a_new_run_asks_nothing_of_a_directory_that_is_known():
    """It is opened only while that is the newest: a question of its own would be one more round trip for each run."""
    asked: list[int] = []

    class Asked(MemoryStore):
        async def peek(self, run_key: int) -> Peek | None:
            asked.append(run_key)
            return await super().peek(run_key)

    office = Office(remit.Rule())
    async with remit.open(Asked()) as rt:
        await staffed(rt)
        asked.clear()
        for number in range(3):
            assert (await office.go(rt, f"r-{number}")).status == "completed"
        assert asked == []


async def test_a_run_that_is_there_is_judged_and_not_refused(storage: Storage):  # proves: GATE-3
    office = Office()
    async with storage.open() as rt:
        await staffed(rt)
        await rt.start(office.flow, id=RUN, by=BUYER, behalf=DANA)
        await rt.disable(BUYER, by=ROOT)
        assert (await office.go(rt)).code == "resume_denied"
        assert await rt.start(office.flow, id=RUN, by=BUYER, behalf=DANA) == RUN


async def test_revoked_during_the_pause_it_fails_before_any_of_its_code_runs(storage: Storage):  # proves: GATE-3
    """Approved all the same; the chain says why, and whoever waits is told."""
    office, ran = Office(), []
    office.before = lambda run: ran.append("flow")
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await rt.revoke(BUYER, "buyer", by=ROOT, reason="left the team")
        await answer(rt)
        ran.clear()
        outcome = await office.go(rt)
        assert (outcome.status, outcome.code, ran, office.sent) == ("failed", "resume_denied", [], [])
        last = await main_of(rt)
        told, end = last[-2].fact, last[-1].fact
        assert isinstance(told, GateJudged)
        assert isinstance(end, RunEnded)
        assert (told.verdict.decision, told.verdict.findings[2].code) == ("abandon", "authority.role")
        assert told.question.executor.roles == []
        assert judge(told.question) == told.verdict
        rows = await rt._store.read_outbox("default", 0, 100)
        assert (rows[-1].run, rows[-1].kind) == (RUN, "RunStopped")
        assert json.loads(rows[-1].data) == {"code": "resume_denied", "status": "failed"}
        # It stays so, also when the role comes back.
        await rt.grant(BUYER, "buyer", by=ROOT)
        assert (await office.go(rt)).code == "resume_denied"
        assert await rt.inbox() == []


async def test_a_run_says_under_which_authority_it_was_opened(storage: Storage):  # proves: GATE-2
    office = Office()
    async with storage.open() as rt:
        await staffed(rt)
        version = (await rt.authority()).version
        await office.go(rt)
        assert (await rt.set_policy({"version": "q1"}, by=ROOT)) == version + 1
        await office.go(rt, "r-2")
        opened = [(await rt.show(run)).view.opened for run in (RUN, "r-2")]
        digest = (await rt.authority()).policy_digest
        assert [(each.authority, each.policy) for each in opened] == [(version, ""), (version + 1, digest)]


async def test_a_stand_in_with_more_rights_does_not_go_on_with_it(storage: Storage):  # proves: GATE-3
    office = Office()
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        for role in ("buyer", "director", "admin"):
            await rt.grant("agent:chief", role, by=ROOT)
        before = (await rt.show(RUN)).row
        for by, behalf in (("agent:chief", DANA), (BUYER, DORA), (BUYER, None), (ROOT, DANA), (None, None)):
            with pytest.raises(remit.ExecutorMismatch) as refused:
                await rt.run(office.flow, id=RUN, by=by, behalf=behalf)
            assert refused.value.code == "executor_mismatch"
        assert (await rt.show(RUN)).row == before
        assert office.sent == []
        # An operator's `resume` goes on as the executor, and what that one may not is not done.
        await rt.revoke(BUYER, "buyer", by=ROOT)
        assert (await rt.resume(RUN, office.flow)).code == "resume_denied"
    assert office.sent == []


async def _revoke_executor(rt: remit.Runtime) -> None:
    await rt.revoke(BUYER, "buyer", by=ROOT)


async def _disable_executor(rt: remit.Runtime) -> None:
    await rt.disable(BUYER, by=ROOT)


async def _disable_behalf(rt: remit.Runtime) -> None:
    await rt.disable(DANA, by=ROOT)


async def _disable_person(rt: remit.Runtime) -> None:
    await rt.link(BUYER, person="user:keeper", by=ROOT)
    await rt.disable("user:keeper", by=ROOT)


LOSSES: list[tuple[str, str, Any]] = [
    ("the role of the executor", "authority.role", _revoke_executor),
    ("the executor", "identity.disabled", _disable_executor),
    ("the one on whose behalf it acts", "identity.disabled", _disable_behalf),
    ("the person behind the executor", "identity.disabled", _disable_person),
]


@pytest.mark.parametrize(("code", "lose"), [loss[1:] for loss in LOSSES], ids=[loss[0] for loss in LOSSES])
@pytest.mark.parametrize("when", ["in the pause", "between two effects"])
async def test_what_is_lost_holds_at_the_very_next_crossing(code: str, lose: Any, when: str, database: Storage):
    # proves: GATE-3, GATE-4
    """Also where another process took it away, and this one is in the middle of its flow."""
    office = Office(remit.Rule())

    async with database.open() as rt, database.open() as other:
        await staffed(rt)

        async def elsewhere() -> None:
            await lose(other)

        @remit.flow(contract=remit.Contract(**office.contract), name="purchase")
        async def purchase(run: remit.Run) -> str:
            await run.effect(office.pay, ORDER)
            if when == "in the pause":
                await run.approve("terms", {}, roles={"director"}, within=HOUR)
            else:
                await run.step(elsewhere)
            outcome: str = await run.effect(office.pay, ORDER | {"amount": 1})
            return outcome

        outcome = await rt.run(purchase, id=RUN, by=BUYER, behalf=DANA)
        if when == "in the pause":
            await answer(rt)
            await elsewhere()
            outcome = await rt.run(purchase, id=RUN, by=BUYER, behalf=DANA)
        assert (outcome.status, outcome.code) == ("failed", "resume_denied")
        assert "Done before: pay" in outcome.reason
        assert code in [finding.code for finding in (await judged(rt)).verdict.findings]
    assert office.sent == [ORDER]


async def test_who_is_not_known_does_not_act_where_roles_are_named(storage: Storage):  # proves: GATE-3, GATE-7
    office = Office()
    async with storage.open() as rt:
        assert await refusal(office.go(rt)) == ("executor.unknown", BUYER, f"`remit grant {BUYER} buyer --by user:YOU`")
        await rt.grant(BUYER, "buyer", by=ROOT)
        assert await refusal(office.go(rt)) == ("executor.unknown", DANA, f"`remit grant {DANA} ROLE --by user:YOU`")
        assert await rt.list() == []  # and the id is free: a grant that was forgotten costs nothing
        anyone = Office(remit.Rule(), resume="anyone")
        assert (await anyone.go(rt, "r-2")).status == "completed"
    assert office.sent == []


def test_no_rule_for_a_resume_is_no_resume() -> None:  # proves: GATE-7
    for rule in (None, set(), "buyer", {"anyone"}, ""):
        with pytest.raises(remit.DeclarationRefused) as refused:
            remit.Contract(version="1", resume=rule)  # type: ignore[arg-type]
        assert refused.value.code == "contract.resume"
    assert remit.Contract(version="1", resume="anyone").roles == ["anyone"]


async def test_code_that_now_lets_anyone_in_does_not_undo_what_the_run_was_opened_under(storage):  # proves: GATE-7
    office = Office()
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await rt.revoke(BUYER, "buyer", by=ROOT)
        office.contract["resume"] = "anyone"
        assert (await office.go(rt)).code == "resume_denied"
        # And code that asks for more than it did is heard as well.
        strict = Office(resume={"auditor"})
        assert (await refusal(strict.go(rt, "r-2")))[0] == "executor.role"


# -- what can't be read --------------------------------------------------------------------------------------------


def spoil(kept: Any) -> None:
    """One grant, made out to somebody else."""
    entry = kept.main[1]
    kept.main[1] = type(entry)(
        entry.lane, entry.seq, entry.header, entry.body.replace(b"buyer", b"eater"), entry.salt, entry.value
    )


def cut(kept: Any) -> None:
    """The last entry gone."""
    kept.main.pop()


@pytest.mark.parametrize("harm", [spoil, cut], ids=["edited", "cut"])
async def test_a_directory_that_does_not_verify_lets_nothing_proceed(harm, lasting: Storage):  # proves: GATE-5, LOG-10
    office, vault = Office(), Vault(lasting.make(None))
    async with lasting.open() as rt:
        await staffed(rt)
        await office.go(rt)
        ask = await answer(rt)
        await office.go(rt, "r-2")
        second = await asked(rt)
    whole, wrong = await vault.read(), await vault.read()
    harm(wrong[AUTHORITY])
    await vault.write({AUTHORITY: wrong[AUTHORITY]})

    async with lasting.open() as rt:
        outcome = await office.go(rt)
        assert (outcome.status, outcome.waits_for, outcome.code) == ("waiting", "gate", "authority.unreadable")
        assert "can't be believed" in outcome.reason
        entries = await kinds_of(rt)
        assert (await office.go(rt)).code == "authority.unreadable"
        assert await kinds_of(rt) == entries  # said once
        assert (await rt.why(RUN)).code == "authority.unreadable"
        refused: list[Any] = [
            office.go(rt, "r-3"),
            rt.decide(second.id, "approve", by=DORA, seen=second.version),
            rt.grant("user:x", "director", by=ROOT),
            rt.set_policy({"version": "1"}, by=ROOT),
            rt.authority(),
        ]
        for call in refused:
            with pytest.raises(remit.AuthorityUnreadable) as unreadable:
                await call
            assert unreadable.value.code == "authority.unreadable"
        found = await rt.verify(AUTHORITY)
        assert found is not None
        assert found.run == AUTHORITY
        assert [row.run for row in await rt.list(quarantined=True)] == []
    assert office.sent == []

    await vault.write({AUTHORITY: whole[AUTHORITY]})
    async with lasting.open() as rt:
        assert (await office.go(rt)).status == "completed"
        assert (await rt.ask(ask.id)).state == "used"
    assert office.sent == [ORDER]


async def test_a_directory_that_became_shorter_is_not_believed(postgres_database: str):  # proves: GATE-5, LOG-5
    """The newest revocation is cut off with the row's head, so the chain holds: whoever knew it does not forget.

    A process that comes later does not know it; what tells those is a memory outside the database.
    """
    office, vault = Office(), Vault(postgres_database)
    async with remit.open(postgres_database) as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        await rt.revoke(BUYER, "buyer", by=ROOT)
        kept = (await vault.read())[AUTHORITY]
        gone = kept.main.pop()
        kept.row |= {"head": bytes.fromhex(HEADER.read(gone.header).prev), "seq": kept.row["seq"] - 1}
        await vault.write({AUTHORITY: kept})
        outcome = await office.go(rt)
        assert (outcome.waits_for, outcome.code) == ("gate", "authority.unreadable")
        assert "has 5 entries and had 6" in outcome.reason
        assert office.sent == []
        with pytest.raises(remit.AuthorityUnreadable) as unread:
            await rt.authority()
        assert "restart this process" in unread.value.hint
    async with remit.open(postgres_database) as rt:
        assert (await rt.authority()).version == 5


@pytest.mark.parametrize("read", ["peek", "read_used", "read_key"])
async def test_a_store_that_does_not_answer_is_a_no_that_no_flow_can_swallow(
    read, monkeypatch
):  # proves: GATE-5, FX-11
    office = Office(remit.Rule(ceiling=remit.Ceiling("amount", max=100_000, per="day")))
    office.effect = {"business_key": "payee"}

    @remit.flow(contract=remit.Contract(effects={"pay": office.rule}, **office.contract), name="purchase")
    async def purchase(run: remit.Run) -> str:
        try:
            outcome: str = await run.effect(office.pay, ORDER)
        except Exception:
            return "another way"
        return outcome

    async with remit.open("memory:") as rt:
        await staffed(rt)
        await rt.start(purchase, id=RUN, by=BUYER, behalf=DANA)
        before = (await rt.show(RUN)).row

        async def silent(*_: object) -> None:
            raise StoreUnavailable("The store did not answer.")

        with monkeypatch.context() as patched:
            patched.setattr(rt._store, read, silent)
            with pytest.raises(StoreUnavailable):
                await rt.run(purchase, id=RUN, by=BUYER, behalf=DANA)
        after = (await rt.show(RUN)).row
        assert (after.head, after.seq, after.worker) == (before.head, before.seq, None)
        assert office.sent == []
        assert (await rt.run(purchase, id=RUN, by=BUYER, behalf=DANA)).value == "paid 82000"


# -- the procurement story -----------------------------------------------------------------------------------------


async def test_asked_on_tuesday_approved_on_friday_nothing_commits(storage, clock: MovedClock):  # proves: GATE-6, C15
    """The ceiling is cut, the quote expires, the figures are edited; each of the three is named."""
    pounds = 100
    rule = remit.Rule(
        approval=BY_DIRECTOR, evidence={"quote"}, ceiling=remit.Ceiling("amount", max=50_000 * pounds, currency="GBP")
    )
    office = Office(rule)
    office.order = {"amount": 38_000 * pounds, "currency": "GBP", "payee": "ACME Ltd"}
    issued = clock.now()

    def quote(run: remit.Run) -> None:
        from datetime import UTC, datetime

        as_of = datetime.fromtimestamp(issued / 1e6, tz=UTC)
        run.evidence("quote", {"price": 38_000 * pounds}, as_of=as_of, fresh_for=timedelta(hours=48))

    office.before = quote
    async with storage.open(clock=clock) as rt:  # Tuesday
        await staffed(rt)
        assert (await office.go(rt)).waits_for == "approval"
        ask = await asked(rt)
        assert ask.payload == office.order
        assert [(e.name, e.value) for e in ask.evidence] == [("quote", {"price": 38_000 * pounds})]
    clock.move(timedelta(hours=24))
    async with storage.open(clock=clock) as rt:  # Wednesday
        await rt.set_policy(
            {"version": "q1", "ceilings": {"pay.amount": {"max": 25_000 * pounds, "currency": "GBP"}}}, by=ROOT
        )
    clock.move(timedelta(hours=47))
    async with storage.open(clock=clock) as rt:  # Friday
        await answer(rt, ask=ask)
        office.order |= {"amount": 37_999 * pounds}
        told = (await rt.judge(RUN, office.flow)).verdict
        outcome = await office.go(rt)
        assert (outcome.status, outcome.code) == ("failed", "ceiling_exceeded")
        last = await judged(rt)
        assert last.verdict == told
        assert {f.code: f.detail for f in last.verdict.findings if not f.ok} == {
            "ceiling.exceeded": "pay.amount/GBP/effect",
            "evidence.expired": "quote",
            "approval.policy": "approval.policy, approval.payload, approval.shown",
        }
        assert judge(last.question) == last.verdict
        assert "EffectIntended" not in await kinds_of(rt)
        assert [effect.state for effect in await rt.effects(RUN)] == []
    assert office.sent == []


# -- the directory and the policy are a journal --------------------------------------------------------------------


async def test_every_act_on_directory_and_policy_is_journaled_with_who_and_why(
    storage: Storage,
):  # proves: LOG-10, APR-3
    async with storage.open() as rt:
        await rt.grant(DORA, "director", by=ROOT, reason="board minute 12")
        await rt.revoke(DORA, "director", by=ROOT, reason="resigned")
        await rt.disable(DORA, by="user:ops", reason="left")
        await rt.enable(DORA, by=ROOT, reason="came back")
        await rt.link("user:dora-2", person=DORA, by=ROOT, reason="same badge")
        version = await rt.set_policy({"version": "q1", "forbid": ["pay"]}, by=ROOT, reason="freeze")
        entries = [(HEADER.read(e.header), json.loads(e.value or b"")) for e in (await rt.read(AUTHORITY)).main]
        told = [(header.kind, header.by, value["detail"]) for header, value in entries[1:]]
        assert told == [
            ("RoleGranted", ROOT, "board minute 12"),
            ("RoleRevoked", ROOT, "resigned"),
            ("PrincipalDisabled", "user:ops", "left"),
            ("PrincipalEnabled", ROOT, "came back"),
            ("PrincipalLinked", ROOT, "same badge"),
            ("PolicySet", ROOT, "freeze"),
        ]
        assert (version, (await rt.authority()).version) == (7, 7)
        assert await rt.verify(AUTHORITY) is None


async def test_two_processes_read_one_directory(database: Storage):  # proves: GATE-4, LOG-10
    office = Office()
    async with database.open() as rt, database.open() as other:
        await staffed(rt)
        await office.go(rt)
        await answer(other)
        await other.revoke(DORA, "director", by=ROOT)
        assert (await office.go(rt)).waits_for == "approval"
        assert (await rt.authority()).version == (await other.authority()).version
        await rt.grant(DORA, "director", by=ROOT)
        await answer(other)
        assert (await office.go(other)).status == "completed"
    assert office.sent == [ORDER]


async def test_a_stricter_policy_holds_at_once_and_a_laxer_one_never(storage: Storage):  # proves: C15, GATE-2
    office = Office(remit.Rule())
    async with storage.open() as rt:
        await staffed(rt)
        await rt.set_policy({"version": "1", "approvals": {"pay": {"roles": ["director"], "within": "1h"}}}, by=ROOT)
        assert (await office.go(rt)).waits_for == "approval"
        await answer(rt)
        await rt.set_policy({"version": "2", "approvals": {"pay": {"roles": ["director"], "within": "30m"}}}, by=ROOT)
        assert (await office.go(rt)).waits_for == "approval"
        await answer(rt)
        await rt.set_policy({"version": "3", "forbid": ["pay"]}, by=ROOT)
        outcome = await office.go(rt)
        assert (outcome.status, outcome.code) == ("abandoned", "policy_forbids")

        await rt.set_policy({"version": "4"}, by=ROOT)
        strict = Office(remit.Rule(approval=remit.Approval({"director"}, HOURS_72)))
        assert (await strict.go(rt, "r-2")).waits_for == "approval"
    assert office.sent == strict.sent == []


async def test_a_verdict_that_holds_a_call_is_written_when_it_says_something_new(
    storage: Storage, clock: MovedClock
):  # proves: GATE-2
    """docs/adr/0023: however often somebody looks, the journal grows with what happens."""
    office = Office()
    async with storage.open(clock=clock) as rt:
        await staffed(rt)
        await office.go(rt)
        before = await kinds_of(rt)
        for _ in range(3):
            clock.move(HOUR)
            assert (await office.go(rt)).waits_for == "approval"
        assert await kinds_of(rt) == before and before.count("GateJudged") == 1
        office.order["amount"] += 1  # another request is another question
        await office.go(rt)
        assert (await kinds_of(rt)).count("GateJudged") == 2
        await answer(rt)
        assert (await office.go(rt)).status == "completed"
        assert (await kinds_of(rt)).count("GateJudged") == 3


async def test_a_run_goes_on_under_a_policy_that_forbids_what_it_does_not_call(storage: Storage):  # proves: GATE-2
    """A plain resume notes that the policy moved; what it forbids is judged at the effect."""
    office, broken = Office(), [True]

    @remit.step
    async def choose() -> bool:
        if broken:
            raise OSError("no answer")
        return False

    @remit.flow(contract=remit.Contract(effects={"pay": office.rule}, **office.contract), name="purchase")
    async def purchase(run: remit.Run) -> str:
        told: str = await run.effect(office.pay, ORDER) if await run.step(choose) else "nothing to pay"
        return told

    async with storage.open() as rt:
        await staffed(rt)
        await rt.set_policy({"version": "1"}, by=ROOT)
        with pytest.raises(remit.StepError):
            await rt.run(purchase, id=RUN, by=BUYER, behalf=DANA)
        await rt.set_policy({"version": "2", "forbid": ["pay"]}, by=ROOT)
        found = (await rt.judge(RUN, purchase)).verdict
        assert (found.decision, [each.code for each in found.findings if each.code]) == ("resume", ["policy.moved"])
        broken.clear()
        assert (await rt.run(purchase, id=RUN, by=BUYER, behalf=DANA)).value == "nothing to pay"
    assert office.sent == []


async def test_code_of_a_higher_risk_has_no_more_time_than_the_run_was_opened_with(
    clock: MovedClock,
):  # proves: GATE-8
    office = Office(risk="low")
    async with remit.open("memory:", clock=clock) as rt:
        await staffed(rt)
        await rt.set_policy({"version": "1", "windows": {"low": "1h"}}, by=ROOT)
        assert (await office.go(rt)).waits_for == "approval"
        office.contract |= {"risk": "medium", "version": "4"}
        clock.move(2 * HOUR)
        outcome = await office.go(rt)
        assert (outcome.status, outcome.code) == ("expired", "window_over")
    assert office.sent == []
