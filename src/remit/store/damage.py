"""Damage: a row of a shape that nothing of ours writes, as somebody edited it, or a disk changed it.

What reading it raises is of Python's own, and says nothing to a caller. It becomes an error of the
store's, so that nobody takes it for anything else: for what an effect answered, least of all.
"""

from __future__ import annotations

import msgspec

from remit.errors import FIND_OUT, StoreUnavailable

# What a row may raise that is not as it is read: text that is no text, a number too few, a list where a name is meant.
DAMAGE = (ArithmeticError, LookupError, TypeError, ValueError, msgspec.MsgspecError)


def damaged(exc: BaseException) -> StoreUnavailable:
    """What such an exception means to a caller: nothing was written."""
    return StoreUnavailable(
        f"A row of the store can't be read, and nothing was written: {type(exc).__name__}: {ascii(str(exc))[1:-1]}.",
        code="store.broken",
        hint=f"Somebody edited it, or the disk did; `remit doctor` tells more. {FIND_OUT}; restore it, and try again.",
    )


def escaped(text: bytes) -> str:
    r"""Text that is no UTF-8, as it can be shown and compared: each byte that does not fit as `\xff`."""
    return text.decode("utf-8", "backslashreplace")
