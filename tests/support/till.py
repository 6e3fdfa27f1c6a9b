"""A till: an outside that counts, for effects whose process lives. What arrived and what was paid are two things.

A body does what it was told to do next, in order; told nothing, it pays and answers.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import msgspec

import remit

OPEN = remit.Contract(version="1", resume="anyone")


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """amount: minor units."""

    invoice: str = "i-1"
    amount: int = 100
    payee: str = "acme"


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What the till answers."""

    number: int
    amount: int


class Till:
    """arrived: key and request of every call of a body. paid: by key, as often as it was paid, in order."""

    def __init__(self) -> None:
        self.arrived: list[tuple[str, Any]] = []
        self.paid: dict[str, list[Receipt]] = {}
        self.probed: list[str] = []
        self.told: list[Callable[[str, Order], Any] | BaseException] = []
        self.probe_says: Any = None  # raised if it is an exception; None: what is true
        self.is_held = asyncio.Event()
        self.let_go = asyncio.Event()
        self._lock = threading.Lock()

    def next(self, *what: Callable[[str, Order], Any] | BaseException) -> None:
        """What the next bodies do: raise this instead of paying, or call this, which may pay."""
        self.told += what

    def pay(self, key: str, order: Order) -> Receipt:
        with self._lock:
            receipt = Receipt(number=sum(map(len, self.paid.values())) + 1, amount=order.amount)
            self.paid.setdefault(key, []).append(receipt)
        return receipt

    def pay_and_raise(self, error: BaseException) -> Callable[[str, Order], Any]:
        """Pays, and then the answer is lost."""

        def pay(key: str, order: Order) -> None:
            self.pay(key, order)
            raise error

        return pay

    async def hold(self, key: str, order: Order) -> Receipt:
        """Says that it is under way, and pays when it is let go."""
        self.is_held.set()
        await self.let_go.wait()
        return self.pay(key, order)

    async def hold_and_raise(self, key: str, order: Order) -> Receipt:
        """The same, and then the answer is lost."""
        await self.hold(key, order)
        raise ConnectionError("no answer")

    async def hold_and_fail(self, key: str, order: Order) -> Receipt:
        """Says that it is under way, and pays nothing when it is let go."""
        self.is_held.set()
        await self.let_go.wait()
        raise ConnectionError("no answer")

    def effect(self, name: str = "pay", **declared: Any) -> remit.Effect[Receipt]:
        """An async effect at this till. A journal tells those of two tills apart by their names."""
        declared.setdefault("recorded_as", f"till.{name}")

        async def pay(order: Order, *, key: str) -> Receipt:
            return await self._answer(order, key)

        if declared.get("doubt") == "probe":
            declared.setdefault("probe", self.probe)
        return remit.effect(name=name, **declared)(pay)

    async def probe(self, order: Order, *, key: str) -> Any:
        """What became of a key."""
        self.probed.append(key)
        if isinstance(self.probe_says, BaseException):
            raise self.probe_says
        if self.probe_says is not None:
            return self.probe_says
        return remit.Landed(self.paid[key][0]) if key in self.paid else remit.NotLanded()

    @property
    def keys(self) -> list[str]:
        """Keys of the calls, in order."""
        return [key for key, _ in self.arrived]

    @property
    def times(self) -> list[int]:
        """How often each key was paid, in the order of the first payments."""
        return [len(receipts) for receipts in self.paid.values()]

    @property
    def calls(self) -> Counter[str]:
        """Calls of bodies by invoice."""
        return Counter(order.invoice for _, order in self.arrived)

    async def _answer(self, order: Order, key: str) -> Receipt:
        self.arrived.append((key, order))
        what = self.told.pop(0) if self.told else self.pay
        if isinstance(what, BaseException):
            raise what
        answer = what(key, order)
        return await answer if asyncio.iscoroutine(answer) else answer


def paying(
    effect: remit.Effect[Receipt], *orders: Order, contract: remit.Contract = OPEN, name: str = "paying"
) -> remit.Flow[Any]:
    """A flow that makes these payments, one after the other; its value is what was paid, in minor units."""

    @remit.flow(contract=contract, name=name)
    async def flow(run: remit.Run) -> list[int]:
        return [(await run.effect(effect, order)).amount for order in orders or (Order(),)]

    return flow


async def find_out(
    rt: remit.Runtime,
    run: str,
    state: Literal["ok", "did_not_happen"],
    outcome: Any = ...,
    *,
    call: str = "pay",
    by: str = "user:ann",
    returned: bool = False,
) -> None:
    """A person whom the directory knows looks outside, and says what became of a call (`returned`: that it is over)."""
    if not (await rt.authority()).who(by).known:
        await rt.grant(by, "clerk", by="user:root")
    (seen,) = [effect.calls for effect in await rt.effects(run) if effect.call == call]
    evidence = "bank statement of Friday"
    await rt.resolve(run, call, state, by=by, evidence=evidence, outcome=outcome, calls=seen, returned=returned)


async def kinds_of(rt: remit.Runtime, run: str) -> list[str]:
    """Kinds of the entries of lane main, in order."""
    return [msgspec.json.decode(entry.header)["kind"] for entry in (await rt.read(run)).main]
