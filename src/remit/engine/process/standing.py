"""Standing: who may do what and which policy holds, as this process knows it.

    look      is what we know still the newest? One short read, before every turn that goes on; where it is
              not, the journal `remit:authority` is read again, verified whole
    recall    what we know will do, for whatever is committed only while it is the newest
    glance    the same as `look` for whoever only looks
    act       a grant, a revocation, a policy: checked against the newest, appended behind it

What is known has a version, the seq of the journal's head, and the hash of that entry. Whatever rests on it is
committed only while that entry is still the head, so that knowing it by heart costs no round trip and a
revocation is never overtaken. It only ever grows: a journal that does not go on behind the very
entry that was the last is another one, however well it verifies.
"""

from __future__ import annotations

from collections.abc import Callable

from remit.authority.directory import Authority, fold_authority
from remit.engine.process.host import Host
from remit.engine.process.journal import check_whose
from remit.engine.process.reserved import append_behind, read_own, row_of, set_aside, unit_of
from remit.errors import AuthorityUnreadable, ClockJumped, JournalNewer, Tampered
from remit.facts.entry import Identity
from remit.facts.fact import Fact
from remit.facts.names import AUTHORITY
from remit.facts.view import RunView
from remit.store.rows import Peek, RunRow, Stored
from remit.store.units import Unit

_LOST = (
    "The store lost entries that this process knows, as a failover or the restore of an older backup does. Restore "
    "them, or do again what was granted and revoked in them, and find out outside what runs did since, which they "
    "would do again. Then restart this process: it goes on from what is there."
)


async def look(host: Host) -> Authority:
    """The authority that is the newest now. Raises AuthorityUnreadable, where nothing may proceed."""
    standing, origin = host.standing, host.store.ledger.origin
    if standing.origin != origin:  # for the first time, or a two-method store that loaded its first run since
        row = await row_of(host, AUTHORITY)
        if standing.origin != origin:  # nobody was faster: what they read since is not forgotten
            standing.run_key, standing.origin = row.run_key, origin
            standing.authority, standing.head = Authority(), b""
    peek = await host.store.peek(standing.run_key)
    if peek is None:
        raise AuthorityUnreadable(f"The journal {AUTHORITY!r} is gone; nothing was done.")
    host.clock.saw(peek.now)
    if peek.quarantined:  # no revocation could be written any more
        raise AuthorityUnreadable(f"Nothing proceeds: {set_aside(AUTHORITY).message}", hint=set_aside(AUTHORITY).hint)
    if not _is_known(host, peek):
        async with standing.lock:
            await _read(host, peek)
    return standing.authority


async def recall(host: Host) -> None:
    """Let something be known by heart, for whatever is committed only while it is the newest. A no may be an old one.

    Raises as `look` does, where nothing is known yet.
    """
    if host.standing.origin != host.store.ledger.origin:
        await look(host)


async def check_clock(host: Host) -> None:
    """Raises ClockJumped where nothing may be written under this machine's clock, beside the store's as it is now."""
    try:
        host.clock.check()
    except ClockJumped:
        await look(host)  # what the store's said before may have been wrong, and put right since
        host.clock.check()


def check_not_behind(host: Host, view: RunView) -> None:
    """Raises AuthorityUnreadable where this run was judged by more of the directory than there is: its tail is gone.

    Of a store that keeps the directory for one opening alone nothing is known of the one before it.
    """
    known, seen = host.standing.authority.version, view.reach.authority
    if seen > known and host.store.keeps_own:
        words = f"Run {view.identity.run!r} rests on {seen} entries of {AUTHORITY!r}, which has {known}"
        raise AuthorityUnreadable(f"{words}; nothing was done.", code="authority.behind")


async def glance(host: Host) -> Authority:
    """The same for whoever only looks: where nothing was ever granted or run, no journal is made for it."""
    if host.standing.origin != host.store.ledger.origin and await host.store.read_row(host.tenant, AUTHORITY) is None:
        return Authority()
    return await look(host)


async def act(host: Host, fact: Fact, words: str, *, by: str, check: Callable[[Authority], None]) -> int:
    """Append to the authority; the version from which it holds.

    check: whether it may be written behind this version; raises Refused. Raises StoreUnavailable, ClockJumped.
    """

    async def unit_behind(row: RunRow) -> Unit | None:
        authority, standing = await look(host), host.standing
        host.clock.check()
        check(authority)
        if (row.run_key, row.head) != (standing.run_key, standing.head):
            return None  # it moved since
        unit = unit_of(host, row, fact, words, by=by)
        written.append(unit.seq_after)
        return unit

    written: list[int] = []  # where it was tried to be written; the last one is where it was
    await append_behind(host, AUTHORITY, unit_behind)
    await look(host)  # which may know more by now
    return written[-1]


def _is_known(host: Host, peek: Peek) -> bool:
    standing = host.standing
    return peek.seq == standing.authority.version and peek.head == standing.head


async def _read(host: Host, peek: Peek) -> None:
    """Fold the journal again. What does not verify is not believed, and nothing rests on what was known before."""
    if _is_known(host, peek):
        return  # another turn of this process was waiting for the same
    stored = await host.store.read_run(host.standing.run_key)
    if stored is None:
        raise AuthorityUnreadable(f"The journal {AUTHORITY!r} is gone; nothing was done.")
    try:
        _take(host, stored)
    except (Tampered, JournalNewer) as exc:
        can = "believed" if isinstance(exc, Tampered) else "read"
        hint = exc.hint if isinstance(exc, JournalNewer) else None
        words = f"Directory and policy can't be {can}, so nothing proceeds: {exc.message}"
        raise AuthorityUnreadable(words, hint=hint) from exc


def _take(host: Host, stored: Stored) -> None:
    """Make it what this process knows. Raises Tampered, JournalNewer, AuthorityUnreadable."""
    standing, row = host.standing, stored.row
    check_whose(Identity(standing.origin, host.tenant, AUTHORITY, 1, AUTHORITY), row)
    entries, known = read_own(standing.origin, stored), standing.authority.version
    if row.seq < known:  # what was granted or revoked since would be forgotten
        raise AuthorityUnreadable(f"{AUTHORITY!r} has {row.seq} entries and had {known}; nothing was done.", hint=_LOST)
    if known and entries[known - 1].hash != standing.head.hex():
        words = f"Entry {known} of {AUTHORITY!r} is another one than was read; nothing was done."
        raise AuthorityUnreadable(words, hint=_LOST)
    standing.authority, standing.head = fold_authority(entries), row.head
    host.clock.note(max(entry.header.at for entry in entries))
