"""The synchronous face: a thin door to an event loop in a thread of its own.

I/O is written once, asynchronous. Plain code calls in through a portal, which runs a loop
in a background thread, and waits for the answer.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from typing import Any, Generic, TypeVar

from remit.errors import FORKED_HINT, StoreClosed, SyncInLoop

T = TypeVar("T")

_CLOSED_HINT = "What was saved is kept: open the runtime again and call again with the same id."


class Portal:
    """An event loop in a thread, for as long as it is open."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.loop = self._runner.get_loop()
        self._is_closing, self._pid = False, os.getpid()
        self._thread = threading.Thread(target=self._serve, name="remit-loop", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the portal's loop and wait for it.

        An interrupt of the caller cancels the work, and is raised when that has ended: a payment that is under way is
        seen through. Who interrupts again does not wait: it goes on behind, while the loop does.
        """
        if os.getpid() != self._pid:
            work.close()  # its loop's thread stayed with the parent: waiting for it would never end
            raise StoreClosed(
                "Nothing was done: the runtime was opened before a fork.", code="store.forked", hint=FORKED_HINT
            )
        called = _Called(self.loop, work)
        try:
            return called.answer.result()
        except CancelledError as exc:
            if not self._is_closing:
                raise
            raise StoreClosed("The runtime was closed while this call was under way.", hint=_CLOSED_HINT) from exc
        except BaseException:
            called.stop()
            raise

    def close(self) -> None:
        """End the loop. What flows left behind in it is cancelled first, as `asyncio.run` does."""
        self._is_closing = True
        if os.getpid() != self._pid:
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def _serve(self) -> None:
        with self._runner:
            while not self._is_closing:
                # What exits in a task is handed to who waits for it; the loop itself goes on for everybody else.
                with suppress(SystemExit, KeyboardInterrupt):
                    self.loop.run_forever()


class _Called(Generic[T]):
    """One call in the loop. answer: what came of it, when it has ended and not before."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> None:
        self.answer: Future[T] = Future()
        self._loop, self._work = loop, work
        self._task: asyncio.Task[T] | None = None
        loop.call_soon_threadsafe(self._begin)

    def stop(self) -> None:
        """Cancel it and wait until it has ended, from the thread that called. Interrupted again, it goes on behind."""
        if not self.answer.done():
            self._loop.call_soon_threadsafe(self._cancel)
            wait([self.answer])

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(self._tell)

    def _cancel(self) -> None:
        assert self._task is not None, "the loop does one after the other"
        self._task.cancel()

    def _tell(self, over: asyncio.Task[T]) -> None:
        if over.cancelled():
            self.answer.cancel()
            self.answer.set_running_or_notify_cancel()  # or nobody who waits for it would hear
        elif (error := over.exception()) is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(over.result())


def refuse_inside_loop(name: str, twin: str) -> None:
    """Raises SyncInLoop where the calling thread runs an event loop, which the call would block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise SyncInLoop(
        f"`{name}` was called inside a running event loop, which it would block; nothing was done.",
        hint=f"Use the asynchronous twin instead: `{twin}`.",
    )
