"""Denials: what a person's no is one to.

    fields_apart   the fields in which a request may differ from the one that somebody said no to
    denied         the question of a call that was answered so, about this very matter
    is_refused     whether a no that is recorded is one to this request

A no is to its matter as it was asked, whoever is asked today: where a rule was dropped, or counts fewer fields as
immaterial, it is to no less. Where the rules of today count more of them, it is to more.
"""

from __future__ import annotations

from collections.abc import Iterable

from remit.authority.rules import is_same_matter
from remit.facts.boundary import Boundary
from remit.facts.calls import AskView
from remit.facts.kinds import EffectRefused


def fields_apart(ask: AskView, immaterial: Iterable[str]) -> list[str]:
    """Fields that may differ, in order. immaterial: those of the rules as they are now."""
    return sorted({*ask.asked.bound.immaterial, *immaterial})


def denied(boundary: Boundary, call: str, request: bytes, immaterial: Iterable[str]) -> AskView | None:
    """The newest question of a call, of this very matter, that somebody said no to: it stands whatever moved."""
    for ask in boundary.denials(call):
        if is_same_matter(ask.request, request, fields_apart(ask, immaterial)):
            return ask
    return None


def is_refused(boundary: Boundary, call: str, refused: EffectRefused, request: bytes) -> bool:
    """Whether a person's no, as it is recorded of this call, is one to this request: by all that it was found so by."""
    ask, judged = boundary.asks[refused.ask], boundary.held.get(call)
    answer = None if judged is None else judged.question.answer
    wider = answer.immaterial if answer is not None and answer.ask == refused.ask else ()
    return is_same_matter(ask.request, request, fields_apart(ask, wider))
