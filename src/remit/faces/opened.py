"""Opened: a store that is open for one event loop, and the worker that this process is.

    async with runtime        the store belongs to the running loop
    with runtime              a loop of its own, in a thread of its own, for plain code

Whoever leaves gives up what is under way: others take it over. Opening and closing are seen through, whoever
stops waiting: a store that was left open in between would be open for good, and its file locked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from inspect import signature
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from remit.clock import Clock, SystemClock
from remit.engine.declared.place import check_not_in_transaction
from remit.engine.process.host import Host
from remit.engine.process.hours import Hours
from remit.engine.process.lease import Keeper
from remit.engine.process.liveness import ProcessLock, enlist, retire
from remit.engine.turn.closing import until_done
from remit.errors import Refused, StoreClosed
from remit.faces.portal import Portal, refuse_inside_loop
from remit.facts.names import check_id
from remit.store.protocol import LEASE_MS_MAX, LEASE_MS_MIN, Store

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound="Opened")

THREADS_MAX = 64


def twin(
    method: Callable[Concatenate[R, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[R, P], T]:
    """The synchronous twin of an asynchronous method: the same call, waited for in the portal's loop."""

    def call(self: R, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._call(method.__name__, method(self, *args, **kwargs))

    call.__signature__ = signature(method)  # type: ignore[attr-defined]
    call.__name__, call.__doc__ = f"{method.__name__}_sync", f"`{method.__name__}` for plain code. {method.__doc__}"
    return call


class Opened:
    """What has to be open before anything is asked of it."""

    def __init__(self, store: Store, *, tenant: str, clock: Clock | None, lease_ms: int) -> None:
        if not LEASE_MS_MIN <= lease_ms <= LEASE_MS_MAX:
            raise Refused(f"A lease lasts {LEASE_MS_MIN} to {LEASE_MS_MAX} ms, not {lease_ms}.", code="lease.length")
        self._store, self._clock, self._is_given = store, clock or SystemClock(), clock is not None
        self._tenant, self._lease_ms = check_id(tenant, "tenant"), lease_ms
        self._host: Host | None = None
        self._portal: Portal | None = None

    async def open(self) -> Self:
        """Open the store for the running event loop. `async with` does this. Raises StoreRefused, StoreUnavailable."""
        if self._host is not None:
            hint = "Use the one that is open, or open another runtime: each is for one loop at a time."
            raise StoreClosed("The runtime is open already; nothing was done.", code="store.open", hint=hint)
        try:
            await _seen_through(self._store.open())
            self._host = self._enlisted()
        except BaseException:
            await _seen_through(self._store.close())
            raise
        return self

    def _enlisted(self) -> Host:
        me = enlist(self._clock.now())
        return Host(
            store=self._store,
            clock=Hours(self._clock, is_given=self._is_given or self._store.ledger.clock == "given"),
            tenant=self._tenant,
            me=me,
            lock=ProcessLock.own(),
            lease_ms=self._lease_ms,
            keeper=Keeper(self._store, me.worker, self._lease_ms),
            threads=ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="remit-step"),
        )

    async def close(self) -> None:
        """Close the store. Runs under way are given up: others take them over, at the latest when a lease ran out."""
        host, self._host = self._host, None
        if host is not None:
            await _seen_through(_close(host))

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> Self:
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
        check_not_in_transaction()
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


async def _close(host: Host) -> None:
    for outlasting in list(host.outlasting.values()):
        outlasting.cancel()  # what it waits for can't be written any more: the lease runs out
    try:
        await asyncio.get_running_loop().run_in_executor(None, host.keeper.stop)
        host.threads.shutdown(wait=False)
    finally:
        try:
            await host.store.close()
        finally:
            retire(host.worker)


async def _seen_through(work: Coroutine[Any, Any, None]) -> None:
    """Wait for it in a task of its own, which ends also where the caller is cancelled, who is told so after that."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await until_done(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error from None
        raise
