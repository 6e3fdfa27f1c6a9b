"""Explaining: what happened in a run and why it stands where it stands. Reads, executes nothing, always safe."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from remit.authority.describe import describe
from remit.authority.directory import Authority, fold_authority
from remit.authority.rules import window_end
from remit.engine.people.asks import Ask, shown
from remit.engine.people.counting import word_counts
from remit.engine.people.effected import Effected, told
from remit.engine.people.sent_before import is_of_a_doubt
from remit.engine.process import admit, incidents
from remit.engine.process.at_work import left_at_work
from remit.engine.process.host import Host
from remit.engine.process.journal import heads_of, identity_of
from remit.engine.process.outcome import detail_of
from remit.engine.process.reserved import check_not_set_aside, read_own
from remit.engine.process.standing import glance
from remit.errors import AuthorityUnreadable, RemitError, RunAbsent
from remit.faces.spoken import Spoken, spoken
from remit.facts.machine import Status
from remit.facts.names import AUTHORITY, INCIDENTS, RESERVED_PREFIX
from remit.facts.timeline import Timeline, read_timeline
from remit.facts.view import RunView
from remit.store.protocol import LEASE_US_OVERLONG
from remit.store.rows import Checkup, RunRow, Stored

QUARANTINED = "quarantined"  # no status of a run's own; it lies over any of them


@dataclass(frozen=True, slots=True)
class Explanation:
    """A run's timeline, and the run that it tells.

    view: None where the journal does not verify, and for one of Remit's own, which is no run. now: microseconds UTC.
    is_holder_dead: the worker that holds it is proven dead; False says "alive, unknown, or there is none".
    authority: directory and policy as they are now; None where there are none, or where they can't be believed.
    """

    row: RunRow
    timeline: Timeline
    view: RunView | None
    now: int
    authority: Authority | None = None
    is_holder_dead: bool = False

    @property
    def window_end(self) -> int:
        """When the run's time is over, microseconds UTC: as pinned, and of one that goes on as the policy caps it now.

        Code of a higher risk may have less; nobody knows of that before it is asked.
        """
        view = self.view
        if view is None or view.ended is not None or self.authority is None:
            return self.row.window_end
        risk = view.opened.contract.risk
        return window_end(view.opened_at, view.opened.window_end, [risk], self.authority.policy)


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that raised and runs again at the next attempt. error: qualified name. detail: its text."""

    call: str
    error: str
    detail: str


@dataclass(frozen=True, slots=True)
class Objection:
    """What a check of the gate has against the run. seen, required: in words."""

    check: str
    code: str
    seen: str
    required: str


@dataclass(frozen=True, slots=True)
class Why:
    """Why a run stands where it stands. Times are microseconds UTC, 0 where there is none.

    status: the run's, "quarantined" over any other. since: when it came to stand there. last_call: the
    newest that is recorded. failures: the calls that failed and run again. holder: the worker that holds it, "" for
    none; is_holder_dead is proven, False says "alive or unknown". incident: what was found when it was set aside.
    is_whole: of a quarantined run, its bytes verify now; missing: which entries they lack all the same, of those that
    its row had when it was set aside, in words. by, behalf: under which it was opened. now: by the clock of
    this machine. is_answered: somebody answered, resolved or cancelled since, which counts, so that the next turn takes
    it up.
    objections: what the gate found, where that is why. asks: questions that are neither void nor used. doubts: effects
    that are not settled: under way, or nobody knows whether they happened. cancelled_by: who wants an end. spoken: what
    people said of it, with their reasons, also when it is over. done: of a run that ended early, the effects that
    happened all the same; its reason says so too. may_have_happened: of one that has not ended, the effects that
    happened or may have: another run in its place would do them again.
    """

    run: str
    flow: str
    by: str
    behalf: str
    status: str
    since: int
    code: str
    reason: str
    waits_for: str
    failures: tuple[Failure, ...]
    last_call: str
    holder: str
    lease_until: int
    is_holder_dead: bool
    window_end: int
    incident: str
    is_whole: bool
    now: int
    missing: str = ""
    is_answered: bool = False
    objections: tuple[Objection, ...] = ()
    asks: tuple[Ask, ...] = ()
    doubts: tuple[Effected, ...] = ()
    cancelled_by: str = ""
    spoken: tuple[Spoken, ...] = ()
    done: tuple[str, ...] = ()
    may_have_happened: tuple[str, ...] = ()

    @property
    def is_overlong(self) -> bool:
        """Whether its lease lasts longer than any that is granted: somebody wrote that by hand."""
        return bool(self.holder) and not self.is_holder_dead and self.lease_until > self.now + LEASE_US_OVERLONG

    @property
    def is_worked_at(self) -> bool:
        """Whether a worker that may live is at it: what it does first is written down together with its attempt."""
        return bool(self.holder) and not self.is_holder_dead and self.lease_until > self.now


