"""The ledger: what Remit has on the disk of a month's purchases, read through Remit alone."""

from __future__ import annotations

from dataclasses import dataclass

import remit
from examples.procurement.desk import Desk
from examples.procurement.flow import Result, purchase
from examples.procurement.payments import prefix
from examples.procurement.watch import Call


@dataclass(frozen=True)
class Standing:
    """A purchase as its journal tells it; a quarantined one tells nothing, because its journal is not believed."""

    run: str
    status: str  # "quarantined" over any other
    saved: tuple[str, ...]  # steps whose outcome is on the disk
    result: Result | None
    complaint: str  # what does not verify: code; "" where all does


def read_ledger(desk: Desk, month: str) -> dict[str, Standing]:
    """All purchases of a month by run id. Each journal is verified on the way; nothing is changed."""
    with remit.open(desk.ledger_url) as rt:
        rows = rt.list_sync(prefix=prefix(month), limit=1_000)
        return {row.run: _standing(rt, row.run, is_quarantined=row.quarantined) for row in reversed(rows)}


def saved_calls(standings: dict[str, Standing]) -> set[Call]:
    """Every step whose outcome is on the disk."""
    return {(standing.run, step) for standing in standings.values() for step in standing.saved}


def _standing(rt: remit.Runtime, run: str, *, is_quarantined: bool) -> Standing:
    wrong = rt.verify_sync(run)
    if is_quarantined or wrong is not None:
        status = "quarantined" if is_quarantined else "not verified"
        return Standing(run, status, (), None, wrong.code if wrong is not None else "")
    view = rt.show_sync(run).view
    result = None
    if view.status == "completed":
        assert view.last_value is not None
        result = purchase.result_codec.read(view.last_value)
    return Standing(run, str(view.status), tuple(view.calls), result, "")
