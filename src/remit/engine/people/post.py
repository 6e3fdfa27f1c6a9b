"""Posting: whoever does not hold a run leaves what it has to say in lane `post`.

The whole journal is verified first. The entry is appended by comparing the lane's head, so that
whether it is still valid is decided on what stands there; whoever was slower looks again, a bounded number
of times. One lock for each run keeps the callers of one loop from overtaking each other: only others
can. It runs no flow and needs no lease. The next attempt takes it up.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakValueDictionary

from remit.engine.process.admit import Found, find
from remit.engine.process.host import Host
from remit.engine.process.reserved import TRIES
from remit.engine.process.salt import draw_salt
from remit.engine.process.standing import check_not_behind, look
from remit.engine.turn.closing import AttemptClosed
from remit.errors import LeaseLost, Moved, Refused, StoreUnavailable
from remit.facts import kinds
from remit.facts.entry import Pen
from remit.facts.fact import Fact
from remit.facts.machine import ENDED
from remit.store.marks import Fence, Mark
from remit.store.units import Unit

# By loop, ledger, tenant and run; a lock that nobody holds or waits for is forgotten.
_turns: WeakValueDictionary[tuple[asyncio.AbstractEventLoop, str, str, str], asyncio.Lock] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class Letter:
    """One entry for lane `post`, and what must still be true when it is written."""

    fact: Fact
    value: bytes
    marks: tuple[Mark, ...] = ()


async def post(host: Host, run: str, *, by: str, write: Callable[[Found], Letter], is_fenced: bool) -> Found:
    """Append what `write` makes of the verified run; the run as it was before.

    write: checks whether it is still valid and raises Refused where not. is_fenced: it rests on directory and policy,
    which are the newest when `write` is called and must be that still when it is committed. Where it does not, neither
    is looked at: a wish to end a run needs no directory that can be read.
    Raises RunAbsent, RunQuarantined, Tampered, Refused `run.ended`, ClockJumped, StoreUnavailable, and where it is
    fenced AuthorityUnreadable: nothing was written.
    """
    async with _turn_at(host, run):
        found = await _posted(host, run, by=by, write=write, is_fenced=is_fenced)
    await _tell(host, found.row.run_key)
    return found


def _turn_at(host: Host, run: str) -> asyncio.Lock:
    key = asyncio.get_running_loop(), host.store.ledger.origin, host.tenant, run
    return _turns.setdefault(key, asyncio.Lock())


async def _posted(host: Host, run: str, *, by: str, write: Callable[[Found], Letter], is_fenced: bool) -> Found:
    for _ in range(TRIES):
        found = await find(host, run)
        if is_fenced:
            await look(host)  # after the run was read: what it rests on is known then
        else:
            host.clock.saw(await host.store.now())
        host.clock.check()
        _check_open(found)
        if is_fenced:
            check_not_behind(host, found.view)
        letter = write(found)
        fence = host.standing.fence if is_fenced else None
        # A clock that was set back must not make an answer older than its question.
        at = max(host.clock.latest(), found.view.last_at)
        try:
            await host.store.append(_unit(found, letter, by=by, at=at, fence=fence))
        except (LeaseLost, Moved):
            continue  # somebody posted, the run ended, or the directory moved: look again
        host.clock.note(at)
        return found
    raise StoreUnavailable(f"Nothing was written: run {run!r} moved {TRIES} times in between.")


def _check_open(found: Found) -> None:
    view = found.view
    if view.status in ENDED:
        run = view.identity.run
        raise Refused(
            f"Run {run!r} is {view.status}; nothing was done.",
            code="run.ended",
            hint=f"It is over: see `remit show {shlex.quote(run)}`.",
        )


def _unit(found: Found, letter: Letter, *, by: str, at: int, fence: Fence | None) -> Unit:
    row = found.row
    pen = Pen(found.view.identity, lane="post", by=by, epoch=0, head=row.post_head, seq=row.post_seq)
    kind, body = type(letter.fact).__name__, kinds.write(letter.fact)
    entry = pen.seal(kind, body, at=at, value=(draw_salt(), letter.value))
    return Unit(row.run_key, "post", row.post_head, pen.head, pen.seq, [entry], None, fence=fence, marks=letter.marks)


async def _tell(host: Host, run_key: int) -> None:
    """A turn of this very process hears of it at once."""
    tell = host.to_tell.get(run_key)
    if tell is not None:
        try:
            await tell()
        except AttemptClosed:
            return  # that turn is over, and says so itself
