"""File: one JSON document, for small and visible work in one process.

Everything is in the document, and it is written anew, synced and renamed before an append
returns; `document.py` says what it looks like, `disk.py` how it gets to the disk.

Where it is weaker than `sqlite:`: one process at a time (a second one is refused), and each
append writes the whole document, so a step costs more the longer all its runs are (RUN-13
does not hold), no peer takes over within a second (RUN-16), and an application has no tables
beside it to be written in the same commit (FX-6). Leases are kept in
memory between appends, because nobody else could take a run while the file is locked.
Where it is stronger than `memory:`: it survives its process, and anybody can read it.

Writing happens on a thread of its own. What is drafted there is believed only once it is on
the disk: after a full disk the store says what the file says.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from remit.clock import Clock
from remit.errors import StoreClosed, StoreRefused, StoreUnavailable
from remit.store.batch import Answers
from remit.store.file.disk import Disk, file_path
from remit.store.file.document import FORM, DocumentWriter, PlainLedger, read_document
from remit.store.memory import MemoryStore, draft_batch
from remit.store.rows import Checkup, Ledger
from remit.store.state import Draft, State
from remit.store.units import Opening, Renewal, Unit

T = TypeVar("T")


class FileStore(MemoryStore):
    """A store in one JSON document; see the protocol. clock: replaces this machine's clock, and the ledger says so."""

    def __init__(self, path: str | os.PathLike[str], *, clock: Clock | None = None) -> None:
        super().__init__(clock=clock)
        self.path = file_path(path)
        self.url = f"file:{self.path}"
        self._disk: Disk
        self._document: DocumentWriter
        self._thread: ThreadPoolExecutor

    async def exists(self) -> bool:
        return await asyncio.to_thread(os.path.exists, self.path)

    async def open(self) -> None:
        """Raises StoreRefused: store.missing, .locked, .broken, .newer, .unwritable."""
        if self._is_open:
            return
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="remit-file")
        opening = self._thread.submit(self._open)
        try:
            await asyncio.wrap_future(opening)
        except BaseException:
            self._thread.shutdown(wait=True)
            if not opening.cancelled() and opening.exception() is None:
                self._disk.release()  # it was opened for somebody who stopped waiting
            raise
        self._start(_FileCommitter(self))

    async def close(self) -> None:
        if not self._is_open:
            return
        try:
            await super().close()
        finally:
            if os.getpid() == self._pid:
                self._thread.shutdown(wait=True)
                self._disk.release()

    def _findings(self) -> list[Checkup]:
        is_ours = self._disk.is_ours()
        seen = (
            f"{self._disk.path}, open in process {self._pid}" if is_ours else f"{self._disk.path} was changed or moved"
        )
        hint = "" if is_ours else "Put the file back while the program is stopped, and start it again."
        return [Checkup("file", is_ours, seen, hint)]

    async def _write(self, act: Callable[[Draft], T]) -> T:
        return await self._on_thread(lambda: self._write_down(act))

    async def _renew(self, worker: str, leases: Sequence[Renewal], lease_ms: int) -> dict[int, bytes]:
        # Not written down: after a crash the lease is at worst over sooner, and its holder is dead.
        self._check_process()
        return await self._on_thread(lambda: self.write_now(lambda draft: draft.renew(worker, leases, lease_ms)))

    def _read(self, read: Callable[[State], T]) -> T:
        self._check()
        self._disk.check()
        return super()._read(read)

    async def _on_thread(self, act: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, act)
        except RuntimeError as exc:
            if self._is_open:
                raise
            raise StoreClosed("Nothing was done: the store was closed meanwhile.") from exc

    def _write_down(self, act: Callable[[Draft], T]) -> T:
        """Run `act` alone, and believe what it drafted once it is on the disk. Only this thread changes the state."""
        draft = Draft(self._state, self._clock.now())
        answer = act(draft)
        if draft:
            self._disk.replace(self._document.write(self._state, draft))
            with self._lock:
                draft.merge()
        return answer

    def _open(self) -> None:
        disk = Disk(self.path)
        try:
            data = disk.read()
            if data is None:
                ledger, state = PlainLedger(secrets.token_hex(16), self._clock.now(), self._clock_word), State()
                form = 0
            else:
                ledger, state, form = read_document(data, disk.path)
            is_told = ledger.clock == "given" or self._clock_word == "database"
            if not is_told:
                ledger = PlainLedger(ledger.origin, ledger.made_at, "given")
            holders = {kept.row.worker for kept in state.runs.values()}
            state.workers = {name: row for name, row in state.workers.items() if name in holders}
            document = DocumentWriter(ledger)
            if form < FORM or not is_told:
                disk.replace(document.write(state, Draft(state, 0)))
        except BaseException as exc:
            disk.release()
            if isinstance(exc, StoreUnavailable):
                raise StoreRefused(exc.message, code="store.unwritable", hint="Let Remit write to its folder.") from exc
            raise
        self._disk, self._document, self._state = disk, document, state
        self._ledger = Ledger(ledger.origin, FORM, ledger.clock)


class _FileCommitter:
    """All that waits shares one rewrite. Never on the calling thread: a sync would hold up the loop."""

    inline_max = 0

    def __init__(self, store: FileStore) -> None:
        self._store = store

    async def commit(self, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        return await self._store._write(lambda draft: draft_batch(draft, units, openings))

    def commit_now(self, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        raise AssertionError("inline_max is 0")
