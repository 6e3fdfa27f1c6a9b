"""Posts: what others left for a run in lane `post`, as a turn takes notice of it.

An attempt reads lane `post` when it verifies the journal. What comes later it hears of from
its own process, or by a commit or a renewal of the lease that found the lane longer than it had been read.
"""

from __future__ import annotations

from remit.engine.process.host import Host
from remit.engine.process.journal import check_whose, read_journal
from remit.engine.process.outcome import detail_of
from remit.engine.turn.attempt import Attempt
from remit.engine.turn.halt import Ended, ended
from remit.engine.turn.turn import Turn
from remit.errors import Tampered
from remit.facts.boundary import Cancelled
from remit.facts.chain import Journal, tampered
from remit.facts.entry import Identity
from remit.store.rows import Stored


async def notice(turn: Turn) -> None:
    """Read lane `post` again, let those look who wait, and stop the flow where somebody asked for that.

    Raises AttemptClosed where it can't be read or does not verify: then nothing goes on.
    """
    attempt = turn.attempt
    await read_post(turn.host, attempt)
    cancel = attempt.boundary.cancel
    if cancel is not None and attempt.settles_for is None:
        attempt.halt(cancelled(cancel))
    attempt.parking.wake()


async def read_post(host: Host, attempt: Attempt) -> None:
    """Read lane `post` again, and nothing more. Raises AttemptClosed where it can't be read or does not verify."""
    try:
        await _read(host, attempt)
    except Exception as exc:
        attempt.lost(exc)


def cancelled(cancel: Cancelled) -> Ended:
    """The end that somebody asked for, in words of who and why."""
    told = detail_of(cancel.reason)
    words = f"{cancel.by} cancelled it: {told}" if told else f"{cancel.by} cancelled it."
    return ended("cancelled", words, item=cancel.item)


async def _read(host: Host, attempt: Attempt) -> None:
    read_before = attempt.post_seq  # now: who is told meanwhile may read more, and be answered first
    stored = await host.store.read_run(attempt.lease.run_key)
    if stored is None:
        raise Tampered(f"Run {attempt.run_id!r} is gone.", code="run.missing", run=attempt.run_id)
    check_whose(attempt.view.identity, stored.row)
    identity, journal = read_journal(host.store.ledger.origin, stored)
    if len(journal.post) < read_before:
        raise _lost(identity, "lane post is shorter than it was read before", read_before)
    known = attempt.post_seq
    if known <= len(journal.post) and _head_at(stored, journal, known) != attempt.post_head:
        raise _lost(identity, "lane post does not go on behind what was read of it before", known)
    for entry in journal.post[known:]:
        attempt.boundary.take_post(entry)
        attempt.post_seq = entry.header.seq
        attempt.post_head = _head_at(stored, journal, entry.header.seq)
        attempt.writer.last_at = max(attempt.writer.last_at, entry.header.at)


def _head_at(stored: Stored, journal: Journal, seq: int) -> bytes:
    """Where lane post ended when it had that many entries. Each of a verified journal names the one before it."""
    return bytes.fromhex(journal.post[seq].header.prev) if seq < len(journal.post) else stored.row.post_head


def _lost(identity: Identity, what: str, seq: int) -> Tampered:
    """This turn rests on what nobody else can read any more. Another turn reads what is there, and that verifies."""
    exc = tampered(identity, "run.truncated", what, "post", seq)
    exc.hint = (
        "The store lost what this turn had read, as a failover or the restore of an older backup does. "
        "Find out outside what was done since, then run it again: it goes on from what is there."
    )
    return exc
