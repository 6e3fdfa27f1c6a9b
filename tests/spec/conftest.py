"""The engine's tests run on every store, because a promise that holds on one only is no promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import remit
from remit.store.memory import MemoryStore

KINDS = ("memory", "file", "sqlite", "postgres")


@dataclass(frozen=True)
class Storage:
    """A place that outlives a runtime: open it, close it, open it again."""

    kind: str
    make: Callable[[Any], Any]  # a clock -> URL or store

    def open(self, **options: Any) -> remit.Runtime:
        return remit.open(self.make(options.get("clock")), **options)


def storage_of(kind: str, folder: Path, postgres: Callable[[], str]) -> Storage:
    if kind == "memory":
        kept = MemoryStore()
        return Storage(kind, lambda clock: _with_clock(kept, clock))
    urls = {"file": f"file:{folder / 'state.json'}", "sqlite": f"sqlite:///{folder / 'runs.db'}"}
    url = urls.get(kind) or postgres()
    return Storage(kind, lambda _: url)


def _with_clock(store: MemoryStore, clock: Any) -> MemoryStore:
    if clock is not None:
        store._clock = clock
    return store


@pytest.fixture(params=KINDS)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return storage_of(request.param, tmp_path, lambda: request.getfixturevalue("postgres_database"))


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return storage_of(request.param, tmp_path, lambda: request.getfixturevalue("postgres_database"))


@pytest.fixture(params=["file", "sqlite", "postgres"])
def lasting(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return storage_of(request.param, tmp_path, lambda: request.getfixturevalue("postgres_database"))
