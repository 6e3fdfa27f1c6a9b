"""What a line without the bar shows is never the agent's: a branch that data named stands there quoted and cut."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remit.authority.called import call_name, evidence_name, whole_names
from remit.errors.called import NAME_CHARACTERS_MAX
from remit.faces.cli.payload import beginning
from tests.support.command import Desk

PAYS = """
from datetime import timedelta

import remit

ASKS = remit.Rule(approval=remit.Approval({"lead"}, timedelta(hours=8)), evidence={"quote"})


@remit.effect
def pay(order: dict, *, key: str) -> str:
    return "ok"


@remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"pay": ASKS}))
def pays(run: remit.SyncRun, payee: str) -> str:
    here = run.branch(payee)
    here.evidence("quote", {"from": payee}, as_of=run.now(), fresh_for=timedelta(hours=8))
    return here.effect(pay, {"amount": 900, "to": payee}, rests_on=["quote"])
"""
SAYS = "ACME Ltd. user:cfo said yes to this; nothing was sent yet"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "suppliers.py").write_text(PAYS)
    return Desk(tmp_path)


def asked(desk: Desk, payee: str) -> str:
    desk("grant", "user:lee", "lead", "--by", "user:ops")
    desk("run", "suppliers:pays", "--id", "r", "--input", json.dumps(payee), exits=8)
    return str(desk.json("inbox")[0]["id"])


def test_a_branch_that_data_named_says_nothing_in_a_line_of_ours(desk: Desk):  # proves: APR-12
    ask = asked(desk, SAYS)
    page, inbox = desk("ask", ask), desk("inbox")
    done = desk("approve", ask, "--by", "user:lee", "--yes").splitlines()[-2:]
    for line in [*page.splitlines(), *inbox.splitlines(), *done]:
        assert "user:cfo said" not in line or line.lstrip().startswith("│"), line
    assert 'pay as "ACME Ltd. user:cfo s…"/pay' in page and '"ACME Ltd. user:cfo s…"/pay' in inbox
    assert f"│ {SAYS}\n" in page, "and whole, behind the bar"
    assert done[0] == 'user:lee approved "ACME Ltd. user:cfo s…"/pay of run r.'


def test_what_deceives_in_evidence_and_in_a_call_s_name_is_named(desk: Desk):  # proves: APR-5, APR-12
    ask = asked(desk, "P\u0430yPal")
    page, inbox = desk("ask", ask), desk("inbox")
    found = {(one["path"], one["code"]) for one in desk.json("ask", ask)["suspicious"]}
    assert found == {("$.to", "U+0430"), ("evidence.quote.from", "U+0430"), ("call", "U+0430")}
    assert "\u0430" not in page + inbox and 'as "P\\u0430yPal"/pay' in page
    assert page.count("CYRILLIC SMALL LETTER A") == 3


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        ("pay", "pay"),
        ("pay#2", "pay#2"),
        ("acme/pay#2", '"acme"/pay#2'),
        ("acme#2/deep/pay", '"acme"#2/"deep"/pay'),
        ("yes, said user:cfo", '"yes, said user:cfo"'),  # a question of the flow's own
        ('a"b/pay', '"a\\"b"/pay'),
        ("\u0430cme/pay", '"\\u0430cme"/pay'),
    ],
)
def test_a_call_s_path_is_shown_with_data_in_quotes(call: str, shown: str):  # proves: APR-12
    assert call_name(call) == shown and whole_names(call) == []


def test_a_long_name_is_cut_and_stands_whole_elsewhere():
    name = "x" * (NAME_CHARACTERS_MAX + 1)
    assert call_name(f"{name}/pay") == f'"{name[:-1]}…"/pay'
    assert whole_names(f"{name}/pay") == [name, "pay"]
    assert evidence_name("quote") == "quote" and evidence_name("the bank's word") == '"the bank\'s word"'


@pytest.mark.parametrize("end", range(1, 40))
def test_the_beginning_of_a_payload_has_what_deceives_as_escapes_wherever_it_is_cut(end: int):  # proves: APR-12
    raw = json.dumps({"to": 'a"\\\u0001P\u0430yPal', "n": [1]}, ensure_ascii=False, separators=(",", ":")).encode()
    whole = '{"to":"a\\"\\\\\\u0001P\\u0430yPal","n":[1]}'
    assert "\u0430" not in beginning(raw[:end]) and whole.startswith(beginning(raw[:end]))
    assert beginning(raw) == whole
