"""Forks: a child that opens a file which was open when it was forked would lose what it commits.

SQLite keeps one account per process of what it has locked, by device and inode, and a forked
child inherits the account without the locks. It would believe that it holds the file, hold
nothing, and whoever closes the file next, believing to be the last, deletes the log that the
child writes to. SQLite has no call that throws the account away, so the child is refused.
A program that the child executes begins without one.

Noted is every connection of this process, the application's own as well.
"""

from __future__ import annotations

import os
from weakref import WeakKeyDictionary

import apsw

from remit.errors import FORKED_HINT, StoreRefused
from remit.store.sqlite.place import FileId, file_id

_noted: WeakKeyDictionary[apsw.Connection, FileId] = WeakKeyDictionary()
_inherited: set[FileId] = set()


def check_fork(path: str) -> None:
    """Raises StoreRefused `store.forked` where the file was open when this process was forked."""
    if _inherited and file_id(path) in _inherited:
        raise StoreRefused(
            f"Nothing was opened: {path} was open when this process was forked, and SQLite would take locks "
            "that only the parent holds for its own: what is committed here could be lost.",
            code="store.forked",
            hint=FORKED_HINT,
        )


def _note(connection: apsw.Connection) -> None:
    """While it is made: nobody can fork between the opening and the note."""
    found = file_id(connection.filename)
    if found is not None:
        _noted[connection] = found


def _inherit() -> None:
    """In the child. What was closed before the fork left nothing behind."""
    _inherited.update(_noted[connection] for connection in apsw.connections() if connection in _noted)


apsw.connection_hooks.append(_note)
os.register_at_fork(after_in_child=_inherit)
