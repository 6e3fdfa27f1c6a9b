"""Admission: a run is opened, or found and verified, before anybody takes a turn at it.

    open_run   RunOpened is durable before it returns; an id that is taken opens nothing
    find       the whole journal, both lanes, verified and folded; refused when one thing moved
    check      the caller asks for this very run

Nothing is written before a journal verified.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from remit.authority.rules import window_end
from remit.canonical import INTEGER_MAX
from remit.engine.declared.flow import Flow
from remit.engine.process.host import Host
from remit.engine.process.incidents import quarantine
from remit.engine.process.journal import Columns, check_columns, read_journal
from remit.engine.process.liveness import is_proven_dead
from remit.engine.process.opening import check_may_open, draw_up
from remit.engine.process.standing import check_clock, look, recall
from remit.errors import (
    FIND_OUT,
    ExecutorMismatch,
    FlowMismatch,
    InputMismatch,
    JournalNewer,
    Moved,
    Refused,
    RemitError,
    RunAbsent,
    RunQuarantined,
    Tampered,
    cancel_first,
    done_anew,
)
from remit.facts import chain
from remit.facts.kinds import RunOpened
from remit.facts.machine import ENDED
from remit.facts.names import RESERVED_PREFIX
from remit.facts.view import RunView, fold
from remit.store.rows import RunRow, Stored

# What says that this run can't be believed or read, and nothing of any other: whoever looks at many leaves it out, and
# says so.
UNBELIEVED = (Tampered, JournalNewer, RunQuarantined, RunAbsent)


@dataclass(frozen=True, slots=True)
class Order:
    """What a caller asks for: this run, with this input, in these names."""

    run: str
    by: str
    behalf: str | None
    input: bytes
    may_open: bool = True  # False: only a run that is there is gone on with


@dataclass(frozen=True, slots=True)
class Found:
    """A run whose journal verified, and the row that it was read with."""

    row: RunRow
    view: RunView


async def open_run(host: Host, flow: Flow[Any], order: Order, *, is_held: bool) -> Found | None:
    """Make the run; None where its id is taken, or others hold it already. is_held: this worker takes it at once.

    Raises Refused `executor.unknown`, `.disabled`, `.role` where nothing of it could go on, ClockJumped: nothing was
    written.
    """
    await recall(host)
    while True:
        authority, ground = host.standing.authority, host.standing.ground
        await check_clock(host)
        pin = flow.terms.pin
        span = window_end(0, pin.window, [pin.risk], authority.policy)
        at = host.clock.begin(span)
        opened = RunOpened(
            authority=authority.version,
            behalf=order.behalf,
            by=order.by,
            contract=pin,
            flow=flow.name,
            policy=authority.policy_digest,
            window_end=at + pin.window,
        )
        try:
            host.clock.check_opens(at + span)
            check_may_open(authority, opened, now=at)  # of its time the run itself is told
        except Refused:
            if (await look(host)).version != authority.version:
                continue
            if await host.store.read_row(host.tenant, order.run) is None:
                host.clock.check_opens(at + span)  # in words of what the store's clock says by now
                raise
            return None  # a run that is there is judged, and ended, where it goes on
        made, identity = draw_up(host, order.run, opened, order.input, at=at, is_held=is_held, ground=ground)
        try:
            row = await host.store.open_run(made)
        except Moved:
            await look(host)  # a grant, a revocation or a policy came in between
            continue
        if row is None:
            return None
        host.clock.note(at)
        if is_held:
            if (row.epoch, row.worker) != (1, host.worker):
                return None  # it was made, but its answer was lost until others took it up: the lease is not ours
            host.clock.saw(row.lease_until - made.lease_ms * 1_000)  # the moment of the grant, by the store's clock
        return Found(row, RunView(identity, opened, order.input, at, last_at=at))


async def read_stored(host: Host, run: str) -> Stored:
    """The run as it is stored, in one snapshot and not verified. Raises RunAbsent."""
    row = await host.store.read_row(host.tenant, run)
    stored = await host.store.read_run(row.run_key) if row is not None else None
    if stored is None:
        raise RunAbsent(f"There is no run {run!r}; nothing was done.")
    return stored


async def find(host: Host, run: str) -> Found:
    """The run, read and verified whole.

    Raises RunAbsent, RunQuarantined, or Tampered: then this run is quarantined, and nothing else is touched.
    """
    if run.startswith(RESERVED_PREFIX):  # no run, and setting it aside would keep incidents from being written
        raise RunAbsent(f"{run!r} is a journal of Remit's own and no run; nothing was done.")
    stored = await read_stored(host, run)
    if stored.row.quarantined:
        raise set_aside(run)
    try:
        view = verify(host.store.ledger.origin, stored)
        host.clock.note(view.last_at)
        return Found(stored.row, view)
    except Tampered as exc:
        try:
            await quarantine(host, stored.row, exc)
        except (
            RemitError
        ) as unwritten:  # the next attempt finds it again, and `doctor` what is wrong with the incidents
            exc.add_note(f"It could not be set aside: {unwritten.message}")
        raise


def set_aside(run: str) -> RunQuarantined:
    """What whoever asks for a run is told that is set aside."""
    named = shlex.quote(run)
    return RunQuarantined(
        f"Run {run!r} is quarantined: its journal did not verify; nothing was done.",
        hint=f"See `remit verify {named}`. {FIND_OUT}; restore its bytes, "
        f"then `remit lift {named} --by user:YOU --reason WHY`.",
    )


def verify(origin: str, stored: Stored) -> RunView:
    """Chain, heads, moves and the row's own columns. Raises Tampered."""
    row, (identity, journal) = stored.row, read_journal(origin, stored)
    view = fold(identity, journal)
    opened = view.opened
    check_columns(identity, row, Columns(view.status, view.code, opened.by, view.opened_at, opened.window_end))
    if not view.epoch <= row.epoch < INTEGER_MAX:  # the next attempt's is one higher, and has to be a number still
        what = f"the row's epoch says {row.epoch}, the journal {view.epoch}"
        raise chain.tampered(identity, "run.index", what, "main", row.seq)
    return view


