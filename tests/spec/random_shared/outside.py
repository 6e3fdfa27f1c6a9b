"""The outside: it asks the law at each arrival, pays by what it was sent, and may be slow or lose its answer.

What it was sent it does also where the sender is dead by then. A `Watch` is a store that tells the law between which
two moments each intention and each settlement was written; acts may be put before such a write.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

import remit
from remit.errors import Moved
from tests.spec.random_shared.law import NEVER, Call, Code, Law, Sending, Span
from tests.spec.stateful.world import Crash

Act = Callable[[], Coroutine[Any, Any, None]]

MOODS = (
    "fine",
    "fine",
    "lost before",
    "lost before",
    "lost after",
    "declined",
    "not sent",
    "dies before",
    "dies after",
)
SLOW = (0, 0, 2, 10, 40)  # turns of the loop, about milliseconds on a store with threads


@dataclass
class Process:
    """One life of a worker."""

    name: str
    is_dead: bool = False
    died: asyncio.Event = field(default_factory=asyncio.Event)

    def die(self) -> Crash:
        self.is_dead = True
        self.died.set()
        return Crash()


@dataclass
class Outside:
    """paid: by key, as often as it was paid. on_wire: by key, calls that have not been answered."""

    law: Law
    rng: random.Random
    pause: float  # seconds of one turn of a slow answer
    is_right: bool = False  # everything is fine from here on
    paid: dict[str, list[int]] = field(default_factory=dict)
    on_wire: dict[str, int] = field(default_factory=dict)
    by_key: dict[str, Call] = field(default_factory=dict)
    acts: list[tuple[str, Act]] = field(default_factory=list)  # by moment: before a "write" of an intention, before one
    # of what is sent "again", or of a "word" about a doubt, or at an "arrival"

    async def let_act(self, *when: str) -> None:
        """The next act that is to be in such a moment, to its end."""
        for at, (moment, act) in enumerate(self.acts):
            if moment in when:
                del self.acts[at]
                # Not in the context of the turn: it is somebody else who does it.
                await asyncio.get_running_loop().create_task(act(), context=Context())
                return

    async def wait(self, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(self.pause)

    def is_free(self, key: str) -> bool:
        """Whether nothing under this key is on its way."""
        return not self.on_wire.get(key)

    async def pay(self, process: Process, code: Code, order: dict[str, Any], key: str) -> dict[str, Any]:
        """One call of the effect's function."""
        if process.is_dead:
            raise Crash
        call = self.by_key.get(key)
        if call is None:
            self.law.must(False, f"{key[:6]} arrived and was never intended: {order}")
            raise OSError("what is that")
        sending = self.law.arrives(call, order, key, code)
        mood = "fine" if self.is_right else self.rng.choice(MOODS)
        slow = 0 if self.is_right else self.rng.choice(SLOW)
        self.law.tell(f"{call.run} {call.name} arrives from {process.name}: {mood}, slow {slow}")
        self.on_wire[key] = self.on_wire.get(key, 0) + 1
        try:
            await self.let_act("arrival")
            await self.wait(slow)
            return self._answer(process, call, code, mood, sending)
        except (OSError, asyncio.CancelledError):
            sending.lost_at = self.law.tick() + 1
            raise
        finally:
            self.on_wire[key] -= 1

    def _answer(self, process: Process, call: Call, code: Code, mood: str, sending: Sending) -> dict[str, Any]:
        is_first = not self.paid.get(call.key) and self.on_wire[call.key] == 1 and call.sendings[0] is sending
        if mood in ("declined", "not sent") and not is_first:
            mood = "fine"  # a no would have to be the same for what came before
        if process.is_dead:
            mood = "dies before" if mood in ("declined", "not sent") else mood
        if mood == "declined":
            raise remit.Declined("no")
        if mood == "not sent":
            raise remit.DidNotHappen("nothing was sent")
        if mood not in ("lost before", "dies before"):
            self._pay(call, code)
        if mood.startswith("dies") or process.is_dead:
            raise process.die()
        if mood.startswith("lost"):
            raise OSError("nobody answered")
        return self.receipt(call.key)

    def _pay(self, call: Call, code: Code) -> None:
        times = self.paid.setdefault(call.key, [])
        if times and code.dedupes:
            return
        times.append(self.law.tick())
        self.law.must(len(times) == 1, f"{call.run} {call.name} is paid {len(times)} times")
        at = Span(self.law.tick(), self.law.ticks)
        if code.business and (rivals := self.law.rivals(call, call.order[code.business], at)):
            self.law.must(not [one for one in rivals if self.paid.get(one.key)], f"{call.name} pays what {rivals} paid")

    def receipt(self, key: str) -> dict[str, Any]:
        return {"of": key}

    async def look(self, process: Process, key: str) -> Any:
        """A probe's answer."""
        if process.is_dead:
            raise Crash
        if not self.is_right and self.rng.random() < 0.3:
            raise OSError("the query is down")
        return remit.Landed(self.receipt(key)) if self.paid.get(key) else remit.NotLanded()


