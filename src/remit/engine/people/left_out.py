"""Left out: the runs of which an answer over many says nothing, because they can't be believed or read.

One run holds up no answer about the others. Whoever reads that answer is told which runs it was given without: what
those did, or ask, nobody knows here, and "none" would be an answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import TypeVar

from remit.engine.process.admit import set_aside
from remit.engine.process.host import Host
from remit.errors import RemitError, Tampered
from remit.store.rows import RunFilter

T = TypeVar("T")

_PAGE = 200


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A run that an answer was given without. code: why, as an error has it, "run.quarantined" where it is set aside.

    detail: the same in words. is_wrong: its journal does not verify, and it was not set aside before.
    """

    run: str
    code: str
    detail: str
    is_wrong: bool = False


class Listed(list[T]):
    """What was found, in order. left_out: runs that were not looked into; while there are any, this may not be all."""

    left_out: tuple[LeftOut, ...]

    def __init__(self, found: Iterable[T] = (), left_out: Iterable[LeftOut] = ()) -> None:
        super().__init__(found)
        self.left_out = tuple({one.run: one for one in left_out}.values())


def left_out(run: str, error: RemitError) -> LeftOut:
    """A run that can't be believed or read, as its error tells of it."""
    return LeftOut(run, error.code, error.message, isinstance(error, Tampered))


async def all_set_aside(host: Host) -> AsyncIterator[LeftOut]:
    """Every run that is set aside, whatever its row says that it waits for: its row is not believed either."""
    before: int | None = None
    while True:
        rows = await host.store.list_rows(RunFilter(host.tenant, quarantined=True, limit=_PAGE, before_key=before))
        for row in rows:
            yield left_out(row.run, set_aside(row.run))
        if len(rows) < _PAGE:
            return
        before = rows[-1].run_key
