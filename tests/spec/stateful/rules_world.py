"""The world of the rules: contracts and policies that say different things, and a store in which others act meanwhile.

Watched     tells what is about to be written, and lets something happen before or after a chosen write
Town        the outside: what landed, what evidence is worth, how the code stands for each run
flow_of     the flow as its code is at this moment
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import remit
from remit.store.units import Unit
from tests.spec.stateful.model import Row

BUYER, DANA = "agent:buyer", "user:dana"  # the executor, and the one for whom it acts
DORA, DEREK, EVE = "user:dora", "user:derek", "user:eve"
ZOE = "user:zoe"  # comes when all is to be set right, and is nobody else
ROOT = "user:root"
ROLES = ((BUYER, "buyer"), (BUYER, "clerk"), (DORA, "lead"), (DORA, "director"), (DEREK, "director"), (DEREK, "cfo"))
MORE_ROLES = ((DANA, "lead"), (EVE, "lead"), (EVE, "director"), (DORA, "cfo"), (DEREK, "lead"))

HOUR = timedelta(hours=1)
FRESH = 2 * HOUR
WITHIN = 2 * HOUR  # of the flow's own question
LARGE = 100

Predicate = Callable[[Any], bool]


def contracts(is_large: Predicate, is_wanted: Predicate) -> tuple[remit.Contract, ...]:
    """What the code may declare. Some share a version, as of people who forget to count it on."""

    def by(*roles: str, within: timedelta = WITHIN, **more: Any) -> remit.Approval:
        return remit.Approval(set(roles), within, **more)

    def cap(most: int, per: Any = "effect", currency: str = "") -> remit.Ceiling:
        return remit.Ceiling("amount", max=most, per=per, currency=currency)

    def terms(version: str, effects: dict[str, remit.Rule], **more: Any) -> remit.Contract:
        given = {"resume": {"buyer"}, "risk": "medium", "window": 20 * HOUR, **more}
        return remit.Contract(version=version, effects=effects, **given)

    send, large = remit.Rule(ceiling=cap(250, "day")), by("lead", within=3 * HOUR, when=is_large, immaterial={"note"})
    daily = remit.Rule(approval=large, ceiling=cap(400, "day"), evidence={"quote"})
    strict = remit.Rule(approval=by("director"), ceiling=[cap(150), cap(200, "run")], evidence={"quote", "stock"})
    grave = remit.Rule(approval=by("lead", "director", immaterial={"note"}), ceiling=cap(500, "month", "GBP"))
    return (
        terms("1", {"pay": daily, "send": send}),
        terms("2", {"pay": strict, "send": send}, window=8 * HOUR),
        terms("3", {"pay": remit.Rule(), "send": remit.Rule()}, window=30 * HOUR),
        terms("4", {"pay": grave, "send": send}, risk="high", window=16 * HOUR, resume={"buyer", "clerk"}),
        terms("1", {"pay": remit.Rule(approval=by("cfo"), ceiling=cap(300, "day"))}, resume={"clerk"}, others="free"),
        terms("5", {"send": send}, resume="anyone"),
        terms("6", {"pay": remit.Rule(approval=by("lead", alone=True), still_wanted=is_wanted), "send": send}),
        terms("1", {"pay": remit.Rule(approval=by("lead", when=is_large), ceiling=cap(350, "day")), "send": send}),
        terms("7", {"pay": remit.Rule(approval=large, ceiling=cap(220, "run")), "send": send}),
    )


POLICIES: tuple[dict[str, Any], ...] = (
    {"version": "0"},
    {"version": "1", "ceilings": {"pay.amount": 120}},
    {"version": "2", "forbid": ["pay", "gift"]},
    {"version": "3", "approvals": {"send": {"roles": ["director"], "within": "3h"}}},
    {"version": "4", "windows": {"medium": "3h", "high": "90m"}},
    {"version": "5", "approvals": {"pay": {"roles": ["cfo", "director"], "within": "1h", "immaterial": ["note"]}}},
    {"version": "6", "evidence": {"quote": "30m", "stock": "45m"}},
    {"version": "7", "ceilings": {"pay.amount": {"max": 160, "per": "run"}, "send.amount": {"max": 90, "per": "day"}}},
    {"version": "8", "ceilings": {"pay.amount": [{"max": 200, "per": "day"}, {"max": 450, "per": "month"}]}},
    {"version": "9", "ceilings": {"pay.amount": {"max": 400, "per": "month", "currency": "GBP"}}},
    {"version": "10", "ceilings": {"pay.total": 5}},
    {
        "version": "11",
        "approvals": {"pay": {"roles": ["lead"], "within": "4h", "alone": True}},
        "windows": {"low": "1h"},
    },
    {"version": "12", "forbid": ["send"]},
)


@dataclass(frozen=True)
class Errand:
    """What a run is about. asks: the flow's own question stands nowhere, before its payments or beside them."""

    amounts: tuple[int, ...]
    currency: str
    can_fetch: bool
    is_together: bool
    is_late: bool  # stock is stated when the payments are named already
    asks: str

    @property
    def groups(self) -> list[list[str]]:
        """Calls that are under way together, in order."""
        pays = ["pay" if n == 0 else f"pay#{n + 1}" for n in range(len(self.amounts))]
        asked = ["terms"] if self.asks else []
        if self.is_together:
            first = [[*asked, *pays]] if self.asks != "before" else [asked, pays]
        else:
            first = [[call] for call in (*asked, *pays)]
        return [*first, ["send"]]


