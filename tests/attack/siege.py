"""A siege: a run is parked, its stored rows are edited, and the whole answer of Remit is looked at.

Each attack is refused with its exact code before anything runs or is written, set aside
with one incident however often it is tried, and told apart from its neighbours, which go
on. The quarantine is lifted when the bytes are right again, and not before.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Sequence

import pytest

import remit
from remit.canonical import INTEGER_MAX
from remit.engine.process import incidents
from remit.facts.entry import Pen
from remit.facts.fact import Fact
from remit.facts.kinds import QuarantineLifted, RunQuarantined, SignalSent, write
from remit.facts.names import INCIDENTS
from remit.store.protocol import Store
from remit.store.rows import RunRow
from remit.store.units import Unit
from tests.spec.conftest import Storage
from tests.support.journal import SALT, identity_of
from tests.support.vault import Ledger, Vault

VICTIM, NEIGHBOUR = "pay-7", "pay-8"
AMOUNT = 82_000
OPEN = remit.Contract(version="1", resume="anyone")

# What `Siege.prepare` leaves in the victim's lane main:
OPENED, STARTED, FETCHED, DECIDED, FAILED, PARKED = range(1, 7)

Edit = Callable[[Ledger], None]


class Desk:
    """Two steps that are done once, and a third that fails while the payment office is closed."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.is_closed = True

        @remit.step
        async def fetch(amount: int) -> int:
            self.ran.append("fetch")
            return amount

        @remit.step
        async def decide(amount: int) -> str:
            self.ran.append("decide")
            return "denied"

        @remit.step
        async def pay(decision: str) -> str:
            self.ran.append("pay")
            if self.is_closed:
                raise OSError("the office is closed")
            return decision

        @remit.flow(contract=OPEN)
        async def payment(run: remit.Run, amount: int) -> str:
            self.ran.append("flow")
            decision: str = await run.step(decide, await run.step(fetch, amount))
            outcome: str = await run.step(pay, decision)
            return outcome

        self.flow = payment


