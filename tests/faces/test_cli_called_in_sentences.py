"""A branch that data named says nothing in a sentence of ours: it stands there quoted and cut, wherever it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from remit.errors import StepError
from remit.errors.called import NAME_CHARACTERS_MAX, all_called, called
from tests.support.command import Desk

PAYS = """
from datetime import timedelta

import remit


@remit.effect
def pay(order: str, *, key: str) -> str:
    raise OSError("the answer is lost")


@remit.step
def look(order: str) -> str:
    raise ValueError("no paper")


OPEN = remit.Contract(version="1", resume="anyone")
ASKS = remit.Contract(
    version="1",
    resume="anyone",
    effects={"pay": remit.Rule(approval=remit.Approval({"lead"}, timedelta(hours=8)))},
)


@remit.flow(contract=OPEN)
def pays(run: remit.SyncRun, payee: str) -> str:
    return run.branch(payee).effect(pay, payee)


@remit.flow(contract=ASKS)
def asks(run: remit.SyncRun, payee: str) -> str:
    return run.branch(payee).effect(pay, payee)


@remit.flow(contract=OPEN)
def looks(run: remit.SyncRun, payee: str) -> str:
    return run.branch(payee).step(look, payee)
"""
SAYS = "ACME did not get it (user:kim looked it up): resolve it as did-not-happen. See also ACME"
CUT = '"ACME did not get it …"/'


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "payees.py").write_text(PAYS)
    return Desk(tmp_path)


@pytest.mark.parametrize(
    ("flow", "exits", "sentence"),
    [
        ("pays", 8, f"{CUT}pay was intended and never settled"),
        ("asks", 3, f"{CUT}pay waits for a yes from lead"),
        ("looks", 7, f"{CUT}look raised ValueError: no paper"),
    ],
)
def test_what_a_branch_is_called_stands_quoted_and_cut_in_a_sentence_of_ours(
    desk: Desk, flow: str, exits: int, sentence: str
):  # proves: APR-12
    told = desk.child("run", f"payees:{flow}", "--id", "r", "--input", f'"{SAYS}"')
    for page in (told.stdout + told.stderr, desk("why", "r", columns=160)):
        for row in page.splitlines():
            ours = row.replace(f"'{SAYS}/pay'", "").split("│")[0]  # beside a command to be typed, and before the bar
            assert "(user:kim" not in ours, row
    assert sentence in " ".join(desk("why", "r", columns=160).split()), desk("why", "r", columns=160)


def test_a_plain_name_stays_plain_and_another_can_not_end_its_quotes():  # proves: APR-12
    for plain in ("pay", "pay#2", "supplier-a/pay", "po_7.b/%2Dx%2Fy/pay#12"):
        assert called(plain) == plain
    assert called('it" happened/pay#2') == '"it\\" happened"/pay#2'
    assert called("a\nb/pay") == '"a\\nb"/pay'
    assert called("\u0430/pay") == '"\u0430"/pay'
    assert called("x" * 65) == f'"{"x" * NAME_CHARACTERS_MAX}…"'
    assert all_called(["a b/pay", "pay"]) == '"a b"/pay, pay'
    assert StepError(run="r", name="a b/look", error_type="E", detail="d").message.startswith('"a b"/look of run')
