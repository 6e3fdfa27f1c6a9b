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

from remit.authority.alphabets import JOINED, can_pass, script_of
from remit.facts.unseen import is_unseen

Trick = Literal["direction", "invisible", "tag", "control", "space", "digit", "look-alike", "mark"]

_DIRECTION = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_ALLOWED_CONTROLS = frozenset("\t\n")
_WORD = re.compile(r"[^\W\d_]+")
# Scripts of which a letter may stand between two digits, as a sign of multiplication, or for a part of a number.
_BESIDE_DIGITS = (JOINED - {"MODIFIER"}) | {"ARABIC", "ARMENIAN", "CYRILLIC", "GEORGIAN", "GREEK", "HEBREW"}
# Letters of these that are drawn like a digit.
_DIGIT_TWINS = frozenset("\u0374ОоӀІіӏЗӠбꙄΟοΙՕօוןסاهەہ")
# Letters of scripts that are written into a Latin word which are drawn like a letter, a digit or a sign of ASCII.
_JOINED_TWINS = frozenset("ଠഠဝሀዐㅇㅣ丨丶丿")
# Letters of Latin alphabets of Europe that are no ASCII letter with accents. What others have beside these, and what is
# of phonetics, is drawn so much like an ASCII letter that it is named.
_OF_EUROPE = frozenset("ÆæÐðØøÞþßẞĐđĦħŁłŊŋŒœŦŧĿŀŉǤǥ")
_DRAWN_AS_COLONS = frozenset("\u02d0\ua789")
_DOTLESS = frozenset("\u0131")
_ROUND_SIGN = re.compile("SIGN (ANUSVARA|VISARGA)")  # drawn like o and like a colon
_TURKISH = frozenset("ğşĞŞİ")  # whoever writes these writes a dotless i as well
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[^\w\s](?=\d)")
_SIGN = re.compile(r"[^\w\s\x00-\x7f]")
_FRACTION = "\u2044"
_SIGN_TWINS = frozenset("\u2024\u2215\u2216\u2217\u2223\u2236" + _FRACTION)  # . / \ * | : /
_WIDE = JOINED | {"FULLWIDTH", "SMALL", "PRESENTATION"}
_ORDINARY_SIGNS = frozenset("¡§¶·¿†‡•…‰‱′″‴")
_WORD_APART = re.compile(r"(?<![\w])[^\W\d_]+(?![\w])")  # that touches no digit
_LETTERS_AT_DIGITS = re.compile(r"(?<=[0-9])[^\W\d_]+|[^\W\d_]+(?=[0-9])")
_NUMBER = re.compile(r"[0-9]{2,}(?!\w)")
_BESIDE_NUMBERS = frozenset({"ARABIC", "GEORGIAN", "HEBREW"})  # of an ending or a unit behind a number
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
    ASCII; between two digits a sign that is not of ASCII, or a letter that passes for a digit or for such a sign; in
    front of a number or behind it a letter that passes for a digit.
    look-alike: a letter of another script than its word has, or of a form that stands for an ASCII letter; all of a
    word that can pass for a Latin one, and of what stands at a number; a sign that passes for one of ASCII beside it.
    mark: drawn over what is no letter.

    >>> [(suspect.code, suspect.trick) for suspect in suspicious("pay 5\\u202e00 to P\\u0430t")]
    [('U+202E', 'direction'), ('U+0430', 'look-alike')]
    """
    if text.isascii() and text.isprintable():
        return []
    found = dict(_look_alikes(text)) | dict(_beside_words(text)) | dict(_at_numbers(text))
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
    if (script := script_of(letter)) != "LATIN":
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
            letter in _DIGIT_TWINS or (not letter.isascii() and script_of(letter) not in _BESIDE_DIGITS)
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
                if script_of(character) not in [script_of(each) for each in around if each]:
                    is_numeral = unicodedata.category(character)[0] == "N"
                    yield start + offset, "digit" if is_numeral else "look-alike"
        start = end


def _at_numbers(text: str) -> Iterator[tuple[int, Trick]]:
    """Letters before or behind a number that pass for a digit or a Latin letter, where the text is not in their script;
    and in front of one those that pass for a digit, in whatever text."""
    home = _home(text, _WORD_APART, is_beside_latin=True)
    for run in _LETTERS_AT_DIGITS.finditer(text):
        letters, after = run[0], text[run.end() :]
        scripts = {script_of(letter) for letter in letters}
        if not letters.isalpha() or "LATIN" in scripts or not scripts.isdisjoint(JOINED):
            continue
        passes = all(letter in _DIGIT_TWINS or can_pass(letter, is_beside_latin=True) for letter in letters)
        is_foreign = home.isdisjoint(scripts) and scripts.isdisjoint(_BESIDE_NUMBERS)
        is_in_front = bool(_NUMBER.match(after)) and _DIGIT_TWINS.issuperset(letters)
        if (passes and is_foreign) or is_in_front:
            for offset, letter in enumerate(letters):
                yield run.start() + offset, "digit" if letter in _DIGIT_TWINS else "look-alike"


def _beside_words(text: str) -> Iterator[tuple[int, Trick]]:
    """Signs that pass for one of ASCII where they touch it, and between letters or digits of ASCII other strange ones.

    Signs of a script that is written with wide forms of ASCII's, and these forms, are ordinary in a text of it.
    """
    is_of_wide = any(script_of(letter) in JOINED for letter in text if letter.isalpha())
    for sign in _SIGN.finditer(text):
        before, after = text[sign.start() - 1 : sign.start()], text[sign.end() : sign.end() + 1]
        if sign[0] in _SIGN_TWINS:
            touches = any(each.isascii() and not each.isspace() for each in (before, after) if each)
            is_fraction = sign[0] == _FRACTION and before.isdigit() and after.isdigit()
            is_strange = touches and not is_fraction
        elif all(each.isascii() and each.isalnum() for each in (before, after)):
            is_wide = unicodedata.category(sign[0])[0] == "P" and script_of(sign[0]) in _WIDE
            is_strange = (is_wide or _is_strange(sign[0])) and not (is_of_wide and is_wide)
        else:
            is_strange = False
        if is_strange:
            yield sign.start(), "look-alike"


def _is_strange(sign: str) -> bool:
    return unicodedata.category(sign) in ("Po", "Ps", "Pe") and sign not in _ORDINARY_SIGNS


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
    home = _home(text, _WORD, is_beside_latin=has_latin)
    is_turkish = not _TURKISH.isdisjoint(text)
    if not is_turkish:
        yield from ((at, "look-alike") for at, letter in enumerate(text) if letter in _DOTLESS)
    for word in _WORD.finditer(text):
        letters = word[0]
        if letters.isascii():
            continue
        scripts = [script_of(letter) if letter.isalpha() else "" for letter in letters]
        mixed = set(scripts) - JOINED - {""}
        own = "LATIN" if "LATIN" in mixed else scripts[0]
        is_foreign = has_latin or home.isdisjoint(scripts)
        passes = is_foreign and "LATIN" not in mixed and _can_all_pass(letters, is_beside_latin=has_latin)
        for offset, script in enumerate(scripts):
            if (len(mixed) > 1 and script in mixed and script != own) or passes:
                yield word.start() + offset, "look-alike"


def _home(text: str, words: re.Pattern[str], *, is_beside_latin: bool) -> set[str]:
    """Scripts that the text is in: it has letters of them that nobody takes for Latin ones."""
    letters = (letter for word in words.finditer(text) for letter in word[0] if not letter.isascii())
    return {script_of(each) for each in letters if not can_pass(each, is_beside_latin=is_beside_latin)}


def _can_all_pass(letters: str, *, is_beside_latin: bool) -> bool:
    return letters.isalpha() and all(can_pass(letter, is_beside_latin=is_beside_latin) for letter in letters)
