"""Who is told what: in the commit of the entry that causes it, by ids alone, where somebody may wait for it."""

from __future__ import annotations

import pytest

import remit
from remit.canonical import Malformed
from remit.engine.process import incidents
from remit.facts import announced
from remit.facts.announced import (
    Announced,
    AskDecided,
    AskOpened,
    DoubtTold,
    RunLifted,
    RunSetAside,
    RunStopped,
)
from tests.spec.conftest import Storage
from tests.support.office import BUYER, DANA, DORA, ROOT, RUN, Office, asked, staffed

WORDS = "the reason of a person"
OPEN = remit.Contract(version="1", resume="anyone")


async def told(rt: remit.Runtime) -> list[tuple[str, Announced]]:
    """Run and announcement, in order; what the directory and the runs before have announced is not there."""
    rows = await rt._store.read_outbox("default", 0, 1_000)
    assert [row.number for row in rows] == sorted({row.number for row in rows})
    return [(row.run, announced.read(row.kind, row.data)) for row in rows]


async def test_a_run_that_completes_in_the_turn_that_opened_it_is_told_of_to_nobody(storage: Storage):  # proves: APR-11
    """Whoever opened it has the outcome in hand."""

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> int:
        return 7

    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).value == 7
        assert await told(rt) == []


async def test_a_run_that_was_started_for_somebody_else_is_told_of(storage: Storage):  # proves: APR-11
    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> int:
        return 7

    async with storage.open() as rt:
        await rt.start(flow, id="r")
        assert (await rt.run(flow, id="r")).value == 7
        assert await told(rt) == [("r", RunStopped(code="", status="completed"))]


@pytest.mark.parametrize("choice", ["approve", "deny"])
async def test_of_a_run_that_waits_each_stop_is_told_and_each_answer(storage: Storage, choice: str):  # proves: APR-11
    office = Office()
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        ask = await asked(rt)
        waits = RunStopped(code="approval_needed", status="waiting")
        assert await told(rt) == [(RUN, AskOpened(ask=ask.id)), (RUN, waits)]
        await office.go(rt)  # finds nothing new, and says nothing
        await rt.decide(ask.id, choice, by=DORA, reason=WORDS, seen=ask.version)  # type: ignore[arg-type]
        await office.go(rt)
        end = (
            RunStopped(status="completed", code="")
            if choice == "approve"
            else RunStopped(status="failed", code="denied")
        )
        assert (await told(rt))[2:] == [(RUN, AskDecided(ask=ask.id)), (RUN, end)]


async def test_a_doubt_and_what_somebody_said_of_it_are_told(storage: Storage):  # proves: APR-11, FX-3
    office = Office(remit.Rule())
    office.body = lambda order, key: 1 / 0
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await rt.resolve(RUN, "pay", "did_not_happen", by=DORA, evidence=WORDS)
        outcome = await office.go(rt)
        said = await told(rt)
        assert said[:2] == [
            (RUN, RunStopped(code="effect.in_doubt", status="in_doubt")),
            (RUN, DoubtTold(call="pay")),
        ]
        assert said[2:] == [(RUN, RunStopped(code=outcome.code, status=outcome.status))]


async def test_a_run_that_is_set_aside_and_one_that_is_lifted_are_told(storage: Storage):  # proves: APR-11, LOG-4
    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        raise OSError(WORDS)

    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")
        await incidents.quarantine(rt._ready(), (await rt.read("r")).row, remit.Tampered(WORDS))
        await rt.lift("r", by=ROOT, reason=WORDS)
        said = await told(rt)
        assert said[0] == ("r", RunStopped(code="step.failed", status="waiting"))
        assert said[1:] == [
            ("remit:incidents", RunSetAside(gen=1, run="r")),
            ("remit:incidents", RunLifted(gen=1, run="r")),
        ]


async def test_what_people_and_models_wrote_is_told_to_nobody(storage: Storage):  # proves: APR-11
    office = Office()
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        ask = await asked(rt)
        await rt.decide(ask.id, "approve", by=DORA, reason=WORDS, seen=ask.version)
        await office.go(rt)
        await office.go(rt, "po-2")
        await rt.cancel("po-2", by=DANA, reason=WORDS)
        rows = await rt._store.read_outbox("default", 0, 1_000)
        text = b"".join(row.data for row in rows).decode()
        assert len(rows) >= 6
        assert not [words for words in (WORDS, "ACME", "82000", BUYER, DANA, DORA) if words in text]


@pytest.mark.parametrize(
    "told", [AskOpened(ask="a"), RunStopped(code="", status="completed"), RunSetAside(gen=2, run='po/1 "£')]
)
def test_what_is_announced_is_read_as_it_was_written(told: Announced):  # proves: APR-11
    assert announced.read(announced.kind_of(told), announced.write(told)) == told


def test_what_nobody_announces_is_refused():
    for kind, data in (("RunEnded", b"{}"), ("AskOpened", b'{"ask":1}'), ("AskOpened", b'{"ask": "a"}')):
        with pytest.raises(Malformed):
            announced.read(kind, data)