class Siege:
    """One storage under attack."""

    def __init__(self, place: Storage) -> None:
        self.place, self.desk, self.vault = place, Desk(), Vault(place.make(None))

    async def prepare(self, *runs: str) -> None:
        """Runs with two recorded steps each wait, two messages lie in their lane post, nothing is open."""
        async with self.place.open() as rt:
            await asyncio.gather(*(self._park(rt, run) for run in runs or (VICTIM, NEIGHBOUR)))

    async def _park(self, rt: remit.Runtime, run: str) -> None:
        with pytest.raises(remit.StepError):
            await rt.run(self.desk.flow, AMOUNT, id=run)
        await post(rt._store, (await rt.show(run)).row)

    async def refuses(self, edit: Edit, code: str, where: str, *, called: str = VICTIM) -> None:
        """The attack is answered with `code` at entry `where` ("main 4"), and nothing else happens, ever.

        called: the id that the attacked run goes by once it was edited.
        """
        await self.prepare()
        whole = await self.vault.read()
        wrong = copy.deepcopy(whole)
        edit(wrong)
        assert wrong != whole
        await self.vault.write(wrong)
        before = list(self.desk.ran)
        self.desk.is_closed = False

        lane, _, seq = where.partition(" ")
        await self._is_refused_thrice(called, (code, lane, int(seq)))
        assert self.desk.ran == before
        assert without_incidents(await self.vault.read()) == set_aside(wrong, called)

        main, post = (min(max(wrong[VICTIM].row[name], 0), INTEGER_MAX) for name in ("seq", "post_seq"))
        noted: list[Fact] = [
            RunQuarantined(code=code, gen=_gen(wrong), lane=lane, main=main, post=post, run=called, seq=int(seq))
        ]
        async with self.place.open() as rt:
            assert await noted_in(rt) == noted
            with pytest.raises(remit.Tampered) as refused:
                await rt.lift(called, by="user:dana", reason="it will be fine")
            assert refused.value.code == code
            assert [row.run for row in await rt.list(quarantined=True)] == [called]
            assert (await rt.run(self.desk.flow, AMOUNT, id=NEIGHBOUR)).value == "denied"
            assert await noted_in(rt) == noted
        await self._goes_on_once_restored(whole, noted)
        assert self.desk.ran == [*before, *["flow", "pay"] * 2]

    async def answers(self, attacks: Sequence[tuple[str, str, str, Edit]]) -> dict[str, tuple[str, str]]:
        """Every attack on a run of its own, all in one database: title -> code and entry of what the run was told.

        None of them runs or writes anything, each is noted once, and all go on once they are restored and lifted.
        """
        victims = {title: f"v-{number}" for number, (title, *_) in enumerate(attacks)}
        await self.prepare(*victims.values(), NEIGHBOUR)
        whole = await self.vault.read()
        wrong = copy.deepcopy(whole)
        for title, _, _, edit in attacks:
            edit({VICTIM: wrong[victims[title]], NEIGHBOUR: copy.deepcopy(whole[NEIGHBOUR])})
        await self.vault.write(wrong)
        wrong, before = await self.vault.read(), list(self.desk.ran)
        self.desk.is_closed = False

        found: dict[str, tuple[str, str]] = {}
        async with self.place.open() as rt:
            for title, run in victims.items():
                with pytest.raises(remit.Tampered) as refused:
                    await rt.run(self.desk.flow, AMOUNT, id=run)
                found[title] = refused.value.code, f"{refused.value.lane} {refused.value.seq}"
                with pytest.raises(remit.RunQuarantined):
                    await rt.resume(run, self.desk.flow)
            assert sorted(fact.run for fact in await noted_in(rt)) == sorted(victims.values())  # type: ignore[attr-defined]
            for run in victims.values():
                with pytest.raises(remit.Tampered):
                    await rt.lift(run, by="user:dana", reason="it will be fine")
        assert self.desk.ran == before
        assert without_incidents(await self.vault.read()) == set_aside(wrong, *victims.values())
        await self.vault.write(set_aside(whole, *victims.values()))
        async with self.place.open() as rt:
            noted = [fact for fact in await noted_in(rt) if isinstance(fact, RunQuarantined)]
            edited = {fact.run for fact in noted if is_edited(whole, fact)}
            lifts = (rt.lift(v, by="user:dana", reason="restored", shorter=v in edited) for v in victims.values())
            await asyncio.gather(*lifts)
            runs = (rt.run(self.desk.flow, AMOUNT, id=run) for run in (*victims.values(), NEIGHBOUR))
            assert {outcome.value for outcome in await asyncio.gather(*runs)} == {"denied"}
        return found

    async def _is_refused_thrice(self, called: str, found: tuple[str, str, int]) -> None:
        """By run, by run again, and by resume after everything was closed and opened again."""
        async with self.place.open() as rt:
            with pytest.raises(remit.Tampered) as refused:
                await rt.run(self.desk.flow, AMOUNT, id=called)
            assert (refused.value.code, refused.value.lane, refused.value.seq) == found
            with pytest.raises(remit.RunQuarantined):
                await rt.run(self.desk.flow, AMOUNT, id=called)
        async with self.place.open() as rt:
            with pytest.raises(remit.RunQuarantined):
                await rt.resume(called, self.desk.flow)

    async def _goes_on_once_restored(self, whole: Ledger, noted: list[Fact]) -> None:
        """The bytes are put back; that alone does not end the quarantine, and an operator's word then does."""
        whole[VICTIM].row["quarantined"] = True
        await self.vault.write({VICTIM: whole[VICTIM]})
        async with self.place.open() as rt:
            with pytest.raises(remit.RunQuarantined):
                await rt.run(self.desk.flow, AMOUNT, id=VICTIM)
            shorter = is_edited(whole, noted[0])
            await rt.lift(VICTIM, by="user:dana", reason="restored from yesterday's backup", shorter=shorter)
            assert (await rt.run(self.desk.flow, AMOUNT, id=VICTIM)).value == "denied"
            assert await noted_in(rt) == [*noted, QuarantineLifted(gen=1, run=VICTIM, shorter=shorter)]
            assert await rt.verify(VICTIM) is None


async def post(store: Store, row: RunRow) -> None:
    """Somebody sends the run two signals: entries post 1 and post 2."""
    pen = Pen(identity_of(store, row), lane="post", by="user:dana", epoch=0, head=row.post_head, seq=0)
    facts = ((SignalSent(), "note", b'"wait"'), (SignalSent(), "note", b'"too dear"'))
    for fact, name, value in facts:
        before = pen.head
        entry = pen.seal(type(fact).__name__, write(fact), at=row.opened_at, name=name, value=(SALT, value))
        await store.append(Unit(row.run_key, "post", before, pen.head, pen.seq, [entry], None))


def is_edited(whole: Ledger, found: Fact) -> bool:
    """Whether the row of a run that was set aside said more than there ever was: it looks as if entries are missing."""
    assert isinstance(found, RunQuarantined)
    row = whole[found.run if found.run in whole else VICTIM].row
    return bool(found.main > row["seq"] or found.post > row["post_seq"])


async def noted_in(rt: remit.Runtime) -> list[Fact]:
    """What the journal of incidents says, which verifies; nothing where there is none."""
    assert await rt.verify(INCIDENTS) is None
    entries = incidents.verify(rt._store.ledger.origin, await rt.read(INCIDENTS))
    return [entry.fact for entry in entries if entry.fact is not None]


def without_incidents(ledger: Ledger) -> Ledger:
    return {run: kept for run, kept in ledger.items() if run != INCIDENTS}


def set_aside(ledger: Ledger, *called: str) -> Ledger:
    """The same rows with the flag of these runs set: all that a refusal may change."""
    by_id = {kept.row["run"]: kept for kept in copy.deepcopy(ledger).values()}
    for run in called:
        by_id[run].row["quarantined"] = True
    return by_id


def _gen(ledger: Ledger) -> int:
    gen: int = ledger[VICTIM].row["gen"]
    return gen
