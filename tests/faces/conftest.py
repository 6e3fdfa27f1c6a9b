"""What the tests of the faces share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
