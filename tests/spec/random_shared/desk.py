"""People: what they do to the directory, the policy, questions, doubts and runs, and what the law is told of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import remit
from remit.errors import RemitError
from tests.spec.random_shared.law import Answer, Cap, Law, Policy, Register, Span, Word
from tests.spec.random_shared.outside import Outside

ROOT, EVE = "user:root", "user:eve"
BUYERS = ("agent:b1", "agent:b2")
DIRECTORS = ("user:d1", "user:d2")

MINUTE = 60_000_000
DAY = 24 * 60 * MINUTE


class Desk:
    """rt: of a process of its own, to which nothing bad happens. Acts come one after the other."""

    def __init__(self, law: Law, outside: Outside, rng: random.Random) -> None:
        self.law, self.outside, self.rng = law, outside, rng
        self.version = 0
        self._one = asyncio.Lock()
        self.rt: remit.Runtime

    async def begin(self) -> None:
        for principal, role in self.staff():
            await self.rt.grant(principal, role, by=ROOT)
            self.law.roles[principal, role] = Register(True)
            self.law.disabled[principal] = Register(False)
        await self.rt.grant(EVE, "clerk", by=ROOT)
        self.law.roles[EVE, "director"], self.law.disabled[EVE] = Register(False), Register(False)

    def staff(self) -> list[tuple[str, str]]:
        return [*((name, "buyer") for name in BUYERS), *((name, "director") for name in DIRECTORS)]

    async def _turn(self, register: Register, value: Any, act: Awaitable[Any], what: str) -> None:
        span = Span(self.law.tick())
        register.changes.append((span, value))
        await act
        span.over = self.law.tick()
        self.law.tell(what)

    # -- directory and policy ------------------------------------------------------------------------------------------

    async def turn_role(self, principal: str, role: str) -> None:
        async with self._one:
            register = self.law.roles[principal, role]
            act = self.rt.revoke if register.now else self.rt.grant
            what = f"{principal} {role} {not register.now}"
            await self._turn(register, not register.now, act(principal, role, by=ROOT), what)

    async def take_and_give(self, principal: str, role: str) -> None:
        """A role that was lost voids what was said under it, also where it was given back."""
        await self.turn_role(principal, role)
        await self.turn_role(principal, role)

    async def turn_principal(self, principal: str) -> None:
        async with self._one:
            register = self.law.disabled[principal]
            act = self.rt.enable if register.now else self.rt.disable
            await self._turn(register, not register.now, act(principal, by=ROOT), f"{principal} off {not register.now}")

    async def set_policy(self, policy: Policy) -> None:
        async with self._one:
            self.version += 1
            said: dict[str, Any] = {"version": str(self.version)}
            if policy.cap is not None:
                said["ceilings"] = {"pay.amount": {"max": policy.cap[1], "per": policy.cap[0]}}
            if policy.approval:
                said["approvals"] = {"pay": {"roles": ["director"], "within": "3h"}}
            if policy.forbids:
                said["forbid"] = ["pay"]
            await self._turn(self.law.policy, policy, self.rt.set_policy(said, by=ROOT), str(policy))

    # -- questions, doubts, runs ---------------------------------------------------------------------------------------

    async def decide(self, choice: Any, by: str) -> None:
        """Answer all that waits."""
        async with self._one:
            for ask in await self.rt.inbox(limit=100):
                span = Span(self.law.tick())
                answer = Answer(span, ask.run, ask.call, ask.payload, by, choice == "approve", ask.until)
                self.law.answers.append(answer)
                try:
                    await self.rt.decide(ask.id, choice, by=by, seen=ask.version)
                    span.over = self.law.tick()
                    self.law.tell(f"{by} says {choice} to {ask.run} {ask.call}")
                except RemitError as refused:
                    self.law.answers.remove(answer)
                    self.law.tell(f"{by} may not {choice} {ask.run} {ask.call}: {refused.code}")

    async def find_out(self, by: str, only: str = "") -> None:
        """Say of each doubt what became of it, where nothing of it is on its way. only: of this run."""
        async with self._one:
            for run in [only] if only else sorted({run for run, _ in self.law.calls}):
                for effect in await self.rt.effects(run):
                    if effect.state == "in_doubt" and self.outside.is_free(effect.key):
                        await self._say(effect, by)

    async def _say(self, effect: Any, by: str) -> None:
        key, span = effect.key, Span(self.law.tick())
        state: Any = "ok" if self.outside.paid.get(key) else "did_not_happen"
        outcome: Any = self.outside.receipt(key) if state == "ok" else ...
        word, words = Word(span, by, state), self.law.words.setdefault((effect.run, effect.call), [])
        words.append(word)
        try:
            await self.rt.resolve(
                effect.run, effect.call, state, by=by, evidence="looked", outcome=outcome, calls=effect.calls
            )
            span.over = self.law.tick()
            self.law.tell(f"{by} says {effect.run} {effect.call} is {state}")
        except RemitError as refused:
            words.remove(word)
            self.law.tell(f"{by} may not say {effect.run} {effect.call} is {state}: {refused.code}")

    async def cancel(self, run: str) -> None:
        span = Span(self.law.tick())
        with suppress(RemitError):
            await self.rt.cancel(run, by=ROOT)
            span.over = self.law.tick()
            self.law.cancelled.setdefault(run, span)
            self.law.tell(f"{run} is cancelled")

    # -- the clock -----------------------------------------------------------------------------------------------------

    def go_to_brink(self) -> list[str]:
        """A minute before a day, or what somebody said yes to, is over; the runs that it is about."""
        now = self.law.clock.now()
        ends = [(now - now % DAY + DAY, "")] + [(one.until, one.run) for one in self.law.answers if one.is_yes]
        end, run = self.rng.choice([(end, run) for end, run in ends if end - MINUTE >= now] or [(now + MINUTE, "")])
        self.move(end - MINUTE - now)
        return [run] if run else []

    def move(self, us: int) -> None:
        self.law.clock.move(timedelta(microseconds=us))
        self.law.tell(f"it is {self.law.day()} {self.law.clock.now() % DAY // MINUTE} min")

    # -- any of it -----------------------------------------------------------------------------------------------------

    async def do(self, what: str, run: str) -> None:
        rng = self.rng
        director = rng.choice(DIRECTORS)
        if what == "role":
            await self.turn_role(director, "director")
        elif what == "executor":
            await self.turn_role(self.law.executor[run], "buyer")
        elif what == "lost and back":
            await self.take_and_give(director, "director")
        elif what == "principal":
            await self.turn_principal(rng.choice((director, self.law.executor[run])))
        elif what == "policy":
            await self.set_policy(draw_policy(rng))
        elif what == "yes":
            await self.decide("approve", rng.choice((*DIRECTORS, *DIRECTORS, EVE)))
        elif what == "no":
            await self.decide("deny", director)
        elif what == "find out":
            await self.find_out(rng.choice((*DIRECTORS, EVE)))
        elif what == "cancel":
            await self.cancel(run)
        elif what == "minutes":
            self.move(rng.choice((2, 7)) * MINUTE)  # a lease outlives that
        elif what == "hours":
            self.move(rng.choice((50, 100, 200, 1500)) * MINUTE)
        else:
            await self.outside.wait(rng.choice((2, 10, 40)))  # a commit that has to wait

    async def set_right(self) -> None:
        for (principal, role), register in list(self.law.roles.items()):
            if not register.now and principal != EVE:
                await self.turn_role(principal, role)
        for principal, register in self.law.disabled.items():
            if register.now:
                await self.turn_principal(principal)
        await self.set_policy(Policy())


def draw_policy(rng: random.Random) -> Policy:
    cap: Cap | None = rng.choice((None, ("day", 200), ("day", 400), ("month", 600)))
    return Policy(cap, approval=rng.random() < 0.3, forbids=rng.random() < 0.1)
