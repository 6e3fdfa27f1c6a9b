"""The model of the rules: what may happen, by what the test itself did to directory, policy, contracts and clock.

    Question   what was put to people, under what, and what they answered
    Rules      directory, policy, contracts and answers as they are, and each run's entries, plainly read
    why_not    why a call must not be let pass now; nothing where it may

Reasons stand in the order in which they decide: what ends a run first, and then what it waits for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import remit
from tests.spec.stateful.model import Row, Tale
from tests.spec.stateful.rules_world import BUYER, DANA, FRESH, POLICIES, Errand, Town, contract_of

US = timedelta(microseconds=1)
RISKS = ("low", "medium", "high")
DENIED = ("failed", "resume_denied")

Reason = tuple[str, str]


class Need(NamedTuple):
    """A yes that somebody demands. within: microseconds."""

    roles: frozenset[str]
    within: int
    alone: bool
    immaterial: frozenset[str]


class Cap(NamedTuple):
    """A ceiling that somebody sets."""

    field: str
    max: int
    per: str
    currency: str


@dataclass
class Question:
    """What was put to people, under what, and what they answered. seq: of acts on the authority until then."""

    run: str
    call: str
    payload: Any
    needs: list[Need]
    evidence: dict[str, Any]
    under: tuple[Any, ...]  # what must be the same when a yes is used
    risk: str
    seq: int
    until: int
    is_void: bool = False
    by: str = ""
    choice: str = ""
    roles: frozenset[str] = frozenset()
    decided_at: int = 0  # seq

    @property
    def immaterial(self) -> frozenset[str]:
        return self.of_all(self.needs)

    @staticmethod
    def of_all(needs: list[Need]) -> frozenset[str]:
        return frozenset.intersection(*(need.immaterial for need in needs)) if needs else frozenset()


@dataclass
class Rules:
    """What the test did. Sequence numbers count the acts on directory and policy."""

    town: Town
    seq: int = 0
    roles: dict[str, dict[str, int]] = field(default_factory=dict)  # by principal and role: when it was granted
    disabled: set[str] = field(default_factory=set)
    enabled_at: dict[str, int] = field(default_factory=dict)
    person: dict[str, str] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=lambda: POLICIES[0])
    policy_set: int = 0
    errands: dict[str, Errand] = field(default_factory=dict)
    opened_at: dict[str, int] = field(default_factory=dict)
    opened_as: dict[str, int] = field(default_factory=dict)  # which contract each run was opened under
    cancelled: set[str] = field(default_factory=set)
    questions: dict[str, Question] = field(default_factory=dict)
    used: dict[str, tuple[str, str]] = field(default_factory=dict)
    rows: dict[str, list[Row]] = field(default_factory=dict)
    under_way: set[tuple[str, str]] = field(default_factory=set)  # called in this turn, and not known to be lost
    taken: dict[tuple[str, str], set[str]] = field(default_factory=dict)  # scopes of all that a call sent

    def tale(self, run: str) -> Tale:
        return Tale(run, "", tuple(self.rows.get(run, ())), ())

    # -- people --------------------------------------------------------------------------------------------------------

    def chain(self, principal: str) -> list[str]:
        chain = [principal]
        while chain[-1] in self.person:
            chain.append(self.person[chain[-1]])
        return chain

    def is_disabled(self, principal: str) -> bool:
        return any(link in self.disabled for link in self.chain(principal))

    def is_self(self, principal: str) -> bool:
        return self.chain(principal)[-1] in (self.chain(BUYER)[-1], self.chain(DANA)[-1])

    def may_decide(self, by: str, asked: Question, choice: str) -> bool:
        """As of now, of a question that is open and whose time is not over."""
        held = self.roles.get(by, {})
        serving = [need.roles & held.keys() for need in asked.needs]
        if by.startswith("agent:") or self.is_disabled(by):
            return False
        if not (all(serving) or (choice == "deny" and any(serving))):
            return False
        if asked.risk == "high" and any(min(held[role] for role in roles) > asked.seq for roles in serving if roles):
            return False
        return not self.is_self(by) or all(need.alone for need in asked.needs)

    def still_counts(self, asked: Question) -> bool:
        """Whether whoever said yes may still be heard."""
        by, held = asked.by, self.roles.get(asked.by, {})
        if self.is_disabled(by) or any(self.enabled_at.get(link, 0) > asked.decided_at for link in self.chain(by)):
            return False
        kept = {role for role in asked.roles if held.get(role, asked.decided_at + 1) <= asked.decided_at}
        for need in asked.needs:
            if not need.roles & kept:
                return False
            seqs = [held[role] for role in need.roles & asked.roles if role in held]
            if asked.risk == "high" and min(seqs) > asked.seq:
                return False
        return not self.is_self(by) or all(need.alone for need in asked.needs)

    # -- what holds ----------------------------------------------------------------------------------------------------

    def pinned(self, run: str) -> remit.Contract:
        return contract_of(self.town, run, self.opened_as[run])

    def coded(self, run: str) -> remit.Contract:
        return contract_of(self.town, run)

    def both(self, run: str) -> tuple[remit.Contract, remit.Contract]:
        return self.coded(run), self.pinned(run)

    def risk(self, run: str) -> str:
        return max((each.risk for each in self.both(run)), key=RISKS.index)

    def window_end(self, run: str) -> int:
        caps = [
            _span(self.policy["windows"][c.risk]) for c in self.both(run) if c.risk in self.policy.get("windows", {})
        ]
        return self.opened_at[run] + min([self.pinned(run).window_us, *caps])

    def needs(self, call: str, run: str, *, whoever: bool = False) -> list[Need]:
        """The approvals that hold. whoever: also those that their predicate says are not needed."""
        if call == "terms":
            return [Need(frozenset({"lead"}), 2 * 3_600_000_000, False, frozenset())]
        coded, pinned = self.both(run)
        effect, request = call.partition("#")[0], self.request(call, run)
        found = []
        now, then = _approval(coded, effect), _approval(pinned, effect)
        if now is not None and (whoever or now.when is None or now.when(request)):
            found.append(now)
        if then is not None:
            is_known = coded.version == pinned.version and now is not None and now.when is not None
            if whoever or then.when is None or not is_known or then.when(request):
                found.append(then)
        needs = [Need(frozenset(a.roles), a.within // US, a.alone, frozenset(a.immaterial)) for a in found]
        told = self.policy.get("approvals", {}).get(effect)
        if told is not None:
            roles, immaterial = frozenset(told["roles"]), frozenset(told.get("immaterial", ()))
            needs.append(Need(roles, _span(told["within"]), told.get("alone", False), immaterial))
        return needs

    def caps(self, call: str, run: str) -> set[Cap]:
        effect = call.partition("#")[0]
        found = set()
        for contract in self.both(run):
            if effect in contract.effects:
                found |= {Cap(c.field, c.max, c.per, c.currency) for c in contract.effects[effect].ceilings}
        for place, told in self.policy.get("ceilings", {}).items():
            of, _, name = place.partition(".")
            for each in told if isinstance(told, list) else [told]:
                given = each if isinstance(each, dict) else {"max": each}
                if of == effect:
                    found.add(Cap(name, given["max"], given.get("per", "effect"), given.get("currency", "")))
        return found

    def evidence(self, call: str, run: str) -> set[str]:
        effect = call.partition("#")[0]
        return {name for c in self.both(run) if effect in c.effects for name in c.effects[effect].evidence}

    def request(self, call: str, run: str) -> dict[str, Any]:
        return self.town.request(call, run, self.errands[run])

    # -- may it? -------------------------------------------------------------------------------------------------------

    def why_not_on(self, run: str, now: int) -> Iterator[Reason]:
        """How a run ends that wants anything at all."""
        if run in self.cancelled:
            yield "cancelled", "cancelled"
        if now > self.window_end(run):
            yield "expired", "window_over"

    def why_not_who(self, run: str) -> Iterator[Reason]:
        groups = [contract.resume for contract in self.both(run) if contract.resume != "anyone"]
        is_held = all(set(group or ()) & self.roles.get(BUYER, {}).keys() for group in groups)
        if self.is_disabled(BUYER) or self.is_disabled(DANA) or not is_held:
            yield DENIED

    def why_not(self, call: str, run: str, now: int) -> Iterator[Reason]:
        effect, is_effect = call.partition("#")[0], call != "terms"
        coded, pinned = self.both(run)
        is_asked, was_asked = (_wanted(contract, effect) for contract in (coded, pinned))
        yield from self.why_not_on(run, now)
        if is_asked and run in self.town.unwanted:
            yield "abandoned", "unwanted"
        yield from self.why_not_who(run)
        if is_effect and any(self.is_over(cap, call, run, now) for cap in self.caps(call, run)):
            yield "failed", "ceiling_exceeded"
        if effect in self.policy.get("forbid", ()):
            yield "abandoned", "policy_forbids"
        if self.is_denied(call, run):
            yield "failed", "denied"
        if any(name != call and (run, name) not in self.under_way for name in self.doubts(run)):
            yield "waiting", "doubt"
        if was_asked and not is_asked:
            yield "waiting", "gate"  # nobody can be asked any more whether it is still wanted
        needs = self.needs(call, run)
        yield from self.why_not_evidence(call, run, now, is_asked=bool(needs))
        refuses = coded.others == "refused" or (bool(coded.effects) and coded.others is None)
        if is_effect and refuses and effect not in coded.effects and effect not in pinned.effects:
            yield "waiting", "repair"
        if needs and not self.counts(self.asked_for(call, run), call, run, needs, now):
            yield "waiting", "approval"

    def why_not_evidence(self, call: str, run: str, now: int, *, is_asked: bool) -> Iterator[Reason]:
        """is_asked: whether a person's yes is needed. What only changed is put to them."""
        for name in self.evidence(call, run):
            row, is_late = self.last_taken(run, name), name == "stock" and self.errands[run].is_late
            is_there = row is not None and not is_late and not self.is_unreadable(run, name, now)
            if not is_there or now > self.fresh_until(run, name) or not (is_asked or (row and row.value == 1)):
                yield "waiting", "evidence"

    def worth(self, call: str, run: str) -> dict[str, Any]:
        """What a call rests on, as it was taken last."""
        taken = {name: self.last_taken(run, name) for name in self.evidence(call, run)}
        return {name: None if row is None else row.value for name, row in taken.items()}

    def last_taken(self, run: str, name: str) -> Row | None:
        return next((row for row in reversed(self.rows.get(run, ())) if row.name == f"run.evidence.{name}"), None)

    def fresh_until(self, run: str, name: str) -> int:
        row, cap = self.last_taken(run, name), self.policy.get("evidence", {}).get(name)
        assert row is not None
        fresh = FRESH // US
        return int(row.body["as_of"]) + (min(_span(cap), fresh) if cap else fresh)

    def is_unreadable(self, run: str, name: str, now: int) -> bool:
        """Whether it has to be taken again, because an earlier turn took it or it is stale, and can't be."""
        rows = self.rows[run]
        taken = max(at for at, row in enumerate(rows) if row.name == f"run.evidence.{name}")
        begun = max(at for at, row in enumerate(rows) if row.kind == "AttemptStarted")
        is_due = begun > taken or now > self.fresh_until(run, name)
        return self.town.is_mute and self.errands[run].can_fetch and is_due

    def doubts(self, run: str) -> list[str]:
        tale = self.tale(run)
        return [call for group in self.errands[run].groups for call in group if tale.state(call) == "in_doubt"]

    def is_to_be_heard(self, call: str, run: str) -> bool:
        """Whether it did not happen, and the flow, which waits for another beside it, was not through with that."""
        is_so = False
        for row in self.rows[run]:
            if row.kind == "EffectSettled" and row.name == call:
                is_so = row.body["state"] == "did_not_happen" and not row.body.get("found")
            elif row.kind == "RunParked" and call in row.body.get("calls", ()):
                is_so = False
        return is_so

    # -- ceilings ------------------------------------------------------------------------------------------------------

    def is_over(self, cap: Cap, call: str, run: str, now: int) -> bool:
        request = self.request(call, run)
        amount = request.get(cap.field)
        if not isinstance(amount, int) or (cap.currency and request.get("currency", "") not in ("", cap.currency)):
            return True
        return self.spent(cap, call, run, now) + amount > cap.max

    def spent(self, cap: Cap, call: str, run: str, now: int) -> int:
        """What others hold of it: done, or in doubt."""
        effect, total = call.partition("#")[0], 0
        scope = self.scope(effect, cap, now)
        for other, errand in self.errands.items():
            tale = self.tale(other)
            for each in (name for group in errand.groups for name in group):
                row = tale.intended(each)
                if (
                    cap.per == "effect"
                    or (other, each) == (run, call)
                    or each.partition("#")[0] != effect
                    or row is None
                ):
                    continue
                shares = other == run if cap.per == "run" else scope in self.taken[other, each]
                total += row.value["amount"] if shares and tale.state(each) in ("ok", "in_doubt") else 0
        return total

    def scope(self, effect: str, cap: Cap, now: int) -> str:
        """As it is written in the journal: "pay.amount/GBP/month/2026-11"."""
        of = _at(now)
        parts = [f"{effect}.{cap.field}", cap.currency, cap.per]
        parts += {"day": [f"{of:%Y-%m-%d}"], "month": [f"{of:%Y-%m}"]}.get(cap.per, [])
        return "/".join(filter(None, parts))

    def scopes(self, call: str, run: str, now: int) -> set[str]:
        """What a call takes of, that others share."""
        return {self.scope(call.partition("#")[0], cap, now) for cap in self.caps(call, run) if cap.per != "effect"}

    def until(self, call: str, run: str, now: int) -> int:
        """Until when a call that is let pass now may begin."""
        times = [self.window_end(run), *(self.fresh_until(run, name) for name in self.evidence(call, run))]
        pers = {cap.per for cap in self.caps(call, run)}
        of = _at(now)
        midnight = of.replace(hour=0, minute=0, second=0, microsecond=0)
        if "day" in pers:
            times.append(_us(midnight + timedelta(days=1)) - 1)
        if "month" in pers:
            times.append(_us((midnight.replace(day=1) + timedelta(days=32)).replace(day=1)) - 1)
        asked = self.asked_for(call, run)
        if self.needs(call, run) and asked is not None:
            times.append(asked.until)
        return min(times)

    # -- approvals -----------------------------------------------------------------------------------------------------

    def under(self, call: str, run: str) -> tuple[Any, ...]:
        version = self.town.effect_version.get(run, "1") if call.startswith("pay") else ""
        return self.town.terms[run], self.policy_set, version

    def asked_for(self, call: str, run: str) -> Question | None:
        """The newest question of a call, unless it is void or used up."""
        asked = [row.body["ask"] for row in self.rows[run] if row.kind == "ApprovalAsked" and row.body["call"] == call]
        if not asked or self.questions[asked[-1]].is_void:
            return None
        is_used_up = asked[-1] in self.used and self.tale(run).state(call) in ("ok", "failed")
        return None if is_used_up else self.questions[asked[-1]]

    def is_used(self, ask_id: str) -> bool:
        """What is known not to have happened gives its yes back."""
        run, call = self.used.get(ask_id, ("", ""))
        return bool(run) and self.tale(run).state(call) != "did_not_happen"

    def counts(self, asked: Question | None, call: str, run: str, needs: list[Need], now: int) -> bool:
        """Whether somebody said yes to exactly this, and still may."""
        if asked is None or asked.choice != "approve" or now > asked.until or asked.under != self.under(call, run):
            return False
        if asked.needs != needs or not self.is_same_matter(asked, self.request(call, run), needs):
            return False
        if call != "terms" and asked.evidence != self.worth(call, run):
            return False
        return self.still_counts(asked)

    def is_same_matter(self, asked: Question, request: dict[str, Any], needs: list[Need]) -> bool:
        immaterial = Question.of_all(needs)
        if asked.payload == request:
            return True
        rest = [{k: v for k, v in each.items() if k not in immaterial} for each in (asked.payload, request)]
        return bool(immaterial) and asked.immaterial == immaterial and rest[0] == rest[1]

    def is_denied(self, call: str, run: str) -> bool:
        """A no is to its matter as it was asked, and as the rules have it today, also where they ask nobody."""
        today = Question.of_all(self.needs(call, run) or self.needs(call, run, whoever=True))
        said_no = [q for q in self.questions.values() if (q.run, q.call, q.choice) == (run, call, "deny")]
        return any(self.is_no_to(asked, self.request(call, run), today) for asked in said_no)

    def is_no_to(self, asked: Question, request: dict[str, Any], today: frozenset[str]) -> bool:
        rest = [{k: v for k, v in r.items() if k not in asked.immaterial | today} for r in (asked.payload, request)]
        return rest[0] == rest[1]


def _approval(contract: remit.Contract, effect: str) -> remit.Approval | None:
    return contract.effects[effect].approval if effect in contract.effects else None


def _wanted(contract: remit.Contract, effect: str) -> bool:
    return effect in contract.effects and contract.effects[effect].still_wanted is not None


def _at(us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + us * US


def _us(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // US


def _span(text: str) -> int:
    """Microseconds of "90m", "4h"."""
    return timedelta(**{{"m": "minutes", "h": "hours"}[text[-1]]: int(text[:-1])}) // US
