"""What every attack is tried on: each storage that outlives a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attack.siege import Siege
from tests.spec.conftest import Storage, storage_of


@pytest.fixture(params=["sqlite", "postgres", "file"])
def lasting(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return storage_of(request.param, tmp_path, lambda: request.getfixturevalue("postgres_database"))


@pytest.fixture
def siege(lasting: Storage) -> Siege:
    return Siege(lasting)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return storage_of(request.param, tmp_path, lambda: request.getfixturevalue("postgres_database"))


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Siege:
    """For attacks that are told one by one: all stores together would take minutes."""
    return Siege(storage_of("sqlite", tmp_path, lambda: ""))
