"""Shared: what runs have in common and a crossing rests on: business keys, and what is used of ceilings.

Both are counted again in the commit that takes of them, so what is read here may be old without harm:
a crossing that is let through by it is then judged anew.
"""

from __future__ import annotations

import unicodedata
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from remit.authority import rules as ruling
from remit.authority.called import id_name
from remit.authority.rules import Cap, Rules
from remit.canonical import encode
from remit.engine.declared.outward import Outward
from remit.engine.turn.turn import BusinessOf, Turn
from remit.engine.turn.wish import Wish
from remit.errors import CallRefused
from remit.errors.called import called
from remit.facts.calls import EffectView
from remit.facts.judgement import Limit, Question
from remit.facts.kinds import Reservation
from remit.store.marks import FreeKey, Unreserve

_BUSINESS_TAG = b"remit/business/1\n"


class Business(NamedTuple):
    """A business key. digest: "" where the effect has none. rival: who else holds it, or did its business without.

    lost: the call of this very run that holds it, where the journal has no intention of it. Both are committed as one,
    and given back as one: the store lost the entries, as an older backup does, and what they did may have happened.
    """

    digest: str = ""
    rival: str = ""
    lost: str = ""


async def shared(turn: Turn, wish: Wish, rules: Rules, between: tuple[int, int]) -> tuple[Business, list[Limit]]:
    """The business key with who holds it, and what is used of the ceilings, of each in every period that it may be.

    between: the earliest and the latest time that it may be, microseconds UTC, of all of one question.
    """
    business = await _business(turn, wish, wish.effect) if wish.effect and wish.effect.business_key else Business()
    own = turn.attempt.boundary.effects.get(wish.name)
    limits = []
    for cap in rules.ceilings:
        for at in ruling.times_of(cap.pin.per, *between):
            scope = ruling.scope_of(wish.declared, cap.pin, at)
            if cap.pin.per == "run":
                limits.append(_limit_of_run(turn, wish, cap, scope))
            else:
                used = 0 if cap.pin.per == "effect" else await _used(turn, scope, own)
                limits.append(ruling.limit_of(scope, cap.source, cap.pin, wish.request, used))
    return business, limits


async def _business(turn: Turn, wish: Wish, effect: Outward[Any]) -> Business:
    digest = business_digest(effect, wish.request)
    if not digest:
        raise CallRefused(
            f"{called(wish.name)} has no business key in field {effect.business_key!r} of its request; "
            "it was not called.",
            code="effect.business_key",
            hint="State it in the request: no two runs may do the same business twice.",
        )
    held = await _held(turn, wish, digest)
    if held.rival or held.lost:
        return held
    before = _done_before(turn, wish, effect, digest)
    return held._replace(rival=f"{id_name(turn.attempt.run_id)} {called(before)}") if before else held


async def _held(turn: Turn, wish: Wish, digest: str) -> Business:
    """The business key as the store has it."""
    host, attempt = turn.host, turn.attempt
    own = attempt.lease.run_key
    row = await host.store.read_key(host.tenant, digest)
    if row is not None and row.run_key == own and not _is_holder(turn, row.call, digest):
        row = await host.store.read_key(host.tenant, digest)  # a call beside this one gave it back meanwhile, or not
    if row is None or (row.run_key == own and FreeKey(digest) in attempt.writer.given_back):
        return Business(digest)
    if row.run_key == own and _is_holder(turn, row.call, digest):
        return Business(digest, rival="" if row.call == wish.name else f"{id_name(row.run)} {called(row.call)}")
    # The number alone may be that of a run that is gone, given out again.
    if row.run_key == own and row.run == attempt.run_id:
        return Business(digest, lost=row.call)
    return Business(
        digest, rival=f"{'an earlier ' if row.run == attempt.run_id else ''}{id_name(row.run)} {called(row.call)}"
    )


def _is_holder(turn: Turn, call: str, digest: str) -> bool:
    """Whether this call of the run holds the business key by the journal: it took it, and never gave it back."""
    effect = turn.attempt.boundary.effects.get(call)
    return effect is not None and effect.may_have_happened and digest in effect.businesses


