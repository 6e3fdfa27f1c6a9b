"""Opening and closing are seen through: whoever stops waiting for them leaves no store open, and no file locked."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import remit
from remit.errors import StoreRefused
from remit.faces import opened
from remit.store.file import FileStore


class Held(FileStore):
    """A file whose opening, or closing, is under way when `is_held` is set, and ends when it is let go."""

    def __init__(self, path: Path, *, when: str) -> None:
        super().__init__(path)
        self.when, self.is_held, self.let_go = when, asyncio.Event(), asyncio.Event()

    async def open(self) -> None:
        await super().open()
        await self._hold("open")

    async def close(self) -> None:
        await self._hold("close")
        await super().close()

    async def _hold(self, what: str) -> None:
        if what == self.when:
            self.when = ""
            self.is_held.set()
            await self.let_go.wait()


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("when", ["open", "close"])
async def test_who_is_cancelled_while_a_store_opens_or_closes_leaves_it_closed(
    when: str, times: int, tmp_path: Path
):  # proves: RUN-5, OWN-1
    store = Held(tmp_path / "state.json", when=when)

    async def use() -> None:
        async with remit.open(store):
            pass

    using = asyncio.create_task(use())
    await store.is_held.wait()
    for _ in range(times):
        using.cancel()
        await asyncio.sleep(0)
    store.let_go.set()
    await asyncio.wait([using])

    assert using.cancelled()
    async with remit.open(f"file:{tmp_path / 'state.json'}") as rt:
        assert await rt.list() == []


async def test_a_runtime_that_can_not_be_enlisted_leaves_its_store_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):  # proves: RUN-5
    def refused(started_at: int) -> None:
        raise StoreRefused("No lock file; nothing was opened.", code="lock.folder")

    url = f"file:{tmp_path / 'state.json'}"
    with monkeypatch.context() as patched, pytest.raises(StoreRefused, match="No lock file"):
        patched.setattr(opened, "enlist", refused)
        async with remit.open(url):
            pass
    async with remit.open(url) as rt:
        assert await rt.list() == []


async def test_a_file_that_was_opened_for_somebody_who_stopped_waiting_is_let_go(tmp_path: Path):  # proves: RUN-5
    class Slow(FileStore):
        def _open(self) -> None:
            super()._open()
            loop.call_soon_threadsafe(has_opened.set)
            assert go.wait(30)

    loop, has_opened, go = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    opening = asyncio.create_task(Slow(tmp_path / "state.json").open())
    await has_opened.wait()
    opening.cancel()
    go.set()
    await asyncio.wait([opening])

    assert opening.cancelled()
    async with remit.open(f"file:{tmp_path / 'state.json'}") as rt:
        assert await rt.list() == []
