"""The file store keeps the contract, in one process at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from remit.store.file import FileStore
from tests.contract.boundary import LastingBoundary
from tests.contract.lasting import LastingContract
from tests.contract.suite import Make
from tests.contract.transacting import RefusedTransact


class TestFileStore(LastingContract, LastingBoundary, RefusedTransact):
    """One document; a second store of it is refused while the first is open."""

    @pytest.fixture
    def make(self, tmp_path: Path) -> Make:
        return lambda clock: FileStore(tmp_path / "state.json", clock=clock)
