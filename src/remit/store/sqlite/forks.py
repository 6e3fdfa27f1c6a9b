"""Forks: a child that opens a file which was open when it was forked would lose what it commits.

SQLite keeps one account per process of what it has locked, by device and inode, and a forked
child inherits the account without the locks. It would believe that it holds the file, hold
nothing, and whoever closes the file next, believing to be the last, deletes the log that the
child writes to. SQLite has no call that throws the account away, so the child is refused.
A program that the child executes begins without one.

`remit.forks` notes what was open at a fork. Noted here is each connection with the process that
made it, the application's own as well: code in C forks without telling Python (a server that
embeds it), and then the process is another one than noted.
"""

from __future__ import annotations

import os
from weakref import WeakKeyDictionary

import apsw

from remit import forks
from remit.errors import FORKED_HINT, StoreRefused
from remit.store.sqlite.place import FileId, file_id

_noted: WeakKeyDictionary[apsw.Connection, tuple[FileId, int]] = WeakKeyDictionary()


def check_fork(path: str) -> None:
    """Raises StoreRefused `store.forked` where the file was open when this process was forked."""
    _inherit()
    if forks.inherited and file_id(path) in forks.inherited:
        raise StoreRefused(
            f"Nothing was opened: {path} was open when this process was forked, and SQLite would take locks "
            "that only the parent holds for its own: what is committed here could be lost.",
            code="store.forked",
            hint=FORKED_HINT,
        )


def _note(connection: apsw.Connection) -> None:
    """While it is made: nobody can fork between the opening and the note."""
    _note_by(connection, os.getpid())


def _note_by(connection: apsw.Connection, process: int) -> None:
    found = file_id(connection.filename)
    if found is not None:
        _noted[connection] = found, process


def _inherit() -> None:
    """What another process made. What was closed before the fork left nothing behind."""
    process = os.getpid()
    for connection in apsw.connections():
        found, maker = _noted.get(connection, (None, process))
        if found is not None and maker != process:
            forks.inherited.add(found)


for _earlier in apsw.connections():  # made before the hook, and by this process unless it was forked unheard
    _note_by(_earlier, forks.process)
apsw.connection_hooks.append(_note)
os.register_at_fork(after_in_child=_inherit)
