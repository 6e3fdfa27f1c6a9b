"""Authority that moves between the judgement and its commit: what the judge saw is still true when it is written.

    paused    another runtime takes the right away exactly between judging and committing, of a few runs at once,
              round after round; or while the question is gathered
    volley    many runs cross at once while another runtime does so whenever it comes to it

The order of commits is told by the database itself: a trigger, made from outside, notes where `remit:authority`
ended in the very transaction that wrote an intention. REMIT_ROUNDS=20000 for the long run.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import pytest

import remit
from remit.errors import Moved
from remit.store.protocol import Store
from remit.store.units import Unit
from remit.store.url import store_for
from tests.spec.conftest import Storage
from tests.support.vault import Vault

ROUNDS = int(os.environ.get("REMIT_ROUNDS", "2000"))  # on each database: runs that cross while authority moves
VOLLEY = 30  # runs that cross side by side
PAUSED = max(ROUNDS // 5, 5)  # of each of the five acts: runs that it comes exactly before the commit of
BESIDE = 10  # of them at once, since an act costs several times what a run does
DEADLOCK_S = 60.0  # far beyond what a volley takes

BUYER, VISITOR, DORA, ROOT = "agent:buyer", "user:zoe", "user:dora", "user:root"
AMOUNT = 10
RULES = {"pay": remit.Rule(ceiling=remit.Ceiling("amount", max=10**12, per="month"))}
WIDE, NARROW = {"version": "wide"}, {"version": "narrow", "ceilings": {"pay.amount": AMOUNT - 1}}
CLOSED = {"version": "closed", "forbid": ["pay"]}
PAID, DENIED = ("completed", ""), ("failed", "resume_denied")
UNOPENED = ("", "")  # it came after the act, so that nothing was opened


@dataclass(frozen=True)
class Act:
    """Something that moves the authority, its undoing, and how a run ends that it came before."""

    do: Callable[[remit.Runtime], Any]
    undo: Callable[[remit.Runtime], Any]
    end: tuple[str, str]


ACTS = {
    "role revoked": Act(
        lambda rt: rt.revoke_sync(BUYER, "buyer", by=ROOT), lambda rt: rt.grant_sync(BUYER, "buyer", by=ROOT), DENIED
    ),
    "executor disabled": Act(
        lambda rt: rt.disable_sync(BUYER, by=ROOT), lambda rt: rt.enable_sync(BUYER, by=ROOT), DENIED
    ),
    "ceiling cut": Act(
        lambda rt: rt.set_policy_sync(NARROW, by=ROOT),
        lambda rt: rt.set_policy_sync(WIDE, by=ROOT),
        ("failed", "ceiling_exceeded"),
    ),
    "effect forbidden": Act(
        lambda rt: rt.set_policy_sync(CLOSED, by=ROOT),
        lambda rt: rt.set_policy_sync(WIDE, by=ROOT),
        ("abandoned", "policy_forbids"),
    ),
    "grant elsewhere": Act(
        lambda rt: rt.grant_sync(VISITOR, "visitor", by=ROOT),
        lambda rt: rt.revoke_sync(VISITOR, "visitor", by=ROOT),
        PAID,
    ),
}


class Watched:
    """A store that lets somebody act between a judgement and its commit, and counts the commits that came too late."""

    def __init__(self, store: Store) -> None:
        self.inner = store
        self.before: Callable[[], Awaitable[None]] | None = None  # each commit that rests on an authority
        self.within: Callable[[], Awaitable[None]] | None = None  # the gathering of each question
        self.moved: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def read_used(self, tenant: str, scope: str) -> int:
        if self.within is not None:
            await self.within()
        return await self.inner.read_used(tenant, scope)

    async def append(self, unit: Unit) -> None:
        if self.before is not None and unit.fence is not None:
            await self.before()
        try:
            await self.inner.append(unit)
        except Moved as moved:
            self.moved[moved.what] += 1
            raise


@dataclass
class Race:
    """A worker, and an office in a thread and with a store of its own, at one ledger."""

    rt: remit.Runtime
    store: Watched
    office: remit.Runtime
    vault: Vault
    ceiling: str  # the table of what is used
    paid: Counter[str] = field(default_factory=Counter)  # calls of the effect, by run
    rules: dict[str, remit.Rule] = field(default_factory=lambda: dict(RULES))

    @property
    def flow(self) -> remit.Flow[Any]:
        """Steps, how many is the input, and then one payment. Its ceiling and its key are asked of the store."""

        @remit.step
        async def prepare() -> int:
            return 1

        @remit.effect(business_key="run")
        async def pay(order: dict[str, Any], *, key: str) -> str:
            self.paid[order["run"]] += 1
            return key

        contract = remit.Contract(version="1", resume={"buyer"}, window=timedelta(days=1), effects=self.rules)

        @remit.flow(contract=contract)
        async def purchase(run: remit.Run, steps: int) -> str:
            for _ in range(steps):
                await run.step(prepare)
            return await run.effect(pay, {"amount": AMOUNT, "run": run.id})

        return purchase

    async def act(self, do: Callable[[remit.Runtime], Any]) -> int:
        """The office acts; the version from which that holds."""
        version: int = await asyncio.to_thread(do, self.office)
        return version

    def act_at_commit(self, at: int, do: Callable[[remit.Runtime], Any]) -> list[asyncio.Task[int]]:
        """Let the office begin to act when that many more commits were begun, and stop none of them; its task then."""
        acting: list[asyncio.Task[int]] = []
        left = at

        async def count() -> None:
            nonlocal left
            left -= 1
            if left < 0 and not acting:
                acting.append(asyncio.create_task(self.act(do)))

        self.store.before = count
        return acting

    def act_when_judged(self, count: int, do: Callable[[remit.Runtime], Any]) -> None:
        """Let the office act when that many runs were judged, none of which commits before that is done."""
        has_acted, left = asyncio.Event(), count

        async def between() -> None:
            nonlocal left
            left -= 1
            if left > 0:
                await has_acted.wait()
                return
            self.store.before = None
            await self.act(do)
            has_acted.set()

        self.store.before = between

    async def go(self, run: str, steps: int = 0) -> tuple[str, str]:
        """Start a run and let it pay; how it ends."""
        try:
            outcome = await self.rt.run(self.flow, steps, id=run, by=BUYER)
        except remit.Refused as refused:
            assert refused.code.startswith("executor.")
            return UNOPENED
        return str(outcome.status), outcome.code

    async def check(self, ends: dict[str, tuple[str, str]], act: Act) -> None:
        """Every run ended as it may, paid exactly as its journal says, and rests on what held when it was committed."""
        assert set(ends.values()) <= {PAID, act.end, *([UNOPENED] if act.end == DENIED else [])}
        witness = await self.vault.sql("SELECT run_key, head FROM witness")
        for run, end in ends.items():
            if end == UNOPENED:
                assert self.paid[run] == 0 and await self.rt.list(prefix=run) == []
                continue
            found = await self.rt.show(run)  # verified
            intended = [effect.intended.authority for effect in found.view.boundary.effects.values()]
            assert self.paid[run] == len(intended) == (end == PAID)
            assert [head for key, head in witness if key == found.row.run_key] == intended
        assert await self.vault.sql(f"SELECT sum(used) FROM {self.ceiling}") == [(self.paid.total() * AMOUNT or None,)]


@pytest.fixture
async def race(database: Storage) -> AsyncIterator[Race]:
    url = database.make(None)
    store = Watched(store_for(url))
    async with remit.open(cast(Store, store)) as rt:
        vault = Vault(url)
        for statement in WITNESS[database.kind]:
            await vault.sql(statement)
        await rt.grant(BUYER, "buyer", by=ROOT)
        await rt.grant(DORA, "director", by=ROOT)
        await rt.set_policy(WIDE, by=ROOT)
        office = await asyncio.to_thread(remit.open(url).__enter__)
        yield Race(rt, store, office, vault, CEILING[database.kind])
        await asyncio.to_thread(office.__exit__, None, None, None)


CEILING = {"sqlite": "remit_ceiling", "postgres": "remit.ceiling"}
WITNESS = {
    "sqlite": [
        "CREATE TABLE witness (run_key INTEGER, head INTEGER)",
        """CREATE TRIGGER bear_witness AFTER INSERT ON remit_entry
            WHEN CAST(new.header AS TEXT) ->> 'kind' = 'EffectIntended'
           BEGIN INSERT INTO witness SELECT new.run_key, seq FROM remit_run WHERE run = 'remit:authority'; END""",
    ],
    # At the very end of the transaction, and a moment late, so that what is not locked has the time to move.
    "postgres": [
        "CREATE TABLE witness (run_key int8, head int8)",
        """CREATE FUNCTION bear_witness() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF convert_from(new.header, 'UTF8')::json->>'kind' = 'EffectIntended' THEN
               PERFORM pg_sleep(random() * 0.002);
               INSERT INTO public.witness SELECT new.run_key, seq FROM remit.run WHERE run = 'remit:authority';
             END IF;
             RETURN NULL;
           END $$""",
        """CREATE CONSTRAINT TRIGGER bear_witness AFTER INSERT ON remit.entry
           DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bear_witness()""",
    ],
}


@pytest.mark.parametrize("name", ACTS)
async def test_what_moved_between_judging_and_committing_is_judged_again(race: Race, name: str):  # proves: GATE-4
    """As many runs as stand side by side are judged, and wait with their commits until the act is done."""
    act = ACTS[name]
    ends: dict[str, tuple[str, str]] = {}

    async def go(run: str) -> None:
        ends[run] = await race.go(run)

    for first in range(0, PAUSED, BESIDE):
        runs = [f"po-{turn}" for turn in range(first, min(first + BESIDE, PAUSED))]
        race.act_when_judged(len(runs), act.do)
        async with asyncio.timeout(DEADLOCK_S):
            await asyncio.gather(*map(go, runs))
        await race.act(act.undo)

    assert set(ends.values()) == {act.end}
    assert race.store.moved == {"authority": PAUSED}
    await race.check(ends, act)


@pytest.mark.parametrize("name", ACTS)
async def test_a_question_is_not_half_of_one_authority_and_half_of_the_next(race: Race, name: str):  # proves: GATE-4
    """Another turn of the same process reads on while the question is gathered: its commit must not pass by that."""
    act = ACTS[name]
    ends: dict[str, tuple[str, str]] = {}

    async def within() -> None:
        race.store.within = None
        await race.act(act.do)
        await race.rt.authority()

    for turn in range(max(PAUSED // 40, 1)):
        race.store.within = within
        async with asyncio.timeout(DEADLOCK_S):
            ends[f"po-{turn}"] = await race.go(f"po-{turn}")
        await race.act(act.undo)

    assert set(ends.values()) == {act.end}
    await race.check(ends, act)


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTS)
async def test_runs_that_race_a_change_of_authority_are_before_it_or_refused(race: Race, name: str):  # proves: GATE-4
    act, chance, at_once = ACTS[name], random.Random(name), asyncio.Semaphore(VOLLEY // 3)
    ends: dict[str, tuple[str, str]] = {}

    async def go(run: str) -> None:
        async with at_once:  # so that some begin, and look at the authority, while others are being judged
            ends[run] = await race.go(run, chance.randrange(4))

    for volley in range(max(ROUNDS // len(ACTS) // VOLLEY, 1)):
        acting = race.act_at_commit(chance.randrange(VOLLEY), act.do)
        async with asyncio.timeout(DEADLOCK_S):
            await asyncio.gather(*(go(f"po-{volley}-{n}") for n in range(VOLLEY)))
            await asyncio.gather(*acting)
            await race.act(act.undo)

    assert race.store.moved["authority"] and set(ends.values()) - {UNOPENED} == {PAID, act.end}, "nothing raced"
    await race.check(ends, act)


async def test_a_yes_counts_no_more_where_its_decider_loses_the_role_meanwhile(race: Race):  # proves: GATE-4, APR-3
    by_director = remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=1)))
    race.rules = {"pay": by_director}

    async def between() -> None:
        race.store.before = None
        await race.act(lambda rt: rt.revoke_sync(DORA, "director", by=ROOT))

    for turn in range(5):
        run = f"po-{turn}"
        assert await race.go(run) == ("waiting", "approval_needed")
        (ask,) = await race.rt.inbox()
        await race.rt.decide(ask.id, "approve", by=DORA, seen=ask.version)
        race.store.before = between
        assert await race.go(run) == ("waiting", "approval_role_lost")
        assert race.paid == {}
        (asked_anew,) = await race.rt.inbox()
        assert asked_anew.void == ("approval.role_lost",)
        await race.rt.cancel(run, by=ROOT)
        await race.act(lambda rt: rt.grant_sync(DORA, "director", by=ROOT))


async def test_authority_that_never_stands_still_lets_the_run_wait_and_go_on_later(race: Race):  # proves: GATE-4
    act = ACTS["grant elsewhere"]
    turns = iter([act.do, act.undo] * 100)

    async def move() -> None:
        await race.act(next(turns))

    race.store.before = move
    assert await race.go("po-1") == ("waiting", "authority.moving")
    assert race.paid == {}
    race.store.before = None
    assert await race.go("po-1") == PAID
    await race.check({"po-1": PAID}, act)
