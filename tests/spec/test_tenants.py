"""Tenants: rules, people, ceilings and business keys of one hold for nothing of another, in the same store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import remit


@pytest.mark.parametrize("scheme", ["sqlite:///", "file:"])
async def test_what_holds_for_one_tenant_holds_for_no_other(tmp_path: Path, scheme: str):
    # proves: FX-8, FX-12, GATE-3, GATE-6
    paid = []

    @remit.effect(business_key="invoice")
    async def pay(order: dict[str, Any], *, key: str) -> None:
        paid.append(order["invoice"])

    a_month = remit.Rule(ceiling=remit.Ceiling("amount", max=900, currency="GBP", per="month"))

    @remit.flow(contract=remit.Contract(version="1", resume={"buyer"}, effects={"pay": a_month}))
    async def flow(run: remit.Run, invoice: str) -> None:
        await run.effect(pay, {"invoice": invoice, "amount": 900})

    async def outcome(tenant: str, id: str, invoice: str) -> str:
        async with remit.open(url, tenant=tenant) as rt:
            told = await rt.run(flow, invoice, id=id, by="agent:a")
        return told.code or str(told.status)

    async def act(tenant: str, role: str) -> None:
        async with remit.open(url, tenant=tenant) as rt:
            await rt.grant("agent:a", role, by="user:ops")

    url = f"{scheme}{tmp_path / 'runs.db'}"
    await act("default", "buyer")
    with pytest.raises(remit.Refused, match=r"executor\.unknown"):
        await outcome("emea", "r", "I-1")
    await act("emea", "buyer")
    async with remit.open(url) as rt:
        await rt.set_policy({"version": "1", "forbid": ["pay"]}, by="user:ops")
    assert await outcome("default", "r", "I-1") == "policy_forbids"
    assert await outcome("emea", "r", "I-1") == "completed", "the policy of another tenant forbids nothing here"
    await act("apac", "buyer")
    assert await outcome("apac", "r", "I-1") == "completed", "nor is its key, or what it took of a ceiling, known here"
    assert paid == ["I-1", "I-1"]
    assert await outcome("emea", "s", "I-2") == "ceiling_exceeded"
    assert paid == ["I-1", "I-1"]
