"""The outside: it does what it is sent, counts by key, and knows when each call came and when it was over.

It has no code of Remit's. What it knows of the ledger is what the store said is written, in the order in which
the store said so (`Witness`), so each call can be held against the intention that it must stand behind.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import remit
from remit.errors import Moved
from tests.spec.random_flows.shape import Shape
from tests.spec.stateful.world import Crash
from tests.support.clock import MovedClock

DAY = 86_400_000_000
HELD_SECONDS = 0.02


class Unstorable:
    """An outcome that no journal can hold."""


@dataclass
class Process:
    """One life of the program. What it does after its death reaches nobody."""

    number: int
    loop: asyncio.AbstractEventLoop
    is_dead: bool = False
    died: asyncio.Event = field(default_factory=asyncio.Event)

    def die(self) -> Crash:
        """Also from a thread of it."""
        self.is_dead = True
        self.loop.call_soon_threadsafe(self.died.set)
        return Crash()


@dataclass(frozen=True)
class Written:
    """One entry of lane main, as the store said it is written. at: the outside's own counting."""

    at: int
    run: str
    kind: str
    name: str
    epoch: int
    body: dict[str, Any]
    value: Any


@dataclass
class Sent:
    """One call of an effect's function. at: when it came. day: of the clock, then. over: set when it is over."""

    at: int
    kind: str
    call: str
    run: str
    key: str
    request: dict[str, Any]
    epoch: int
    day: int
    process: Process
    mood: tuple[str, str]
    over: threading.Event = field(default_factory=threading.Event)


@dataclass
class Outside:
    """All that is outside of one ledger."""

    clock: MovedClock
    moods: dict[tuple[str, str], Shape] = field(default_factory=dict)  # by run and call
    is_right: bool = False  # everything is fine from here on
    sent: list[Sent] = field(default_factory=list)
    landed: list[Sent] = field(default_factory=list)
    transit: list[Sent] = field(default_factory=list)  # sent by who does not wait any more, and not landed yet
    fences: Counter[str] = field(default_factory=Counter)  # by run: the newest epoch that it was told
    written: list[Written] = field(default_factory=list)
    maybe: list[Written] = field(default_factory=list)  # the store gave no answer of it
    faults: list[str] = field(default_factory=list)  # what must not be so
    on_tick: Callable[[int], None] = lambda at: None
    on_intended: Callable[[Written], None] = lambda entry: None
    steps: Counter[tuple[str, str]] = field(default_factory=Counter)  # bodies begun, by run and call
    probed: Counter[str] = field(default_factory=Counter)
    racing: set[tuple[str, str]] = field(default_factory=set)  # calls, by run, that may lose a race
    ticks: int = 0
    given_up: threading.Event = field(default_factory=threading.Event)
    _times: Counter[tuple[str, str]] = field(default_factory=Counter)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def tick(self) -> int:
        """The next place in the order in which things happen."""
        with self._lock:
            self.ticks += 1
            at = self.ticks
        self.on_tick(at)
        return at

    def must(self, is_so: bool, what: str) -> None:
        if not is_so:
            self.faults.append(f"[{self.ticks}] {what}")

    # -- what is landed ------------------------------------------------------------------------------------------------

    def count(self, key: str) -> int:
        return sum(one.key == key for one in self.landed)

    def land(self, sent: Sent) -> bool:
        """It does what it was asked; whether it is done now. A sink that deduplicates does nothing a second time."""
        with self._lock:
            if sent.kind in _FENCED and sent.epoch < self.fences[sent.run]:
                return False
            if not (sent.kind in _DEDUPES and self.count(sent.key)):
                self.landed.append(sent)
            return True

    def flush(self) -> None:
        """What is on its way arrives."""
        with self._lock:
            arriving, self.transit = self.transit, []
        for sent in arriving:
            self.land(sent)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def mood_of(self, run: str, call: str) -> tuple[str, str]:
        """What the next call of it meets."""
        self._times[run, call] += 1
        shape = self.moods.get((run, call))
        at = self._times[run, call] - 1
        if self.is_right or shape is None or at >= len(shape.moods):
            return "", "fine"
        return shape.moods[at]

    def begin(self, process: Process, kind: str, key: str, request: dict[str, Any], epoch: int) -> Sent:
        """A call arrives at the function. Raises Crash where its process is dead: it never did."""
        if process.is_dead:
            raise Crash
        with self._lock:
            run, call = request["run"], request["call"]
            mood = self.mood_of(run, call)
            day = self.clock.now() // DAY
            at = self.tick()
            sent = Sent(at, kind, call, run, key, request, epoch, day, process, mood)
            if kind in _FENCED:
                self.must(epoch >= self.fences[run], f"{run} {call} was called under an old epoch")
                self.fences[run] = max(epoch, self.fences[run])
            self._check_permitted(sent)
            self.sent.append(sent)
            return sent

    def _check_permitted(self, sent: Sent) -> None:
        about = [one for one in self.written if (one.run, one.name) == (sent.run, sent.call)]
        about = [one for one in about if one.kind in ("EffectIntended", "EffectSettled")]
        what = f"{sent.run} {sent.call} was called"
        if not about or about[-1].kind != "EffectIntended":
            self.must(False, f"{what} with no intention that stands: {[one.kind for one in about]}")
            return
        intended = about[-1]
        self.must(intended.body["key"] == sent.key, f"{what} under another key than intended")
        self.must(intended.value == sent.request, f"{what} with another request than intended")
        since = [one for one in self.sent if one.key == sent.key and one.at > intended.at]
        self.must(not since, f"{what} twice behind one intention")
        before = [one for one in self.sent if one.key == sent.key]
        if before and sent.kind not in _DEDUPES:
            self.must(self.count(sent.key) == 0, f"{what} again although it had happened")

    def end(self, sent: Sent) -> Any:
        """What comes of a call, once it waited as long as it had to. Raises what its mood says."""
        if sent.process.is_dead:
            raise Crash
        self.tick()
        end = sent.mood[1]
        if end == "not sent":
            raise remit.DidNotHappen("nothing was sent")
        if end == "declined":
            raise remit.Declined("no")
        if end == "lost before":
            raise OSError("nobody answered")
        if end == "dies before":
            raise sent.process.die()
        if end in ("lands late", "dies, lands late"):
            self.transit.append(sent)
            raise sent.process.die() if end.startswith("dies") else OSError("nobody answered")
        if not self.land(sent):
            raise OSError("it has seen a newer epoch")
        if end == "lost after":
            raise OSError("nobody answered")
        if end == "cancelled after":
            raise asyncio.CancelledError("something inside was")
        if end == "dies after":
            raise sent.process.die()
        return Unstorable() if end == "no value" else outcome_of(sent.kind, sent.key)

    def look(self, process: Process, kind: str, request: dict[str, Any], key: str, epoch: int | None) -> Any:
        """A probe's answer."""
        if process.is_dead:
            raise Crash
        with self._lock:
            self.tick()
            self.probed[key] += 1
            if kind in _FENCED and epoch is not None:
                self.fences[request["run"]] = max(epoch, self.fences[request["run"]])
            shape = self.moods.get((request["run"], request["call"]))
            if shape is not None and self.probed[key] <= shape.mute and not self.is_right:
                raise OSError("the query is down")
            return remit.Landed(outcome_of(kind, key)) if self.count(key) else remit.NotLanded()


