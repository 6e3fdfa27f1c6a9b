"""A store that is made is told of: from another folder, or without REMIT_STORE, every id begins afresh in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import remit
from tests.support.command import Desk

RUN = ("run", "flows:good", "--id", "r", "--input", "1")


def shell(desk: Desk, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command as a crontab runs it: with the variables that are named here, and no REMIT_STORE beside them."""
    env = {name: value for name, value in os.environ.items() if name != "REMIT_STORE"} | variables
    env["PYTHONPATH"] = str(Path(remit.__file__).parents[1])
    command = [sys.executable, "-m", "remit.faces.cli.main", *words]
    return subprocess.run(command, cwd=desk.folder, env=env, capture_output=True, encoding="utf-8", check=False)


@pytest.mark.parametrize("as_json", [(), ("--json",)], ids=["text", "json"])
def test_a_command_that_makes_a_store_says_so_and_where(desk: Desk, as_json: tuple[str, ...]):  # proves: RUN-5
    first = shell(desk, *RUN, *as_json, REMIT_STORE="sqlite:///runs.db")
    assert first.stderr == f"note: made a new store at {desk.database.resolve()}\n"
    assert shell(desk, *RUN, *as_json, REMIT_STORE="sqlite:///runs.db").stderr == ""

    unset = shell(desk, *RUN, *as_json)
    assert unset.stderr == f"note: made a new store at {(desk.folder / 'remit.db').resolve()}\n"
    assert unset.returncode == 0 and (not as_json or json.loads(unset.stdout)["status"] == "completed")
    assert desk.ran() == ["0", "0"], "which is why it is told"


@pytest.mark.parametrize("words", [("grant", "user:kim", "clerk", "--by", "user:ops"), RUN], ids=["grant", "run"])
def test_each_command_that_may_make_a_store_says_so_on_each_store(
    desk: Desk, words: tuple[str, ...], postgres_database: str, request: pytest.FixtureRequest
):  # proves: RUN-5
    places: dict[str, Callable[[str], bool]] = {
        f"sqlite:///{desk.folder / 'a.db'}": lambda said: said == str(desk.folder / "a.db"),
        "file:state.json": lambda said: said == str(desk.folder.resolve() / "state.json"),
        postgres_database: lambda said: said.startswith("postgresql://"),
    }
    for url, is_named in places.items():
        first, *more = shell(desk, *words, "--store", url).stderr.splitlines()
        assert first.startswith("note: made a new store at ") and more == []
        assert is_named(first.removeprefix("note: made a new store at ")), first
        assert shell(desk, "list", "--store", url).stderr == ""
        assert "note:" not in shell(desk, *words, "--store", url).stderr
    assert shell(desk, *RUN, "--store", "memory:").stderr == "", "nothing is there before, or left after"


def test_a_store_that_could_not_be_made_is_not_told_of(desk: Desk):
    told = shell(desk, *RUN, "--store", "sqlite:///nowhere/runs.db")
    assert told.returncode == 6 and "note:" not in told.stderr
    assert "note:" not in shell(desk, "list").stderr
