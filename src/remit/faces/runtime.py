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
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from remit.authority.directory import (
    Authority,
    check_disable,
    check_enable,
    check_grant,
    check_link,
    check_policy,
    check_revoke,
)
from remit.authority.policy import policy_from
from remit.clock import Clock, SystemClock
from remit.engine import incidents
from remit.engine.admit import Found, Order, check_flow, check_order, find, open_run, read_stored, verify
from remit.engine.cancelling import cancel
from remit.engine.claim_and_run import claim_and_run
from remit.engine.deciding import Ask, Choice, decide, inbox, read_ask
from remit.engine.dry import Judged, judge_dry
from remit.engine.effected import Effected, effects
from remit.engine.flow import Flow
from remit.engine.host import Host, WholeClock
from remit.engine.lease import LEASE_MS_DEFAULT, Keeper
from remit.engine.liveness import enlist, retire
from remit.engine.outcome import Outcome, outcome_of
from remit.engine.rehearsal import Compatibility, rehearse
from remit.engine.resolving import resolve
from remit.engine.standing import act, look
from remit.engine.watch import wait_for
from remit.errors import Refused, StoreClosed, Tampered, ValueRefused
from remit.faces.explain import Explanation, Why, explain, why
from remit.faces.portal import Portal, refuse_inside_loop
from remit.facts.fact import Fact
from remit.facts.kinds import (
    PolicySet,
    PrincipalDisabled,
    PrincipalEnabled,
    PrincipalLinked,
    RoleGranted,
    RoleRevoked,
)
from remit.facts.names import check_id, check_principal
from remit.facts.value import Codec
from remit.store.protocol import LEASE_MS_MAX, LEASE_MS_MIN, Checkup, RunFilter, RunRow, Store, Stored
from remit.store.url import store_for

P = ParamSpec("P")
T = TypeVar("T")

LOCAL = "service:local"
THREADS_MAX = 64

_UNTYPED: Codec[Any] = Codec(Any)


