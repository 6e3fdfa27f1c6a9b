"""The world: what lands outside is counted by key, the store may die at any call, and code is edited between turns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import remit
from remit.errors import CommitUnknown, StoreUnavailable

BUYER, DANA = "agent:buyer", "user:dana"  # the executor, and the one for whom it acts
DORA, DEREK, EVE = "user:dora", "user:derek", "user:eve"
ROOT = "user:root"

ALONE_MAX, DAY_MAX = 100, 400  # amounts: what needs nobody's yes, and what a day may cost
FRESH = timedelta(hours=2)
WITHIN = timedelta(hours=3)
WINDOW = timedelta(hours=8)

CALLS = ("pay", "send", "book")  # effects of the flow, in order


class Crash(BaseException):
    """The process ends here: nothing after it runs that could do anything."""


@dataclass(frozen=True)
class Input:
    """What a run is about. can_fetch: its evidence can be taken again."""

    amount: int
    invoice: str
    can_fetch: bool


@dataclass(frozen=True)
class Landed:
    """One execution outside."""

    effect: str
    key: str
    request: Any
    run: str


@dataclass
class World:
    """Everything outside. mood: what the next call of one effect meets, once."""

    mood: str = "fine"
    moody: str = ""  # that effect
    landed: list[Landed] = field(default_factory=list)
    called: Counter[str] = field(default_factory=Counter)  # calls of the function, by key
    price: dict[str, int] = field(default_factory=dict)  # by run, as it is quoted now; 1 is what the flow relied on
    is_mute: bool = False  # evidence can't be taken again
    store: Mortal | None = None  # of the process that lives
    slipped: set[str] = field(default_factory=set)  # runs whose code asks for a larger amount

    def death(self) -> Crash:
        """Nothing that this process does from here on reaches its store."""
        assert self.store is not None
        self.store.is_dead = True
        return Crash()

    def count(self, key: str) -> int:
        return sum(one.key == key for one in self.landed)

    def amount(self, run: str, given: Input) -> int:
        """What the code asks for now."""
        return given.amount + (7 if run in self.slipped else 0)

    def call(self, effect: str, run: str, key: str, request: Any, *, dedupes: bool = False) -> str:
        mood = "fine"
        if effect == self.moody:
            mood, self.mood = self.mood, mood
        self.called[key] += 1
        if mood == "not sent":
            raise remit.DidNotHappen("nothing was sent")
        if mood == "declined":
            raise remit.Declined("no")
        if mood == "lost on the way":
            raise OSError("nobody answered")
        if mood == "dies before":
            raise self.death()
        if not (dedupes and self.count(key)):
            self.landed.append(Landed(effect, key, request, run))
        if mood == "lost on the way back":
            raise OSError("nobody answered")
        if mood == "dies after":
            raise self.death()
        return f"{effect} {key[:6]}"


MOODS = ("fine", "fine", "not sent", "declined", "lost on the way", "lost on the way back", "dies before", "dies after")


def flow_of(world: World, run_id: str) -> remit.Flow[Any]:
    """The flow as the code is at this moment."""

    @remit.step
    async def prepare() -> str:
        return "prepared"

    async def find(request: Any, *, key: str) -> remit.Landed[str] | remit.NotLanded:
        return remit.Landed(f"pay {key[:6]}") if world.count(key) else remit.NotLanded()

    @remit.effect(doubt="probe", probe=find)
    async def pay(request: dict[str, Any], *, key: str) -> str:
        return world.call("pay", run_id, key, request)

    @remit.effect(doubt="resend", sink="dedupes")
    async def send(request: dict[str, Any], *, key: str) -> str:
        return world.call("send", run_id, key, request, dedupes=True)

    @remit.effect(business_key="invoice")
    async def book(request: dict[str, Any], *, key: str) -> str:
        return world.call("book", run_id, key, request)

    def is_large(request: dict[str, Any]) -> bool:
        return int(request["amount"]) > ALONE_MAX

    async def fetch() -> int:
        if world.is_mute:
            raise OSError("nobody quotes")
        return world.price[run_id]

    rule = remit.Rule(
        approval=remit.Approval({"director"}, WITHIN, when=is_large),
        ceiling=remit.Ceiling("amount", max=DAY_MAX, per="day"),
        evidence={"quote"},
    )
    contract = remit.Contract(
        version="1",
        resume={"buyer"},
        risk="medium",
        window=WINDOW,
        effects={"pay": rule, "send": remit.Rule(), "book": remit.Rule()},
    )

    @remit.flow(name="purchase", contract=contract)
    async def purchase(run: remit.Run, given: Input) -> list[str]:
        run.evidence("quote", 1, as_of=run.now(), fresh_for=FRESH, again=fetch if given.can_fetch else None)
        made = [await run.step(prepare)]
        made += [await _made(run.effect(pay, {"amount": world.amount(run.id, given)}))]
        made += [await _made(run.effect(send, {"to": given.invoice, "amount": given.amount}))]
        made += [await _made(run.effect(book, {"invoice": given.invoice}))]
        return made

    return purchase


async def _made(call: Any) -> str:
    """A no of the other side is an answer; that nothing happened is for the next turn."""
    try:
        outcome: str = await call
    except remit.EffectDeclined:
        return "declined"
    return outcome


@dataclass
class Fault:
    """What goes wrong at the n-th call of the store, counted from 0. kind: one of FAULTS."""

    kind: str
    at: int


FAULTS = ("dies before", "dies after", "answer lost", "unavailable")
_WRITES = ("append", "open_run", "claim", "release")
_READS = ("read_run", "read_row", "peek", "read_key", "read_used", "put_worker")


class Mortal:
    """A store that may die at any call. When it died nothing reaches it any more: the process is gone."""

    def __init__(self, store: Any) -> None:
        self.inner, self.is_dead = store, False
        self.fault: Fault | None = None
        self._calls = 0

    def arm(self, fault: Fault | None) -> None:
        self.fault, self._calls = fault, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        return self._watched(name, found) if name in _WRITES or name in _READS else found

    def _watched(self, name: str, method: Any) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            if self.is_dead:
                raise Crash
            kind, fault = "", self.fault
            if fault is not None:
                kind = fault.kind if self._calls == fault.at else ""
                self._calls += 1
            if kind == "dies before":
                self.is_dead = True
                raise Crash
            if kind == "unavailable" or (kind == "answer lost" and name in _READS):
                raise StoreUnavailable("it was to be unavailable; nothing was written")
            answer = await method(*args, **kwargs)
            if kind == "dies after":
                self.is_dead = True
                raise Crash
            if kind == "answer lost":
                raise CommitUnknown("it was to lose its answer")
            return answer

        return call
