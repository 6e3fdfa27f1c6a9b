"""Values, names and ids that can't be stored, or can't be read any more."""

from __future__ import annotations

from remit.errors.root import Refused

OVERSIZE_HINT = "Keep what is that large elsewhere, and store its name and its digest."


class IdRefused(Refused):
    """A run id, tenant or name that can't be stored and shown safely; nothing was done."""

    code = "id.refused"
    hint = "Use 1 to 200 visible characters, without control or invisible ones, and not beginning with `remit:`."


class ValueRefused(Refused):
    """A value that would not come back the same; nothing was written.

    path: where inside the value, from its root: "$.lines[3].amount".
    """

    code = "value.refused"
    hint = "Return something that survives being stored, or annotate the type that it should come back as."

    def __init__(self, reason: str, *, path: str = "$", where: str = "", hint: str | None = None) -> None:
        place = f" of {where}" if where else ""
        super().__init__(f"The value{place} can't be stored: {reason} at {path}.", hint=hint)
        self.reason, self.path, self.where = reason, path, where


class ValueUnreadable(Refused):
    """Stored bytes that no longer fit the type they are read as; the bytes are untouched.

    strange: where they have a name that the type has not, its place and the names that are known there.
    """

    code = "value.unreadable"
    hint = "Bring the type back, or read the bytes as they are with `remit show RUN --raw`."

    def __init__(
        self,
        reason: str,
        *,
        type_name: str,
        where: str = "",
        hint: str | None = None,
        strange: tuple[tuple[str | int, ...], list[str]] | None = None,
    ) -> None:
        place = f" of {where}" if where else ""
        super().__init__(f"The stored value{place} can't be read as {type_name}: {reason}.", hint=hint)
        self.reason, self.type_name, self.where, self.strange = reason, type_name, where, strange