def check_order(view: RunView, flow: Flow[Any], order: Order) -> None:
    """The caller asks for this very run. Raises FlowMismatch, ExecutorMismatch, InputMismatch; nothing was done."""
    check_flow(view, flow)
    run, opened = view.identity.run, view.opened
    if (opened.by, opened.behalf) != (order.by, order.behalf):
        raise ExecutorMismatch(
            f"Run {run!r} was opened by {_who(opened.by, opened.behalf)}, not {_who(order.by, order.behalf)}; "
            "nothing was done."
        )
    if view.input != order.input:
        go_on = f"`remit resume {shlex.quote(run)} MODULE:FLOW`"
        raise InputMismatch(
            f"Run {run!r} was opened with another input; nothing was done.",
            hint=_left(view, f"Use another run id for another input, or go on with the recorded one by {go_on}."),
        )


def check_flow(view: RunView, flow: Flow[Any]) -> None:
    """The run belongs to this flow. Raises FlowMismatch; nothing was done."""
    run, opened = view.identity.run, view.opened
    if opened.flow != flow.name:
        raise FlowMismatch(
            f"Run {run!r} belongs to flow {opened.flow!r}, not {flow.name!r}; nothing was done.",
            hint=_left(view, "Use another run id, or the flow that the run was opened with."),
        )


def _left(view: RunView, way: str) -> str:
    """A way to another run, what keeps this one from going on beside it, and what it leaves done outside."""
    first = "" if view.status in ENDED else f" {cancel_first(shlex.quote(view.identity.run))}"
    return f"{way}{first} {done_anew(view.boundary.may_have_happened)}".rstrip()


async def is_holder_dead(host: Host, worker: str) -> bool:
    """Whether a worker is proven dead. False says "alive or unknown"."""
    known = await host.store.read_worker(worker)
    return known is not None and is_proven_dead(known)


async def is_worked_at(host: Host, row: RunRow, *, now: int) -> bool:
    """Whether a worker may be at the run: its lease is not over, and it is not proven dead.

    One whose lease is over may live, frozen or cut off; it begins nothing any more. now: by the store's clock.
    """
    return row.worker is not None and row.lease_until > now and not await is_holder_dead(host, row.worker)


async def newly_dead(host: Host, view: RunView) -> tuple[str, ...]:
    """Workers that left a call in doubt and are proven dead for the first time: what they sent lands from now on.

    None of this process: what its functions left to threads, which nobody sees, may not have been sent yet.
    """
    left = [view.boundary.effects[name] for name in view.boundary.in_doubt]
    senders = {view.worker_of(attempt) for effect in left for attempt in effect.attempts} - {*view.dead}
    unknown = sorted(sender for sender in senders if sender is not None and not host.lock.has(sender))
    return tuple([sender for sender in unknown if await is_holder_dead(host, sender)])


def _who(by: str, behalf: str | None) -> str:
    return f"{by} for {behalf}" if behalf else by
