"""The model: what may happen, told by a few dictionaries, apart from all that Remit computes.

    Tale      one run's stored rows, read plainly: JSON, and no verification
    Model     directory, policy, clock, answers and cancellations, as the test made them
    why_not   why an effect must not be committed now; nothing where it may

Reasons stand in the order in which they decide: what ends a run first, and then what it waits for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from remit.store.rows import Stored
from tests.spec.stateful.world import (
    ALONE_MAX,
    BUYER,
    CALLS,
    DANA,
    DAY_MAX,
    FRESH,
    WINDOW,
    Input,
    World,
)

US = timedelta(microseconds=1)

ENDS = ("completed", "failed", "abandoned", "expired", "cancelled")
DENIED, DONE = ("failed", "resume_denied"), ("completed", "")


@dataclass(frozen=True)
class Row:
    """One stored entry, as JSON. value: None where it has none."""

    kind: str
    name: str | None
    at: int
    body: dict[str, Any]
    value: Any


@dataclass(frozen=True)
class Tale:
    """A run as it is stored."""

    run: str
    status: str
    main: tuple[Row, ...]
    post: tuple[Row, ...]

    @property
    def last_at(self) -> int:
        return max(row.at for row in (*self.main, *self.post))

    def all(self, kind: str, name: str | None = None) -> list[Row]:
        return [row for row in self.main if row.kind == kind and name in (None, row.name)]

    def state(self, call: str) -> str:
        """Of an effect: "" where it was never intended, else ok, failed, did_not_happen, in_doubt, refused."""
        state = ""
        for row in self.main:
            if row.name == call and row.kind == "EffectIntended":
                state = "in_doubt"
            elif row.name == call and row.kind == "EffectSettled":
                state = row.body["state"]
            elif row.name == call and row.kind == "EffectRefused":
                state = "refused"
        return state

    def intended(self, call: str) -> Row | None:
        """The newest intention."""
        return next(reversed(self.all("EffectIntended", call)), None)

    def reserved(self, call: str, *, is_any: bool = False) -> list[dict[str, Any]]:
        """What a call took of ceilings with all that it sent since it was settled last; is_any: with all at all."""
        held: dict[str, dict[str, Any]] = {}
        is_in_doubt = False
        for row in self.main:
            if row.name == call and row.kind == "EffectIntended":
                held = held if is_in_doubt or is_any else {}
                for taken in row.body.get("reserved", []):
                    held[taken["scope"]] = max(taken, held.get(taken["scope"], taken), key=lambda one: one["amount"])
            if row.name == call and row.kind in ("EffectIntended", "EffectSettled"):
                is_in_doubt = row.kind == "EffectIntended"
        return list(held.values())

    @property
    def doubts(self) -> list[str]:
        return [call for call in CALLS if self.state(call) == "in_doubt"]

    @property
    def evidence(self) -> Row:
        """The newest, as the flow stated it or as it was taken again."""
        return self.all("EvidenceTaken")[-1]


def read_tale(stored: Stored) -> Tale:
    lanes = [tuple(_row(entry) for entry in lane) for lane in (stored.main, stored.post)]
    return Tale(stored.row.run, stored.row.status, *lanes)


def _row(entry: Any) -> Row:
    header = json.loads(entry.header)
    value = None if entry.value is None else json.loads(entry.value)
    return Row(header["kind"], header.get("name"), header["at"], json.loads(entry.body), value)


@dataclass
class Answer:
    """A question that was put to people, as it was shown, and what was answered."""

    run: str
    call: str
    payload: Any
    quoted: int | None  # value of the evidence that was shown
    policy: int  # which policy it was asked under
    until: int
    by: str = ""
    choice: str = ""


@dataclass
class Model:
    """What the test did, and nothing that Remit said but the questions that it showed."""

    world: World
    roles: dict[str, set[str]] = field(default_factory=dict)
    disabled: set[str] = field(default_factory=set)
    policy: dict[str, Any] = field(default_factory=dict)
    policy_at: int = 0  # which of the policies that is
    inputs: dict[str, Input] = field(default_factory=dict)
    opened_at: dict[str, int] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    asks: dict[str, Answer] = field(default_factory=dict)  # by id
    used: dict[str, tuple[str, str]] = field(default_factory=dict)  # by id of the question: run and call

    # -- standing ------------------------------------------------------------------------------------------------------

    def is_allowed(self, principal: str, role: str) -> bool:
        return principal not in self.disabled and role in self.roles.get(principal, ())

    def may_go_on(self) -> bool:
        return DANA not in self.disabled and self.is_allowed(BUYER, "buyer")

    def window_end(self, run: str) -> int:
        hours = self.policy.get("windows", {}).get("medium", "")
        cap = timedelta(hours=int(hours.rstrip("h"))) if hours else WINDOW
        return self.opened_at[run] + min(cap, WINDOW) // US

    def may_decide(self, by: str, ask: Answer, now: int) -> bool:
        return self.is_allowed(by, "director") and by != DANA and now <= ask.until and not ask.choice

    # -- effects -------------------------------------------------------------------------------------------------------

    def request(self, call: str, run: str) -> dict[str, Any]:
        """What the code asks for now."""
        given = self.inputs[run]
        if call == "pay":
            return {"amount": self.world.amount(run, given)}
        return {"to": given.invoice, "amount": given.amount} if call == "send" else {"invoice": given.invoice}

    def spent(self, tales: dict[str, Tale], day: int, *, without: str = "") -> int:
        """What payments hold of a day: done, or in doubt."""
        return sum(
            row.value["amount"]
            for tale in tales.values()
            if tale.run != without
            and tale.state("pay") in ("ok", "in_doubt")
            and (row := tale.intended("pay")) is not None
            and any(taken["scope"].endswith(_day(day)) for taken in tale.reserved("pay"))
        )

    def holder(self, tales: dict[str, Tale], invoice: str) -> str:
        """The run whose booking of this invoice is done or in doubt."""
        for tale in tales.values():
            row = tale.intended("book")
            if row is not None and tale.state("book") in ("ok", "in_doubt") and row.value["invoice"] == invoice:
                return tale.run
        return ""

    def why_not_on(self, run: str, now: int) -> Iterator[tuple[str, str]]:
        """How a run ends that wants anything at all."""
        if run in self.cancelled:
            yield "cancelled", "cancelled"
        if now > self.window_end(run):
            yield "expired", "window_over"
        if not self.may_go_on():
            yield DENIED

    def needs_yes(self, call: str, request: dict[str, Any]) -> bool:
        return (call == "pay" and request["amount"] > ALONE_MAX) or call in self.policy.get("approvals", {})

    def why_not(self, call: str, tale: Tale, tales: dict[str, Tale], now: int) -> Iterator[tuple[str, str]]:
        """How a run ends, or waits, that wants this effect now; each reason, ends first. tale: before the intention."""
        run, request = tale.run, self.request(call, tale.run)
        yield from self.why_not_on(run, now)
        if call == "pay":
            cap = self.policy.get("ceilings", {}).get("pay.amount", DAY_MAX)
            if request["amount"] > cap or self.spent(tales, now, without=run) + request["amount"] > DAY_MAX:
                yield "failed", "ceiling_exceeded"
        if call in self.policy.get("forbid", ()):
            yield "abandoned", "policy_forbids"
        if call == "book" and self.holder(tales, request["invoice"]) not in ("", run):
            yield "failed", "idempotency_conflict"
        asked = self.asked_for(call, tale)
        if asked is not None and asked.choice == "deny":
            yield "failed", "denied"
        if call == "pay" and (why := self._evidence_fault(tale, request, now)):
            yield "waiting", why
        if self.needs_yes(call, request) and not self.counts(asked, call, tale, request, now):
            yield "waiting", "approval"

    def asked_for(self, call: str, tale: Tale) -> Answer | None:
        """The newest question of a call, unless it was declared void or is used up."""
        asked = [row.body["ask"] for row in tale.main if row.kind == "ApprovalAsked" and row.body["call"] == call]
        gone = {row.body["ask"] for row in tale.all("ApprovalVoided")}
        is_used_up = bool(asked) and asked[-1] in self.used and tale.state(call) in ("ok", "failed")
        if not asked or asked[-1] in gone or is_used_up:
            return None
        return self.asks.get(asked[-1])

    def counts(self, asked: Answer | None, call: str, tale: Tale, request: dict[str, Any], now: int) -> bool:
        """Whether somebody said yes to exactly this, and still may."""
        if asked is None or asked.choice != "approve" or now > asked.until:
            return False
        quoted = tale.evidence.value if call == "pay" else None
        about = (asked.run, asked.call, asked.payload, asked.quoted, asked.policy)
        if about != (tale.run, call, request, quoted, self.policy_at):
            return False
        return self.is_allowed(asked.by, "director") and asked.by not in (BUYER, DANA)

    def _evidence_fault(self, tale: Tale, request: dict[str, Any], now: int) -> str:
        row = tale.evidence
        if self.world.is_mute and self.inputs[tale.run].can_fetch and self.is_fetched_again(tale, now):
            return "evidence"
        if now > row.body["as_of"] + FRESH // US:
            return "evidence"
        # What changed is put to the person who is asked anyway; where nobody is, the call waits.
        return "evidence" if row.value != 1 and not self.needs_yes("pay", request) else ""

    def is_fetched_again(self, tale: Tale, now: int) -> bool:
        """Whether this turn has to take the evidence again: an earlier one took it, or it is stale."""
        taken = max(at for at, row in enumerate(tale.main) if row.kind == "EvidenceTaken")
        begun = max(at for at, row in enumerate(tale.main) if row.kind == "AttemptStarted")
        return begun > taken or now > tale.evidence.body["as_of"] + FRESH // US


def _day(now: int) -> str:
    return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=now):%Y-%m-%d}"
