"""What every store's tests share."""

from __future__ import annotations

import pytest

# Before they are imported, so that a failed assertion in them shows both sides.
pytest.register_assert_rewrite(
    "tests.contract.suite", "tests.contract.lasting", "tests.contract.boundary", "tests.contract.transacting"
)