def _twin(
    method: Callable[Concatenate[Runtime, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Runtime, P], T]:
    """The synchronous twin of an asynchronous method: the same call, waited for in the portal's loop."""

    def call(self: Runtime, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._call(method.__name__, method(self, *args, **kwargs))

    call.__name__, call.__doc__ = f"{method.__name__}_sync", f"`{method.__name__}` for plain code. {method.__doc__}"
    return call


class Runtime:
    """Runs flows on one store. Open it with `async with`, or with `with` for plain code."""

    def __init__(self, store: Store, *, tenant: str, clock: Clock | None, lease_ms: int) -> None:
        if not LEASE_MS_MIN <= lease_ms <= LEASE_MS_MAX:
            raise Refused(f"A lease lasts {LEASE_MS_MIN} to {LEASE_MS_MAX} ms, not {lease_ms}.", code="lease.length")
        self._store, self._clock = store, clock or SystemClock()
        self._tenant, self._lease_ms = check_id(tenant, "tenant"), lease_ms
        self._host: Host | None = None
        self._portal: Portal | None = None

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

    async def resume(self, flow: Flow[Any], id: str, *, wait: bool = True) -> Outcome:
        """Go on with a run under its recorded input and executor. Raises RunAbsent, and as `run` does."""
        host = self._ready()
        view = (await find(host, id)).view
        check_flow(view, flow)
        order = Order(id, view.opened.by, view.opened.behalf, view.input)
        return await claim_and_run(host, flow, order, is_waiting=wait)

    async def wait(self, id: str, *, timeout: float | None = None) -> Outcome:
        """The outcome of a run that others work at, when it ends or parks; its value as plain JSON types.

        timeout: seconds; TimeoutError after them. A run that nobody has taken up yet is waited for as well.
        """
        host = self._ready()
        async with asyncio.timeout(timeout):
            return outcome_of((await wait_for(host, id)).view, _UNTYPED)

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
        """Rows of runs, newest first; an index, not verified. before: a row's run_key, to page on."""
        host = self._ready()
        which = RunFilter(host.tenant, flow, status, quarantined, prefix, limit, before)
        return await host.store.list_rows(which)

    async def verify(self, id: str) -> Tampered | None:
        """What is wrong with the journal of a run or of `remit:incidents`, or None. Changes nothing."""
        host = self._ready()
        check = incidents.verify if id == incidents.INCIDENTS else verify
        try:
            check(host.store.ledger.origin, await self.read(id))
        except Tampered as exc:
            return exc
        return None

    async def explain(self, id: str) -> Explanation:
        """What happened, entry by entry, whatever the journal's state. Executes nothing. Raises RunAbsent."""
        host = self._ready()
        return explain(host, await read_stored(host, id))

    async def why(self, id: str) -> Why:
        """Why a run stands where it stands; a quarantined one as the incidents tell. Raises RunAbsent, Tampered."""
        host = self._ready()
        return await why(host, await read_stored(host, id))

    async def check(self, flow: Flow[Any], id: str) -> Compatibility:
        """Whether this code goes on with that run. Runs no step and writes nothing."""
        host = self._ready()
        return await rehearse(host, flow, await find(host, id))

    async def judge(self, flow: Flow[Any], id: str) -> Judged:
        """What the gate would say of that run now, by this code. Runs no step, calls no effect, writes nothing."""
        host = self._ready()
        return await judge_dry(host, flow, await find(host, id))

    # -- people -----------------------------------------------------------------------------------------------------

    async def inbox(self, *, role: str | None = None, limit: int = 20, after: int = 0) -> builtins.list[Ask]:
        """Questions that wait for a person, oldest first, each read from its verified journal.

        role: only those that a holder of this role may answer. after: a question's number, to page on.
        """
        return await inbox(self._ready(), role=role, limit=limit, after=after)

    async def ask(self, id: str) -> Ask:
        """One question by its id, open or not. Raises ApprovalRefused `approval.absent`."""
        return await read_ask(self._ready(), id)

    async def decide(self, id: str, choice: Choice, *, by: str, seen: str, reason: str = "") -> Ask:
        """Answer a question. The run is due then; no flow is run here.

        choice: "approve" or "deny". by: a person, "user:dana". seen: `ask.version`, of what was shown.
        Raises ApprovalRefused (`approval.decided`, `.void`, `.stale`, `.expired`, `.role`, `.self` ...), Refused
        `run.ended`, Tampered: nothing was written.
        """
        host = self._ready()
        check_principal(by, "decider")
        if choice not in ("approve", "deny"):
            raise Refused(f"{choice!r} is no answer; nothing was done.", code="approval.choice", hint=_CHOICE_HINT)
        return await decide(host, id, choice, by=by, reason=reason, seen=seen)

    async def cancel(self, id: str, *, by: str, reason: str = "") -> Outcome:
        """Ask a run to end; how it stands after that. What it did outside stays done and is said.

        One that nobody holds ends here; one under way stops at its next call; one in doubt waits until that is known.
        """
        host = self._ready()
        check_principal(by, "principal")
        return await cancel(host, id, by=by, reason=reason)

    async def effects(
        self, id: str | None = None, *, in_doubt: bool = False, limit: int = 50
    ) -> builtins.list[Effected]:
        """Effects of one run, or of all that are in doubt. in_doubt: only those."""
        return await effects(self._ready(), run=id, in_doubt=in_doubt, limit=limit)

    async def resolve(
        self, id: str, call: str, state: Literal["ok", "did_not_happen"], *, by: str, evidence: str, outcome: Any = None
    ) -> None:
        """Say what became of an effect in doubt, and how that is known; the next turn of the run settles it by that.

        outcome: of one that happened, as plain JSON types. Raises Refused `doubt.absent`, `doubt.resolved`,
        `doubt.under_way`, `doubt.decider`, `doubt.evidence`.
        """
        host = self._ready()
        check_principal(by, "principal")
        if state not in ("ok", "did_not_happen"):
            hint = "Say `ok` or `did_not_happen`."
            raise Refused(f"{state!r} is no end of a doubt; nothing was done.", code="doubt.state", hint=hint)
        await resolve(host, id, call, state, by=by, evidence=evidence, outcome=outcome)

    # -- authority --------------------------------------------------------------------------------------------------

    async def grant(self, principal: str, role: str, *, by: str, reason: str = "") -> int:
        """Give a principal a role; the version of the directory from which it holds. Nobody grants to themselves."""
        fact = RoleGranted(principal=principal, role=role)
        return await self._act(fact, reason, by, lambda known: check_grant(known, principal, role, by))

    async def revoke(self, principal: str, role: str, *, by: str, reason: str = "") -> int:
        """Take a role from a principal; what was not committed before this returns is stopped by it."""
        fact = RoleRevoked(principal=principal, role=role)
        return await self._act(fact, reason, by, lambda known: check_revoke(known, principal, role, by))

    async def disable(self, principal: str, *, by: str, reason: str = "") -> int:
        """Let nothing go on under a principal."""
        fact = PrincipalDisabled(principal=principal)
        return await self._act(fact, reason, by, lambda known: check_disable(known, principal, by))

    async def enable(self, principal: str, *, by: str, reason: str = "") -> int:
        """Let a principal count again."""
        fact = PrincipalEnabled(principal=principal)
        return await self._act(fact, reason, by, lambda known: check_enable(known, principal, by))

    async def link(self, principal: str, *, person: str, by: str, reason: str = "") -> int:
        """Say that two principals are one person, for good: neither approves what the other asks for."""
        fact = PrincipalLinked(person=person, principal=principal)
        return await self._act(fact, reason, by, lambda known: check_link(known, principal, person, by))

    async def set_policy(self, policy: Mapping[str, Any], *, by: str, reason: str = "") -> int:
        """Set the operators' policy, whole; the stricter of it and a contract holds. Raises Refused `policy.*`."""
        pin = policy_from(policy)
        return await self._act(PolicySet(policy=pin), reason, by, lambda known: check_policy(known, pin, by))

    async def authority(self) -> Authority:
        """Directory and policy as they are now, read from their verified journal. Raises AuthorityUnreadable."""
        return (await look(self._ready())).authority

    async def _act(self, fact: Fact, reason: str, by: str, check: Callable[[Authority], None]) -> int:
        return await act(self._ready(), fact, reason, by=by, check=check)

    # -- setting right ----------------------------------------------------------------------------------------------

    async def lift(self, id: str, *, by: str, reason: str) -> None:
        """End a run's quarantine, where its restored bytes verify. Raises Tampered where they don't."""
        host = self._ready()
        check_principal(by, "operator")
        stored = await self.read(id)
        if not stored.row.quarantined:
            hint = "See `remit why RUN` for where it stands."
            raise Refused(f"Run {id!r} is not quarantined; nothing was done.", code="run.not_quarantined", hint=hint)
        verify(host.store.ledger.origin, stored)
        await incidents.lift(host, stored.row, by=by, reason=reason)

    async def doctor(self) -> builtins.list[Checkup]:
        """What is right and wrong with the store. Changes nothing."""
        return await self._ready().store.examine()

    # -- opening and closing ------------------------------------------------------------------------------------------

    async def open(self) -> Runtime:
        """Open the store for the running event loop. `async with` does this. Raises StoreRefused, StoreUnavailable."""
        if self._host is not None:
            raise StoreClosed("The runtime is open already; nothing was done.", code="store.open")
        await self._store.open()
        me = enlist(self._clock.now())
        self._host = Host(
            store=self._store,
            clock=self._clock,
            tenant=self._tenant,
            me=me,
            lease_ms=self._lease_ms,
            keeper=Keeper(self._store, me.worker, self._lease_ms),
            threads=ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="remit-step"),
        )
        return self

    async def close(self) -> None:
        """Close the store. Runs under way are given up: others take them over, at the latest when a lease ran out."""
        host, self._host = self._host, None
        if host is not None:
            try:
                await asyncio.get_running_loop().run_in_executor(None, host.keeper.stop)
                host.threads.shutdown(wait=False)
                await host.store.close()
            finally:
                retire(host.worker)

    async def __aenter__(self) -> Runtime:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> Runtime:
        refuse_inside_loop("with remit.open(...)", "async with remit.open(...) as rt:")
        self._portal = Portal()
        try:
            self._portal.call(self.open())
        except BaseException:
            self._portal.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        portal, self._portal = self._portal, None
        if portal is not None:
            try:
                portal.call(self.close())
            finally:
                portal.close()

    def _ready(self) -> Host:
        if self._host is None:
            raise StoreClosed(
                "The runtime is not open; nothing was done.", hint="Use it inside `async with remit.open(...)`."
            )
        return self._host

    def _call(self, name: str, work: Coroutine[Any, Any, T]) -> T:
        try:
            refuse_inside_loop(f"rt.{name}_sync(...)", f"await rt.{name}(...)")
            if self._portal is None:
                raise StoreClosed(
                    "The runtime was not opened for plain code; nothing was done.",
                    code="sync.not_open",
                    hint="Open it with `with remit.open(...) as rt:`.",
                )
        except BaseException:
            work.close()
            raise
        return self._portal.call(work)

    run_sync = _twin(run)
    start_sync = _twin(start)
    resume_sync = _twin(resume)
    wait_sync = _twin(wait)
    show_sync = _twin(show)
    read_sync = _twin(read)
    list_sync = _twin(list)
    verify_sync = _twin(verify)
    check_sync = _twin(check)
    explain_sync = _twin(explain)
    why_sync = _twin(why)
    judge_sync = _twin(judge)
    inbox_sync = _twin(inbox)
    ask_sync = _twin(ask)
    decide_sync = _twin(decide)
    cancel_sync = _twin(cancel)
    effects_sync = _twin(effects)
    resolve_sync = _twin(resolve)
    grant_sync = _twin(grant)
    revoke_sync = _twin(revoke)
    disable_sync = _twin(disable)
    enable_sync = _twin(enable)
    link_sync = _twin(link)
    set_policy_sync = _twin(set_policy)
    authority_sync = _twin(authority)
    lift_sync = _twin(lift)
    doctor_sync = _twin(doctor)


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


def _order(flow: Flow[Any], given: Any, id: str, by: str | None, behalf: str | None) -> Order:
    if not isinstance(flow, Flow):
        raise Refused(
            f"{flow!r} is not a flow; nothing was done.", code="flow.unknown", hint="Declare it with `@remit.flow`."
        )
    id = check_id(id, "run id")
    executor = check_principal(by, "executor") if by is not None else LOCAL
    if behalf is not None:
        behalf = check_principal(behalf, "principal on whose behalf it acts")
    if not flow.takes_input and given is not None:
        raise Refused(f"Flow {flow.name!r} takes no input; nothing was done.", code="input.unexpected")
    try:
        data, _ = flow.input_codec.write(given, where=f"the input of run {id!r}")
    except ValueRefused as exc:
        if given is not None:
            raise
        raise Refused(
            f"Flow {flow.name!r} takes an input and was given none; nothing was done.",
            code="input.missing",
            hint="Give it: `rt.run(flow, input, id=...)`.",
        ) from exc
    return Order(id, executor, behalf, data)


_CHOICE_HINT = "Answer `approve` or `deny`."
