"""A process that is killed while it rewrites a `file:` store leaves the old document or the new one, whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from remit.store.file import FileStore
from tests.crash.file_victim import PLACES
from tests.support.journal import TENANT, Hand, read_view

ROOT = Path(__file__).resolve().parents[2]
RENAMED = ("after rename", "after folder sync")


@pytest.mark.parametrize("place", PLACES)
async def test_a_document_is_whole_wherever_its_writer_dies(tmp_path, place):  # proves: RUN-3, RUN-5
    path = tmp_path / "state.json"
    command = [sys.executable, "-m", "tests.crash.file_victim", str(path), place]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    died = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert died.stdout.split() == ["0", "1", "2"]

    store = FileStore(path)
    await store.open()
    row = await store.read_row(TENANT, "po-1")
    assert row is not None
    view = await read_view(store, row.run_key)
    promised = ["step-0", "step-1", "step-2"]
    assert list(view.calls) == ([*promised, "step-3"] if place in RENAMED else promised)
    await store.append(Hand(store, row).step(name="next"))
    await store.close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["state.json", "state.json.lock"]
