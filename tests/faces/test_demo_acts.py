"""The acts of the demo at the bank, each played on its own: real processes, a real bank, SQLite.

What an act found is held against what its ledger and the bank say, not against its own words.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import remit
from examples.procurement import show
from examples.procurement.acts import director, friday, january, killed, revoked
from examples.procurement.bank import client
from examples.procurement.bank.order import Order
from examples.procurement.claims import Claim, Played, claims_at_the_end
from examples.procurement.edited import pay_invoice_edited, slip
from examples.procurement.invoice import QUOTE_HOLDS, RULES, Invoice, Quote, pay_invoice, write_order
from examples.procurement.payments import published
from examples.procurement.stage import BUYER, CLERK, DIRECTOR, Stage, invoice_of, open_ledger, open_stage, outbox
from remit.facts.kinds import EffectIntended, GateJudged

JANUARY = 17_274_927_62

Paid = tuple[Stage, january.Month]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with open_stage(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paid]:
    with open_stage(tmp_path_factory.mktemp("january")) as stage:
        yield stage, january.play(show.console(), stage)


def quote_of_today() -> Quote:
    return Quote(amount=100, issued=datetime.now(UTC))


def broken(claims: list[Claim]) -> list[str]:
    return [claim.says for claim in claims if not claim.holds]


class TestADirector:
    def test_a_payment_above_25_000_waits_for_a_yes_and_is_made_once(self, stage: Stage):  # proves: APR-6, APR-8
        found = director.play(show.console(), stage)
        assert broken(director.claims(found)) == []
        with remit.open(stage.desk("director").ledger_url) as rt:
            (effect,) = rt.effects_sync(director.LARGE.run)
            (receipt,) = [each for each in client.payments(stage.bank) if each.key == effect.key]
            assert (effect.outcome["id"], effect.request["amount"]) == (receipt.id, receipt.amount)
            assert rt.inbox_sync() == []
            assert rt.effects_sync(director.UNWANTED.run) == []
        assert client.counters(stage.bank)["payments"] == 2

    def test_everybody_who_waits_hears_what_was_asked_and_answered(self, stage: Stage):
        director.play(show.console(), stage)
        told = Counter((each.run, each.kind) for each in outbox(stage.desk("director")))
        assert told == {
            (director.LARGE.run, "AskOpened"): 1,
            (director.LARGE.run, "RunStopped"): 2,  # it waited, and completed
            (director.LARGE.run, "AskDecided"): 1,
            (director.UNWANTED.run, "AskOpened"): 1,
            (director.UNWANTED.run, "RunStopped"): 2,
            (director.UNWANTED.run, "AskDecided"): 1,
        }

    def test_a_claim_that_does_not_hold_is_said(self, stage: Stage):
        found = director.play(show.console(), stage)
        assert len(broken(director.claims(dataclasses.replace(found, paid_large=2)))) == 1
        assert len(broken(director.claims(dataclasses.replace(found, paid_waiting=1)))) == 1
        assert len(broken(director.claims(dataclasses.replace(found, paid_denied=1)))) == 1


class TestFriday:
    def test_nothing_commits_and_each_of_three_reasons_is_named(self, stage: Stage):  # proves: GATE-6, GATE-2
        found = friday.play(show.console(), stage)
        assert broken(friday.claims(found)) == []
        assert [(reason.check, reason.then, reason.now) for reason in found.reasons] == [
            ("authority", "£4,000,000.00 at most", "£25,000.00 at most, by policy"),
            ("evidence", "good until Thursday 09:00", "it is Friday 10:00"),
            ("approval", "$.amount £38,184.30", "$.amount £83,184.30"),
        ]
        assert found.ended.status == "failed"
        assert client.counters(stage.bank)["requests"] == 0

    def test_the_journal_holds_the_judgement_and_no_intention(self, stage: Stage):  # proves: GATE-6
        found = friday.play(show.console(), stage)
        with remit.open(stage.desk("friday").ledger_url, clock=friday.Calendar(friday.FRIDAY)) as rt:
            assert rt.verify_sync(friday.THREE.run) is None
            entries = rt.read_sync(friday.THREE.run).main
        kinds = [json.loads(entry.header)["kind"] for entry in entries]
        assert kinds[-2:] == [GateJudged.__name__, "RunEnded"]
        assert EffectIntended.__name__ not in kinds
        assert found.ended.code == "ceiling_exceeded"

    def test_the_approver_sees_the_edited_figure_and_nothing_else(self, stage: Stage):  # proves: APR-1, APR-5, C14
        found = friday.play(show.console(), stage)
        seen = found.asked_anew.difference
        assert seen is not None
        assert [(change.path, change.old, change.new) for change in seen.changes] == [
            ("$.amount", "3923749", "9323749")
        ]
        assert seen.unchanged == 3
        assert found.asked_anew.void[0] == "approval.payload"
        assert (found.denied.status, found.denied.code) == ("failed", "denied")

    def test_with_none_of_the_three_it_is_paid_at_the_last_moment_of_the_quote(self, stage: Stage):
        calendar = friday.Calendar(friday.TUESDAY)
        invoice = invoice_of(friday.THREE, friday.TUESDAY)
        with open_ledger(stage.desk("calm"), clock=calendar) as rt:
            rt.run_sync(pay_invoice, invoice, id="calm", by=BUYER, behalf=CLERK)
            (ask,) = rt.inbox_sync()
            calendar.at = friday.TUESDAY + QUOTE_HOLDS  # the last moment of the quote
            rt.decide_sync(ask.id, "approve", by=DIRECTOR, seen=ask.version)
            assert rt.resume_sync("calm", pay_invoice).status == "completed"
        assert [receipt.amount for receipt in stage.paid({invoice.number})] == [38_184_30]

    def test_the_edit_is_a_slip_of_two_digits(self):
        order = Order(payee="x", amount=38_184_30, currency="GBP", invoice="1")
        assert slip(order) == dataclasses.replace(order, amount=83_184_30)
        assert (pay_invoice_edited.name, pay_invoice_edited.contract) == (pay_invoice.name, RULES)


class TestARevokedExecutor:
    def test_it_ends_resume_denied_before_any_step_and_who_waits_is_told(self, stage: Stage):  # proves: GATE-3
        found = revoked.play(show.console(), stage)
        assert broken(revoked.claims(found)) == []
        with remit.open(stage.desk("revoked").ledger_url) as rt:
            for run in (revoked.BEGUN.run, revoked.OPENED.run):
                outcome = rt.wait_sync(run)
                assert (outcome.status, outcome.code) == ("failed", "resume_denied")
                assert BUYER in outcome.reason
                assert rt.effects_sync(run) == []
            kinds = [json.loads(entry.header)["kind"] for entry in rt.read_sync(revoked.OPENED.run).main]
            assert "StepDone" not in kinds
        assert client.counters(stage.bank)["requests"] == 0

    def test_the_outbox_names_the_run_and_the_code(self, stage: Stage):  # proves: GATE-3
        revoked.play(show.console(), stage)
        stopped = [(each.run, each.what) for each in outbox(stage.desk("revoked")) if each.kind == "RunStopped"]
        failed = {"code": "resume_denied", "status": "failed"}
        waits = {"code": "approval_needed", "status": "waiting"}
        assert stopped == [(revoked.BEGUN.run, waits), (revoked.BEGUN.run, failed), (revoked.OPENED.run, failed)]


class TestAKilledPayer:
    def test_after_the_payment_one_payment_stands_and_the_run_finds_it(self, stage: Stage):  # proves: FX-2, FX-3, C1
        found = killed.play(show.console(), stage)
        assert broken(killed.claims(found)) == []
        counters = client.counters(stage.bank)
        assert (counters["payments"], counters["requests"], counters["above_one"]) == (1, 1, 0)
        with remit.open(stage.desk("killed").ledger_url) as rt:
            (effect,) = rt.effects_sync(killed.PAID.run)
            assert counters["by_key"] == {effect.key: 1}
            outcome = rt.wait_sync(killed.PAID.run)
            assert outcome.value["key"] == effect.key

    def test_a_second_payment_would_be_said(self, stage: Stage):
        found = killed.play(show.console(), stage)
        assert len(broken(killed.claims(dataclasses.replace(found, paid=2, calls=2)))) == 1


class TestJanuary:
    def test_at_most_once_each_and_the_file_adds_up(self, played: Paid):  # proves: FX-3, FX-8, FX-11
        stage, month = played
        assert broken(january.claims(month)) == []
        assert month.ends == {"": 69, "denied": 3, "ceiling_exceeded": 1, "idempotency_conflict": 6}
        assert month.pence.total() == published("2025-01").total_pence == JANUARY
        counters = client.counters(stage.bank)
        assert (counters["payments"], counters["above_one"]) == (69, 0)
        assert counters["amount_total"] == {"GBP": month.pence[""]}

    def test_every_journal_verifies_and_nothing_is_left_open(self, played: Paid):
        stage, _ = played
        with remit.open(stage.desk("january").ledger_url) as rt:
            rows = rt.list_sync(limit=1_000)
            assert Counter(row.status for row in rows) == {"completed": 69, "failed": 10}
            assert [row.run for row in rows if rt.verify_sync(row.run) is not None] == []
            assert rt.inbox_sync() == []
            assert rt.effects_sync(in_doubt=True) == []

    def test_no_invoice_is_paid_twice_also_where_seven_rows_ask_for_it(self, played: Paid):
        stage, _ = played
        invoices = Counter(receipt.invoice for receipt in client.payments(stage.bank))
        assert set(invoices.values()) == {1}

    def test_a_penny_or_a_payment_too_much_would_be_said(self, played: Paid):
        _, month = played
        for wrong in (
            dataclasses.replace(month, pence=month.pence + Counter({"": 1})),
            dataclasses.replace(month, paid_at_bank=70),
            dataclasses.replace(month, above_one=1),
            dataclasses.replace(month, is_same=False),
            dataclasses.replace(month, doubts=0),
            dataclasses.replace(month, found=Counter({"": 69})),
            dataclasses.replace(month, paid_waiting=1),
        ):
            assert len(broken(january.claims(wrong))) == 1


class TestTheEnd:
    def test_a_payment_that_no_run_knows_of_would_be_said(self):
        acts = [Played("One", [], Counter({"": 2, "denied": 1}))]
        counters = {"payments": 2, "above_one": 0, "by_key": {"a": 1, "b": 1}}
        assert broken(claims_at_the_end(acts, counters)) == []
        assert len(broken(claims_at_the_end(acts, {**counters, "payments": 3}))) == 1
        assert len(broken(claims_at_the_end(acts, {**counters, "above_one": 1}))) == 1


class TestTheInvoice:
    def test_more_than_was_quoted_is_not_ordered(self):
        quote = Quote(amount=100, issued=friday.TUESDAY)
        with pytest.raises(ValueError, match="101"):
            write_order(Invoice(number="1", payee="x", amount=101, quote=quote))

    def test_a_declined_payee_is_not_paid_and_not_asked_again(self, stage: Stage):  # proves: FX-13
        client.settings(stage.bank, decline=["x"])
        with open_ledger(stage.desk("declined")) as rt:
            invoice = Invoice(number="1", payee="x", amount=100, quote=quote_of_today())
            for _ in range(2):
                with pytest.raises(remit.EffectDeclined):
                    rt.run_sync(pay_invoice, invoice, id="declined", by=BUYER, behalf=CLERK)
        assert client.counters(stage.bank)["requests"] == 1

    def test_while_the_bank_is_down_nothing_is_in_doubt(self, tmp_path: Path):  # proves: FX-13
        with open_stage(tmp_path) as stage:
            pass
        with open_ledger(stage.desk("down")) as rt, pytest.MonkeyPatch.context() as patch:
            patch.setenv("PROCUREMENT_BANK", stage.bank)
            invoice = Invoice(number="1", payee="x", amount=100, quote=quote_of_today())
            with pytest.raises(remit.EffectDidNotHappen):
                rt.run_sync(pay_invoice, invoice, id="down", by=BUYER, behalf=CLERK)
            assert rt.effects_sync(in_doubt=True) == []
