"""Ends: what a unit rests on, as its rows say, and why it can't be written.

Pure. `loss_of` is asked while the rows are locked, before anything is written, or after a
statement has refused a unit, to say why. The statements compare all of it once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from remit.facts.machine import OPEN
from remit.store.postgres.connection import Row
from remit.store.units import Loss, Unit


class Ends(NamedTuple):
    """Of one run, in the order in which the statements name their columns."""

    run_key: int
    tenant: str
    run: str
    status: str
    quarantined: bool
    head: bytes
    seq: int
    post_head: bytes
    post_seq: int
    epoch: int
    lease_until: int
    now: int  # microseconds UTC, when it was read


def ends_of(rows: list[Row]) -> dict[int, Ends]:
    """By run key."""
    return {row["run_key"]: Ends(*row) for row in rows}


def loss_of(unit: Unit, ends: Mapping[int, Ends]) -> Loss | None:
    """Why it can't be written, marks aside; None where it can. A run that is not there is held by nobody."""
    own = ends.get(unit.run_key)
    if own is None or own.quarantined or not _extends(unit, own):
        return "lease"
    if unit.fence is not None:
        fence = ends.get(unit.fence.run_key)
        if fence is None or fence.head != unit.fence.head:
            return "authority"
    if unit.post_head is not None and own.post_head != unit.post_head:
        return "post"
    return None


def after(unit: Unit, own: Ends) -> Ends:
    """The run's ends when the unit is written."""
    if unit.lane == "post":
        return own._replace(post_head=unit.head_after, post_seq=unit.seq_after)
    own = own._replace(head=unit.head_after, seq=unit.seq_after)
    if unit.move is None:
        return own
    return own._replace(status=unit.move.status, lease_until=0 if unit.move.release else own.lease_until)


def _extends(unit: Unit, own: Ends) -> bool:
    """Head, epoch and lease are as it says."""
    if unit.lane == "post":
        return own.post_head == unit.head_before and own.status in OPEN
    is_held = unit.epoch is None or (own.epoch == unit.epoch and own.lease_until > own.now)
    return own.head == unit.head_before and is_held
