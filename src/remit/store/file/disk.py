"""A file that one process writes, whole each time.

    state.json.lock   locked while the store is open; says which process has it
    state.json.tmp    the next document, until it is whole and on the disk
    state.json        always a whole document: the old one or the new one

A crash before the rename leaves the old document, and perhaps a .tmp that the next write
removes; a crash after it leaves the new one. The folder is synced as well, because a rename
that only the cache knows is none. A file that somebody else changed or moved meanwhile is
not overwritten.

The lock is the process's. Which stores it has open is a list beside it, for two of one process
are told apart by that.
"""

from __future__ import annotations

import os
import stat
import threading
from typing import NoReturn

from remit import locks
from remit.errors import CommitUnknown, Refused, StoreRefused, StoreUnavailable
from remit.store.room import ROOM_HINT, is_out_of_room

Signature = tuple[int, int, int, int]  # device, inode, time of change, size

_MODE_NEW = 0o600
_NEVER: Signature = (-1, -1, -1, -1)

_open_here: dict[str, int] = {}  # path -> process that has it open; a forked child's copy says nothing about the child
_open_lock = threading.Lock()


def file_path(given: str | os.PathLike[str]) -> str:
    """The absolute path. Raises Refused `url.refused`."""
    path = os.fspath(given)
    if not path or "\0" in path or (path.startswith("//") and not path.startswith("///")):
        raise Refused(
            f"{path!r} is not a place for a file; nothing was opened.",
            code="url.refused",
            hint="Write `file:state.json`, or `file:/var/lib/state.json` for an absolute path.",
        )
    return os.path.abspath(path.replace("///", "/", 1) if path.startswith("///") else path)


class Disk:
    """The file, held by this process. Symbolic links are followed once: the file itself is replaced, not the link."""

    def __init__(self, path: str) -> None:
        """Take the file.

        Raises StoreRefused: store.missing, .broken, .locked, .unwritable, .full; nothing is held then.
        """
        self.path = os.path.realpath(path)
        self._folder = os.path.dirname(self.path)
        self._seen: Signature | None = None
        self._guard = threading.Lock()
        _check_place(self.path, self._folder)
        self._lock_file = _take(self.path)

    def read(self) -> bytes | None:
        """The document; None where there is none yet. Raises StoreRefused."""
        try:
            with open(self.path, "rb") as file:
                data = file.read()
                self._seen = _signature(os.fstat(file.fileno()))
                return data
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise StoreRefused(f"{self.path} can't be read: {exc.strerror}.", code="store.unwritable") from exc

    def is_ours(self) -> bool:
        """Whether the file is the one that was read or written last."""
        with self._guard:
            return self._seen == _signature_of(self.path)

    def check(self) -> None:
        """Raises StoreUnavailable `store.moved`."""
        if not self.is_ours():
            raise StoreUnavailable(
                f"Nothing was done: {self.path} was changed, moved or deleted by somebody else since it was opened.",
                code="store.moved",
                hint="Put the file back while the program is stopped, and start it again.",
            )

    def replace(self, data: bytes) -> None:
        """Write the whole document; durable on return.

        Raises StoreUnavailable: the old document stands; or CommitUnknown: the new one may not outlive a power cut.
        """
        self.check()
        temporary = self.path + ".tmp"
        try:
            signature = self._write_beside(temporary, data)
            with self._guard:
                os.rename(temporary, self.path)
                self._seen = signature
        except OSError as exc:
            _remove(temporary)
            if is_out_of_room(exc):
                what = f"Nothing was written: the disk of {self.path} is full."
                raise StoreUnavailable(what, code="store.full", hint=ROOM_HINT) from exc
            raise StoreUnavailable(f"Nothing was written: {self.path} can't be replaced: {exc.strerror}.") from exc
        try:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as exc:
            self._seen = _NEVER  # nothing more is written until it was read again
            raise CommitUnknown(f"{self.path} was replaced, and its folder can't be synced: {exc.strerror}.") from exc

    def release(self) -> None:
        """Let other processes have it. Not for a forked child: the lock is its parent's."""
        locks.let_go(self._lock_file)
        with _open_lock:
            _open_here.pop(self.path, None)

    def _write_beside(self, temporary: str, data: bytes) -> Signature:
        _remove(temporary)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, _MODE_NEW)
        try:
            _keep_owner_and_mode(self.path, descriptor)
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
            return _signature(os.fstat(descriptor))
        finally:
            os.close(descriptor)


def _check_place(path: str, folder: str) -> None:
    if not os.path.isdir(folder):
        raise StoreRefused(
            f"Nothing was made: the folder {folder} does not exist.",
            code="store.missing",
            hint="Make the folder first.",
        )
    if os.path.exists(path) and not os.path.isfile(path):
        raise StoreRefused(f"Nothing was changed: {path} is not a file.", code="store.broken", hint="Name a file.")


def _take(path: str) -> int:
    """A descriptor of the lock file, locked."""
    pid = os.getpid()
    with _open_lock:
        if _open_here.get(path) == pid:
            _refuse_locked(path, f"this process ({pid})")
        try:
            descriptor = os.open(path + ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE_NEW)
        except OSError as exc:
            raise _unlocked(path, exc) from exc
        try:
            locks.hold(descriptor)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % pid, 0)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            _refuse_locked(path, f"process {holder}")
        except OSError as exc:
            locks.let_go(descriptor)
            raise _unlocked(path, exc) from exc
        _open_here[path] = pid
        return descriptor


def _unlocked(path: str, exc: OSError) -> StoreRefused:
    is_full = is_out_of_room(exc)
    return StoreRefused(
        f"{path} can't be locked: {exc.strerror}.",
        code="store.full" if is_full else "store.unwritable",
        hint=ROOM_HINT if is_full else "Let Remit write to its folder.",
    )


def _refuse_locked(path: str, who: str) -> NoReturn:
    raise StoreRefused(
        f"Nothing was opened: {path} is open in {who}, and a `file:` store serves one process at a time.",
        code="store.locked",
        hint="Close it there first, or use `sqlite:`, which several processes can share.",
    )


def _keep_owner_and_mode(path: str, descriptor: int) -> None:
    try:
        old = os.stat(path)
    except FileNotFoundError:
        os.fchmod(descriptor, _MODE_NEW)
        return
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except PermissionError:
            pass  # only the superuser gives files away; it becomes ours
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # it is not there; what stands in the way otherwise is told by the write


def _signature(found: os.stat_result) -> Signature:
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _signature_of(path: str) -> Signature | None:
    try:
        return _signature(os.stat(path))
    except FileNotFoundError:
        return None
