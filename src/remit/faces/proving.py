"""Proving: which journals verify, what was looked at, and what a chain can't see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from remit.errors import JournalNewer, RemitError, RunAbsent, Tampered
from remit.faces.runtime import Runtime
from remit.facts.names import AUTHORITY, INCIDENTS

CHECKED = ("each hash and link", "both lanes and their ends", "each move", "the columns of the run's row")
NOT_COVERED = (
    "a run recomputed as a whole with its row",
    "a run deleted with its row",
    "an older database put back",
)


@dataclass(slots=True)
class Proof:
    """What became of each journal, by its name."""

    verified: list[str] = field(default_factory=list)
    wrong: dict[str, Tampered] = field(default_factory=dict)
    unknown: dict[str, RemitError] = field(default_factory=dict)  # a newer Remit wrote them; their chains hold
    aside: list[str] = field(default_factory=list)  # verified, and still in quarantine

    @property
    def exit_status(self) -> int:
        for found in (*self.wrong.values(), *self.unknown.values()):
            return found.exit_status
        return 0


async def every_journal(rt: Runtime) -> list[str]:
    """Ids of all runs of the tenant, oldest last, and of the journals of Remit's own that were opened."""
    names: list[str] = []
    before: int | None = None
    while rows := await rt.list(limit=1_000, before=before):
        names += [row.run for row in rows]
        before = rows[-1].run_key
    for own in (INCIDENTS, AUTHORITY):
        try:
            names.append((await rt.read(own)).row.run)
        except RunAbsent:
            continue
    return names


async def prove(rt: Runtime, names: Iterable[str], *, is_listed: bool = False) -> Proof:
    """Verify one journal after the other. Raises RunAbsent for a name that has none.

    is_listed: the store itself gave the names, so a run that is not found by its own was renamed, and counts as wrong.
    """
    proof = Proof()
    for name in names:
        try:
            problem = await rt.verify(name)
        except JournalNewer as exc:
            proof.unknown[name] = exc
            continue
        except RunAbsent:
            if not is_listed:
                raise
            problem = Tampered(f"A row is listed as run {name!r}, and no run is found by that id.", code="run.index")
        if problem is not None:
            proof.wrong[name] = problem
            continue
        proof.verified.append(name)
        if (await rt.read(name)).row.quarantined:
            proof.aside.append(name)
    return proof
