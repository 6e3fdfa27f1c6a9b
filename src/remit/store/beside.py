"""Beside: business keys, ceilings, questions and announcements in plain structures, laid in layers.

    Beside(None)     what is believed
    Beside(below)    changes on top of it; merged into what lies below, or dropped without a trace

A unit is tried on a layer of its own: where one of its marks can't be made, none was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from remit.facts import announced
from remit.store.marks import Announce, CloseAsk, FreeKey, Mark, Note, OpenAsk, Reserve, TakeKey, Unreserve
from remit.store.rows import AskFilter, AskRow, KeyRow, OutboxRow, RunRow
from remit.store.tables import fitted
from remit.store.units import Loss, Unit

Place = tuple[str, str]  # tenant, and a key, a scope or an ask


class Beside:
    """One layer. Changed by marks; everything that is not in it is looked up below."""

    def __init__(self, below: Beside | None = None) -> None:
        self._below = below
        self.keys: dict[Place, KeyRow | None] = {}  # None: given back
        self.used: dict[Place, int] = {}
        self.asks: dict[Place, AskRow] = {}
        self.outbox: list[OutboxRow] = []
        self.ask_last: int = 0 if below is None else below.ask_last  # numbers are never given twice
        self.outbox_last: int = 0 if below is None else below.outbox_last

    def __bool__(self) -> bool:
        return bool(self.keys or self.used or self.asks or self.outbox)

    def merge(self) -> None:
        """Make it part of what lies below."""
        below = self._below
        assert below is not None, "what is believed is not merged into anything"
        for place, held in self.keys.items():
            if held is None and below._below is None:
                below.keys.pop(place, None)
            else:
                below.keys[place] = held
        below.used.update(self.used)
        below.asks.update(self.asks)
        below.outbox.extend(self.outbox)
        below.ask_last, below.outbox_last = self.ask_last, self.outbox_last

    def make(self, unit: Unit, row: RunRow, now: int) -> Loss | None:
        """Make the marks of a unit, in order; or why the first condition that fails does. row: of its run."""
        for mark in unit.marks:
            lost = self._make(mark, row, now)
            if lost is not None:
                return lost
        return None

    def _make(self, mark: Mark, row: RunRow, now: int) -> Loss | None:
        tenant = row.tenant
        match mark:
            case TakeKey(key, call):
                held = self.read_key(tenant, key)
                if held is not None and (held.run_key, held.call) != (row.run_key, call):
                    return "business"
                self.keys[tenant, key] = KeyRow(row.run_key, row.run, call)
            case Reserve(scope, amount, most):
                assert amount >= 0, "an amount that is reserved is 0 or more"
                if self.read_used(tenant, scope) + amount > most:
                    return "ceiling"
                self.used[tenant, scope] = self.read_used(tenant, scope) + amount
            case _:
                self._note(mark, row, now)
        return None

    def _note(self, note: Note, row: RunRow, now: int) -> None:
        tenant = row.tenant
        match note:
            case FreeKey(key):
                held = self.read_key(tenant, key)
                if held is not None and held.run_key == row.run_key:
                    self.keys[tenant, key] = None
            case Unreserve(scope, amount):
                assert amount >= 0, "an amount that is given back is 0 or more"
                self.used[tenant, scope] = max(self.read_used(tenant, scope) - amount, 0)
            case OpenAsk() | CloseAsk():
                self._ask(note, row)
            case Announce(told):
                self.outbox_last += 1
                kind, data = announced.kind_of(told), announced.write(told)
                self.outbox.append(OutboxRow(self.outbox_last, tenant, row.run, kind, data, now))

    def _ask(self, mark: OpenAsk | CloseAsk, row: RunRow) -> None:
        known = self.read_ask(row.tenant, mark.ask)
        if isinstance(mark, CloseAsk):
            if known is not None:
                self.asks[row.tenant, mark.ask] = replace(known, is_open=False)
            return
        # One that is there already is open again: better shown twice than to nobody.
        if known is None:
            self.ask_last += 1
        number = self.ask_last if known is None else known.number
        self.asks[row.tenant, mark.ask] = AskRow(
            number, mark.ask, row.run_key, row.run, mark.call, mark.roles, mark.asked_at, mark.until, True
        )

    # -- reading ------------------------------------------------------------------------------------------------------

    def read_key(self, tenant: str, key: str) -> KeyRow | None:
        return next((layer.keys[tenant, key] for layer in self._layers() if (tenant, key) in layer.keys), None)

    def read_used(self, tenant: str, scope: str) -> int:
        return next((layer.used[tenant, scope] for layer in self._layers() if (tenant, scope) in layer.used), 0)

    def read_ask(self, tenant: str, ask: str) -> AskRow | None:
        return next((layer.asks[tenant, ask] for layer in self._layers() if (tenant, ask) in layer.asks), None)

    def list_asks(self, which: AskFilter) -> list[AskRow]:
        """Of what is believed; goes through all questions there ever were."""
        found = [row for (tenant, _), row in self.asks.items() if tenant == which.tenant and _matches(row, which)]
        return sorted(found, key=lambda row: row.number)[: fitted(which.limit)]

    def read_outbox(self, tenant: str, after: int, limit: int) -> list[OutboxRow]:
        return [row for row in self.outbox if row.number > after and row.tenant == tenant][: fitted(limit)]

    def whole(self) -> tuple[dict[Place, KeyRow], dict[Place, int], dict[Place, AskRow], list[OutboxRow]]:
        """Keys, ceilings, questions and announcements of this layer and all below."""
        layers = list(self._layers())[::-1]
        keys = {place: held for layer in layers for place, held in layer.keys.items()}
        return (
            {place: held for place, held in keys.items() if held is not None},
            {place: used for layer in layers for place, used in layer.used.items()},
            {place: ask for layer in layers for place, ask in layer.asks.items()},
            [row for layer in layers for row in layer.outbox],
        )

    def _layers(self) -> Iterator[Beside]:
        layer: Beside | None = self
        while layer is not None:
            yield layer
            layer = layer._below


def _matches(row: AskRow, which: AskFilter) -> bool:
    return row.is_open and row.number > which.after and (which.role is None or which.role in row.roles)
