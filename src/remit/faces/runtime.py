"""The runtime: what `remit.open` gives.

    async with remit.open("sqlite:///purchases.db") as rt:
        outcome = await rt.run(purchase, request, id="po-1041")

    with remit.open("sqlite:///purchases.db") as rt:
        outcome = rt.run_sync(purchase, request, id="po-1041")

One call starts a run or goes on with it. It returns when the run ends or parks.
"""

from __future__ import annotations

import asyncio
import builtins
import shlex
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from remit.authority.directory import LOCAL
from remit.authority.policy import policy_digest, policy_from
from remit.authority.principals import check_new_principal
from remit.clock import Clock
from remit.engine.declared.flow import Flow
from remit.engine.people.asks import Ask
from remit.engine.people.cancelling import cancel
from remit.engine.people.left_out import Listed
from remit.engine.people.recount import recount
from remit.engine.people.used import Used, used
from remit.engine.people.voiding import voided_by
from remit.engine.process import incidents
from remit.engine.process.admit import Found, Order, check_flow, check_order, find, open_run, read_stored
from remit.engine.process.host import WholeClock
from remit.engine.process.lease import LEASE_MS_DEFAULT
from remit.engine.process.outcome import Outcome, outcome_of
from remit.engine.process.reserved import TRIES
from remit.engine.runs.claim_and_run import claim_and_run
from remit.engine.runs.dry import Judged, judge_dry
from remit.engine.runs.rehearsal import Compatibility, rehearse
from remit.engine.runs.watch import wait_for
from remit.errors import Moved, Refused, StoreUnavailable, Tampered, ValueRefused
from remit.faces.explain import QUARANTINED, Explanation, Why, examine_own, explain_now, verified, why
from remit.faces.opened import twin
from remit.faces.people import People
from remit.facts.machine import Status
from remit.facts.names import check_word
from remit.facts.rules import PolicyPin
from remit.facts.value import Codec
from remit.store.protocol import Store
from remit.store.rows import Checkup, RunFilter, RunRow, Stored
from remit.store.url import store_for

_UNTYPED: Codec[Any] = Codec(Any)
_INPUT_HINT = "Give what the flow annotates for its input; with no annotation, JSON's own types only."


