"""Names: what may be a run id, a tenant, a principal or a call, and how a call's path is written.

Ids are shown to people who decide on them, so what can't be seen is refused at the door (`unseen` says what
that is): a principal with a filler behind it is another one that looks the same, and a rule with one holds
for nothing. What passes is kept and compared literally, so it has one spelling, the composed one (NFC): a
rule whose name spells an umlaut in two characters would hold for nothing where the effect spells it in one.
Which characters are assigned is a matter of this Python's Unicode: that is asked at the door, and
never of what another one let in and wrote down.
"""

from __future__ import annotations

import unicodedata

from remit.errors import IdRefused
from remit.facts.unseen import is_unseen

ID_CHARACTERS_MAX = 200
PATH_CHARACTERS_MAX = 500
RESERVED_PREFIX = "remit:"
AUTHORITY, INCIDENTS = "remit:authority", "remit:incidents"  # the journals that are Remit's own
RUN_PREFIX = "run."  # of calls that are not steps: run.now, run.first

_ESCAPES = str.maketrans({"%": "%25", "/": "%2F", "#": "%23"})


def check_id(text: object, what: str) -> str:
    """`text`, if it may be stored and shown as `what` ("run id"). Raises IdRefused."""
    name = _check_form(text, what)
    check_visible(name, what)
    _check_composed(name, what)
    return name


def check_word(text: object, what: str) -> str:
    """The same of one that people type into a command: it does not begin as an option does. Raises IdRefused."""
    name = check_id(text, what)
    if name.startswith("-"):
        raise IdRefused(
            f"The {what} {name!r} begins with `-`, as an option of a command does; nothing was done.",
            hint="Let it begin with something else.",
        )
    return name


def check_visible(text: str, what: str) -> None:
    """Raises IdRefused where a character can't be seen, or blanks hide at an end."""
    if text.isascii() and text.isprintable() and text == text.strip():
        return
    for position, character in enumerate(text):
        if is_unseen(character):
            raise IdRefused(f"The {what} has U+{ord(character):04X} at position {position}; nothing was done.")
    if text != text.strip():
        raise IdRefused(f"The {what} begins or ends with a blank; nothing was done.")


def check_principal(text: object, what: str) -> str:
    """A principal that may be written down: "user:dana", "agent:buyer", "service:x". Raises IdRefused."""
    name = check_principal_form(text, what)
    check_visible(name, what)
    _check_composed(name, what)
    return name


def check_principal_form(text: object, what: str) -> str:
    """A principal as it may stand in a journal, whoever can see its characters. Raises IdRefused."""
    name = _check_form(text, what)
    kind, colon, rest = name.partition(":")
    if not colon or kind not in ("user", "agent", "service") or not rest:
        raise IdRefused(
            f"The {what} {name!r} is not a principal; nothing was done.",
            hint="Write it as `user:dana`, `agent:buyer` or `service:billing`.",
        )
    return name


def check_name(text: str, what: str) -> str:
    """The name of a flow or step. Raises IdRefused: visible, free of `/` and `#`, no `run.` or `-` where it begins."""
    check_word(text, what)
    if text.startswith(RUN_PREFIX):
        raise IdRefused(f"The {what} {text!r} begins with `run.`, as recorded draws and races do; nothing was done.")
    if "/" in text or "#" in text:
        raise IdRefused(f"The {what} {text!r} has a `/` or `#`, which separate names; nothing was done.")
    return text


def check_effect_name(text: str, what: str) -> str:
    """The name of an effect or a transaction. Raises IdRefused: as `check_name`, and free of dots.

    A policy writes effect and field as "pay.amount": a dot in the name would make one rule of two.
    """
    check_name(text, what)
    if "." in text:
        raise IdRefused(
            f"The {what} {text!r} has a dot, which separates an effect from the field of a rule; nothing was done.",
            hint=f"Write it without, `{text.replace('.', '_')}`.",
        )
    return text


def branch_segment(text: str) -> str:
    """A branch's name as a segment of a path: `/`, `#`, `%` and a `-` at its beginning are escaped. Raises IdRefused.

    No rule names a branch, and its name is often somebody's data: it may be spelled either way. A call's path is typed
    into commands, where one that begins with `-` would pass for an option.
    """
    name = _check_form(text, "branch name")
    check_visible(name, "branch name")
    segment = name.translate(_ESCAPES)
    return f"%2D{segment[1:]}" if segment.startswith("-") else segment


def path(prefix: str, base: str, occurrence: int) -> str:
    """The path of a call: prefix "supplier-a/", base "fetch", occurrence from 1. Raises IdRefused when too long."""
    name = f"{prefix}{base}" if occurrence == 1 else f"{prefix}{base}#{occurrence}"
    if len(name) > PATH_CHARACTERS_MAX:
        raise IdRefused(f"The call's path has {len(name)} characters of {PATH_CHARACTERS_MAX}; nothing was done.")
    return name


def _check_composed(text: str, what: str) -> None:
    """Raises IdRefused for the second of two spellings that nobody can tell apart by looking."""
    if not text.isascii() and not unicodedata.is_normalized("NFC", text):
        raise IdRefused(
            f"The {what} {text!a} is spelled with separate marks; nothing was done.",
            hint=f"Spell it composed (NFC), {unicodedata.normalize('NFC', text)!a}.",
        )


def _check_form(text: object, what: str) -> str:
    if not isinstance(text, str):
        raise IdRefused(f"The {what} must be text, not {type(text).__name__}; nothing was done.")
    if not text or len(text) > ID_CHARACTERS_MAX:
        raise IdRefused(f"The {what} has {len(text)} characters; nothing was done.")
    if text.startswith(RESERVED_PREFIX):
        raise IdRefused(f"The {what} {text!a} begins with {RESERVED_PREFIX!r}, which is Remit's own; nothing was done.")
    return plain(text)


def plain(text: str) -> str:
    """A member of an Enum, or of another class that derives from str, as the text that it is: it may print as another.

    >>> plain("GBP")
    'GBP'
    """
    return str.__str__(text)
