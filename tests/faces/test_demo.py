"""The demo, as a visitor runs it, and what it left: read through Remit and on the desk, not from its own words."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import shlex
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

import remit
from examples.procurement import claims
from examples.procurement.claims import Death, Month
from examples.procurement.demo import further, plan
from examples.procurement.desk import Desk
from examples.procurement.flow import purchase
from examples.procurement.payments import (
    MONTHS,
    Request,
    RowRefused,
    pence,
    pounds,
    published,
    read_payment,
    repeats_of,
)
from examples.procurement.watch import BrokeDown, ask, count

ROOT = Path(__file__).parents[2]
EDITED = "pay-2025-02-049"
JANUARY, FEBRUARY = 17_274_927_62, 14_204_796_49


@dataclasses.dataclass(frozen=True)
class Told:
    """A demo that is over."""

    status: int
    out: str
    complaint: str
    desk: Desk


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "examples.procurement.demo", "--folder", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=120, check=False)
    return Told(done.returncode, done.stdout, done.stderr, Desk(folder))


class TestTheDemo:
    def test_it_ends_well_and_says_nothing_to_the_error_output(self, demo: Told):
        assert (demo.status, demo.complaint) == (0, ""), demo.out
        assert "All 42 claims of this demo hold" in demo.out
        assert "✗" not in demo.out

    def test_it_fits_a_log_of_80_columns_without_a_terminals_codes(self, demo: Told):
        assert max(len(line) for line in demo.out.splitlines() if "/ledger.db" not in line) <= 80
        assert "\x1b" not in demo.out

    def test_all_purchases_but_the_edited_one_are_complete(self, demo: Told):  # proves: RUN-5, LOG-3
        with remit.open(demo.desk.ledger_url) as rt:
            rows = rt.list_sync(limit=1_000)
            assert Counter((row.status, row.quarantined) for row in rows if row.run != EDITED) == {
                ("completed", False): 145
            }
            assert [row.run for row in rows if row.quarantined] == [EDITED]
            assert [row.run for row in rows if rt.verify_sync(row.run) is not None] == [EDITED]

    def test_the_edited_denial_stays_refused_and_nothing_is_written_for_it(self, demo: Told):  # proves: LOG-2
        request = Request(month="2025-02", row=49)
        with remit.open(demo.desk.ledger_url) as rt:
            before = rt.read_sync(EDITED)
            wrong = rt.verify_sync(EDITED)
            assert wrong is not None and wrong.code == "chain.hash"
            with pytest.raises(remit.RunQuarantined):
                rt.run_sync(purchase, request, id=EDITED, by="agent:buyer")
            assert rt.read_sync(EDITED) == before
        assert b'"approved"' in [entry.value for entry in before.main]
        assert [paper for paper in demo.desk.papers("pay-") if paper["run"] == EDITED] == []

    def test_whoever_believes_the_edit_proposes_the_payment(self, demo: Told):
        trusting = Desk(demo.desk.folder / "trusting").papers("pay-")
        assert [(paper["run"], paper["paper"], paper["amount_pence"]) for paper in trusting] == [
            (EDITED, "proposal", 34_808_63)
        ]

    def test_no_step_ran_twice_but_those_that_were_killed_half_way(self, demo: Told):  # proves: RUN-3
        counts = count(demo.desk)
        twice = {call for call, times in counts.items() if times > 1}
        assert max(counts.values()) == 2
        assert len(counts) == 146 * 5
        # Seven papers and one of February's two waited for a folder; each month one more purchase was anywhere.
        assert 8 <= len(twice) <= 10
        steps = Counter(step for _, step in twice)
        assert steps["write_proposal"] + steps["write_denial"] >= 8
        assert (EDITED, "write_denial") not in twice

    def test_the_money_adds_up_to_what_was_published(self, demo: Told):
        with remit.open(demo.desk.ledger_url) as rt:
            for month, total, refused in (("2025-01", JANUARY, 0), ("2025-02", FEBRUARY, 34_808_63)):
                rows = rt.list_sync(prefix=f"pay-{month}-", limit=1_000)
                results = [rt.wait_sync(row.run).value for row in rows if not row.quarantined]
                assert sum(result["amount_pence"] for result in results) + refused == total

    def test_it_says_so_when_one_of_its_claims_does_not_hold(self, demo: Told):
        month = stock_of(demo, "2025-01")
        assert all(claim.holds for claim in everything_claimed(month))
        call = next(iter(month.death.saved))
        ran_again = dataclasses.replace(month, counts=month.counts + Counter([call]))
        assert [claim.says for claim in everything_claimed(ran_again) if not claim.holds] == [
            "Steps saved before the kill: ran once"
        ]
        dear = dataclasses.replace(month, sums=dataclasses.replace(month.sums, proposed=month.sums.proposed + 1))
        assert [claim.found for claim in everything_claimed(dear) if not claim.holds] == ["£17,274,927.62"]
        lived = dataclasses.replace(month, death=dataclasses.replace(month.death, status=0))
        assert len([claim for claim in everything_claimed(lived) if not claim.holds]) == 1

    def test_an_edit_that_changes_nothing_is_not_passed_off_as_one(self, demo: Told):
        with pytest.raises(BrokeDown, match="pay-2025-01-001 has no saved denial"):
            ask("tamper", str(demo.desk.ledger), "pay-2025-01-001", desk=demo.desk)

    def test_the_commands_that_it_ends_with_can_be_typed(self, demo: Told):
        statuses = [
            subprocess.run(shlex.split(command), capture_output=True, timeout=60, check=False).returncode
            for command, _ in further(demo.desk, plan("2025-02"))
        ]
        assert statuses == [0, 0, remit.Tampered.exit_status, 0, 0]

    def test_each_of_these_commands_is_one_line_however_long_it_is(self, demo: Told):
        lines = [line.strip() for line in demo.out.splitlines()]
        assert [command for command, _ in further(demo.desk, plan("2025-02")) if command not in lines] == []

    def test_two_demos_do_not_share_a_folder(self, demo: Told):
        command = [sys.executable, "-m", "examples.procurement.demo", "--folder", str(demo.desk.folder)]
        with (demo.desk.folder / "demo.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=60, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert "nothing was done" in done.stderr


def stock_of(demo: Told, month: str) -> Month:
    """A month of a demo that is over, as if all that ran once had been saved when its worker died."""
    counts = count(demo.desk)
    mine = {call for call in counts if call[0].startswith(f"pay-{month}-")}
    half_way = frozenset(call for call in mine if counts[call] == 2)
    death = Death(pid=1, status=-9, completed=30, saved=frozenset(mine - half_way), half_way=half_way)
    return claims.take_stock(demo.desk, published(month), death, {})


def everything_claimed(month: Month) -> list[claims.Claim]:
    return [*claims.claims_of_a_death(month), *claims.claims_of_steps(month), *claims.claims_of_results(month)]


class TestPayments:
    def test_146_rows_are_payments_and_add_up_to_the_published_totals_in_pence(self):
        sums = {month: sum(read_payment(r).amount_pence for r in published(month).requests) for month in MONTHS}
        assert sums == {"2025-01": JANUARY, "2025-02": FEBRUARY}
        assert sums == {month: published(month).total_pence for month in MONTHS}
        assert [len(published(month).requests) for month in MONTHS] == [79, 67]

    def test_the_files_are_the_ones_whose_digests_stand_beside_them(self):
        folder = ROOT / "examples" / "procurement" / "data"
        done = subprocess.run(
            ["sha256sum", "--check", "--strict"],
            input="\n".join(line for line in (folder / "SOURCE.md").read_text().splitlines() if line.endswith(".json")),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout.count(": OK")) == (0, 2), done.stderr

    def test_a_repeat_has_the_same_payee_date_amount_and_number(self):
        found = {r.run: repeats_of(read_payment(r)) for month in MONTHS for r in published(month).requests}
        assert {run: rows for run, rows in found.items() if rows} == {
            **{f"pay-2025-01-{row:03}": list(range(31, row)) for row in range(32, 38)},
            EDITED: [47],
        }

    def test_a_transaction_number_that_is_written_none_is_none(self):
        assert read_payment(Request(month="2025-01", row=31)).number is None
        assert read_payment(Request(month="2025-02", row=49)).number == "338893"

    @pytest.mark.parametrize("amount", ["25000.005", "1E-3", "NaN", "Infinity"])
    def test_an_amount_that_is_not_whole_pence_is_refused(self, amount: str):
        with pytest.raises(RowRefused):
            pence(Decimal(amount))

    @pytest.mark.parametrize("amount", [153024.95, "153024.95", None, True])
    def test_only_a_decimal_or_an_integer_is_an_amount(self, amount: object):
        with pytest.raises(RowRefused):
            pence(amount)  # type: ignore[arg-type]

    def test_pence_are_exact_where_floating_point_is_not(self):
        text = "99999999999999999.99"
        assert pence(json.loads(text, parse_float=Decimal)) == 9_999_999_999_999_999_999
        assert (pence(Decimal("1E+2")), pence(25000)) == (100_00, 25_000_00)

    @pytest.mark.parametrize("row", [0, 80, -1])
    def test_a_row_that_the_file_does_not_have_is_refused(self, row: int):
        with pytest.raises(RowRefused, match="has rows 1 to 79"):
            read_payment(Request(month="2025-01", row=row))

    def test_pounds_are_written_for_people(self):
        assert [pounds(n) for n in (153_024_95, 5, 0, -1_000_00)] == ["£153,024.95", "£0.05", "£0.00", "-£1,000.00"]