class Runtime(People):
    """Runs flows on one store. Open it with `async with`, or with `with` for plain code."""

    # -- running ----------------------------------------------------------------------------------------------------

    async def run(
        self,
        flow: Flow[Any],
        input: Any = None,
        *,
        id: str,
        by: str | None = None,
        behalf: str | None = None,
        wait: bool = True,
    ) -> Outcome:
        """Start a run, or go on with it, in this process; the outcome when it ends or parks.

        id: 1 to 200 visible characters. by: the executor, "agent:buyer"; `service:local` when absent. behalf: for whom.
        wait: of a run that another worker holds, wait for that attempt; otherwise LeaseHeld is raised.
        Raises StepError where the flow raised (all before it is saved; call again to go on), InputMismatch,
        ExecutorMismatch, FlowMismatch, DefinitionIncompatible, Tampered, RunQuarantined, LeaseLost, StoreUnavailable.
        """
        order = _order(flow, input, id, by, behalf)
        return await claim_and_run(self._ready(), flow, order, is_waiting=wait)

    async def start(
        self, flow: Flow[Any], input: Any = None, *, id: str, by: str | None = None, behalf: str | None = None
    ) -> str:
        """Open a run for a later `run` or `resume`; its id, once the run is on disk. Again: the same run."""
        order = _order(flow, input, id, by, behalf)
        host = self._ready()
        if await open_run(host, flow, order, is_held=False) is None:
            check_order((await find(host, id)).view, flow, order)
        return id

    async def resume(self, id: str, flow: Flow[Any], *, wait: bool = True) -> Outcome:
        """Go on with a run under its recorded input and executor. Raises RunAbsent, and as `run` does."""
        host, flow = self._ready(), _checked(flow)
        view = (await find(host, id)).view
        check_flow(view, flow)
        order = Order(id, view.opened.by, view.opened.behalf, view.input, may_open=False)
        return await claim_and_run(host, flow, order, is_waiting=wait)

    async def wait(self, id: str, *, timeout: float | None = None) -> Outcome:
        """The outcome of a run that others work at, when it ends or parks; its value as plain JSON types.

        timeout: seconds; TimeoutError after them. A run that nobody has taken up yet is waited for as well. Raises
        CallRefused `call.own_run` inside a step of that very run.
        """
        host = self._ready()
        async with asyncio.timeout(timeout):
            return outcome_of((await wait_for(host, id)).view, _UNTYPED)

    async def cancel(self, id: str, *, by: str, reason: str = "") -> Outcome:
        """Ask a run to end; how it stands after that. What it did outside stays done and is said.

        One that nobody holds ends here; one under way stops at its next call; one in doubt waits until that is known.
        Who works at it elsewhere hears of it at the next effect, at the end, or when the lease is renewed, which is
        every third of `lease_ms`, whichever comes first.
        """
        host = self._ready()
        check_new_principal(by, "principal")
        return await cancel(host, id, by=by, reason=reason)

    # -- looking ----------------------------------------------------------------------------------------------------

    async def show(self, id: str) -> Found:
        """A run's row and its view, folded from its verified journal. Raises RunAbsent, Tampered, RunQuarantined."""
        return await find(self._ready(), id)

    async def read(self, id: str) -> Stored:
        """A run as it is stored, not verified; for looking at a run that is quarantined. Raises RunAbsent."""
        return await read_stored(self._ready(), id)

    async def list(
        self,
        *,
        flow: str | None = None,
        status: str | None = None,
        quarantined: bool | None = None,
        prefix: str | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> builtins.list[RunRow]:
        """Rows of runs, newest first; an index, not verified. before: a row's run_key, to page on.

        status: "queued", "running", "waiting", "in_doubt", "completed" ...; "quarantined" means what quarantined=True
        does. quarantined: only those set aside, or only the others. Raises Refused `status.unknown`.
        """
        host, status = self._ready(), check_status(status)
        if status == QUARANTINED:
            if quarantined is False:
                return []  # asked for both
            status, quarantined = None, True
        return await host.store.list_rows(RunFilter(host.tenant, flow, status, quarantined, prefix, limit, before))

    async def verify(self, id: str) -> Tampered | None:
        """What is wrong with the journal of a run, `remit:incidents` or `remit:authority`, or None. Changes nothing."""
        host = self._ready()
        try:
            verified(host.store.ledger.origin, await self.read(id))
        except Tampered as exc:
            return exc
        return None

    async def explain(self, id: str) -> Explanation:
        """What happened, entry by entry, whatever the journal's state. Executes nothing. Raises RunAbsent."""
        host = self._ready()
        return await explain_now(host, await read_stored(host, id))

    async def why(self, id: str) -> Why:
        """Why a run stands where it stands; a quarantined one as the incidents tell. Raises RunAbsent, Tampered."""
        host = self._ready()
        return await why(host, await read_stored(host, id))

    async def check(self, id: str, flow: Flow[Any]) -> Compatibility:
        """Whether this code goes on with that run. Runs no step and writes nothing."""
        host, flow = self._ready(), _checked(flow)
        return await rehearse(host, flow, await find(host, id))

    async def judge(self, id: str, flow: Flow[Any]) -> Judged:
        """What the gate would say of that run now, by this code. Runs no step, calls no effect, writes nothing.

        Raises Refused `run.ended` of a run that is over, and DefinitionIncompatible as a turn of this code would.
        """
        host, flow = self._ready(), _checked(flow)
        return await judge_dry(host, flow, await find(host, id))

    async def voided_by(self, policy: Mapping[str, Any] | PolicyPin) -> Listed[Ask]:
        """Questions that setting this policy would void: open ones, and those with a yes that nothing used yet.

        Each is bound to the policy it was asked under, so any other one voids it, and it is asked anew. Reads the
        newest 1,000 runs whole, and older ones of the 1,000 oldest open questions. A list, whose `left_out` names those
        of them that can't be believed or read. Raises Refused `policy.*`, AuthorityUnreadable.
        """
        return await voided_by(self._ready(), policy_digest(policy_from(policy)))

    async def used(self) -> builtins.list[Used]:
        """What is used of each ceiling per day and month of today's policy, now; beside the journals, not verified."""
        return await used(self._ready())

    # -- setting right ----------------------------------------------------------------------------------------------

    async def lift(self, id: str, *, by: str, reason: str, shorter: bool = False) -> None:
        """End a run's quarantine, where its restored bytes verify.

        What was done since the backup they are from was done: the run would do it again. shorter: entries are missing,
        and the operator found out outside what they did; kept with who and why.
        Raises Tampered where they don't verify, Refused `lift.shorter` where they end before the run did when it was
        set aside: nothing was done.
        """
        host = self._ready()
        check_new_principal(by, "operator")
        for _ in range(TRIES):
            stored = await self.read(id)
            if not stored.row.quarantined:
                hint = f"See `remit why {shlex.quote(id)}` for where it stands."
                what = f"Run {id!r} is not quarantined; nothing was done."
                raise Refused(what, code="run.not_quarantined", hint=hint)
            verified(host.store.ledger.origin, stored)
            with suppress(Moved):  # it was lifted meanwhile, or other bytes were put there: look again
                return await incidents.lift(host, stored.row, by=by, reason=reason, shorter=shorter)
        raise StoreUnavailable(f"Nothing was written: run {id!r} moved {TRIES} times in between.")

    async def doctor(self) -> builtins.list[Checkup]:
        """What is right and wrong with the store, and with what stands in it beside the journals. Changes nothing."""
        host = self._ready()
        return [*await host.store.examine(), await examine_own(host), *await recount(host)]

    run_sync = twin(run)
    start_sync = twin(start)
    resume_sync = twin(resume)
    wait_sync = twin(wait)
    show_sync = twin(show)
    read_sync = twin(read)
    list_sync = twin(list)
    verify_sync = twin(verify)
    check_sync = twin(check)
    explain_sync = twin(explain)
    why_sync = twin(why)
    judge_sync = twin(judge)
    voided_by_sync = twin(voided_by)
    used_sync = twin(used)
    cancel_sync = twin(cancel)
    lift_sync = twin(lift)
    doctor_sync = twin(doctor)


def open(
    store: str | Store, *, tenant: str = "default", clock: Clock | None = None, lease_ms: int = LEASE_MS_DEFAULT
) -> Runtime:
    """A runtime on a store; use it with `async with`, or with `with` in plain code.

    store: "sqlite:///runs.db" (relative), "sqlite:////var/lib/runs.db" (absolute), "postgresql://...",
    "file:state.json", "memory:", or a store object, which has a clock already. clock: replaces the database's clock
    too, and the ledger says so. lease_ms: 1,000 to 600,000. Nothing is opened before `with`.
    Raises Refused for a URL, tenant or lease that can't be.
    """
    if not isinstance(store, str) and not hasattr(store, "open_run"):
        hint = "Use `sqlite:///name.db`, `file:state.json`, `postgresql://host/database`, `memory:`, or a store object."
        raise Refused(f"{store!r} is not a place for a store; nothing was opened.", code="url.refused", hint=hint)
    clock = WholeClock(clock) if clock is not None else None
    return Runtime(
        store_for(store, clock=clock) if isinstance(store, str) else store,
        tenant=tenant,
        clock=clock,
        lease_ms=lease_ms,
    )


def check_status(named: str | None) -> str | None:
    """What runs are looked for by. Raises Refused `status.unknown`: no run would ever be found by it."""
    if named is not None and named not in (*Status, QUARANTINED):
        hint = f"It is one of {', '.join(Status)}, {QUARANTINED}."
        raise Refused(f"{named!r} is no status of a run; nothing was done.", code="status.unknown", hint=hint)
    return named


def _checked(flow: Any) -> Flow[Any]:
    if not isinstance(flow, Flow):
        hint = (
            "Declare it with `@remit.flow`; it comes first in `rt.run(flow, ...)`, and second in `rt.resume(id, flow)`."
        )
        raise Refused(f"{flow!r} is not a flow; nothing was done.", code="flow.unknown", hint=hint)
    return flow


def _order(flow: Flow[Any], given: Any, id: str, by: str | None, behalf: str | None) -> Order:
    flow, id = _checked(flow), check_word(id, "run id")
    executor = check_new_principal(by, "executor") if by is not None else LOCAL
    if behalf is not None:
        behalf = check_new_principal(behalf, "principal on whose behalf it acts")
    if not flow.takes_input and given is not None:
        raise Refused(f"Flow {flow.name!r} takes no input; nothing was done.", code="input.unexpected")
    try:
        data, _ = flow.input_codec.write(given, where=f"the input of run {id!r}", hint=_INPUT_HINT)
    except ValueRefused as exc:
        if given is not None:
            raise
        raise Refused(
            f"Flow {flow.name!r} takes an input and was given none; nothing was done.",
            code="input.missing",
            hint="Give it: `rt.run(flow, input, id=...)`.",
        ) from exc
    return Order(id, executor, behalf, data)
