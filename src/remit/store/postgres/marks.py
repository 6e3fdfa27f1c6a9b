"""Marks: the rows beside a run's own, held first, decided in the order of the units, and written at the end.

    hold     locks business keys and ceilings, so that what is read of them can't move
    make     lets one unit have all that it wishes, or says why not, and then it has nothing
    settle   writes business keys and ceilings as they came to be
    tell     writes questions and announcements, whose numbers rise in the order of the commits

A key that nobody has and a ceiling of which nothing is used have no row: one that is
locked is made for it, and taken away again where it was not needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from remit.facts import announced
from remit.store.marks import Announce, CloseAsk, FreeKey, OpenAsk, Reserve, TakeKey, Unreserve
from remit.store.postgres.connection import Connection
from remit.store.postgres.ends import Ends
from remit.store.postgres.rows import Q
from remit.store.tables import NUMBER_MAX
from remit.store.units import Loss, Unit

_Place = tuple[str, str]  # tenant, and key, scope or ask


class _Owner(NamedTuple):
    run_key: int
    run: str
    call: str


class _Asked(NamedTuple):
    own: Ends
    opened: OpenAsk | None  # None where it was there before
    is_open: bool


NOBODY = _Owner(0, "", "")


class Marks:
    """Those of one batch."""

    def __init__(self, owners: Mapping[_Place, _Owner], used: Mapping[_Place, int]) -> None:
        self._owners_before, self._used_before = owners, used
        self._owners, self._used = dict(owners), dict(used)
        self._asks: dict[_Place, _Asked] = {}
        self._announced: list[tuple[str, str, str, bytes]] = []  # tenant, run, kind, data

    def make(self, unit: Unit, own: Ends) -> Loss | None:
        """All marks of the unit, in order; or why not, and then none."""
        owners: dict[_Place, _Owner] = {}
        used: dict[_Place, int] = {}
        for mark in unit.marks:
            match mark:
                case TakeKey(key, call):
                    place = (own.tenant, key)
                    owner = owners.get(place, self._owners[place])
                    if owner is not NOBODY and (owner.run_key, owner.call) != (own.run_key, call):
                        return "business"
                    owners[place] = _Owner(own.run_key, own.run, call)
                case FreeKey(key):
                    place = (own.tenant, key)
                    if owners.get(place, self._owners[place]).run_key == own.run_key:
                        owners[place] = NOBODY
                case Reserve(scope, amount, most):
                    assert amount >= 0, "an amount that is reserved is 0 or more"
                    place = (own.tenant, scope)
                    used[place] = used.get(place, self._used[place]) + amount
                    if used[place] > min(most, NUMBER_MAX):
                        return "ceiling"
                case Unreserve(scope, amount):
                    assert amount >= 0, "an amount that is given back is 0 or more"
                    place = (own.tenant, scope)
                    used[place] = max(used.get(place, self._used[place]) - amount, 0)
                case _:
                    pass  # can't fail
        self._owners |= owners
        self._used |= used
        self._make_told(unit, own)
        return None

    def _make_told(self, unit: Unit, own: Ends) -> None:
        for mark in unit.marks:
            match mark:
                case OpenAsk(ask):
                    self._asks[own.tenant, ask] = _Asked(own, mark, is_open=True)
                case CloseAsk(ask):
                    before = self._asks.get((own.tenant, ask))
                    self._asks[own.tenant, ask] = _Asked(own, before and before.opened, is_open=False)
                case Announce(told):
                    self._announced.append((own.tenant, own.run, announced.kind_of(told), announced.write(told)))
                case _:
                    pass

    async def settle(self, connection: Connection) -> None:
        """Business keys and ceilings as they are from now on. Their rows are locked."""
        moved = {p: owner for p, owner in self._owners.items() if owner != self._owners_before[p]}
        if moved:
            owners = list(moved.values())
            columns = ([o.run_key for o in owners], [o.run for o in owners], [o.call for o in owners])
            await connection.execute(Q["set_keys"], *_columns(moved), *columns)
        unheld = [place for place, owner in self._owners.items() if owner is NOBODY]
        if unheld:
            await connection.execute(Q["drop_keys"], *_columns(unheld))
        changed = {place: used for place, used in self._used.items() if used != self._used_before[place]}
        if changed:
            await connection.execute(Q["set_ceilings"], *_columns(changed), list(changed.values()))
        unused = [place for place, used in self._used.items() if used == 0]
        if unused:
            await connection.execute(Q["drop_ceilings"], *_columns(unused))

    async def tell(self, connection: Connection, now: int | None) -> None:
        """Questions and announcements. The last of the transaction: it takes a lock that everybody waits for."""
        opened = {place: asked for place, asked in self._asks.items() if asked.opened is not None}
        if opened or self._announced:
            await connection.execute(Q["lock_numbers"])
        if self._asks:  # also those that are asked anew, with other roles perhaps
            await connection.execute(Q["close_asks"], *_columns(self._asks))
        if opened:
            await connection.executemany(Q["open_ask"], [_ask_values(asked) for asked in opened.values()])
        closed = [place for place, asked in opened.items() if not asked.is_open]
        if closed:
            await connection.execute(Q["close_asks"], *_columns(closed))
        if self._announced:
            await connection.execute(Q["announce"], *map(list, zip(*self._announced, strict=True)), now)


async def hold(connection: Connection, units: Iterable[Unit], ends: Mapping[int, Ends]) -> Marks:
    """Lock all that the marks of these units may change, keys before ceilings, each in order."""
    keys: set[_Place] = set()
    scopes: set[_Place] = set()
    for unit in units:
        own = ends.get(unit.run_key)
        if own is None:
            continue
        for mark in unit.marks:
            match mark:
                case TakeKey(key) | FreeKey(key):
                    keys.add((own.tenant, key))
                case Reserve(scope) | Unreserve(scope):
                    scopes.add((own.tenant, scope))
                case _:
                    pass
    owners: dict[_Place, _Owner] = {}
    used: dict[_Place, int] = {}
    if keys:
        for tenant, key, run_key, run, call in await connection.fetch(Q["hold_keys"], *_columns(keys)):
            owners[tenant, key] = _Owner(run_key, run, call) if run_key else NOBODY
    if scopes:
        for tenant, scope, amount in await connection.fetch(Q["hold_ceilings"], *_columns(scopes)):
            used[tenant, scope] = amount
    return Marks(owners, used)


def _columns(places: Iterable[_Place]) -> tuple[list[str], list[str]]:
    listed = list(places)
    return [tenant for tenant, _ in listed], [name for _, name in listed]


def _ask_values(asked: _Asked) -> tuple[object, ...]:
    own, mark = asked.own, asked.opened
    assert mark is not None
    return (own.tenant, mark.ask, own.run_key, own.run, mark.call, list(mark.roles), mark.asked_at, mark.until)
