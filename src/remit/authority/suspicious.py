"""Suspicious text: characters by which what is read is not what is written.

An approver decides on what they see. What reorders text, is not seen, or looks like another
character is found and named here, and left where it is: whoever shows the text shows this too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from remit.facts.unseen import is_unseen

Trick = Literal["direction", "invisible", "tag", "control", "space", "digit", "look-alike", "mark"]

_DIRECTION = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_ALLOWED_CONTROLS = frozenset("\t\n")
_WORD = re.compile(r"[^\W\d_]+")
# Scripts, and signs for units, by the first word of their names, that honest text writes into a Latin word: those that
# are written without blanks, and those that take up a foreign word with an ending of their own. No other script is.
_JOINED = frozenset(
    [
        "BALINESE",
        "BENGALI",
        "BOPOMOFO",
        "CJK",
        "DEVANAGARI",
        "ETHIOPIC",
        "GUJARATI",
        "GURMUKHI",
        "HALFWIDTH",
        "HANGUL",
        "HIRAGANA",
        "IDEOGRAPHIC",
        "JAVANESE",
        "KANNADA",
        "KATAKANA",
        "KATAKANA-HIRAGANA",
        "KHMER",
        "LAO",
        "MALAYALAM",
        "MEETEI",
        "MICRO",
        "MODIFIER",
        "MONGOLIAN",
        "MYANMAR",
        "NEW",
        "OHM",
        "ORIYA",
        "SINHALA",
        "SUNDANESE",
        "SYRIAC",
        "TAI",
        "TAMIL",
        "TELUGU",
        "THAANA",
        "THAI",
        "TIBETAN",
        "VERTICAL",
        "YI",
    ]
)
# Scripts of which a letter may stand between two digits, as a sign of multiplication, or for a part of a number.
_BESIDE_DIGITS = (_JOINED - {"MODIFIER"}) | {"ARABIC", "ARMENIAN", "CYRILLIC", "GEORGIAN", "GREEK", "HEBREW"}
# Letters of these that are drawn like a digit.
_DIGIT_TWINS = frozenset("\u0374ОоӀІіӏЗӠбꙄΟοΙՕօוןסاهەہ")
# Letters of scripts that are written into a Latin word which are drawn like a letter, a digit or a sign of ASCII.
_JOINED_TWINS = frozenset("ଠഠဝሀዐㅇㅣ丨丶丿")
# Letters of other scripts that are drawn like a Latin one: a word of these alone can pass for a Latin word.
_TWINS = frozenset(
    "аеорсухіјѕԁԛԝһӏАВЕКМНОРСТУХІЈЅԌԚԜ"  # Cyrillic
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαικονρυχ"  # Greek
    "ꓐꓑꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ"  # Lisu
    "ᎠᎡᎢᎥᎪᎫᎬᎳᎷᎻᎽᏀᏃᏎᏏᏒᏔᏙᏚᏞᏟᏢᏦᏧᏴ"  # Cherokee
    "ⲟⲞⲥⲤⲣⲢⲎⲒⲔⲘⲚⲦⲬ"  # Coptic
    "օսհոցզյՍՕ"  # Armenian
)
# Letters of Latin alphabets of Europe that are no ASCII letter with accents. What others have beside these, and what is
# of phonetics, is drawn so much like an ASCII letter that it is named.
_OF_EUROPE = frozenset("ÆæÐðØøÞþßẞĐđĦħŁłŊŋŒœŦŧĿŀŉǤǥ")
_DRAWN_AS_COLONS = frozenset("\u02d0\ua789")
_DOTLESS = frozenset("\u0131")
_ROUND_SIGN = re.compile("SIGN (ANUSVARA|VISARGA)")  # drawn like o and like a colon
_TURKISH = frozenset("ğşĞŞİ")  # whoever writes these writes a dotless i as well
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[^\w\s](?=\d)")
_LETTERS_BETWEEN_DIGITS = re.compile(r"(?<=[0-9])[^\W\d_]+(?=[0-9])")


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
    space: other than tab, new line and blank. digit: a digit that is not 0 to 9; a numeral beside letters or digits of
    ASCII; between two digits a sign that is not of ASCII, or a letter that passes for a digit or for such a sign.
    look-alike: a letter of another script than its word has, or of a form that stands for an ASCII letter; all of a
    word that only passes for a Latin one. mark: drawn over what is no letter.

    >>> [(suspect.code, suspect.trick) for suspect in suspicious("pay 5\\u202e00 to P\\u0430t")]
    [('U+202E', 'direction'), ('U+0430', 'look-alike')]
    """
    if text.isascii() and text.isprintable():
        return []
    found = {position: trick for position, trick in _look_alikes(text)}
    for sign in _BETWEEN_DIGITS.finditer(text):
        if not sign[0].isascii() and unicodedata.category(sign[0]) in ("Pf", "Pi", "Po", "Ps", "Sk"):
            found[sign.start()] = "digit"
    found |= dict(_in_numbers(text)) | dict(_beside_ascii(text))
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
    if character in _DRAWN_AS_COLONS or (category[0] == "L" and _is_of_no_word(character)):
        return "look-alike"
    folded = unicodedata.normalize("NFKC", character)
    return "look-alike" if folded.isascii() and folded.isalnum() else None


