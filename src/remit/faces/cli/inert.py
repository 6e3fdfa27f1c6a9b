"""Inert text: nothing that was stored may steer the terminal, a log, or the eye of the reader.

Ids, names, reasons and values were written by others. Control characters and terminal
escapes, line ends, invisible and direction-changing characters are shown as escapes; markup
is never interpreted, because only `rich.text.Text` is ever handed to the console.
"""

from __future__ import annotations

import unicodedata

from rich.text import Text

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def inert(stored: object) -> str:
    """`stored` as one line of visible text: a line end is shown as \\n, a bidi override as \\u202e."""
    text = str(stored)
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if _is_plain(character) else _escaped(character) for character in text)


def preview(value: bytes | None, most: int = 60) -> str:
    """The beginning of a stored value in at most `most` characters; with its length, where there is room for it."""
    if value is None:
        return ""
    text = inert(value[: most * 4].decode("utf-8", "replace"))
    if len(text) <= most and len(value) <= most * 4:
        return text
    told = f"… ({len(value):,} bytes)" if most >= 40 else "…"
    return text[: most - len(told)] + told


def cell(stored: object, style: str = "") -> Text:
    """A table's cell, or a line, that holds stored text."""
    return Text(inert(stored), style=style)


def _is_plain(character: str) -> bool:
    return unicodedata.category(character) not in _UNSEEN


def _escaped(character: str) -> str:
    point = ord(character)
    if character in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character]
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
