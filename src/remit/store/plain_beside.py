"""Plain: what stands beside the runs as plain JSON types; see `beside.py`.

    {"business_keys": [{"tenant": ..., "key": ..., "run_key": 1, "run": ..., "call": ...}],
     "ceilings": [{"tenant": ..., "scope": ..., "used": 0}],
     "asks": [{"number": 1, "tenant": ..., "ask": ..., "run_key": 1, "call": ..., "roles": [...], "asked_at": ...,
               "until": ..., "is_open": true}],
     "outbox": [{"number": 1, "tenant": ..., "run": ..., "kind": ..., "data": text, "at": ...}]}

What is announced is JSON, and stands as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from remit.store.beside import Beside
from remit.store.plain import Unreadable
from remit.store.rows import AskRow, KeyRow, OutboxRow
from remit.store.state import KeptRun


class PlainKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tenant: str
    key: str
    run_key: int
    run: str
    call: str


class PlainCeiling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tenant: str
    scope: str
    used: int


class PlainAsk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    number: int
    tenant: str
    ask: str
    run_key: int
    call: str
    roles: tuple[str, ...]
    asked_at: int
    until: int
    is_open: bool


class PlainAnnouncement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    number: int
    tenant: str
    run: str
    kind: str
    data: str
    at: int


def plain_beside(beside: Beside) -> dict[str, Sequence[msgspec.Struct]]:
    """Everything in this layer and those below it, under the names of the document."""
    keys, used, asks, outbox = beside.whole()
    return {
        "business_keys": [PlainKey(t, key, row.run_key, row.run, row.call) for (t, key), row in keys.items()],
        "ceilings": [PlainCeiling(tenant, scope, amount) for (tenant, scope), amount in used.items()],
        "asks": [
            PlainAsk(a.number, t, ask, a.run_key, a.call, a.roles, a.asked_at, a.until, a.is_open)
            for (t, ask), a in asks.items()
        ],
        "outbox": [PlainAnnouncement(o.number, o.tenant, o.run, o.kind, o.data.decode(), o.at) for o in outbox],
    }


def kept_beside(
    keys: Sequence[PlainKey],
    ceilings: Sequence[PlainCeiling],
    asks: Sequence[PlainAsk],
    outbox: Sequence[PlainAnnouncement],
    runs: Mapping[int, KeptRun],
) -> Beside:
    """What a document tells. Raises Unreadable."""
    beside = Beside()
    for k in keys:
        beside.keys[k.tenant, k.key] = KeyRow(k.run_key, k.run, k.call)
    for c in ceilings:
        beside.used[c.tenant, c.scope] = c.used
    for a in sorted(asks, key=lambda a: a.number):
        kept = runs.get(a.run_key)
        if kept is None:
            raise Unreadable(f"question {a.ask!r} is of run key {a.run_key}, which is not there")
        beside.asks[a.tenant, a.ask] = AskRow(
            a.number, a.ask, a.run_key, kept.row.run, a.call, a.roles, a.asked_at, a.until, a.is_open
        )
        beside.ask_last = a.number
    for o in sorted(outbox, key=lambda o: o.number):
        beside.outbox.append(OutboxRow(o.number, o.tenant, o.run, o.kind, o.data.encode(), o.at))
        beside.outbox_last = o.number
    if min(beside.used.values(), default=0) < 0:
        raise Unreadable("less than nothing is used of a ceiling")
    return beside
