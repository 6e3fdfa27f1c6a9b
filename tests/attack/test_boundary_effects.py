"""Attacks on the effect itself: a crash behind it, its key used again, and a way around the gate."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as replace_struct

import remit
from remit.authority.gate import judge
from remit.engine.boundary import crossing, port
from remit.engine.turn.wish import Permit
from remit.facts.boundary import Illegal
from remit.facts.judgement import Question, Verdict
from tests.attack.boundary_payer import payment
from tests.spec.conftest import Storage
from tests.support.office import BUYER, DANA, DORA, ORDER, ROOT, RUN, Office, answer, staffed

ROOT_FOLDER = Path(__file__).parents[2]


def payer(url: str, book: Path, where: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.attack.boundary_payer", url, str(book), where]
    path = os.pathsep.join([str(ROOT_FOLDER), *sys.path])
    return subprocess.run(
        command, cwd=ROOT_FOLDER, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60
    )


async def killed(place: Storage, book: Path, where: str) -> None:
    async with place.open() as rt:
        await staffed(rt)
    dead = await asyncio.to_thread(payer, place.make(None), book, where)
    assert dead.returncode == -signal.SIGKILL


# 49


async def test_killed_behind_the_effect_it_is_in_doubt_and_nobody_calls_again(lasting: Storage, tmp_path: Path):
    # proves: FX-2, FX-3, C1
    book = tmp_path / "book"
    await killed(lasting, book, "after")
    for _ in range(2):
        told = await asyncio.to_thread(payer, lasting.make(None), book, "never")
        assert told.stdout.split() == ["in_doubt", "effect.in_doubt"]
    async with lasting.open() as rt:
        (doubt,) = await rt.effects(RUN, in_doubt=True)
        (line,) = book.read_text().splitlines()
        assert line == f"paid 5 {doubt.key}"  # whoever looks outside knows what to look for
        assert (doubt.call, doubt.calls) == ("pay", 1)
        await rt.resolve(RUN, "pay", "ok", by=DORA, evidence="their statement", outcome="paid 5")
        assert (await rt.run(payment(str(book), ""), id=RUN, by=BUYER, behalf=DANA)).value == "paid 5"
    assert len(book.read_text().splitlines()) == 1


async def test_killed_ahead_of_the_effect_whoever_takes_over_passes_the_gate(lasting: Storage, tmp_path: Path):
    # proves: GATE-1, GATE-3
    book = tmp_path / "book"
    await killed(lasting, book, "before")
    async with lasting.open() as rt:
        await rt.revoke(BUYER, "buyer", by=ROOT)
    told = await asyncio.to_thread(payer, lasting.make(None), book, "never")
    assert told.stdout.split() == ["failed", "resume_denied"]
    assert not book.exists()


# 50


async def test_the_same_business_key_with_another_payload_is_a_conflict(database: Storage):  # proves: FX-8
    office = Office(remit.Rule())
    office.effect = {"business_key": "invoice"}
    office.order = ORDER | {"invoice": "INV-7"}
    async with database.open() as rt:
        await staffed(rt)
        assert (await office.go(rt)).status == "completed"
        for run, order in (("r-2", {"amount": 1}), ("r-3", {})):
            office.order = office.order | order
            outcome = await office.go(rt, run)
            assert (outcome.status, outcome.code) == ("failed", "idempotency_conflict")
            finding = (await rt.show(run)).view.boundary.judged
            assert finding is not None
            assert finding.verdict.findings[6].code == "idempotency.conflict"
            assert finding.verdict.findings[6].detail == f"{RUN} pay"
    assert [order["amount"] for order in office.sent] == [82_000]


async def test_the_same_call_with_another_payload_is_other_code(database: Storage):  # proves: FX-4, C14
    office = Office(remit.Rule())
    office.body = lambda order, key: 1 / 0
    async with database.open() as rt:
        await staffed(rt)
        assert (await office.go(rt)).status == "in_doubt"
        office.order["amount"] = 820_000
        with pytest.raises(remit.DefinitionIncompatible) as other:
            await office.go(rt)
        assert other.value.code == "definition_incompatible"
    assert [order["amount"] for order in office.sent] == [82_000]


# 51


class Bypass:
    """New code in the engine that wants to reach an effect: what it has in hand when the gate was passed once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.turn: Any = None
        self.permits: list[Permit] = []
        real = port.touch

        async def touch(turn: Any, effect: Any, permit: Permit) -> Any:
            self.turn, self.effect = turn, effect
            self.permits.append(permit)
            return await real(turn, effect, permit)

        monkeypatch.setattr("remit.engine.boundary.effect.touch", touch)
        self.touch = real

    async def is_refused(self, permit: Permit) -> None:
        with pytest.raises(remit.PermitRefused) as refused:
            await self.touch(self.turn, self.effect, permit)
        assert refused.value.code == "permit.refused"


