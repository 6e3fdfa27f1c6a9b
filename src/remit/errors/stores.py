"""Stores: what could not be read or written, and whether anything was."""

from __future__ import annotations

from remit.errors.root import RemitError


class StoreError(RemitError):
    """The store can't be used as asked."""

    code = "store.error"
    hint = "Ask `remit doctor` what is wrong with the store."
    exit_status = 6


class StoreUnavailable(StoreError):
    """The store did not answer; nothing was written, and trying again is safe."""

    code = "store.unavailable"
    hint = "Nothing was written. Try again when the store is back."


class AuthorityUnreadable(StoreUnavailable):
    """Directory or policy can't be read or do not verify; nothing proceeds, and every run stays where it is."""

    code = "authority.unreadable"
    hint = "See `remit verify remit:authority`; restore it from a backup, and grant and revoke again what came since."


class StoreRefused(StoreError):
    """The store can't be opened: missing, broken, newer, locked, or on the wrong file system."""

    code = "store.refused"
    hint = "Ask `remit doctor URL` what is wrong with the store."


class StoreClosed(StoreError):
    """The store was used after it was closed, after a fork, or from another event loop; nothing was written."""

    code = "store.closed"
    hint = "Open the store again, in the process and the event loop that use it."


# store.forked
FORKED_HINT = "Start the process with `spawn` instead of `fork`, or fork it before anything opens the store."


class LoadError(StoreUnavailable):
    """A two-method store raised in `load`; nothing was run."""

    code = "store.load"
    hint = "Nothing was run. Mend the store's `load` and call again."


class SaveError(StoreUnavailable):
    """A two-method store raised in `save`; what was saved before is still there."""

    code = "store.save"
    hint = "The steps saved before this one are kept. Mend the store's `save` and call again."


class CommitUnknown(StoreError):
    """The answer to a commit was lost; it may or may not have been written."""

    code = "commit.unknown"
    hint = "Call again with the same id: what was written is read back before anything runs."
