"""Effects of runs, as people look for them: which happened, which did not, and which nobody knows of."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec

from remit.engine.people.left_out import LeftOut, Listed, all_set_aside, left_out
from remit.engine.people.newest import PAGE, newest
from remit.engine.process.admit import UNBELIEVED, Found, find, is_worked_at
from remit.engine.process.at_work import left_at_work
from remit.engine.process.host import Host
from remit.engine.process.outcome import detail_of
from remit.facts.calls import EffectView
from remit.facts.machine import Status
from remit.facts.view import RunView
from remit.store.rows import RunFilter


@dataclass(frozen=True, slots=True)
class Effected:
    """One call of an effect. at: microseconds UTC, of its intention.

    state: `ok`, `failed` or `did_not_happen`; of one that is not settled `under_way` while a worker that may live holds
    its run, which says itself what becomes of it, else `in_doubt`.
    key: idempotency key that the outside was given. request: plain JSON. outcome: of one that happened, else None.
    lost: why the outcome of one that happened could not be stored, "" where it was. detail: the same in words, or why
    it failed or did not happen. found: how that is known: "" where its call said so, else probe, person or unsent (its
    function never began). told_by: who said what became of it, "" where nobody did.
    at_work: of one in doubt, each process in which its call had not returned as far as the journal says, where that may
    live still and do it; else "".
    """

    run: str
    call: str
    effect: str
    state: str
    key: str
    at: int
    calls: int
    request: Any
    outcome: Any
    detail: str
    found: str
    told_by: str
    lost: str = ""
    at_work: str = ""


async def effects(host: Host, *, run: str | None, in_doubt: bool, limit: int) -> Listed[Effected]:
    """Effects of a run, in order; or, without one, those in doubt of all runs. Raises RunAbsent, Tampered.

    Of all runs those are left out that can't be believed or read, and all that are set aside: any may have doubts.
    """
    if run is not None:
        told = await _of(host, await find(host, run))
        return Listed(one for one in told if not in_doubt or one.state == "in_doubt")
    found, without = list[Effected](), list[LeftOut]()
    async for name in _left(host):
        try:
            found += [one for one in await _of(host, await find(host, name)) if one.state == "in_doubt"]
        except UNBELIEVED as exc:
            without.append(left_out(name, exc))
        if len(found) >= limit:
            break
    without += [one async for one in all_set_aside(host)]
    return Listed(found[:limit], without)


async def _left(host: Host) -> AsyncIterator[str]:
    """Runs in which something may be in doubt that no worker will tell of by itself: those parked so first."""
    for status in (Status.IN_DOUBT, Status.RUNNING):
        before: int | None = None
        while True:
            which = RunFilter(host.tenant, status=status, quarantined=False, limit=PAGE, before_key=before)
            rows, now = await host.store.list_rows(which), await host.store.now()
            for row in rows:
                if not await is_worked_at(host, row, now=now):
                    yield row.run
            if len(rows) < PAGE:
                break
            before = rows[-1].run_key


async def effect_names(host: Host) -> set[str]:
    """Declared names of effects that the newest runs called, asked about or had rules for."""
    found: set[str] = set()
    async for view in newest(host):
        if isinstance(view, RunView):
            found.update(effect.intended.effect for effect in view.boundary.effects.values())
            found.update(ask.asked.bound.effect for ask in view.boundary.asks.values())
            found.update(view.opened.contract.effects)
    return found - {""}  # a question of the flow's own is about none


async def _of(host: Host, found: Found) -> list[Effected]:
    is_held = found.row.worker is not None and await is_worked_at(host, found.row, now=await host.store.now())
    left = await left_at_work(host, found.view)
    effects = found.view.boundary.effects.values()
    return [told(found.view, effect, is_held=is_held, at_work=left.get(effect.name, "")) for effect in effects]


def told(view: RunView, effect: EffectView, *, is_held: bool, at_work: str = "") -> Effected:
    """A call of an effect as people are told of it. is_held: a worker that may live is at its run."""
    settled, words = effect.settled, view.boundary.resolved.get(effect.intention, ())
    is_kept = settled is not None and settled.state == "ok" and settled.lost is None
    said = [word.by for word in words if settled is None or word.item == settled.item]
    outcome = msgspec.json.decode(effect.outcome) if is_kept and effect.outcome is not None else None
    return Effected(
        run=view.identity.run,
        call=effect.name,
        effect=effect.intended.effect,
        state="under_way" if settled is None and is_held else effect.state,
        key=effect.intended.key,
        at=effect.at,
        calls=effect.calls,
        request=msgspec.json.decode(effect.request),
        outcome=outcome,
        detail="" if settled is None or is_kept else detail_of(effect.outcome),
        found="" if settled is None else settled.found,
        told_by=said[-1] if said else "",
        lost=settled.lost.code if settled is not None and settled.lost is not None else "",
        at_work="" if is_held else at_work,
    )
