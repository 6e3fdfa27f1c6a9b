"""Suspicious text: characters by which what is read is not what is written.

An approver decides on what they see. What reorders text, is not seen, or looks like another
character is found and named here, and left where it is: whoever shows the text shows this too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from remit.facts.unseen import is_unseen

Trick = Literal["direction", "invisible", "tag", "control", "space", "digit", "look-alike", "mark"]

_DIRECTION = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_ALLOWED_CONTROLS = frozenset("\t\n")
_WORD = re.compile(r"[^\W\d_]+")
# Scripts that have letters of the very shape of Latin ones, by the first word of their letters' names, and that nobody
# writes into a Latin word: those that are written without blanks are not among them.
_CONFUSABLE = frozenset(
    [
        "LATIN",
        "CYRILLIC",
        "GREEK",
        "COPTIC",
        "ARMENIAN",
        "CHEROKEE",
        "LISU",
        "DESERET",
        "CANADIAN",
        "TIFINAGH",
        "OLD",
        "RUNIC",
        "GOTHIC",
        "GEORGIAN",
        "OSAGE",
        "LYDIAN",
        "LYCIAN",
        "CARIAN",
        "ELBASAN",
        "CAUCASIAN",
        "OSMANYA",
        "WARANG",
        "MEDEFAIDRIN",
        "VITHKUQI",
        "VAI",
        "MIAO",
        "NKO",
        "HEBREW",
        "ARABIC",
    ]
)
# Letters of other scripts that are drawn like a Latin one: a word of these alone can pass for a Latin word.
_TWINS = frozenset(
    "аеорсухіјѕԁԛԝһӏАВЕКМНОРСТУХІЈЅԌԚԜ"  # Cyrillic
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαικονρυχ"  # Greek
    "ꓐꓑꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ"  # Lisu
    "ᎠᎡᎢᎥᎪᎫᎬᎳᎷᎻᎽᏀᏃᏎᏏᏒᏔᏙᏚᏞᏟᏢᏦᏧᏴ"  # Cherokee
    "ⲟⲞⲥⲤⲣⲢⲎⲒⲔⲘⲚⲦⲬ"  # Coptic
    "օսհոցզյՍՕ"  # Armenian
)
# Letters of Latin that are drawn like one of ASCII, and are no letter of a language's with an accent.
_LATIN_TWINS = re.compile("[\u0131\u0237\u0184\u0185\u01bd\u0250-\u02af\u1d00-\u1dbf\ua730\ua731]")
_TURKISH = frozenset("ğşĞŞİ")  # whoever writes these writes a dotless i as well
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[^\w\s](?=\d)")


@dataclass(frozen=True, slots=True)
class Suspect:
    """One character that may deceive. It is named, never shown."""

    position: int  # in the text, from 0
    code: str  # "U+202E"
    name: str  # by Unicode, "" where it has none
    trick: Trick


def suspicious(text: str) -> list[Suspect]:
    """What in a text may deceive whoever reads it, in order.

    The text alone says what is written in it: what stands beside it may be another's, and excuses nothing.

    direction: turns the direction of writing. invisible: takes no place. tag: unseen copies of ASCII. control,
    space: other than tab, new line and blank. digit: a digit that is not 0 to 9, or a sign between two digits that is
    not of ASCII. look-alike: a letter of another script than its word has, or of a form that stands for an ASCII
    letter; all of a word that only passes for a Latin one. mark: drawn over what is no letter.

    >>> [(suspect.code, suspect.trick) for suspect in suspicious("pay 5\\u202e00 to P\\u0430t")]
    [('U+202E', 'direction'), ('U+0430', 'look-alike')]
    """
    if text.isascii() and text.isprintable():
        return []
    found = {position: trick for position, trick in _look_alikes(text)}
    for sign in _BETWEEN_DIGITS.finditer(text):
        if not sign[0].isascii() and unicodedata.category(sign[0]) in ("Pf", "Pi", "Po", "Ps", "Sk"):
            found[sign.start()] = "digit"
    before = " "
    for position, character in enumerate(text):
        trick = _trick(character, before)
        if trick is not None:
            found[position] = trick
        before = character
    return [
        Suspect(position, f"U+{ord(text[position]):04X}", unicodedata.name(text[position], ""), trick)
        for position, trick in sorted(found.items())
    ]


def _trick(character: str, before: str) -> Trick | None:
    """What one character does by itself, or to the one before it."""
    if " " <= character <= "~" or character in _ALLOWED_CONTROLS:
        return None
    category = unicodedata.category(character)
    if character in _DIRECTION:
        return "direction"
    if 0xE0000 <= ord(character) <= 0xE007F:
        return "tag"
    if category == "Cc":
        return "control"
    if category in ("Zs", "Zl", "Zp"):
        return "space"
    if is_unseen(character):
        return "invisible"
    if category == "Nd" or (category == "No" and unicodedata.digit(character, None) is not None):
        return "digit"
    if category == "Me" or (category == "Mn" and not unicodedata.category(before).startswith(("L", "M"))):
        return "mark"
    folded = unicodedata.normalize("NFKC", character)
    return "look-alike" if folded.isascii() and folded.isalnum() else None


def _look_alikes(text: str) -> Iterator[tuple[int, Trick]]:
    """Letters of words that mix scripts, but those of the word's first; and words that only pass for Latin ones.

    Such a word is one beside Latin words, and wherever nothing else of the text is in its script.
    """
    has_latin = any("a" <= character <= "z" or "A" <= character <= "Z" for character in text)
    home = {_script(letter) for letter in text if letter.isalpha() and letter not in _TWINS}
    is_turkish = not _TURKISH.isdisjoint(text)
    for letter in _LATIN_TWINS.finditer(text):
        if not is_turkish or letter[0] != "\u0131":
            yield letter.start(), "look-alike"
    for word in _WORD.finditer(text):
        letters = word[0]
        if letters.isascii():
            continue
        scripts = [_script(letter) for letter in letters]
        mixed = set(scripts) & _CONFUSABLE
        own = "LATIN" if "LATIN" in mixed else scripts[0]
        is_foreign = has_latin or home.isdisjoint(scripts)
        passes = is_foreign and "LATIN" not in mixed and all(letter in _TWINS for letter in letters)
        for offset, script in enumerate(scripts):
            if (len(mixed) > 1 and script in mixed and script != own) or passes:
                yield word.start() + offset, "look-alike"


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]
