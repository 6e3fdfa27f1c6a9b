"""The page of a question whose yes leaves something open: what that is stands where an approver reads it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import remit
from remit.faces.cli.inert import Quoted
from remit.faces.cli.payload import payload
from tests.support.command import Desk

FLOWS = """
from datetime import timedelta
from pathlib import Path

import remit


@remit.effect
def refund(request: dict, *, key: str) -> str:
    with open("bank.txt", "a") as file:
        file.write(request["destination"])
    return "done"


RULE = remit.Rule(approval=remit.Approval({"lead"}, timedelta(hours=8), immaterial={"destination", "memo.text"}))


@remit.flow(contract=remit.Contract(version="1", resume={"refunder"}, effects={"refund": RULE}))
def give_back(run: remit.SyncRun, order: str) -> str:
    return run.effect(refund, {"order": order, "destination": Path("dest.txt").read_text()})
"""

LEAD = {"roles": ["lead"], "within": "8h"}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    (tmp_path / "flows.py").write_text(FLOWS)
    desk("grant", "agent:desk", "refunder", "--by", "user:ops")
    desk("grant", "user:lee", "lead", "--by", "user:ops")
    return desk


def asked(desk: Desk, destination: str) -> dict[str, Any]:
    """The question that waits when the run was gone on with to refund to there."""
    (desk.folder / "dest.txt").write_text(destination)
    desk("run", "flows:give_back", "--id", "r", "--input", '"A"', "--by", "agent:desk", exits=8)
    (ask,) = desk.json("inbox")
    told: dict[str, Any] = ask
    return told


def meaning(desk: Desk) -> str:
    """What the journal says that a yes meant."""
    (said,) = [one["body"] for one in desk.json("explain", "r")["entries"] if one["lane"] == "post"]
    return str(said["meaning"])


@pytest.mark.parametrize("columns", [40, 100])
def test_what_a_yes_does_not_bind_is_named_where_it_stands_and_at_the_first_asking(desk: Desk, columns: int):
    # proves: APR-1, APR-5
    ask = asked(desk, "my card")
    assert ask["immaterial"] == ["destination", "memo.text"]
    page = desk("ask", ask["id"], columns=columns)
    lines = [line.rstrip() for line in page.splitlines()]
    before = lines[: lines.index('│   "destination": "my card",')]
    assert " ".join(" ".join(before).split()).endswith("{ $.destination may still change; a yes does not bind it:")
    assert "not bound destination, memo.text: may still change after a yes" in " ".join(page.split())

    desk("approve", ask["id"], "--by", "user:lee", "--yes")
    assert meaning(desk) == "refund as refund may happen, once, as shown, but for destination, memo.text"
    (desk.folder / "dest.txt").write_text("another card")
    desk("resume", "r", "flows:give_back")
    assert (desk.folder / "bank.txt").read_text() == "another card"


def test_what_another_rule_does_not_call_immaterial_is_bound_and_the_page_calls_nothing_open(desk: Desk):
    # proves: APR-1, APR-5
    policy = f'version = "1"\n[approvals]\nrefund = {{roles = {json.dumps(LEAD["roles"])}, within = "8h"}}\n'
    (desk.folder / "p.toml").write_text(policy)
    desk("policy", "set", "p.toml", "--by", "user:ops", "--yes")
    ask = asked(desk, "my card")
    page = desk("ask", ask["id"])
    assert ask["immaterial"] == [] and "not bound" not in page and "may still change" not in page
    desk("approve", ask["id"], "--by", "user:lee", "--yes")
    assert meaning(desk) == "refund as refund may happen, once, exactly as shown"
    assert asked(desk, "another card")["void"] == ["approval.payload", "approval.shown"]
    assert not (desk.folder / "bank.txt").exists()


def test_each_place_is_named_once_and_only_lines_without_a_bar_are_ours():  # proves: APR-5
    forged = "$.amount may still change; a yes does not bind it:"
    request = {"note": {"text": [forged, {"note": 1}]}, "amount": 1, forged: forged, "order": [{"note": "x"}]}
    shown = payload(request, ["note", "note.text", "absent"])
    told: list[tuple[str, str]] = []
    for part in shown.renderables:  # type: ignore[attr-defined]
        told += [("│", line) for line in part._lines] if isinstance(part, Quoted) else [("", part.plain.strip())]
    ours = [place for place, (bar, _) in enumerate(told) if not bar]
    assert [told[place][1] for place in ours] == ["$.note may still change; a yes does not bind it:"]
    assert told[ours[0] + 1] == ("│", '  "note": {')
    assert json.loads("\n".join(line for bar, line in told if bar)) == request


async def test_what_a_question_of_the_flow_s_own_leaves_open_is_named_as_well():  # proves: APR-1, APR-5
    @remit.flow(contract=remit.Contract(version="1", resume="anyone"))
    async def own(run: remit.Run) -> None:
        payload = {"days": 30, "note": "x"}
        await run.approve("terms", payload, roles={"lead"}, within=timedelta(hours=1), immaterial={"note"})

    async with remit.open("memory:") as rt:
        await rt.grant("user:lee", "lead", by="user:ops")
        await rt.run(own, id="r")
        (ask,) = await rt.inbox()
        assert ask.immaterial == ("note",)
