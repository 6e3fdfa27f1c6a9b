"""Tables: what the databases lay out alike.

A large value would make every walk over the entries a walk over it, so it stands in a table of
its own, under the place of its entry: it is that run's and goes with it. The entry then has a
salt and no value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from remit.facts.entry import Entry, Lane

LANES: dict[Lane, int] = {"main": 0, "post": 1}  # as the column `lane` has them
INLINE_BYTES_MAX = 256 * 1024  # a longer value stands beside its entry
NUMBER_MAX = 2**63 - 1  # the largest key, number or amount that a column holds
NUMBER_MIN = -(2**63)
CHARACTER_LAST = "\U0010ffff"  # is no character, so no id holds it
EVERYBODY = ""  # the role under which every open question is listed


def fitted(number: int) -> int:
    """The nearest of 0 to NUMBER_MAX: what rows are compared with, or counted up to, may be beyond all of them."""
    return min(max(number, 0), NUMBER_MAX)


def lanes_of(rows: Iterable[Any]) -> tuple[list[Entry], list[Entry]]:
    """Entries of lane main and of lane post, from rows of lane and columns, in order.

    What stands under any other lane is no entry of either. It comes behind those of lane post, whose end it is not: a
    journal that has such rows does not verify.
    """
    main: list[Entry] = []
    post: list[Entry] = []
    strays: list[Entry] = []
    for lane, *columns in rows:
        if lane == LANES["main"]:
            main.append(Entry("main", *columns))
        else:
            (post if lane == LANES["post"] else strays).append(Entry("post", *columns))
    return main, post + strays


def is_listed(roles: Collection[str], listed: Collection[str] | None) -> bool:
    """Whether a question is open: listed under each role that may answer, and for everybody. None: it was found so."""
    return listed is None or {*listed} == {*roles, EVERYBODY}


def fitted_key(number: int) -> int:
    """The nearest run key that a column holds. An edited one may be below 0, and a list goes on behind it as well."""
    return min(max(number, NUMBER_MIN), NUMBER_MAX)


def is_large(entry: Entry) -> bool:
    """Whether its value stands beside it."""
    return entry.value is not None and len(entry.value) > INLINE_BYTES_MAX
