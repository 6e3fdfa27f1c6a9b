"""Faults: what goes wrong on demand, and where.

    error_before, drop_before, timeout_before     nothing is done
    error_after, drop_after, timeout_after        it is done, and nobody is told
    hold_before, hold_after                       the request waits at that place until it is released
    error_probe                                   "was it paid?" is answered 500

    error     answer 500
    drop      close the connection without an answer
    timeout   never answer; the connection stays open until the caller gives up
    hold      go on as if nothing had been, once released, whether or not the caller still lives

A hold is how a test kills a caller at a place, without waiting for time to pass: hold, ask
who waits, kill. Faults are kept in memory: a bank that is started anew has none.
"""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from examples.procurement.bank.order import Refusal, expect_fields, is_text, is_whole

Place = Literal["before", "after", "probe"]

KINDS: dict[str, tuple[str, Place]] = {
    "error_before": ("error", "before"),
    "drop_before": ("drop", "before"),
    "timeout_before": ("timeout", "before"),
    "hold_before": ("hold", "before"),
    "error_after": ("error", "after"),
    "drop_after": ("drop", "after"),
    "timeout_after": ("timeout", "after"),
    "hold_after": ("hold", "after"),
    "error_probe": ("error", "probe"),
}
TIMES_MAX = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is to go wrong, how often, and for whom; None is anybody."""

    kind: str  # one of KINDS
    times: int = 1
    key: str | None = None
    invoice: str | None = None

    def is_for(self, place: Place, key: str, invoice: str | None) -> bool:
        return (
            KINDS[self.kind][1] == place
            and self.key in (None, key)
            and (self.invoice is None or self.invoice == invoice)
        )


@dataclass(frozen=True, eq=False)
class Held:
    """A request that waits at a place."""

    place: Place
    key: str
    invoice: str | None


def read_fault(told: dict[str, Any]) -> Fault:
    """A fault as it was posted. Raises Refusal `request.fields`, `fault.kind`, `fault.times`, `fault.for`."""
    expect_fields(told, {"kind"}, frozenset({"times", "key", "invoice"}))
    if not isinstance(told["kind"], str) or told["kind"] not in KINDS:
        raise Refusal(400, "fault.kind", f"`kind` is one of {', '.join(KINDS)}.")
    times = told.get("times", 1)
    if not is_whole(times) or not 1 <= times <= TIMES_MAX:
        raise Refusal(400, "fault.times", f"`times` is an integer, 1 to {TIMES_MAX}.")
    key, invoice = told.get("key"), told.get("invoice")
    if not all(value is None or is_text(value) for value in (key, invoice)):
        raise Refusal(400, "fault.for", "`key` and `invoice` are text, or left out for anybody's.")
    if KINDS[told["kind"]][1] == "probe" and invoice is not None:
        raise Refusal(400, "fault.for", "A probe names a key and no invoice.")
    return Fault(kind=told["kind"], times=times, key=key, invoice=invoice)


class Faults:
    """The faults that are due, and the requests that are held. Safe for threads."""

    def __init__(self) -> None:
        self._moved = threading.Condition()
        self._due: list[Fault] = []
        self._held: list[Held] = []

    def add(self, fault: Fault) -> None:
        with self._moved:
            self._due.append(fault)

    def clear(self) -> None:
        """No more faults. Who is held already stays held until released."""
        with self._moved:
            self._due.clear()

    def due(self) -> list[dict[str, Any]]:
        """What is still to go wrong, in the order in which it was asked for."""
        with self._moved:
            return [asdict(fault) for fault in self._due]

    def take(self, place: Place, key: str, invoice: str | None = None) -> str | None:
        """What goes wrong for this request at this place: "error", "drop", "timeout", "hold", or None. Uses it up."""
        with self._moved:
            for at, fault in enumerate(self._due):
                if fault.is_for(place, key, invoice):
                    self._due[at : at + 1] = [replace(fault, times=fault.times - 1)] if fault.times > 1 else []
                    return KINDS[fault.kind][0]
            return None

    def hold(self, place: Place, key: str, invoice: str | None) -> None:
        """Wait here until released."""
        held = Held(place, key, invoice)
        with self._moved:
            self._held.append(held)
            self._moved.notify_all()
            self._moved.wait_for(lambda: held not in self._held)

    def release(self, key: str | None = None) -> int:
        """Let go those who are held now, all or those with a key; how many."""
        with self._moved:
            staying = [held for held in self._held if key not in (None, held.key)]
            count = len(self._held) - len(staying)
            self._held = staying
            self._moved.notify_all()
            return count

    def waiting(self, count: int, patience_s: float) -> list[dict[str, Any]]:
        """Who is held, once there are `count` of them; whoever there is when patience is over."""
        with self._moved:
            self._moved.wait_for(lambda: len(self._held) >= count, timeout=patience_s)
            return [asdict(held) for held in self._held]
