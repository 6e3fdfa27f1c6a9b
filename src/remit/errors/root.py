"""The root of all errors, and the widest of them: nothing was done."""

from __future__ import annotations

from typing import ClassVar


class RemitError(Exception):
    """Any error of Remit's own.

    code: stable, dotted for errors, snake_case where it is also a run's outcome code.
    hint: one sentence that says what to do next.
    """

    code: str = "remit.error"
    hint: str = "This was not foreseen; please report it, with its text."
    exit_status: ClassVar[int] = 1
    __module__ = "remit.errors"  # of all of them: journals and logs name what was raised, as people import it

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith(f"{RemitError.__module__}."):
            cls.__module__ = RemitError.__module__

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        if hint is not None:
            self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} [{self.code}] {self.hint}"


class Refused(RemitError):
    """The request was not acceptable; nothing was done."""

    code = "refused"
    hint = "Correct the request and try again; nothing was changed."
    exit_status = 2


class ClockJumped(Refused):
    """This machine's clock runs far ahead of the store's, or what would begin is over by one; nothing was written."""

    code = "clock.jumped"
    hint = "Set the clock right and try again; one false date would expire everything."


class NotBuilt(Refused):
    """This version cannot do that yet; nothing was done."""

    code = "not_built"
    hint = "See the changelog for what this version can do."
