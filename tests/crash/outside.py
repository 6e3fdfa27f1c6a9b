"""An outside that outlives whoever calls it: one file, locked and synced, that says what was asked and what was paid.

    asked KEY      a request arrived
    paid KEY       it was done
    fence EPOCH    requests under a lower epoch are refused from here on

What it promises its callers is `sink`, as an effect declares it.
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Fenced(Exception):
    """The request came under an epoch that is over; nothing was paid."""


class Outside:
    """sink: "dedupes", "fences", or None for one that does what it is told as often as it is told."""

    def __init__(self, folder: Path, sink: str | None) -> None:
        self._path, self._sink = folder / "outside", sink

    def ask(self, key: str) -> None:
        """A request arrives; whatever becomes of it."""
        with self._locked() as file:
            _write(file, f"asked {key}")

    def pay(self, key: str, epoch: int) -> int:
        """Number of the payment. Raises Fenced."""
        with self._locked() as file:
            lines = _read(file)
            if self._sink == "fences":
                self._pass_fence(file, lines, epoch)
            if self._sink == "dedupes" and f"paid {key}" in lines:
                return _paid(lines).index(key) + 1
            _write(file, f"paid {key}")
            return len(_paid(lines)) + 1

    def find(self, key: str, epoch: int) -> int | None:
        """Number of the payment under a key. A sink that fences raises its fence by the asking."""
        with self._locked() as file:
            lines = _read(file)
            if self._sink == "fences":
                self._pass_fence(file, lines, epoch)
            paid = _paid(lines)
            return paid.index(key) + 1 if key in paid else None

    @property
    def asked(self) -> Counter[str]:
        """How often each key was asked for."""
        return Counter(line.split()[1] for line in self._lines() if line.startswith("asked"))

    @property
    def paid(self) -> Counter[str]:
        """How often each key was paid."""
        return Counter(_paid(self._lines()))

    def _pass_fence(self, file: int, lines: list[str], epoch: int) -> None:
        highest = max((int(line.split()[1]) for line in lines if line.startswith("fence")), default=0)
        if epoch < highest:
            raise Fenced(f"epoch {epoch} is over since {highest}")
        if epoch > highest:
            _write(file, f"fence {epoch}")

    def _lines(self) -> list[str]:
        with self._locked() as file:
            return _read(file)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """One caller at a time; a caller that dies lets go."""
        file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)


def _read(file: int) -> list[str]:
    return os.pread(file, os.fstat(file).st_size, 0).decode().splitlines()


def _paid(lines: list[str]) -> list[str]:
    return [line.split()[1] for line in lines if line.startswith("paid")]


def _write(file: int, line: str) -> None:
    os.write(file, f"{line}\n".encode())
    os.fsync(file)
