"""The law: what may reach the outside, by what people did, what the store said it wrote, and what arrived before.

    Span        two moments between which something happened; which one of them is not known
    Register    what an act changed, and all that it may have been between two moments
    Sending     one intention and its arrival
    arrives     holds one arrival against everything here

Order is known as far as two spans do not overlap. Where they do, whatever may have been so is taken for allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from tests.support.clock import MovedClock

US = timedelta(microseconds=1)
FRESH, WITHIN = timedelta(minutes=5), timedelta(hours=3)
NEVER = math.inf

Cap = tuple[Literal["run", "day", "month"], int]  # and how much


@dataclass
class Span:
    """begun, over: ticks. over: NEVER while it goes on, or where nobody knows."""

    begun: float
    over: float = NEVER

    def is_before(self, other: Span) -> bool:
        """Surely."""
        return self.over < other.begun


@dataclass(frozen=True)
class Code:
    """What the code of a run declares of its payments at this moment."""

    doubt: str  # "ask", "probe", "resend"
    business: str | None
    caps: tuple[Cap, ...]
    approval: bool
    evidence: bool

    @property
    def dedupes(self) -> bool:
        return self.doubt != "ask"


@dataclass(frozen=True)
class Policy:
    """What holds for all."""

    cap: Cap | None = None
    approval: bool = False
    forbids: bool = False


class Register:
    """What acts change, one after the other."""

    def __init__(self, value: Any) -> None:
        self.changes: list[tuple[Span, Any]] = [(Span(0, 0), value)]

    @property
    def now(self) -> Any:
        return self.changes[-1][1]

    def may_be(self, at: Span) -> list[Any]:
        """All that it may have been at some moment of a span."""
        sure = [value for span, value in self.changes if span.is_before(at)][-1]
        return [sure, *(value for span, value in self.changes if not span.is_before(at) and not at.is_before(span))]

    def turned(self, since: Span, until: Span, value: Any = ...) -> bool:
        """Whether it surely changed in between; to this."""
        between = [now for span, now in self.changes if since.is_before(span) and span.is_before(until)]
        return value in between if value is not ... else bool(between)


@dataclass
class Sending:
    """One intention of a call, and when it came to the outside. day: of the clock when its commit was begun.

    wrote: after what others did before that write. handed: when it was given to the store; its own run knew no more.
    """

    wrote: Span
    handed: float
    epoch: int
    day: str
    arrived_on: str = ""
    caps: tuple[Cap, ...] = ()  # under which it surely arrived
    business: str = ""
    lost_at: float = NEVER  # when it raised what leaves a doubt


@dataclass
class Call:
    """One payment of a run, as far as it was ever intended."""

    run: str
    name: str
    key: str
    order: dict[str, Any]
    sendings: list[Sending] = field(default_factory=list)
    ends: list[tuple[Span, str]] = field(default_factory=list)

    def open(self, at: Span) -> list[Sending]:
        """What surely stands unsettled at a span: every sending since it was settled last, or may have been."""
        ended = max((span.begun for span, _ in self.ends if not at.is_before(span)), default=-1)
        return [one for one in self.sendings if one.wrote.begun > ended and one.wrote.is_before(at)]

    def held(self, at: Span) -> list[Sending]:
        """What surely arrived and is not known to have failed."""
        undone = [span.begun for span, state in self.ends if state != "ok" and not at.is_before(span)]
        since = max(undone, default=-1)
        return [one for one in self.sendings if one.arrived_on and one.wrote.begun > since and one.wrote.is_before(at)]


@dataclass
class Answer:
    """What somebody said to a question of a call."""

    span: Span
    run: str
    call: str
    payload: Any
    by: str
    is_yes: bool
    until: int


@dataclass
class Word:
    """What somebody said became of a doubt."""

    span: Span
    by: str
    state: str


@dataclass
class Law:
    """All that is known, and what must not be so."""

    clock: MovedClock
    ticks: int = 0
    faults: list[str] = field(default_factory=list)
    roles: dict[tuple[str, str], Register] = field(default_factory=dict)
    disabled: dict[str, Register] = field(default_factory=dict)
    policy: Register = field(default_factory=lambda: Register(Policy()))
    cancelled: dict[str, Span] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    words: dict[tuple[str, str], list[Word]] = field(default_factory=dict)
    quoted: dict[str, int] = field(default_factory=dict)  # by run: of when its evidence is
    executor: dict[str, str] = field(default_factory=dict)
    calls: dict[tuple[str, str], Call] = field(default_factory=dict)
    pinned: dict[str, Code] = field(default_factory=dict)
    tell: Callable[[str], None] = lambda what: None

    def tick(self) -> int:
        self.ticks += 1
        return self.ticks

    def must(self, is_so: bool, what: str) -> None:
        if not is_so:
            self.faults.append(f"[{self.ticks}] {what}")
            self.tell(f"!!! {what}")

    def day(self) -> str:
        now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.clock.now())
        return f"{now:%Y-%m-%d}"

    # -- an arrival ----------------------------------------------------------------------------------------------------

    def arrives(self, call: Call, order: dict[str, Any], key: str, code: Code) -> Sending:
        """Hold it against all that must be so, and remember it."""
        sending, what = call.sendings[-1], f"{call.run} {call.name} arrived {self.day()}"
        for why in self._why_not(call, sending, order, key, code):
            self.must(False, f"{what}: {why}")
        sending.arrived_on = self.day()
        sending.caps = tuple(self._caps(call.run, code, sending.wrote))
        sending.business = order[code.business] if code.business else ""
        at = Span(self.tick(), self.ticks)
        for scope in {self._scope(call.run, cap) for cap in sending.caps}:
            if why := self._too_much(scope, at):
                self.must(False, f"{what}: {why}")
        return sending

    def _why_not(self, call: Call, sending: Sending, order: dict[str, Any], key: str, code: Code) -> Iterator[str]:
        at, executor = sending.wrote, self.executor[call.run]
        if at.over == NEVER or sending.arrived_on or (order, key) != (call.order, call.key):
            yield "it is not what was intended, or it was not written"
        if at.over != NEVER and any(not at.is_before(span) and span.begun > at.begun for span, _ in call.ends):
            yield "it is settled"
        if not self._may_hold(executor, "buyer", at):
            yield "its executor has no role"
        if call.run in self.cancelled and self.cancelled[call.run].is_before(at):
            yield "the run was cancelled"
        if all(policy.forbids for policy in self.policy.may_be(at)):
            yield "the policy forbids it"
        if code.evidence and self.clock.now() > self.quoted[call.run] + FRESH // US:
            yield "its evidence is over"
        for cap in self._caps(call.run, code, at):
            used = sum(self._amounts(self._scope(call.run, cap), at, without=call).values())
            if used + order["amount"] > cap[1]:
                yield f"of {cap} {used} are used, and it takes {order['amount']}"
            if self._scope(call.run, cap, sending.day) != self._scope(call.run, cap):
                yield f"it was let pass on {sending.day}"
        if code.business and (rivals := self.rivals(call, order[code.business], at)):
            yield f"{order[code.business]} is the business of {[f'{one.run} {one.name}' for one in rivals]}"
        if self._needs_yes(call.run, code, at) and not self._has_yes(call, order, at):
            yield "nobody's yes to it stands"
        if any(not one.is_yes and one.span.is_before(at) for one in self._answers(call, order)):
            yield "somebody said no"
        yield from self._why_not_again(call, sending, code)
        yield from self._why_not_beside(call, sending)

    def _why_not_again(self, call: Call, sending: Sending, code: Code) -> Iterator[str]:
        """What was sent before and never settled is sent again by its rule, and against nobody's word."""
        before = [one for one in call.open(sending.wrote) if one is not sending]
        if not before:
            return
        if not code.dedupes:
            yield "it was sent again, and nobody deduplicates"
        for word in self.words.get((call.run, call.name), ()):
            is_over = word.span.begun > before[-1].wrote.begun and word.span.is_before(sending.wrote)
            if is_over and not self._lost_anything(word.by, word.span, sending.wrote):
                yield f"it was sent again although {word.by} said {word.state}"

    def _why_not_beside(self, call: Call, sending: Sending) -> Iterator[str]:
        """Nothing new begins while another payment of the run is in doubt; two that are sent again go on in order."""
        at = sending.wrote
        own = [one for one in call.open(at) if one is not sending]
        for other in self.calls.values():
            doubt = other.open(at) if other.run == call.run and other is not call else []
            is_first = bool(own and doubt) and own[0].wrote.begun < doubt[0].wrote.begun
            is_left = bool(doubt) and (doubt[0].epoch < sending.epoch or doubt[-1].lost_at < sending.handed)
            if is_left and not is_first:
                yield f"{other.name} is in doubt"

    # -- who, and what of --------------------------------------------------------------------------------------------

    def _may_hold(self, principal: str, role: str, at: Span) -> bool:
        return True in self.roles[principal, role].may_be(at) and False in self.disabled[principal].may_be(at)

    def may_be_refused(self, run: str, since: int) -> bool:
        """Whether the executor of a run may not have been allowed anything at some moment since then."""
        at, who = Span(since), self.executor[run]
        return False in self.roles[who, "buyer"].may_be(at) or True in self.disabled[who].may_be(at)

    def _lost_anything(self, principal: str, since: Span, until: Span) -> bool:
        """Whether an act on this principal may have come in between."""
        held = [held for (who, _), held in self.roles.items() if who == principal]
        return any(
            not span.is_before(since) and not until.is_before(span)
            for register in (*held, self.disabled[principal])
            for span, _ in register.changes
        )

    def _needs_yes(self, run: str, code: Code, at: Span) -> bool:
        is_everybodys = all(policy.approval for policy in self.policy.may_be(at))
        return code.approval or self.pinned[run].approval or is_everybodys

    def _answers(self, call: Call, order: dict[str, Any]) -> list[Answer]:
        return [one for one in self.answers if (one.run, one.call, one.payload) == (call.run, call.name, order)]

    def _has_yes(self, call: Call, order: dict[str, Any], at: Span) -> bool:
        return any(
            one.is_yes
            and not at.is_before(one.span)
            and self.clock.now() <= one.until
            and self._may_hold(one.by, "director", one.span)
            and not self.roles[one.by, "director"].turned(one.span, at, False)
            and not self.disabled[one.by].turned(one.span, at, True)
            and not self.policy.turned(one.span, at)
            for one in self._answers(call, order)
        )

    # -- what runs share -----------------------------------------------------------------------------------------------

    def _caps(self, run: str, code: Code, at: Span) -> list[Cap]:
        """Those that surely hold."""
        policies = [policy.cap for policy in self.policy.may_be(at)]
        everybodys = [policies[0]] if policies[0] is not None and len(set(policies)) == 1 else []
        return [*code.caps, *self.pinned[run].caps, *everybodys]

    def _scope(self, run: str, cap: Cap, day: str = "") -> tuple[str, str]:
        day = day or self.day()
        return (cap[0], {"run": run, "day": day, "month": day[:7]}[cap[0]])

    def _amounts(self, scope: tuple[str, str], at: Span, *, without: Call | None = None) -> dict[tuple[str, str], int]:
        """What each call surely holds of a scope. A run counts all that it paid, whatever ceilings it had then."""
        return {
            (call.run, call.name): call.order["amount"]
            for call in self.calls.values()
            if call is not without
            for sent in call.held(at)
            if scope == ("run", call.run) or scope in [self._scope(call.run, cap, sent.arrived_on) for cap in sent.caps]
        }

    def _too_much(self, scope: tuple[str, str], at: Span) -> str:
        """Whoever came last had all others before it, so together they keep to the largest of their maxima."""
        held = self._amounts(scope, at)
        most: float = 0
        for name in held:
            call = self.calls[name]
            for sent in call.sendings:
                own = [cap[1] for cap in sent.caps if self._scope(call.run, cap, sent.arrived_on) == scope]
                most = max(most, min(own, default=NEVER if not own and scope[0] == "run" else 0))
        return f"{scope} has {held}, and no more than {most} at any of them" if sum(held.values()) > most else ""

    def rivals(self, call: Call, value: str, at: Span) -> list[Call]:
        """Who else surely holds this business."""
        others = [one for one in self.calls.values() if one is not call]
        return [one for one in others if value in [sent.business for sent in one.held(at)]]
