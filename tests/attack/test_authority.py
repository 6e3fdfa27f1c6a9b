"""Attacks on the journal `remit:authority`, and mistakes that would stop every run of a ledger.

Whatever rests on directory and policy rests on this one journal: it is not given what can't be
read again, and what was done to it from outside is refused before anything is paid by it.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

import remit
from remit.authority.directory import AUTHORITY
from remit.engine.process.standing import act
from remit.facts.kinds import PolicySet, RoleGranted
from remit.facts.rules import PolicyPin
from tests.attack.siege import Siege
from tests.support.office import DORA, ORDER, ROOT, Office, answer, staffed

# -- what can't be read again is not written --------------------------------------------------------------------------


async def test_a_policy_that_could_not_be_read_again_is_not_set(on_sqlite: Siege):  # proves: GATE-5
    """An operator's script reads the policy, changes a time, and makes a float of it."""
    office, place = Office(), on_sqlite.place
    async with place.open() as rt:
        await staffed(rt)
        before = await rt.set_policy({"version": "1", "ceilings": {"pay.amount": 100_000}}, by=ROOT)
        policy = (await rt.authority()).policy
        assert policy is not None
        with pytest.raises(remit.Refused) as refused:
            await rt.set_policy(replace(policy, version="2", windows={"high": 30 * 60 * 1e6}), by=ROOT)
        assert refused.value.code == "policy.form"
        assert (await rt.authority()).version == before
        await rt.set_policy(replace(policy, version="2", windows={"high": 30 * 60 * 1_000_000}), by=ROOT)
    async with place.open() as rt:
        await office.go(rt)
        await answer(rt)
        assert (await office.go(rt)).status == "completed"
    assert office.sent == [ORDER]


@pytest.mark.parametrize(
    "fact",
    [PolicySet(policy=PolicyPin(version=1)), RoleGranted(principal=5, role="director")],  # type: ignore[arg-type]
    ids=["policy", "grant"],
)
async def test_an_act_reads_its_own_bytes_back_before_they_are_written(fact: Any, on_sqlite: Siege):  # proves: GATE-5
    async with on_sqlite.place.open() as rt:
        before = await rt.grant(DORA, "director", by=ROOT)
        with pytest.raises(remit.Refused) as refused:
            await act(rt._ready(), fact, "", by=ROOT, check=lambda known: None)
        assert refused.value.code == "fact.form"
        assert (await rt.authority()).version == before
        assert await rt.verify(AUTHORITY) is None