@dataclass(frozen=True)
class Landed:
    """One execution outside."""

    key: str
    request: Any
    run: str


@dataclass
class Town:
    """Everything outside, and the code. mood: what the next call of one effect meets, once."""

    mood: tuple[str, str] = ("fine", "")
    landed: list[Landed] = field(default_factory=list)
    worth: dict[tuple[str, str], int] = field(default_factory=dict)  # by run and evidence; 1 is what flows rely on
    is_mute: bool = False  # evidence can't be taken again
    more: dict[str, int] = field(default_factory=dict)  # by run: what the code asks for on top
    note: dict[str, str] = field(default_factory=dict)
    effect_version: dict[str, str] = field(default_factory=dict)
    terms: dict[str, int] = field(default_factory=dict)  # by run: which contract its code declares
    unwanted: set[str] = field(default_factory=set)
    on_call: Callable[[str, str, Any], None] = lambda run, key, request: None
    on_raise: Callable[[str, str], None] = lambda run, key: None
    die: Callable[[], BaseException] = RuntimeError

    def count(self, key: str) -> int:
        return sum(one.key == key for one in self.landed)

    def request(self, call: str, run: str, errand: Errand) -> dict[str, Any]:
        """What the code asks for now."""
        if call == "terms":
            return {"of": run, "more": self.more.get(run, 0)}
        if call == "send":
            return {"amount": errand.amounts[0], "to": run}
        at = 0 if call == "pay" else int(call.partition("#")[2]) - 1
        amount = errand.amounts[at] + (self.more.get(run, 0) if at == 0 else 0)
        stated = {"currency": errand.currency} if errand.currency else {}
        return {"amount": amount, "note": self.note.get(run, ""), "line": at, **stated}

    def call(self, effect: str, run: str, key: str, request: Any) -> str:
        mood, self.mood = (self.mood[0], ("fine", "")) if self.mood[1] == effect else ("fine", self.mood)
        self.on_call(run, key, request)
        if mood == "declined" and self.count(key):
            mood = "fine"  # who said yes to a key says the same to it again
        if mood == "not sent":
            raise remit.DidNotHappen("nothing was sent")
        if mood == "declined":
            raise remit.Declined("no")
        if mood == "dies before":
            raise self.die()
        if mood != "lost on the way" and not (effect == "send" and self.count(key)):
            self.landed.append(Landed(key, request, run))
        if mood.startswith("lost"):
            self.on_raise(run, key)
            raise OSError("nobody answered")
        if mood == "dies after":
            raise self.die()
        return f"{effect} {key[:6]}"