async def test_a_path_that_skips_the_gate_has_no_permit(monkeypatch, on_sqlite):  # proves: GATE-1, FX-11
    """Neither one that was used, nor one that it makes itself, of another call, intention, key or epoch."""
    office, bypass = Office(remit.Rule()), Bypass(monkeypatch)

    @remit.flow(contract=remit.Contract(**office.contract), name="purchase")
    async def purchase(run: remit.Run) -> str:
        outcome: str = await run.effect(office.pay, ORDER)
        (used,) = bypass.permits
        await bypass.is_refused(used)
        for fields in ({"name": "pay#2"}, {"epoch": used.epoch + 1}, {"intention": "00" * 32}, {"key": "k"}):
            await bypass.is_refused(used._replace(**fields))
            bypass.turn.permits.clear()
        return outcome

    async with on_sqlite.place.open() as rt:
        await staffed(rt)
        assert (await rt.run(purchase, id=RUN, by=BUYER, behalf=DANA)).status == "completed"
    assert office.sent == [ORDER]


async def test_a_permit_is_of_this_intention_and_this_epoch(monkeypatch, on_sqlite):  # proves: GATE-1, OWN-3
    """Also one that was slipped into the set of those that were given."""
    office, bypass = Office(remit.Rule()), Bypass(monkeypatch)
    refused: list[Permit] = []
    real = crossing._pass

    async def slipping(*given: Any) -> Any:
        permit = await real(*given)
        assert isinstance(permit, Permit)
        turn = given[0]
        bypass.turn, bypass.effect = turn, given[1].effect
        for fields in ({"epoch": permit.epoch + 1}, {"intention": "00" * 32}, {"name": "other"}):
            wrong = permit._replace(**fields)
            turn.permits.add(wrong)
            await bypass.is_refused(wrong)
            refused.append(wrong)
        return permit

    monkeypatch.setattr(crossing, "_pass", slipping)
    async with on_sqlite.place.open() as rt:
        await staffed(rt)
        assert (await office.go(rt)).status == "completed"
    assert (len(refused), office.sent) == (3, [ORDER])


async def test_a_permit_is_good_once_also_while_its_effect_is_under_way(
    monkeypatch, on_sqlite
):  # proves: GATE-1, FX-11
    bypass, began = Bypass(monkeypatch), []

    @remit.effect
    async def pay(amount: int, *, key: str) -> str:
        began.append(amount)
        await bypass.is_refused(bypass.permits[-1])
        await bypass.is_refused(bypass.permits[-1]._replace())
        return "paid"

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"))
    async def purchase(run: remit.Run) -> str:
        outcome: str = await run.effect(pay, 5)
        return outcome

    async with on_sqlite.place.open() as rt:
        assert (await rt.run(purchase, id=RUN)).value == "paid"
    assert began == [5]


async def test_an_effect_is_not_called_by_its_name_inside_a_run(on_sqlite):  # proves: GATE-1
    office, codes = Office(remit.Rule()), []
    pay = office.pay

    async def try_it(call: Any) -> None:
        try:
            await call()
        except remit.CallRefused as refused:
            codes.append(refused.code)

    @remit.flow(contract=remit.Contract(**office.contract), name="purchase")
    async def purchase(run: remit.Run) -> None:
        async def in_a_step() -> None:
            await try_it(lambda: pay(ORDER, key="mine"))
            await try_it(lambda: run.effect(pay, ORDER))

        await try_it(lambda: pay(ORDER, key="mine"))
        await try_it(lambda: run.effect(lambda order, *, key: office.sent.append(order), ORDER))  # type: ignore[arg-type]
        await run.step(in_a_step)

    async with on_sqlite.place.open() as rt:
        await staffed(rt)
        await rt.run(purchase, id=RUN, by=BUYER, behalf=DANA)
    assert (len(codes), office.sent) == (4, [])


async def test_a_bribed_judge_cannot_turn_a_no_into_a_yes(monkeypatch, on_sqlite):  # proves: GATE-1, LOG-2
    """What it lets pass is written, does not fold, and so the body never begins; the next reader finds it."""
    office = Office()

    def bribed(question: Question) -> Verdict:
        return replace_struct(judge(question), decision="resume", code="")

    async with on_sqlite.place.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt, "deny")
        with monkeypatch.context() as patched:
            patched.setattr(crossing, "judge", bribed)
            with pytest.raises(Illegal, match="an approval that nobody gave"):
                await office.go(rt)
        assert office.sent == []
        with pytest.raises(remit.Tampered) as found:
            await office.go(rt)
        assert found.value.code == "chain.move"
        assert [row.run for row in await rt.list(quarantined=True)] == [RUN]
    assert office.sent == []
