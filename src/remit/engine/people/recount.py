"""Recounting: what the journals say was taken of ceilings and which business keys they hold, beside the tables.

No chain covers these tables, so whoever can write the database can free a key or empty a ceiling.
That shows here afterwards, by the journals of the newest runs; nothing is changed, and no crossing
asks for it. What runs beyond those took is not known, so only a table that has too little is wrong.
A journal that does not verify is named as well: it was read, and whoever asks whether a store is well is told.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from remit.engine.boundary.shared import is_shared
from remit.engine.people.left_out import LeftOut
from remit.engine.people.newest import newest
from remit.engine.process.host import Host
from remit.errors import FIND_OUT
from remit.errors.called import called
from remit.facts.view import RunView
from remit.store.rows import Checkup

TRIES = 3  # runs go on while they are counted
NAMED_MAX = 5

_HINT = "Restore these tables from a backup of the same moment as the runs; find out who wrote to the database."
_VERIFY = f"See `remit verify` for what is wrong with each. {FIND_OUT}; restore their bytes."


@dataclass(slots=True)
class _Told:
    """What journals say: minor units by scope, and the holder by digest of the business key."""

    runs: int = 0
    unread: int = 0  # quarantined, written by a newer version, or they do not verify
    wrong: list[str] = field(default_factory=list)  # of these, those that do not verify and were not set aside yet
    used: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    held: dict[str, tuple[str, str]] = field(default_factory=dict)


async def recount(host: Host) -> list[Checkup]:
    """Three findings: journals, ceilings, business keys. Reads the newest runs of this tenant."""
    for _ in range(TRIES):
        told = await _count(host)
        less = [scope for scope, used in told.used.items() if await host.store.read_used(host.tenant, scope) < used]
        lost = [holder for key, holder in told.held.items() if not await _is_held(host, key, holder)]
        if not less and not lost:
            break
    over = f"by the journals of the newest {told.runs:,} runs"
    without = f", without {told.unread:,} that can't be read" if told.unread else ""
    seen = f"{len(told.used):,} counted {over}{without}" if not less else f"{_named(less)}: more was taken {over}"
    keys = [f"{called(call)} of run {run}" for run, call in lost]
    found = f"{len(told.held):,} held {over}{without}" if not lost else f"{_named(keys)}: its key is not held any more"
    verify = f"{told.runs - told.unread:,} of the newest {told.runs:,} verify"
    broken = f"{_named(told.wrong)}: does not verify"
    return [
        Checkup("journals", not told.wrong, broken if told.wrong else verify, _VERIFY if told.wrong else ""),
        Checkup("ceilings", not less, seen, _HINT if less else ""),
        Checkup("business keys", not lost, found, _HINT if lost else ""),
    ]


async def _count(host: Host) -> _Told:
    told = _Told()
    async for view in newest(host):
        _add(told, view)
    return told


def _add(told: _Told, view: RunView | LeftOut) -> None:
    told.runs += 1
    if isinstance(view, LeftOut):
        told.unread += 1
        if view.is_wrong:
            told.wrong.append(view.run)
        return
    for effect in view.boundary.effects.values():
        if not effect.may_have_happened:
            continue  # what it took was given back
        for taken in effect.reserved:
            if is_shared(taken.scope):
                told.used[taken.scope] += taken.amount
        for business in effect.businesses:
            told.held[business] = view.identity.run, effect.name


async def _is_held(host: Host, key: str, holder: tuple[str, str]) -> bool:
    row = await host.store.read_key(host.tenant, key)
    return row is not None and (row.run, row.call) == holder


def _named(what: list[str]) -> str:
    more = f" and {len(what) - NAMED_MAX:,} more" if len(what) > NAMED_MAX else ""
    return ", ".join(sorted(what)[:NAMED_MAX]) + more
