"""Typed: what comes next, with the commands that somebody is to type.

A sentence that fits into a line is one line. In a longer one each command stands on a line of
its own, whole and without anything around it: a terminal that folded it would have whoever
copies a line run half of a command.
"""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from remit.faces.cli.inert import cell, line
from remit.faces.cli.say import Shown
from remit.faces.next_step import Step
from remit.faces.there import There

LINE_CHARACTERS_MAX = 80


def next_of(step: Step, there: There) -> Shown:
    """`Next:` and what is to be done, there."""
    step = step.at(there)
    start = cell("Next:", "bold")
    if len(f"Next: {step.sentence}") <= LINE_CHARACTERS_MAX:
        return line(start, " ", step.sentence)
    first, *rest = step.parts
    told = [line(start, " ", words) if (words := first.strip()) else start]
    for place, part in enumerate(rest):
        if place % 2 == 0:
            told.append(_typed(part))
        elif words := part.strip(" ,;.:"):
            told.append(cell(words + _end(part)))
    return Group(*told)


def _end(words: str) -> str:
    """What stood behind the words, where it ends a sentence or leads on to a command."""
    last = words.rstrip()[-1:]
    return last if last in (".", ":") else ""


def _typed(command: str) -> Text:
    text = cell(f"  {command}")
    text.no_wrap = True
    return text
