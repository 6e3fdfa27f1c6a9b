"""Unseen characters: what takes no place where text is shown, or steers how the text around it is.

There is one answer to what can't be seen, for all who ask it: who lets a name in, who shows what was stored,
and who names to an approver what may deceive them. By its category a character is unseen where it is a
control, a formatting or a private one, unassigned, or a line separator. Some are letters, marks or symbols
by category and unseen all the same: fillers, variation selectors and blanks that are no spaces.
"""

from __future__ import annotations

import unicodedata
from itertools import chain

_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\U00016fe4"  # joiners and fillers of several scripts
_BLANK_SYMBOLS = "\u2800\U0001d159"  # a Braille cell without dots, a note without a head
_VARIATIONS = chain((0x180B, 0x180C, 0x180D, 0x180F), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
_UNSEEN = frozenset((*_FILLERS, *_BLANK_SYMBOLS, *map(chr, _VARIATIONS)))


def is_unseen(character: str) -> bool:
    """Whether nobody can see this one character, or only what it does to others. A space is seen, as a blank.

    >>> [is_unseen(character) for character in ("a", " ", "\\u200b", "\\ufe0f", "\\u3164")]
    [False, False, True, True, True]
    """
    return character in _UNSEEN or unicodedata.category(character) in _CATEGORIES
