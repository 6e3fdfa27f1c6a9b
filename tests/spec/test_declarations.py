"""Declarations: what can be wrong with a flow is found when it is declared."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import remit
from remit import Contract
from remit.authority.policy import policy_from


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"version": "1"}, "contract.resume"),
        ({"version": "1", "resume": set()}, "contract.resume"),
        ({"version": "1", "resume": "buyer"}, "contract.resume"),
        ({"version": "1", "resume": {"anyone"}}, "contract.resume"),
        ({"version": "", "resume": "anyone"}, "contract.version"),
        ({"version": "1", "resume": "anyone", "risk": "none"}, "contract.risk"),
        ({"version": "1", "resume": "anyone", "window": timedelta(0)}, "contract.window"),
        ({"version": "1", "resume": "anyone", "window": timedelta.max}, "contract.window"),
        ({"version": "1", "resume": "anyone", "window": 5}, "contract.window"),
        ({"version": "1", "resume": "anyone", "risk": ["low"]}, "contract.risk"),
        ({"version": "1", "resume": 5}, "contract.resume"),
        ({"version": "1", "resume": (role for role in ["buyer"])}, "contract.resume"),
        ({"version": "1", "resume": [["buyer"]]}, "contract.resume"),
        ({"version": ["1"], "resume": "anyone"}, "contract.version"),
        ({"version": "\ud800", "resume": "anyone"}, "contract.version"),
        ({"version": "1", "resume": "anyone", "effects": {"pay.order": remit.Rule()}}, "contract.effects"),
    ],
)
def test_a_contract_must_say_who_may_resume(options: dict[str, Any], code: str):  # proves: GATE-7
    with pytest.raises(remit.DeclarationRefused) as refused:
        Contract(**options)
    assert refused.value.code == code


def test_nobody_can_add_to_who_may_resume_once_it_is_declared():  # proves: GATE-7
    roles = {"buyer"}
    contract = Contract(version="1", resume=roles)
    roles.add("anybody")
    assert contract.roles == contract.pin().resume == ["buyer"]
    assert Contract(version="1", resume=["buyer", "buyer"]).resume == {"buyer"}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"name": "pay.order"}, "id.refused"),
        ({"version": "\ud800"}, "effect.version"),
        ({"version": 1}, "effect.version"),
        ({"connector": "\ud800"}, "effect.connector"),
        ({"connector": None}, "effect.connector"),
        ({"recorded_as": "shop\npay"}, "effect.recorded_as"),
        ({"recorded_as": 5}, "effect.recorded_as"),
        ({"business_key": ""}, "effect.business_key"),
        ({"business_key": "lines[0]"}, "effect.business_key"),
        ({"business_key": 5}, "effect.business_key"),
        ({"timeout": 5}, "effect.timeout"),
        ({"timeout": timedelta(0)}, "effect.timeout"),
        ({"lands_within": 5}, "effect.lands_within"),
        ({"doubt": ["ask"]}, "effect.doubt"),
    ],
)
def test_what_an_effect_says_of_itself_is_looked_at_when_it_is_declared(options: dict[str, Any], code: str):
    with pytest.raises(remit.RemitError) as refused:
        remit.effect(**{"name": "pay", **options})(lambda order, key: None)
    assert refused.value.code == code


def test_windows_follow_the_risk_unless_the_contract_says_otherwise():  # proves: GATE-8
    hours = {
        risk: Contract(version="1", resume="anyone", risk=risk).window_us / 3.6e9 for risk in ("low", "medium", "high")
    }
    assert hours == {"low": 24, "medium": 8, "high": 0.5}
    assert Contract(version="1", resume="anyone", risk="high", window=timedelta(days=5)).window_us == 5 * 86_400_000_000


async def test_no_run_is_opened_whose_executor_holds_no_named_role():  # proves: GATE-3, GATE-7
    begun = []

    @remit.flow(contract=Contract(version="1", resume={"buyer"}))
    async def bought(run: remit.Run) -> None:
        begun.append(run.id)

    async with remit.open("memory:") as rt:
        with pytest.raises(remit.Refused) as refused:
            await rt.run(bought, id="r")
        assert (refused.value.code, begun, await rt.list()) == ("executor.role", [], [])
        await rt.grant("service:local", "buyer", by="user:ops")
        assert (await rt.run(bought, id="r")).status == "completed"
        assert begun == ["r"]


def test_a_flow_without_a_contract_or_with_odd_parameters_is_refused():
    for wrong in (lambda: remit.flow(), lambda: remit.flow(print), lambda: remit.flow(contract="anyone")):  # type: ignore[arg-type]
        with pytest.raises(remit.DeclarationRefused) as missing:
            wrong()
        assert missing.value.code == "contract.missing"
    with pytest.raises(remit.DeclarationRefused) as refused:

        @remit.flow(contract=Contract(version="1", resume="anyone"))
        async def no_run() -> None: ...

    assert refused.value.code == "flow.parameters"


def test_a_step_needs_a_name_and_one_outcome():
    with pytest.raises(remit.DeclarationRefused) as refused:
        remit.step(lambda: 1)
    assert refused.value.code == "step.unnamed"
    with pytest.raises(remit.DeclarationRefused):

        @remit.step
        def many() -> Any:
            yield 1

    for name in ("a/b", "a#2", "run.now", "", " a", "a\n", "x" * 201, "remit:x", "-a", "--help"):
        with pytest.raises(remit.IdRefused):
            remit.Step(name, print)


@pytest.mark.parametrize(
    "bad",
    ["", " r", "r ", "a\nb", "a\tb", "a\x00b", "\u202e", "a\u200bb", "\ud800", "x" * 201, "remit:x", 7, "-r", "--help"],
)
async def test_an_id_that_can_not_be_seen_is_refused_at_the_door(bad: Any):
    """Case C32, attack 55."""

    @remit.flow(contract=Contract(version="1", resume="anyone"))
    async def nothing(run: remit.Run) -> None: ...

    async with remit.open("memory:") as rt:
        with pytest.raises(remit.IdRefused) as refused:
            await rt.run(nothing, id=bad)
        assert refused.value.code == "id.refused"
        assert await rt.list() == []


COMPOSED = "\u00fcberweisen"
APART = "u\u0308berweisen"  # looks the same


def test_a_rule_is_spelled_as_its_effect_is():  # proves: GATE-7
    """Two spellings of one word look alike, and a rule under the other one held for nothing."""
    assert remit.effect(name=COMPOSED)(lambda order, key: None).name == COMPOSED
    assert Contract(version="1", resume="anyone", effects={COMPOSED: remit.Rule()}).effects
    with pytest.raises(remit.IdRefused, match="separate marks"):
        remit.effect(name=APART)(lambda order, key: None)
    for refused, code in (
        (lambda: Contract(version="1", resume="anyone", effects={APART: remit.Rule()}), "contract.effects"),
        (lambda: remit.Rule(evidence={APART}), "contract.evidence"),
        (lambda: remit.Ceiling(APART, max=1), "contract.ceiling"),
        (lambda: policy_from({"version": "1", "forbid": [APART]}), "policy.forbid"),
        (lambda: policy_from({"version": "1", "ceilings": {f"{APART}.amount": 1}}), "policy.ceilings"),
        (lambda: policy_from({"version": "1", "evidence": {APART: "1h"}}), "policy.evidence"),
    ):
        with pytest.raises(remit.RemitError) as told:
            refused()
        assert told.value.code == code


async def test_an_id_and_a_principal_have_one_spelling_and_a_branch_that_of_its_data():
    @remit.flow(contract=Contract(version="1", resume="anyone"))
    async def nothing(run: remit.Run) -> None:
        run.branch(APART)

    async with remit.open("memory:") as rt:
        assert (await rt.run(nothing, id=COMPOSED, by=f"agent:{COMPOSED}")).status == "completed"
        with pytest.raises(remit.IdRefused, match="separate marks"):
            await rt.run(nothing, id=APART)
        with pytest.raises(remit.IdRefused, match="separate marks"):
            await rt.grant(f"user:{APART}", "director", by="user:root")


@pytest.mark.parametrize("by", ["dana", "user:", "robot:x", "user:da\nna"])
async def test_an_executor_is_written_as_a_principal(by: str):
    @remit.flow(contract=Contract(version="1", resume="anyone"))
    async def nothing(run: remit.Run) -> None: ...

    async with remit.open("memory:") as rt:
        with pytest.raises(remit.IdRefused):
            await rt.run(nothing, id="r", by=by)


@pytest.mark.parametrize("place", [None, 3, Path("runs.db")])
def test_what_is_no_place_for_a_store_is_refused(place: Any):
    with pytest.raises(remit.Refused) as refused:
        remit.open(place)
    assert refused.value.code == "url.refused"


async def test_a_missing_input_is_told_as_missing():
    @remit.flow(contract=Contract(version="1", resume="anyone"))
    async def typed(run: remit.Run, count: int) -> None: ...

    async with remit.open("memory:") as rt:
        with pytest.raises(remit.Refused) as refused:
            await rt.run(typed, id="r")
        assert refused.value.code == "input.missing"
