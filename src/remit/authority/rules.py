"""The rules that hold for one effect: of the contract that the run was opened under, of the one that
the code declares today, and of the operators' policy. The stricter holds, because all of them do.

Nothing is merged and nothing is dropped but twins: each need, ceiling and predicate keeps its
source, so that a finding can say who demanded it. A pinned rule whose predicate this code no
longer has, or has under another version of the contract, is demanded without asking: nobody can
say any more that it is not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from typing import TypeVar

from remit.authority.leaves import covers, leaves_of, value_of
from remit.authority.moments import datetime_of, microseconds_of
from remit.authority.roles import ANYONE
from remit.authority.rule import is_currency
from remit.canonical import INTEGER_MAX, encode
from remit.facts.judgement import Limit, Need
from remit.facts.rules import ApprovalPin, CeilingPin, ContractPin, PolicyPin, RulePin

CONTRACT = "contract"
PINNED = "pinned contract"
POLICY = "policy"

CURRENCY_FIELD = "currency"
CURRENCY_UNCLEAR = "?"  # stands for what is no currency at all; no ceiling has it

DATED = ("day", "month")  # periods of a ceiling that begin anew
DAY_US = 86_400_000_000

_RISKS = ("low", "medium", "high")
_NO_RULE = RulePin()


@dataclass(frozen=True, slots=True)
class Demand:
    """An approval that one source demands."""

    source: str
    pin: ApprovalPin
    predicate: str  # to be asked of the code's contract first, by this name; "" where the need stands as it is


@dataclass(frozen=True, slots=True)
class Cap:
    """A ceiling that one source sets."""

    source: str
    pin: CeilingPin


Demanded = TypeVar("Demanded", Demand, Cap)


@dataclass(frozen=True, slots=True)
class Rules:
    """All that is demanded of one effect."""

    needs: tuple[Demand, ...] = ()
    ceilings: tuple[Cap, ...] = ()
    evidence: tuple[str, ...] = ()  # names, in order
    fresh_for: Mapping[str, int] = field(default_factory=dict)  # microseconds from `as_of`, by name of evidence
    forbidden: bool = False
    unnamed: bool = False  # no rule of a contract names it, and the code's contract refuses such effects
    near: str = ""  # then: the name in the code's contract that is nearest to its own, and may be meant for it
    wanted: str = ""  # name by which to ask the code's contract whether it is still wanted; "" for nobody
    wanted_lost: str = ""  # the pinned contract would ask this one, which the code no longer has: the answer is unknown


def rules_for(effect: str, *, pinned: ContractPin, coded: ContractPin, policy: PolicyPin | None) -> Rules:
    """What holds for an effect of this declared name. Of twins one is kept: the code's, else the pinned.

    "" is a question of the flow's own, of which the policy says no more than how long its evidence may be relied on.
    """
    if not effect:
        return Rules(fresh_for={} if policy is None else policy.evidence)
    now, then = coded.effects.get(effect, _NO_RULE), pinned.effects.get(effect, _NO_RULE)
    approvals = [(CONTRACT, now.approval), (PINNED, then.approval)]
    caps = [Cap(CONTRACT, pin) for pin in now.ceilings] + [Cap(PINNED, pin) for pin in then.ceilings]
    if policy is not None:
        approvals.append((POLICY, policy.approvals.get(effect)))
        caps += [Cap(POLICY, pin) for pin in policy.ceilings.get(effect, ())]
    # A predicate is known by its name, and what it says by the version that counts on where it changes.
    known = now.approval.predicate if now.approval else ""
    asked = (CONTRACT, PINNED) if pinned.version == coded.version else (CONTRACT,)
    needs = [
        Demand(source, pin, pin.predicate if source in asked and pin.predicate == known else "")
        for source, pin in approvals
        if pin
    ]
    is_unnamed = _refuses_others(coded) and effect not in coded.effects and effect not in pinned.effects
    return Rules(
        needs=_once(needs, lambda need: (need.pin, need.predicate)),
        ceilings=_once(caps, lambda cap: cap.pin),
        evidence=tuple(sorted({*now.evidence, *then.evidence})),
        fresh_for=_least(now.fresh_for, then.fresh_for, {} if policy is None else policy.evidence),
        forbidden=policy is not None and effect in policy.forbid,
        unnamed=is_unnamed,
        near=_nearest(effect, coded.effects) if is_unnamed else "",
        wanted=now.wanted,
        wanted_lost=then.wanted if then.wanted != now.wanted else "",
    )


def _least(*caps: Mapping[str, int]) -> dict[str, int]:
    """Of each name the smallest number."""
    return {name: min(each[name] for each in caps if name in each) for name in sorted(set().union(*caps))}


def _nearest(effect: str, named: Iterable[str]) -> str:
    """The name that may be this one misspelt; "" where none is like it."""
    like = {name.casefold(): name for name in sorted(named)}
    return "".join(like[each] for each in get_close_matches(effect.casefold(), like, n=1))


def _refuses_others(coded: ContractPin) -> bool:
    """Whether the code's contract refuses effects that nothing names. The pinned one can't be mended any more."""
    return coded.others == "refused" or bool(coded.effects and not coded.others)


def _once(demanded: Sequence[Demanded], said: Callable[[Demanded], object]) -> tuple[Demanded, ...]:
    """Without those that say what another source says already."""
    first: dict[bytes, Demanded] = {}
    for each in demanded:
        first.setdefault(encode(said(each)), each)
    return tuple(first.values())


def resume_groups(pinned: ContractPin, coded: ContractPin) -> list[list[str]]:
    """Of each contract the roles of which the executor must hold one; nothing for "anyone", twins once."""
    groups = [list(pin.resume) for pin in (coded, pinned) if pin.resume != [ANYONE]]
    return groups[:1] if len(groups) == 2 and groups[0] == groups[1] else groups


def risk_of(pinned: ContractPin, coded: ContractPin) -> str:
    """The higher risk of the two; one that this version does not know counts as the highest."""
    return max((coded.risk, pinned.risk), key=lambda risk: _RISKS.index(risk) if risk in _RISKS else len(_RISKS))


def need_of(source: str, pin: ApprovalPin) -> Need:
    """A demanded approval as a fact of the question."""
    return Need(
        alone=pin.alone, immaterial=list(pin.immaterial), roles=list(pin.roles), source=source, within=pin.within
    )


def immaterial_of(needs: Sequence[Need]) -> list[str]:
    """The fields of the request that none of the needs depends on, in order."""
    fields = [set(need.immaterial) for need in needs]
    return sorted(set.intersection(*fields)) if fields else []


def limit_of(scope: str, source: str, pin: CeilingPin, request: object, used: int) -> Limit:
    """A ceiling as a fact of the question. scope: what shares it, as `scope_of` says.

    request: what its stored bytes decode to, as plain JSON. used: minor units settled or reserved in its scope
    without this effect; 0 where each effect has a ceiling of its own.
    """
    return Limit(
        amount=_amount_at(request, pin.field),
        currency=pin.currency,
        field=pin.field,
        max=pin.max,
        per=pin.per,
        scope=scope,
        source=source,
        stated=_currency_at(request, pin.field),
        used=min(used, INTEGER_MAX),
    )


def scope_of(effect: str, pin: CeilingPin, now: int) -> str:
    """What shares a ceiling: "pay.amount/run", "pay.amount/GBP/day/2026-11-27". Two that count other things share none.

    now: microseconds UTC, in which days and months are counted. The scope of a run names no run, because it is
    counted in the run's own journal.
    """
    of = f"{effect}.{pin.field}/{pin.currency}" if pin.currency else f"{effect}.{pin.field}"
    scope = f"{of}/{pin.per}"
    if pin.per == "day":
        return f"{scope}/{datetime_of(now):%Y-%m-%d}"
    if pin.per == "month":
        return f"{scope}/{datetime_of(now):%Y-%m}"
    return scope


def scope_end(per: str, now: int) -> int | None:
    """Until when what is taken now counts in the day or month under way, microseconds UTC; None where it has none."""
    if per not in DATED:
        return None
    day = datetime_of(now).replace(hour=0, minute=0, second=0, microsecond=0)
    following = day + timedelta(days=1) if per == "day" else (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    return microseconds_of(following) - 1


def times_of(per: str, earliest: int, latest: int) -> tuple[int, ...]:
    """One time of each day or month in which what is taken now counts: where clocks part it is in both of theirs.

    earliest, latest: the times that it may be, microseconds UTC.
    """
    if per not in DATED or earliest // DAY_US == latest // DAY_US:
        return (latest,)
    end = scope_end(per, earliest)
    return (latest,) if end is None or latest <= end else (earliest, latest)


def evidence_until(rules: Rules, name: str, as_of: int, until: int) -> int:
    """Until when evidence may be relied on, microseconds UTC: as the flow said, capped by the rules from `as_of`."""
    cap = rules.fresh_for.get(name)
    return until if cap is None else min(until, as_of + cap)


def window_end(opened_at: int, pinned_end: int, risks: Iterable[str], policy: PolicyPin | None) -> int:
    """When the run is over, microseconds UTC: as pinned, capped by the policy from its opening.

    risks: of the contract it was opened under and of the one that the code declares. The cap of each holds, because
    a policy may give a lower risk less, and code of a higher one would have more time than the run was opened with.
    """
    caps = [policy.windows[risk] for risk in risks if risk in policy.windows] if policy is not None else []
    return min([pinned_end, *(opened_at + cap for cap in caps)])


def material_of(request: bytes, immaterial: Sequence[str]) -> bytes:
    """Canonical JSON of the request without these fields, nor what they leave empty; b"" where nothing is left.

    Two requests have the same material bytes exactly where their difference has no material change.
    """
    return value_of({path: text for path, text in leaves_of(request).items() if not covers(immaterial, path)})


def is_same_matter(one: bytes, other: bytes, immaterial: Sequence[str]) -> bool:
    """Whether two requests are the same, or differ in nothing but these fields."""
    return one == other or (bool(immaterial) and material_of(one, immaterial) == material_of(other, immaterial))


def _amount_at(request: object, field: str) -> int | None:
    """The whole number at a field; None for anything else, True and 1.0 among it, and for what no fact can hold."""
    value = request
    for name in field.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value if type(value) is int and abs(value) <= INTEGER_MAX else None


def _currency_at(request: object, field: str) -> str:
    """The currency stated beside the amount, or else in what holds it, outward; "" where none is stated."""
    stated: object = ""
    value = request
    for name in field.split("."):
        if not isinstance(value, dict):
            break
        nearer = value.get(CURRENCY_FIELD)
        if nearer is not None and nearer != "":
            stated = nearer
        value = value.get(name)
    if isinstance(stated, str) and (stated == "" or is_currency(stated)):
        return stated
    return CURRENCY_UNCLEAR
