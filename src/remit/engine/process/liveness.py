"""Liveness: on one machine, death can be proven at once.

Each process that runs attempts holds a lock on a file of its own. The kernel drops that
lock when the process dies, however it dies, and keeps it while the process is stopped or
busy. A lock that is free, under the same boot and in the same process-id namespace, is
therefore proof; anything else is "unknown", and the lease must run out.

Where that file is follows from the worker's name, which an attempt's first entry has under the
chain, and from this process's own folder: no row of a database says where to look.

Within one process a worker is a runtime. One that was closed is dead, and its runs may be taken
over, as soon as its calls have returned: a plain function goes on in its thread, whoever stopped
waiting for it. What they sent is another matter. A function may have handed it to a client's own
thread, of which nobody hears when it is over; so from when on it can only land, and not be sent any
more, is known of no worker of this process (`has`) before the process has ended.

A forked child does not share the lock, so one that outlives its parent does not keep it alive.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

from remit import locks
from remit.errors import StoreRefused
from remit.store.rows import WorkerRow

_KEPT_SECONDS = 7 * 86_400
_PRUNED_EVERY_SECONDS = 3_600
_PRUNED = "pruned"  # a file whose time is when old locks were looked for last
_WORKER = re.compile(r"([0-9]+-[0-9a-f]{12})-[0-9]+")  # the name of its lock, and which of the process's it is


class ProcessLock:
    """This process's own lock file; one per process, made when first needed."""

    _own: ProcessLock | None = None
    _making = threading.Lock()

    def __init__(self) -> None:
        folder = Path(tempfile.gettempdir()) / f"remit-{os.getuid()}"
        _check_folder(folder)
        _prune(folder)
        self.pid = os.getpid()
        self.workers: set[str] = set()  # of the runtimes that are open, or whose calls have not all returned
        self.outstanding: dict[str, int] = {}  # keys whose call has not returned, as often as is noted
        self.answered: dict[str, set[int]] = {}  # by key in doubt, attempts of which nothing may land any more
        self.returned: dict[str, int] = {}  # by key, when a call came back that nobody waited for: microseconds UTC
        self._outlived: dict[str, Callable[[], int]] = {}  # keys of such calls, until they come back; what tells time
        self._sent: dict[str, int] = {}  # the same, by the worker that calls
        self._leaving: set[str] = set()  # workers that retire with the last of their calls
        self._noting = threading.Lock()
        self.path = folder / f"{self.pid}-{secrets.token_hex(6)}.lock"
        self._numbers = count(1)
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        locks.hold(self._file)

    @classmethod
    def own(cls) -> ProcessLock:
        """The lock of the calling process; a forked child gets one of its own."""
        # Where two threads each made one, the one that was replaced would be let go, and its living workers look dead.
        with cls._making:
            if cls._own is None or cls._own.pid != os.getpid():
                cls._own = cls()
            return cls._own

    def enlist(self) -> str:
        """The name of a new worker of this process."""
        with self._noting:
            worker = f"{self.path.stem}-{next(self._numbers)}"
            self.workers.add(worker)
        return worker

    def has(self, worker: str) -> bool:
        """Whether a worker is, or was, one of this process, which lives: what it left at work may still send."""
        return worker.rpartition("-")[0] == self.path.stem

    def send(self, worker: str, key: str) -> Callable[[], None] | None:
        """Note that a call begins; what says that it returned. None where the worker retired: nothing may begin."""
        with self._noting:
            if worker not in self.workers or worker in self._leaving:
                return None
            self.outstanding[key] = self.outstanding.get(key, 0) + 1
            self._sent[worker] = self._sent.get(worker, 0) + 1
        return partial(self._returned, worker, key)

    def outlive(self, key: str, now: Callable[[], int]) -> None:
        """Nobody waits for a call under this key any more, or none who may still write what becomes of it."""
        with self._noting:
            if key in self.outstanding:
                self._outlived[key] = now
            else:
                self.returned[key] = now()

    def answer(self, key: str, attempt: int) -> None:
        """Note that nothing comes of what this attempt sent under a key, which is in doubt for what was sent before."""
        with self._noting:
            self.answered.setdefault(key, set()).add(attempt)

    def forget(self, key: str) -> None:
        """Forget what was noted of a call that is settled."""
        with self._noting:
            self.answered.pop(key, None)
            self.returned.pop(key, None)

    def may_begin(self, worker: str) -> bool:
        """Whether this worker's runtime is open."""
        with self._noting:
            return worker in self.workers and worker not in self._leaving

    def retire(self, worker: str) -> None:
        """This worker begins nothing any more. It is dead once all that it sent has returned."""
        with self._noting:
            if worker in self._sent:
                self._leaving.add(worker)
            else:
                self.workers.discard(worker)

    def _returned(self, worker: str, key: str) -> None:
        with self._noting:
            _less(self.outstanding, key)
            _less(self._sent, worker)
            if key not in self.outstanding and key in self._outlived:
                self.returned[key] = self._outlived.pop(key)()
            if worker in self._leaving and worker not in self._sent:
                self._leaving.discard(worker)
                self.workers.discard(worker)