def _done_before(turn: Turn, wish: Wish, effect: Outward[Any], digest: str) -> str:
    """Another call of this effect in this run that did this business, or may have; "" where there is none.

    What was called before the effect declared this business key holds none, and states it in its request all the same.
    """
    effects = turn.attempt.boundary.effects
    known = turn.business_of.setdefault((effect.name, effect.business_key or ""), BusinessOf())
    for call in islice(reversed(effects.values()), len(effects) - known.seen):
        if call.intended.effect == effect.name:
            known.calls.setdefault(business_digest(effect, msgspec.json.decode(call.request)), []).append(call.name)
    known.seen = len(effects)
    others = [name for name in known.calls.get(digest, ()) if name != wish.name and effects[name].may_have_happened]
    return min(others, key=lambda name: effects[name].begun, default="")


def business_digest(effect: Outward[Any], request: Any) -> str:
    """Of the business key that a request states, as plain JSON; "" where the effect has none, or it states none."""
    value = request if effect.business_key else None
    for part in (effect.business_key or "").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, str):
        value = unicodedata.normalize("NFC", value).strip()
    if value is None or value == "" or isinstance(value, bool | float | dict | list):
        return ""
    return sha256(_BUSINESS_TAG + encode([effect.name, str(value)])).hexdigest()


def _limit_of_run(turn: Turn, wish: Wish, cap: Cap, scope: str) -> Limit:
    """A ceiling over the run, which counts what its own effects took."""
    used, uncounted = _used_before(turn, wish, cap, scope)
    used += turn.attempt.boundary.reserved(scope, without=wish.name)
    limit = ruling.limit_of(scope, cap.source, cap.pin, wish.request, used)
    return msgspec.structs.replace(limit, uncounted=uncounted) if uncounted else limit


async def _used(turn: Turn, scope: str, own: EffectView | None) -> int:
    """What all runs took of a ceiling that they share, but for this very call. own: the call, where it was intended."""
    used = await turn.host.store.read_used(turn.host.tenant, scope)
    if own is not None and own.settled is None:
        used -= sum(taken.amount for taken in own.reserved if taken.scope == scope)
    given_back = [mark for mark in turn.attempt.writer.given_back if isinstance(mark, Unreserve)]
    return used - sum(mark.amount for mark in given_back if mark.scope == scope)


def _used_before(turn: Turn, wish: Wish, cap: Cap, scope: str) -> tuple[int, str]:
    """What this run's effects took of a ceiling before it was set: a rule of today counts what was paid yesterday.

    The second is a call whose request states no amount that could be added up: nobody knows then what is used.
    """
    known = turn.before_ceiling.get((scope, turn.host.standing.authority.version))
    if known is None:
        known = {}
        for effect in turn.attempt.boundary.effects.values():
            counts = effect.intended.effect == wish.declared and effect.may_have_happened
            if counts and not _reserves(effect, scope):
                limit = ruling.limit_of(scope, "", cap.pin, msgspec.json.decode(effect.request), 0)
                known[effect.name] = limit.amount if limit.is_counted else None
        turn.before_ceiling[scope, turn.host.standing.authority.version] = known
    if not known:
        return 0, ""
    effects = turn.attempt.boundary.effects
    # What was sent again since reserves by now, and what did not happen after all is not counted at all.
    others = {
        name: amount
        for name, amount in known.items()
        if name != wish.name and effects[name].may_have_happened and not _reserves(effects[name], scope)
    }
    uncounted = next((name for name, amount in others.items() if amount is None), "")
    return sum(amount for amount in others.values() if amount is not None), uncounted


def _reserves(effect: EffectView, scope: str) -> bool:
    """Whether it took of this ceiling itself, so that the ceiling's own count has it."""
    return any(taken.scope == scope for taken in effect.reserved)


def reservations(question: Question) -> tuple[Reservation, ...]:
    """What the intention takes of ceilings that others share; of one scope once, whoever set a ceiling over it."""
    taken = {
        limit.scope: limit.amount for limit in question.ceilings if limit.per != "effect" and limit.amount is not None
    }
    return tuple([Reservation(amount=amount, scope=scope) for scope, amount in sorted(taken.items())])


def is_shared(scope: str) -> bool:
    """Whether runs share this ceiling, so that the store counts it; a run counts its own in its journal."""
    return not scope.endswith("/run")
