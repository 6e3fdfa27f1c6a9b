"""Keepers: objects with `load` and `save`, as users write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


class Plain:
    """Keeps JSON text in a dict. `saving` is called with each mapping before it is kept, and may raise."""

    def __init__(self) -> None:
        self.saved: dict[str, str] = {}
        self.loads: list[str] = []
        self.saving: Callable[[dict[str, Any]], None] = lambda mapping: None

    def load(self, run_id: str) -> Any:
        self.loads.append(run_id)
        text = self.saved.get(run_id)
        return None if text is None else json.loads(text)

    def save(self, mapping: dict[str, Any]) -> None:
        self.saving(mapping)
        self.saved[mapping["run"]] = json.dumps(mapping)


class Async:
    """The same with async methods."""

    def __init__(self) -> None:
        self.plain = Plain()

    async def load(self, run_id: str) -> Any:
        return self.plain.load(run_id)

    async def save(self, mapping: dict[str, Any]) -> None:
        self.plain.save(mapping)
