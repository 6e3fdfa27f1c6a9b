"""Standing: who may do what and which policy holds, as this process knows it.

    look      is what we know still the newest? One short read, before every turn
    refresh   read the journal `remit:authority` again, verified whole
    act       a grant, a revocation, a policy: checked against the newest, appended behind it

What is known has a version, the seq of the journal's head. Whatever rests on it is committed
only while that is still the head, so that knowing it by heart costs no round trip and a
revocation is never overtaken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from remit.authority.directory import AUTHORITY, Authority, fold_authority
from remit.engine.process.host import Host
from remit.engine.process.reserved import TRIES, read_own, row_of, set_aside, unit_of
from remit.errors import AuthorityUnreadable, JournalNewer, LeaseLost, StoreUnavailable, Tampered
from remit.facts.fact import Fact
from remit.store.protocol import Peek, RunRow


@dataclass(frozen=True, slots=True)
class Standpoint:
    """What holds, and the store's clock when that was seen."""

    authority: Authority
    now: int  # microseconds UTC


async def look(host: Host) -> Standpoint:
    """The authority that is the newest now. Raises AuthorityUnreadable, where nothing may proceed."""
    standing, origin = host.standing, host.store.ledger.origin
    if standing.origin != origin:  # for the first time, or a two-method store that loaded its first run since
        row = await row_of(host, AUTHORITY)
        standing.run_key, standing.origin, standing.authority = row.run_key, origin, Authority()
    peek = await host.store.peek(standing.run_key)
    if peek is None:
        raise AuthorityUnreadable(f"The journal {AUTHORITY!r} is gone; nothing was done.")
    host.clock.saw(peek.now)
    if peek.quarantined:  # no revocation could be written any more
        raise AuthorityUnreadable(f"Nothing proceeds: {set_aside(AUTHORITY).message}", hint=set_aside(AUTHORITY).hint)
    if peek.seq != standing.authority.version:
        async with standing.lock:
            await _read(host, peek)
    return Standpoint(standing.authority, peek.now)


async def glance(host: Host) -> Authority:
    """The same for whoever only looks: where nothing was ever granted or run, no journal is made for it."""
    if host.standing.origin != host.store.ledger.origin and await host.store.read_row(host.tenant, AUTHORITY) is None:
        return Authority()
    return (await look(host)).authority


async def refresh(host: Host) -> Authority:
    """The same, after a commit found that it had moved."""
    return (await look(host)).authority


async def act(host: Host, fact: Fact, words: str, *, by: str, check: Callable[[Authority], None]) -> int:
    """Append to the authority; the version from which it holds.

    check: whether it may be written behind this version; raises Refused. Raises StoreUnavailable, ClockJumped.
    """
    for _ in range(TRIES):
        authority = await refresh(host)
        host.clock.check()
        check(authority)
        row = await row_of(host, AUTHORITY)
        if row.seq != authority.version:
            continue
        try:
            await host.store.append(unit_of(host, row, fact, words, by=by))
        except LeaseLost:
            continue
        return (await refresh(host)).version
    raise StoreUnavailable(f"Nothing was written: others wrote {TRIES} times in between.")


async def _read(host: Host, peek: Peek) -> None:
    """Fold the journal again. What does not verify is not believed, and nothing rests on what was known before."""
    standing = host.standing
    if peek.seq == standing.authority.version:
        return  # another turn of this process was waiting for the same
    stored = await host.store.read_run(standing.run_key)
    if stored is None:
        raise AuthorityUnreadable(f"The journal {AUTHORITY!r} is gone; nothing was done.")
    _check_row(stored.row)
    if stored.row.seq < standing.authority.version:  # what was granted or revoked since would be forgotten
        known = standing.authority.version
        raise AuthorityUnreadable(f"{AUTHORITY!r} has {stored.row.seq} entries and had {known}; nothing was done.")
    try:
        entries = read_own(host.store.ledger.origin, stored)
        standing.authority = fold_authority(entries)
        host.clock.note(max(entry.header.at for entry in entries))
    except (Tampered, JournalNewer) as exc:
        can = "believed" if isinstance(exc, Tampered) else "read"
        hint = exc.hint if isinstance(exc, JournalNewer) else None
        words = f"Directory and policy can't be {can}, so nothing proceeds: {exc.message}"
        raise AuthorityUnreadable(words, hint=hint) from exc


def _check_row(row: RunRow) -> None:
    if row.run != AUTHORITY:
        raise AuthorityUnreadable(
            f"Run key {row.run_key} is {row.run!r} and no longer {AUTHORITY!r}; nothing was done."
        )