MOODS = ("fine", "not sent", "declined", "lost on the way", "lost on the way back", "dies before", "dies after")


def flow_of(town: Town, run_id: str) -> remit.Flow[Any]:
    """The flow as the code is at this moment."""

    @remit.effect(version=town.effect_version.get(run_id, "1"))
    async def pay(request: dict[str, Any], *, key: str) -> str:
        return town.call("pay", run_id, key, request)

    @remit.effect(doubt="resend", sink="dedupes")
    async def send(request: dict[str, Any], *, key: str) -> str:
        return town.call("send", run_id, key, request)

    def fetches(name: str) -> Callable[[], Awaitable[int]]:
        async def fetch() -> int:
            if town.is_mute:
                raise OSError("nobody says")
            return town.worth.get((run_id, name), 1)

        return fetch

    @remit.flow(name="errand", contract=contract_of(town, run_id))
    async def errand(run: remit.Run, given: Errand) -> list[str]:
        def state(name: str) -> None:
            again = fetches(name) if given.can_fetch else None
            run.evidence(name, 1, as_of=run.now(), fresh_for=FRESH, again=again)

        state("quote")
        if not given.is_late:
            state("stock")
        asked = []
        if given.asks:
            terms = town.request("terms", run_id, given)
            asked.append(run.approve("terms", terms, roles={"lead"}, within=WITHIN))
        pays = [call for group in given.groups for call in group if call.startswith("pay")]
        paid = [run.effect(pay, town.request(call, run_id, given)) for call in pays]
        if given.is_late:
            state("stock")
        if given.is_together and given.asks != "before":
            made = await run.gather(*map(_made, (*asked, *paid)))
        elif given.is_together:
            made = [*[await _made(call) for call in asked], *await run.gather(*map(_made, paid))]
        else:
            made = [await _made(call) for call in (*asked, *paid)]
        return [*made, await _made(run.effect(send, town.request("send", run_id, given)))]

    return errand


def contract_of(town: Town, run_id: str, at: int | None = None) -> remit.Contract:
    """What the code of a run declares now; or another of its contracts."""

    def is_large(request: dict[str, Any]) -> bool:
        return int(request["amount"]) > LARGE

    def is_wanted(request: dict[str, Any]) -> bool:
        return run_id not in town.unwanted

    return contracts(is_large, is_wanted)[town.terms[run_id] if at is None else at]


async def _made(call: Any) -> str:
    """A no of the other side is an answer; that nothing happened is for the next turn."""
    try:
        outcome = await call
    except remit.EffectDeclined:
        return "declined"
    return outcome if isinstance(outcome, str) else "approved"


@dataclass
class Happening:
    """Something that others do while the n-th write of a turn is on its way, counted from 0."""

    at: int
    is_before: bool
    do: Callable[[], Awaitable[None]]


class Watched:
    """before, after: told of each unit with its entries, when it is about to be written and when it was."""

    def __init__(self, inner: Any, before: Callable[[str, list[Row]], None], after: Callable[[str, list[Row]], None]):
        self.inner, self._before, self._after = inner, before, after
        self.happenings: list[Happening] = []
        self._writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def arm(self, happenings: list[Happening]) -> None:
        self.happenings, self._writes = list(happenings), 0

    async def append(self, unit: Unit) -> None:
        at, self._writes = self._writes, self._writes + 1
        for each in self.happenings:
            if each.at == at and each.is_before:
                await each.do()
        run, rows = rows_of(unit)
        self._before(run, rows)
        await self.inner.append(unit)
        self._after(run, rows)
        for each in self.happenings:
            if each.at == at and not each.is_before:
                await each.do()


def rows_of(unit: Unit) -> tuple[str, list[Row]]:
    """The run of a unit, and its entries in lane main."""
    rows, run = [], ""
    for entry in unit.entries if unit.lane == "main" else []:
        header: Mapping[str, Any] = json.loads(entry.header)
        value = None if entry.value is None else json.loads(entry.value)
        run = header["run"]
        rows.append(Row(header["kind"], header.get("name"), header["at"], json.loads(entry.body), value))
    return run, rows
