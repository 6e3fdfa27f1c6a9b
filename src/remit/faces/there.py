"""There: the store and the tenant that a command was given, which every command that it tells to type names as well.

Typed without them it would act where the defaults lead: on another run, which may have the same id. They stand before
the command's own words: of a line that a terminal folded whoever copies the first half has them, or nothing that acts.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

# A command between backticks. What is quoted in it may hold some itself: names that others gave stand quoted there.
_TOLD = re.compile(r"""`(remit (?:[^`'"]|'[^']*'|"[^"]*")+)`""")

_WITHOUT_STORE = (["version"], ["policy", "check"])


@dataclass(frozen=True, slots=True)
class There:
    """Where the command that tells was told to look. store, tenant: as given to it, "" where it was given none."""

    store: str = ""
    tenant: str = ""

    def typed(self, command: str) -> str:
        """`command` as it is to be typed to act there. One that names a place itself, or has none, is left as it is."""
        words = _words(command)
        if any(words[: len(known)] == known for known in _WITHOUT_STORE) or not words or words[0].startswith("-"):
            return command
        is_at_url = words[0] == "doctor" and len(words) > 1 and not words[1].startswith("-")
        store = "" if is_at_url else self.store
        given = [("--store", store), ("--tenant", self.tenant)]
        named = [f" {option} {shlex.quote(value)}" for option, value in given if value and not _has(words, option)]
        return "remit" + "".join(named) + command.removeprefix("remit")

    def told(self, words: str) -> str:
        """`words` with each command between backticks as it is to be typed."""
        return _TOLD.sub(lambda found: f"`{self.typed(found[1])}`", words)


def _words(command: str) -> list[str]:
    """What stands behind `remit`; split at blanks where a quote in it does not end."""
    try:
        return shlex.split(command)[1:]
    except ValueError:
        return command.split()[1:]


def _has(words: list[str], option: str) -> bool:
    return any(word == option or word.startswith(f"{option}=") for word in words) or "--help" in words
