"""Principals: which names are let in, so that no two of them look alike to whoever decides or stops.

    check_new_principal         whether somebody may be named so from here on
    strangers, stranger_said    names in an act that the directory has not, so that a misspelt one is told

A name that mixes alphabets, or has a letter that passes for another one, is another principal that looks the same: a
link to it leaves the real one free to approve. One with a blank reads as a sentence: `agent:desk for user:ceo`. Only
who is named anew is asked that; what stands in a journal was let in, and is shown with its letters named.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from remit.authority.alphabets import LIVING, script_of
from remit.authority.directory import Authority
from remit.authority.suspicious import Suspect, suspicious
from remit.errors import IdRefused
from remit.facts.names import check_principal


def check_new_principal(text: object, what: str) -> str:
    """A principal that is named anew: visible, composed, one word, and no letter of it passes for another one.

    A name that is wholly in another living alphabet is one. Raises IdRefused.
    """
    name = check_principal(text, what)
    kind, _, rest = name.partition(":")
    if any(character.isspace() for character in rest):
        raise IdRefused(
            f"The {what} {name!a} has a blank, and would read as more than a name; nothing was done.",
            hint="Write it as one word, with `-` or `_` in place of the blank.",
        )
    for suspect in suspicious(rest):
        if not _is_of_its_own(rest, suspect):
            at = len(kind) + 1 + suspect.position
            named = f"{suspect.code} {suspect.name}".rstrip()
            raise IdRefused(
                f"The {what} {name!a} has {named} at position {at}, which passes for another letter; nothing was done.",
                hint="Write it in letters of one alphabet and the digits 0 to 9; `remit who` lists who is known.",
            )
    return name


def strangers(authority: Authority, names: Sequence[str]) -> dict[str, list[str]]:
    """Those of whom the directory has nothing, each with the names that it has which are most like it.

    >>> strangers(Authority(), ["service:lokal"])
    {'service:lokal': ['service:local']}
    """
    known = [name for name in sorted(authority.directory) if name not in names]
    return {name: _most_like(name, known) for name in names if name not in authority.directory}


def stranger_said(name: str, like: Sequence[str]) -> str:
    """That an act named somebody of whom the directory had nothing, for whoever may have misspelt the name."""
    near = (
        f"the names in it most like that: {', '.join(map(_shown, like))}" if like else "`remit who` lists who is in it"
    )
    told = f"The directory had nothing about {_shown(name)} until now; {near}"
    return f"{told}. Whoever goes by another name is not touched by this."


def _shown(name: str) -> str:
    """Whole in escapes where a character of it may deceive."""
    return ascii(name)[1:-1] if suspicious(name) else name


def _is_of_its_own(rest: str, suspect: Suspect) -> bool:
    """Whether it is a letter that passes for a Latin one in a name that is wholly in that letter's own alphabet."""
    scripts = {script_of(letter) for letter in rest if letter.isalpha()}
    is_letter = suspect.trick == "look-alike" and rest[suspect.position].isalpha()
    return is_letter and len(scripts) == 1 and scripts <= LIVING


def _most_like(name: str, known: Sequence[str]) -> list[str]:
    """Of the same kind: that two are both called `agent:` makes neither like the other."""
    kind, _, rest = name.partition(":")
    rests = [each.removeprefix(f"{kind}:") for each in known if each.startswith(f"{kind}:")]
    return [f"{kind}:{each}" for each in get_close_matches(rest, rests, n=3)]
