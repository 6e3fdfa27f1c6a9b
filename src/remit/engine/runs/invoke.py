"""Invoking a flow: on the loop when it is async, in a thread of its own when it is not."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

from remit.engine.declared.flow import Flow
from remit.engine.declared.place import begin_work, end_work, leave
from remit.engine.runs.plain import Waits
from remit.engine.runs.run import Run, enter_flow
from remit.engine.turn import aside, caught, race
from remit.engine.turn.exits import EXITS, failure_of


def main_task(flow: Flow[Any]) -> asyncio.Task[Any] | None:
    """The task in which `call_flow`, called from here, runs the flow; None for a plain flow, which has a thread."""
    return asyncio.current_task() if flow.is_async else None


async def call_flow(flow: Flow[Any], run: Run, given: Any) -> Any:
    """The user's flow function: on the loop when it is async, in a thread of its own when it is not."""
    arguments = (given,) if flow.takes_input else ()
    here, work = enter_flow(run), begin_work(run.full_name)
    # Whoever calls may run in a context that was copied from another flow's: nothing of that is so of this one.
    given_before, raced_before, was_aside = caught.enter(), race.begin_flow(), aside.begin_flow()
    try:
        if flow.is_async:
            try:
                return await flow.fn(run, *arguments)
            except EXITS as exc:
                raise failure_of(exc) from exc
        waits = Waits()

        def plain(loop: asyncio.AbstractEventLoop) -> Any:
            caught.enter()  # on its thread, whose context ends with it
            return flow.fn(waits.begin(run, loop), *arguments)

        try:
            return await _in_own_thread(plain, flow.name)
        except asyncio.CancelledError:
            waits.cancel()  # nobody is left to hear of them, as where an async flow is cancelled
            raise
    finally:
        aside.end_flow(was_aside)
        race.end_flow(raced_before)
        caught.leave(given_before)
        end_work(work)
        leave(here)


async def _in_own_thread(function: Callable[[asyncio.AbstractEventLoop], Any], name: str) -> Any:
    """A pool would let a flow that waits for its steps starve them of threads."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(function, loop)
        except BaseException as exc:
            error = _settled(exc)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name=f"remit-flow-{name}", daemon=True).start()
    return await done


def _settled(exc: BaseException) -> BaseException:
    """What a flow raised, as a future can carry it that others of its loop live on with."""
    error = exc
    if isinstance(exc, StopIteration):
        error = RuntimeError("it raised StopIteration")
    elif isinstance(exc, EXITS):
        error = failure_of(exc)
    if error is not exc:
        error.__cause__ = exc
    return error