_DEDUPES = ("probe_plain", "resend", "resend_plain", "capped")
_FENCED = ("fence",)


def outcome_of(kind: str, key: str) -> str:
    """What a call that happened gives, whoever says so."""
    return f"{kind} {key[:8]}"


async def pause(outside: Outside, sent: Sent, *, is_after: bool = False) -> None:
    """How long an asynchronous function takes."""
    delay = "slow" if is_after and sent.mood[1] == "slow after" else "" if is_after else sent.mood[0]
    if delay == "slow":
        await asyncio.sleep(_ms(outside, sent) / 1000)
    elif delay == "held":
        loop = asyncio.get_running_loop()
        until = loop.time() + HELD_SECONDS
        while not outside.given_up.is_set() and loop.time() < until:
            await asyncio.sleep(0.001)


def pause_plain(outside: Outside, sent: Sent, *, is_after: bool = False) -> None:
    """The same of a plain one."""
    delay = "slow" if is_after and sent.mood[1] == "slow after" else "" if is_after else sent.mood[0]
    if delay == "slow":
        time.sleep(_ms(outside, sent) / 1000)
    elif delay == "held":
        outside.given_up.wait(HELD_SECONDS)


def _ms(outside: Outside, sent: Sent) -> int:
    shape = outside.moods.get((sent.run, sent.call))
    return shape.ms if shape is not None else 1


class Witness:
    """A store that tells the outside what it has written, when it says so."""

    def __init__(self, store: Any, outside: Outside) -> None:
        self.inner, self._outside = store, outside
        self._runs: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def append(self, unit: Any) -> None:
        entries = [json.loads(entry.header) | {"entry": entry} for entry in unit.entries] if unit.lane == "main" else []
        self._outside.tick()
        try:
            await self.inner.append(unit)
        except (remit.LeaseLost, remit.StoreUnavailable, Moved):
            raise
        except BaseException:
            self._outside.maybe += [self._written(header) for header in entries]
            raise
        for header in entries:
            written = self._written(header)
            self._outside.written.append(written)
            if written.kind == "EffectIntended":
                self._outside.on_intended(written)

    def _written(self, header: dict[str, Any]) -> Written:
        entry = header["entry"]
        value = None if entry.value is None else json.loads(entry.value)
        name, epoch = header.get("name") or "", header["epoch"]
        at = self._outside.ticks
        return Written(at, header["run"], header["kind"], name, epoch, json.loads(entry.body), value)
