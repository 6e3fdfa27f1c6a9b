"""Peeks: all who ask at once where a journal ends share one question.

Every turn of a run asks. A thousand turns that begin together would stand in line for the
few connections of the pool, and would no longer share their commits. Who asks while a
question is under way waits for the next one: an answer is never older than its question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from remit.store.rows import Peek


class Peeks:
    """Belongs to one event loop. read: asks the database once for all of these run keys."""

    def __init__(self, read: Callable[[list[int]], Awaitable[dict[int, Peek]]]) -> None:
        self._read = read
        self._waiting: dict[int, asyncio.Future[Peek | None]] = {}  # for the question that was not sent yet
        self._reading: asyncio.Task[None] | None = None

    async def peek(self, run_key: int) -> Peek | None:
        """Raises what `read` raises."""
        loop = asyncio.get_running_loop()
        future = self._waiting.get(run_key)
        if future is None:
            future = self._waiting[run_key] = loop.create_future()
        if self._reading is None:
            self._reading = loop.create_task(self._read_all())
        return await asyncio.shield(future)  # one who goes away takes the answer from nobody

    async def _read_all(self) -> None:
        try:
            while self._waiting:
                turn, self._waiting = self._waiting, {}
                try:
                    found = await self._read(sorted(turn))
                except Exception as exc:
                    for future in turn.values():
                        future.set_exception(exc)
                except BaseException:
                    for future in turn.values():
                        future.cancel()
                    raise
                else:
                    for run_key, future in turn.items():
                        future.set_result(found.get(run_key))
        finally:
            self._reading = None
