"""What somebody wrote by hand beside a run that verifies: it is told, and stops nothing that it need not stop."""

from __future__ import annotations

from typing import Any

import pytest

import remit
from remit.faces.next_step import next_step
from tests.spec.conftest import Storage
from tests.support.vault import Vault

OPEN = remit.Contract(version="1", resume="anyone")


def table(place: Storage, name: str) -> str:
    return f"remit.{name}" if place.kind == "postgres" else f"remit_{name}"


@pytest.mark.parametrize("until", [2**63 - 1, 2**62])
async def test_a_lease_longer_than_any_that_is_granted_is_told(database: Storage, until: int):  # proves: OWN-1
    """Nobody takes such a run over, and no time came at which anybody said why."""

    @remit.effect
    async def pay(order: dict[str, Any], *, key: str) -> str:
        raise OSError("the line broke")

    @remit.flow(contract=OPEN)
    async def payment(run: remit.Run) -> Any:
        return await run.effect(pay, {})

    async with database.open() as rt:
        await rt.run(payment, id="a")
        await rt.start(payment, id="b")
        await rt.grant("user:dana", "clerk", by="user:root")
    runs = table(database, "run")
    await Vault(database.make(None)).sql(f"UPDATE {runs} SET worker = 'zz', lease_until = $1 WHERE run = 'a'", until)
    async with database.open() as rt:
        (leases,) = [found for found in await rt.doctor() if not found.ok]
        assert (leases.name, "longer than any that is granted: run 'a'" in leases.seen) == ("leases", True)
        told = await rt.why("a")
        assert (told.is_overlong, (await rt.why("b")).is_overlong) == (True, False)
        assert "by hand" in next_step(told).sentence
        with pytest.raises(remit.Refused) as refused:
            await rt.resolve("a", "pay", "did_not_happen", by="user:dana", evidence="the bank")
        assert (refused.value.code, "`lease_until` to 0" in refused.value.hint) == ("doubt.under_way", True)
    await Vault(database.make(None)).sql(f"UPDATE {runs} SET lease_until = 0 WHERE run = 'a'")
    async with database.open() as rt:
        await rt.resolve("a", "pay", "did_not_happen", by="user:dana", evidence="the bank")
        assert all(found.ok for found in await rt.doctor())


async def test_a_value_that_stands_where_an_entry_is_to_come_is_in_nobody_s_way(database: Storage):  # proves: FX-1
    """The payment stayed in doubt, and `remit verify`, which the error named, found nothing wrong."""
    paid: list[str] = []

    @remit.effect
    async def pay(order: dict[str, Any], *, key: str) -> str:
        paid.append(key)
        return "x" * 300_000

    @remit.flow(contract=OPEN)
    async def payment(run: remit.Run) -> int:
        receipt: str = await run.effect(pay, {})
        return len(receipt)

    async with database.open() as rt:
        await rt.start(payment, id="a")
    strays = "".join(f" UNION ALL SELECT {seq}" for seq in range(3, 9))
    await Vault(database.make(None)).sql(
        f"INSERT INTO {table(database, 'large_value')} (run_key, lane, seq, value)"
        f" SELECT run_key, 0, s.seq, $1 FROM {table(database, 'run')}, (SELECT 2 AS seq{strays}) s WHERE run = 'a'",
        b"\0",
    )
    async with database.open() as rt:
        assert (await rt.run(payment, id="a")).value == 300_000
        assert await rt.verify("a") is None
    async with database.open() as rt:
        assert (await rt.run(payment, id="a")).value == 300_000
    assert len(paid) == 1