def explain(host: Host, stored: Stored) -> Explanation:
    """The timeline of a stored run, whatever state it is in."""
    row, origin = stored.row, host.store.ledger.origin
    timeline = read_timeline(identity_of(origin, row), heads_of(row), stored.main, stored.post)
    view, problem = None, timeline.problem
    try:
        view = verified(origin, stored)
    except RemitError as exc:
        problem = problem or exc
    return Explanation(row, Timeline(timeline.lines, problem), view, host.clock.now())


async def explain_now(host: Host, stored: Stored) -> Explanation:
    """The same beside what is known of today: directory and policy, and whether who holds the run is dead."""
    worker = stored.row.worker
    is_dead = worker is not None and await admit.is_holder_dead(host, worker)
    return replace(explain(host, stored), authority=await authority_of(host), is_holder_dead=is_dead)


def verified(origin: str, stored: Stored) -> RunView | None:
    """A journal verified whole, by what it is: a run's view; None for one of Remit's own. Raises Tampered."""
    name = stored.row.run
    if name == INCIDENTS:
        incidents.verify(origin, stored)
    elif name == AUTHORITY:
        fold_authority(read_own(origin, stored))
    else:
        return admit.verify(origin, stored)
    return None


async def examine_own(host: Host) -> Checkup:
    """What `doctor` says about Remit's own journals, on which everything else rests."""
    seen, hint = [], ""
    for name in (AUTHORITY, INCIDENTS):
        row = await host.store.read_row(host.tenant, name)
        stored = await host.store.read_run(row.run_key) if row is not None else None
        if stored is None:
            continue
        try:
            verified(host.store.ledger.origin, stored)
            check_not_set_aside(stored.row)
            seen.append(f"{name} verifies")
        except RemitError as exc:
            seen.append(f"{name}: {exc.message}")
            hint = hint or exc.hint
    return Checkup("own journals", not hint, "; ".join(seen) or "there are none yet", hint)


async def authority_of(host: Host) -> Authority | None:
    """Directory and policy as they are now; looking makes no journal. None where they can't be believed."""
    if await host.store.read_row(host.tenant, AUTHORITY) is None:
        return None
    try:
        return await glance(host)
    except AuthorityUnreadable:
        return None


async def why(host: Host, stored: Stored) -> Why:
    """Why a run stands where it stands. A quarantined one is told from the incidents.

    Raises RunAbsent for a journal of Remit's own, Tampered where the run's does not verify and it is not set aside yet.
    """
    row = stored.row
    if row.run.startswith(RESERVED_PREFIX):
        raise RunAbsent(f"{row.run!r} is a journal of Remit's own and no run; nothing was done.")
    explained = await explain_now(host, stored)
    view, problem = explained.view, explained.timeline.problem
    if problem is not None and not row.quarantined:
        raise problem
    parked = view.parked if view is not None else None
    opened = view.opened if view is not None else None
    since, now = _since(view, explained.timeline) if view is not None else 0, host.clock.latest()
    incident, lacking = await _incident(host, row)
    told = Why(
        run=row.run,
        flow=row.flow,
        by=row.by,
        behalf=(opened.behalf or "") if opened is not None else "",
        status=QUARANTINED if row.quarantined or view is None else str(view.status),
        since=since,
        code=view.code if view is not None else row.code,
        reason=detail_of(view.last_value) if view is not None and view.code else "",
        waits_for=parked.waits_for if parked is not None else "",
        failures=_failures(explained.timeline, parked.calls) if parked is not None else (),
        last_call=next(reversed(view.calls), "") if view is not None else "",
        holder=row.worker or "",
        lease_until=row.lease_until,
        is_holder_dead=explained.is_holder_dead,
        window_end=explained.window_end,
        incident=incident,
        is_whole=view is not None,
        missing=lacking if view is not None else "",
        now=host.clock.now(),
        is_answered=view is not None
        and view.ended is None
        and any(one.at >= since and one.counts for one in spoken(view, explained.authority, now)),
    )
    if view is None:
        return told
    left = await left_at_work(host, view)
    return replace(told, **_boundary(view, now, explained.authority, is_held=told.is_worked_at, left=left))