def _less(noted: dict[str, int], what: str) -> None:
    if left := noted[what] - 1:  # never away in between: others look without waiting
        noted[what] = left
    else:
        del noted[what]


def enlist(started_at: int) -> WorkerRow:
    """A new worker of this process. Several runtimes of one process share its lock."""
    return WorkerRow(ProcessLock.own().enlist(), _host(), started_at)


def retire(worker: str) -> None:
    """The runtime of this worker was closed: what it still holds may be taken over once all its calls returned."""
    ProcessLock.own().retire(worker)


def is_proven_dead(row: WorkerRow) -> bool:
    """Whether a worker is gone for certain. False says "alive or unknown"."""
    own = ProcessLock.own()
    if row.host != _host() or not row.host:
        return False
    name = _WORKER.fullmatch(row.worker)
    if name is None:
        return False
    if name[1] == own.path.stem:
        return row.worker not in own.workers
    return _is_free(own.path.with_name(f"{name[1]}.lock"))


def _check_folder(folder: Path) -> None:
    """Make the folder of locks, or see that it is ours alone: who can replace a lock file can forge a death."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as exc:
        raise StoreRefused(
            f"{folder} can't be used for lock files: {exc}; nothing was opened.", code="lock.folder"
        ) from exc
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise StoreRefused(
            f"{folder}, where this process would keep its lock file, is open to others; nothing was opened.",
            code="lock.folder",
            hint="Remove that folder, or let TMPDIR name one that only you can write.",
        )


def _prune(folder: Path) -> None:
    """Remove the lock files of processes that died long ago; every lease they held has run out.

    A file stays when its process ends, since one that is gone proves nothing. So there may be very many, and they are
    looked at once an hour, whoever starts.
    """
    if not _is_pruning_due(folder / _PRUNED):
        return
    for path in folder.glob("*.lock"):
        try:
            if time.time() - path.stat().st_mtime > _KEPT_SECONDS and _is_free(path):
                path.unlink()
        except FileNotFoundError:
            continue  # another process prunes as well


def _is_pruning_due(marker: Path) -> bool:
    """Whether it was not done within the hour; noted before it is done, so that of many who start few do it.

    A process that dies right after the note leaves it to whoever starts an hour later. A time in the future is one of
    a clock that was set back since, and no reason to wait.
    """
    now_ns = time.time_ns()
    try:
        if 0 <= now_ns - marker.stat().st_mtime_ns < _PRUNED_EVERY_SECONDS * 1_000_000_000:
            return False
    except OSError:
        pass  # nobody did it yet
    try:
        file = os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.utime(file, ns=(now_ns, now_ns))
        finally:
            os.close(file)
    except OSError:
        pass  # on a full disk nothing can be noted, and what is removed makes room
    return True


def _is_free(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            return not locks.is_held(file.fileno())
    except OSError:
        return False  # the file is gone, or not ours to read: no proof


def place() -> str:
    """This process as people of another one find it."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def place_of(worker: str, host: str) -> str:
    """A worker's process as people find it. host: as of its row, "" where nobody knows.

    The number alone names it only where this process is; of any other place no more is known than which it is not.
    """
    ours, here, pid = _host(), socket.gethostname(), worker.partition("-")[0]
    if host == ours != "":
        return f"process {pid} on {here}"
    where = "a machine that nobody can tell"
    if boot_of(host) == boot_of(ours) != "":
        where = f"another container on the machine of {here}"
    elif host and ours:
        where = f"another machine, or of {here} before its last start"
    return f"process {pid} (worker {worker}) of {where}"


def boot_of(host: str) -> str:
    """Which boot of which machine it is: containers on it have a process-id namespace each, and its one uptime."""
    return host.partition("/")[0]


def _host() -> str:
    """Boot id and process-id namespace; "" where the system does not tell, and nothing is ever proven."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""
