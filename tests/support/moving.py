"""Moving: a store that lets something happen while what rests on the authority is on its way, so that it is late."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from remit.store.protocol import Store
from remit.store.units import Unit


class Moving:
    """meanwhile: happens once, before the next unit that rests on the authority is written."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def append(self, unit: Unit) -> None:
        meanwhile = self.meanwhile
        if unit.fence is not None and meanwhile is not None:
            self.meanwhile = None
            await meanwhile()
        await self._inner.append(unit)