def _since(view: RunView, timeline: Timeline) -> int:
    """When the run came to stand where it stands: what others post, and what an attempt does, leaves it there."""
    own = [line for line in timeline.lines if line.lane == "main"]
    begun = [line for line in own if line.kind == "AttemptStarted"]
    return (begun if view.status is Status.RUNNING else own)[-1].at


def _boundary(
    view: RunView, now: int, authority: Authority | None, *, is_held: bool, left: dict[str, str]
) -> dict[str, Any]:
    """What of the boundary says why. An ended run waits for nobody. left: where calls may still be at work."""
    boundary = view.boundary
    found: dict[str, Any] = {"objections": _objections(view), "spoken": spoken(view, authority, now)}
    if view.ended is None:
        standing = (ask for ask in boundary.asks.values() if ask.stands)
        found["asks"] = tuple(shown(view, ask, now, authority) for ask in standing)
        names = boundary.in_doubt
        doubts = (told(view, boundary.effects[name], is_held=is_held, at_work=left.get(name, "")) for name in names)
        found["doubts"] = tuple(_doubt(view, doubt, authority) for doubt in doubts)
        found["may_have_happened"] = boundary.may_have_happened
        found["cancelled_by"] = boundary.cancel.by if boundary.cancel is not None else ""
    elif view.status is not Status.COMPLETED:
        found["done"] = boundary.happened
    return found


def _doubt(view: RunView, doubt: Effected, authority: Authority | None) -> Effected:
    """An effect that is not settled: one of which the last word counts no longer is as if nobody had said so."""
    effect = view.boundary.effects[doubt.call]
    word = view.boundary.last_word(effect)
    is_told = word is not None and word_counts(view, word, authority)
    return doubt if is_told else replace(doubt, told_by="")


def _objections(view: RunView) -> tuple[Objection, ...]:
    """The findings of the newest judgement, where the run stands as it does because of it."""
    judged = view.boundary.judged
    if judged is None or judged.verdict.code != view.code:
        return ()
    is_sent_again = is_of_a_doubt(view, judged.question)
    return tuple(
        Objection(finding.check, finding.code, *describe(judged.question, finding, is_sent_again=is_sent_again))
        for finding in judged.verdict.findings
        if not finding.ok
    )


def _failures(timeline: Timeline, names: list[str]) -> tuple[Failure, ...]:
    """Of a verified journal: how each of these calls failed last. The view forgets them, because they run again."""
    found = {
        line.name: Failure(line.name, line.body.get("error", ""), detail_of(line.value))
        for line in timeline.lines
        if line.kind == "StepFailed" or (line.kind == "EffectSettled" and line.body["state"] == "did_not_happen")
    }
    return tuple(found.get(name) or Failure(name, "", "") for name in names)


async def _incident(host: Host, row: RunRow) -> tuple[str, str]:
    """What was found when the run was set aside last, and what it lacks now; "" where it never was, or was lifted."""
    found = await incidents.newest(host, row) if row.quarantined else None
    if found is None:
        return "", ""
    return f"{found.code}: {detail_of(found.detail)}", incidents.missing(row, found)
