"""Setting a policy, as the operator sees it: what it undoes, what of it holds for nothing, and which one is which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from remit.facts.names import AUTHORITY
from tests.faces.test_cli_people import BUY, FLOWS
from tests.support.command import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    (tmp_path / "flows.py").write_text(FLOWS)
    for who, role in (("agent:buyer", "buyer"), ("user:dana", "buyer"), ("user:kim", "director")):
        desk("grant", who, role, "--by", "user:ops")
    return desk


def written(desk: Desk, text: str) -> str:
    (desk.folder / "policy.toml").write_text(text)
    return "policy.toml"


def set_(desk: Desk, text: str) -> Any:
    return desk.json("policy", "set", written(desk, text), "--by", "user:ops", "--yes")


# -- what it undoes ----------------------------------------------------------------------------------------------------


def test_whoever_sets_a_policy_is_told_which_questions_and_yeses_it_voids(desk: Desk):  # proves: APR-5
    for run in ("r-1", "r-2", "r-3"):
        desk(*BUY, "--id", run, "--input", '"Acme"', exits=8)
    asks = {ask["run"]: ask["id"] for ask in desk.json("inbox")}
    desk("approve", asks["r-2"], "--by", "user:kim", "--yes")
    desk("deny", asks["r-3"], "--by", "user:kim", "--yes")  # a no stands whatever is set
    shown = desk("policy", "set", written(desk, 'version = "1"\n'), "--by", "user:ops", "--yes")
    told = "Setting it voids 1 open question and 1 yes that nothing used yet; each is asked anew when its run goes on."
    assert told in " ".join(shown.split())

    desk("resume", "r-2", "flows:buy", exits=8)
    assert desk.json("ask", asks["r-2"])["state"] == "void"
    voided = {(one["run"], one["state"]) for one in set_(desk, 'version = "2"\n')["voided"]}
    assert voided == {("r-2", "open")}, "that of r-1 is void already"


def test_what_nobody_waits_for_is_not_told(desk: Desk):
    desk(*BUY, "--id", "r", "--input", '"Acme"', exits=8)
    desk("cancel", "r", "--by", "user:ops")
    assert set_(desk, 'version = "1"\n')["voided"] == []
    assert "void" not in desk("policy", "set", written(desk, 'version = "2"\n'), "--by", "user:ops", "--yes")


# -- which one is which ------------------------------------------------------------------------------------------------


def test_two_policies_of_one_version_are_told_apart(desk: Desk):
    assert not set_(desk, 'version = "5"\nforbid = ["wire"]\n')["is_namesake"]
    shown = desk("policy", "set", written(desk, 'version = "5"\nforbid = ["gamble"]\n'), "--by", "user:ops", "--yes")
    assert "Another policy was called 5 before" in shown
    assert set_(desk, 'version = "5"\nforbid = ["wire"]\n')["is_namesake"]
    sets = " ".join(desk("explain", AUTHORITY, columns=80).split()).split("PolicySet")[1:]
    assert ["forbid wire: nobody performs it)" in told for told in sets] == [True, False, True]
    digest = desk.json("policy")["digest"]
    assert [digest[:8] in told for told in sets] == [True, False, True]


# -- what of it holds for nothing, or for too much ---------------------------------------------------------------------


def test_a_field_that_no_request_has_is_told_before_each_run_ends_by_it(desk: Desk):
    file = written(desk, 'version = "1"\n[ceilings]\n"pay.amont" = 5\n"pay.payee" = 6\n"pay.amount" = 7\n')
    assert "field" not in desk("policy", "check", file)
    told = desk.json("policy", "check", file, "--flow", "flows:buy")
    assert (told["fields_unheard_of"], told["fields_not_whole"]) == ({"pay.amont": "pay.amount"}, ["pay.payee"])
    shown = desk("policy", "set", file, "--flow", "flows:buy", "--by", "user:ops", "--yes")
    assert "pay.amont: the effect's request has no such field. Is it pay.amount?" in shown
    assert "pay.payee: no whole number can stand there" in shown
    desk(*BUY, "--id", "r", "--input", '"Acme"', exits=8)
    assert "ceiling.amount" in desk("why", "r")


ALIASED = """
import pydantic, remit

class Order(pydantic.BaseModel):
    amount: int = pydantic.Field(alias="sumMinor")

@remit.effect
def pay(order: Order, *, key: str) -> str:
    return "paid"

@remit.flow(contract=remit.Contract(version="1", resume="anyone"))
def buy(run: remit.SyncRun, amount: int) -> str:
    return run.effect(pay, Order(sumMinor=amount))
"""


def test_a_field_is_called_as_the_bytes_call_it(desk: Desk, tmp_path: Path):
    (tmp_path / "aliased.py").write_text(ALIASED)
    file = written(desk, 'version = "1"\n[ceilings]\n"pay.amount" = 5\n')
    told = desk.json("policy", "check", file, "--flow", "aliased:buy")
    assert told["fields_unheard_of"] == {"pay.amount": "pay.sumMinor"}
    file = written(desk, 'version = "1"\n[ceilings]\n"pay.sumMinor" = 5\n')
    assert not desk.json("policy", "check", file, "--flow", "aliased:buy")["fields_unheard_of"]


def test_an_immaterial_field_is_compared_as_well(desk: Desk):
    approval = '{roles = ["director"], within = "1h", immaterial = ["nte", "note"]}'
    file = written(desk, f'version = "1"\n[approvals]\npay = {approval}\n')
    told = desk.json("policy", "check", file, "--flow", "flows:buy")
    assert told["fields_unheard_of"] == {"pay.nte": "pay.note"}


def test_evidence_that_no_rule_asks_for_is_told(desk: Desk):
    file = written(desk, 'version = "1"\n[evidence]\nqoute = "1h"\nquote = "2h"\n')
    told = desk.json("policy", "check", file, "--flow", "flows:buy")
    assert told["evidence_unheard_of"] == {"qoute": "quote"}
    shown = desk("policy", "check", file, "--flow", "flows:buy")
    assert "evidence qoute: no rule of a flow that was named asks for evidence" in shown and "Is it quote?" in shown
    assert desk.json("policy", "check", file)["evidence_unheard_of"] == {}


# -- what is used of it ------------------------------------------------------------------------------------------------


def test_what_is_used_of_a_ceiling_that_runs_share_is_shown(desk: Desk):  # proves: GATE-8
    month = '[ceilings.pay]\namount = [{max = 900, currency = "GBP", per = "month"}, {max = 400}]\n'
    set_(desk, f'version = "1"\n{month}')
    assert "used of pay.amount this month: 0 of 900 minor units of GBP" in desk("policy")
    desk(*BUY, "--id", "r", "--input", '"Acme"', exits=8)
    desk("approve", desk.json("inbox")[0]["id"], "--by", "user:kim", "--yes")
    desk("resume", "r", "flows:buy")
    assert "used of pay.amount this month: 380 of 900 minor units of GBP" in desk("policy")
    told = {"effect": "pay", "field": "amount", "currency": "GBP", "per": "month", "max": 900, "used": 380}
    assert desk.json("policy")["used"] == [told]