def _is_of_no_word(letter: str) -> bool:
    """Whether it is a form for formulas, or a Latin letter that is neither one of ASCII with accents nor of Europe."""
    if (script := _script(letter)) != "LATIN":
        return script == "MATHEMATICAL"
    if letter in _OF_EUROPE or letter in _DOTLESS:
        return False  # what is asked of the dotless i is whether the text is Turkish
    parts = unicodedata.normalize("NFKD", letter)
    return not all(part.isascii() or part in _OF_EUROPE or unicodedata.category(part) == "Mn" for part in parts)


def _in_numbers(text: str) -> Iterator[tuple[int, Trick]]:
    """Letters between two digits that pass for a digit, or for what parts them."""
    for run in _LETTERS_BETWEEN_DIGITS.finditer(text):
        letters = run[0]
        if not letters.isascii() and all(
            letter in _DIGIT_TWINS or (not letter.isascii() and _script(letter) not in _BESIDE_DIGITS)
            for letter in letters
            if unicodedata.category(letter)[0] == "L"
        ):
            yield from ((run.start() + offset, "digit") for offset, letter in enumerate(letters) if letter.isalpha())


def _beside_ascii(text: str) -> Iterator[tuple[int, Trick]]:
    """Numerals, and letters and signs drawn like a character of ASCII, where they touch letters or digits of ASCII.

    What touches a character of its own script as well belongs to that.
    """
    start = 0
    for kind, group in groupby(text, _kind):
        run = "".join(group)
        end = start + len(run)
        around = (text[start - 1 : start], text[end : end + 1])
        if kind == "stray" and any(each.isascii() and each.isalnum() for each in around):
            for offset, character in enumerate(run):
                if _script(character) not in [_script(each) for each in around if each]:
                    is_numeral = unicodedata.category(character)[0] == "N"
                    yield start + offset, "digit" if is_numeral else "look-alike"
        start = end


def _kind(character: str) -> Literal["stray", ""]:
    """Whether it is a numeral that is no digit and no fraction, or drawn like a character of ASCII."""
    if character.isascii():
        return ""
    category = unicodedata.category(character)
    if category in ("Nl", "No"):
        return "" if "FRACTION" in unicodedata.name(character, "") else "stray"
    if category == "Mc":
        return "stray" if _ROUND_SIGN.search(unicodedata.name(character, "")) else ""
    return "stray" if character in _JOINED_TWINS else ""


def _look_alikes(text: str) -> Iterator[tuple[int, Trick]]:
    """Letters of words that mix scripts, but those of the word's first; and words that only pass for Latin ones.

    Such a word is one beside Latin words, and wherever nothing else of the text is in its script.
    """
    has_latin = any("a" <= character <= "z" or "A" <= character <= "Z" for character in text)
    home = {_script(letter) for letter in text if letter.isalpha() and letter not in _TWINS}
    is_turkish = not _TURKISH.isdisjoint(text)
    if not is_turkish:
        yield from ((at, "look-alike") for at, letter in enumerate(text) if letter in _DOTLESS)
    for word in _WORD.finditer(text):
        letters = word[0]
        if letters.isascii():
            continue
        scripts = [_script(letter) if letter.isalpha() else "" for letter in letters]
        mixed = set(scripts) - _JOINED - {""}
        own = "LATIN" if "LATIN" in mixed else scripts[0]
        is_foreign = has_latin or home.isdisjoint(scripts)
        passes = is_foreign and "LATIN" not in mixed and all(letter in _TWINS for letter in letters)
        for offset, script in enumerate(scripts):
            if (len(mixed) > 1 and script in mixed and script != own) or passes:
                yield word.start() + offset, "look-alike"


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]
