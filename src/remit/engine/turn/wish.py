"""What a flow wants at the boundary, and the right that it is given there."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from remit.engine.declared.outward import Outward
from remit.facts.judgement import Need


class Stated:
    """The evidence that the flow stated in this turn, in order."""

    __slots__ = ("_by_name", "count")

    def __init__(self) -> None:
        self.count = 0
        self._by_name: dict[tuple[str, str], list[tuple[int, str]]] = {}  # by branch and name: place, call

    def add(self, call: str, name: str) -> None:
        self.count += 1
        self._by_name.setdefault((_branch_of(call), name), []).append((self.count, call))

    def last(self, call: str, name: str, *, by: int) -> str | None:
        """The call that stated evidence of this name last: in the branch of `call`, else in those around it, outwards.

        by: how many statements there were then.
        """
        branch = _branch_of(call)
        while True:
            places = self._by_name.get((branch, name), ())
            found = bisect_right(places, by, key=lambda place: place[0])
            if found or not branch:
                return places[found - 1][1] if found else None
            branch = _branch_of(branch[:-1])


@dataclass(frozen=True, slots=True)
class RestsOn:
    """What a call rests on, as of when it was named: what the flow states later is of other calls.

    names: of evidence that it names itself. by: how many statements there were.
    """

    names: tuple[str, ...] = ()
    by: int = 0


def _branch_of(call: str) -> str:
    """The branch that a call is made in, as its path begins: "a/" of "a/pay"; "" for the run itself."""
    return call[: call.rfind("/") + 1]


class Wish(msgspec.Struct, eq=False):
    """What a flow wants at the boundary: an effect, or an answer to a question of its own.

    data: request bytes, from here on the only form of it. salt: by which its digests are comparable.
    is_whole: the whole flow waits while this waits. is_sent_again: its own doubt does not stand against it.
    is_rest_over: before it was sent again, nothing that was sent until then could land any more.
    is_first_here: before it was sent again, this attempt had sent nothing of it.
    """

    name: str
    effect: Outward[Any] | None
    data: bytes
    salt: bytes
    rests_on: RestsOn = RestsOn()
    asks: tuple[Need, ...] = ()  # what the flow itself demands
    is_whole: bool = True
    is_sent_again: bool = False
    is_rest_over: bool = False
    is_first_here: bool = False
    is_committed: bool = False
    is_let_go: bool = False  # the flow waits for it no more: its doubt is ended, and nothing is begun
    probed: frozenset[str] = frozenset()  # intentions that were asked about in this attempt
    calls: int = 0  # in this attempt
    times_sent_again: int = 0
    doubt: BaseException | None = None  # what its last call raised
    request: Any = None  # as plain JSON, decoded once

    @property
    def declared(self) -> str:
        """Declared name of the effect; "" for a question of the flow's own."""
        return "" if self.effect is None else self.effect.name

    def let_go(self) -> None:
        """The flow's call was cancelled."""
        self.is_let_go, self.is_whole = True, False

    def check_wanted(self) -> None:
        """Raises CancelledError where nobody wants it begun any more."""
        if self.is_let_go:
            raise asyncio.CancelledError(f"the flow let go of {self.name}")


class Permit(NamedTuple):
    """The right to call one effect once. until: microseconds UTC; later, what was judged does not hold any more."""

    name: str
    intention: str  # hash of the EffectIntended that stands in the journal
    epoch: int
    key: str
    until: int
