"""Attacks, one test each, with the exact answer."""

import pytest

# Before they are imported, so that a failed assertion in them shows both sides.
pytest.register_assert_rewrite("tests.attack.siege")
