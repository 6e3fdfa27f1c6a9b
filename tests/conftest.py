"""Fixtures that every room's tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack

import hypothesis
import pytest

from tests.support.clock import MovedClock
from tests.support.postgres import FROM_OUTSIDE, drop_database, fresh_database, in_memory, postgres_for_tests

# Before any room imports it, so that a failed assertion in it shows both sides.
pytest.register_assert_rewrite("tests.support.journal")

# No deadline: the machines that run this are small and shared, and a slow example is not a wrong one.
hypothesis.settings.register_profile("remit", deadline=None, print_blob=True)
hypothesis.settings.load_profile("remit")

# Whoever starts the tests in the background of a script hands on a Ctrl-C that is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Where several processes play the tests, whoever starts them starts their server, and stops it after them.

    Such a process has seconds to end in when it is interrupted, and a server outlives one that needs longer.
    """
    is_their_start = config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput")
    if is_their_start:
        server = ExitStack()
        config.add_cleanup(server.close)
        os.environ[FROM_OUTSIDE] = server.enter_context(postgres_for_tests(in_memory()))


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """URL of a real Postgres that lasts for the session; give it to `fresh_database`."""
    with postgres_for_tests(in_memory()) as url:
        yield url


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[str]:
    """URL of an empty database of this test's own, dropped afterwards."""
    url = fresh_database(postgres_url)
    yield url
    drop_database(url)


@pytest.fixture
def clock() -> MovedClock:
    """A clock that stands still until the test moves it."""
    return MovedClock()