class Watch:
    """A store that tells the law what is written of payments. is_shared: several processes are at this very object."""

    def __init__(self, inner: Any, outside: Outside, *, is_shared: bool) -> None:
        self.inner, self._outside, self._is_shared = inner, outside, is_shared

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def close(self) -> None:
        if not self._is_shared:
            await self.inner.close()

    async def append(self, unit: Any) -> None:
        rows = [(json.loads(entry.header), entry) for entry in unit.entries] if unit.lane == "main" else []
        handed = self._outside.law.tick()
        for header in (header for header, _ in rows if header["kind"] == "EffectIntended"):
            call = self._outside.law.calls.get((header["run"], header["name"]))
            is_again = call is not None and call.open(Span(self._outside.law.tick()))
            # Nothing of its run is written behind it meanwhile: it has conditions, and so is alone.
            await self._outside.let_act("write", *(["again"] if is_again else []))
        if unit.lane == "post" and any(b"DoubtResolved" in entry.header for entry in unit.entries):
            await self._outside.let_act("word")
        noted = [self._note(header, entry, handed) for header, entry in rows]
        try:
            await self.inner.append(unit)
        except (remit.LeaseLost, remit.StoreUnavailable, Moved):
            self._forget(noted)
            raise
        for one in filter(None, noted):
            one[1].over = self._outside.law.tick()

    def _note(self, header: dict[str, Any], entry: Any, handed: int) -> tuple[Call, Span, Any] | None:
        law, kind, at = self._outside.law, header["kind"], (header["run"], header.get("name", ""))
        span = Span(law.tick(), NEVER)
        if kind == "EffectIntended":
            key, order = json.loads(entry.body)["key"], json.loads(entry.value)
            if at in law.calls and all(sent.wrote.over == NEVER for sent in law.calls[at].sendings):
                del law.calls[at]  # it was never written, and another turn may want something else
            call = law.calls.setdefault(at, Call(*at, key, order))
            law.must((call.key, call.order) == (key, order), f"{at} is intended as another payment: {order}")
            self._outside.by_key[key] = call
            sending = Sending(span, handed, header["epoch"], law.day())
            call.sendings.append(sending)
            return call, span, sending
        if kind == "EffectSettled":
            law.calls[at].ends.append((span, json.loads(entry.body)["state"]))
            return law.calls[at], span, None
        return None

    def _forget(self, noted: list[tuple[Call, Span, Any] | None]) -> None:
        for call, span, sending in filter(None, noted):
            if sending is not None:
                call.sendings.remove(sending)
            call.ends = [end for end in call.ends if end[0] is not span]
            if not call.sendings:  # another turn may want something else
                self._outside.law.calls.pop((call.run, call.name), None)


def settled_wrongly(outside: Outside, call: Call) -> str:
    """What is written of a settled call, where that is not so."""
    if not call.sendings or not call.ends or call.ends[-1][0].begun < call.sendings[-1].wrote.begun:
        return ""
    state, times = call.ends[-1][1], len(outside.paid.get(call.key, ()))
    return f"{call.run} {call.name} is {state}, and was paid {times} times" if times != (state == "ok") else ""
