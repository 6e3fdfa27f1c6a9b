"""Sent before: what is asked of a person where a call is in doubt, and would be sent again.

Its first sending may have done it. A yes is to a second one under the same key, and a no takes nothing back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from remit.authority.directory import Authority
from remit.authority.witness import counts
from remit.facts.calls import AskView, EffectView, Resolved
from remit.facts.judgement import Question
from remit.facts.view import RunView


@dataclass(frozen=True, slots=True)
class SentBefore:
    """How a call was sent that somebody is asked about, while nobody knows whether it happened.

    key: idempotency key that the outside was given, and is given again. at: microseconds UTC, of its last intention.
    calls: how often it was sent. told_by, told: who said since that it happened (`ok`) or did not (`did_not_happen`),
    as the next turn settles it by, where that counts; "" while nobody did.
    """

    key: str
    at: int
    calls: int
    told_by: str = ""
    told: Literal["", "ok", "did_not_happen"] = ""


def sent_before(view: RunView, ask: AskView, authority: Authority | None) -> SentBefore | None:
    """How the call was sent that a question is about; None where it was not by then, or it is known what became of it.

    authority: as it is now: what somebody said counts by that; None where it can't be believed.
    """
    effect = view.boundary.effects.get(ask.asked.call)
    if effect is None or effect.settled is not None or effect.begun > ask.seq:
        return None
    word = view.boundary.last_word(effect)
    if word is None or view.is_early(word) or not _counts(view, effect, word, authority):
        return SentBefore(effect.intended.key, effect.at, effect.calls)
    return SentBefore(effect.intended.key, effect.at, effect.calls, word.by, word.fact.state)


def _counts(view: RunView, effect: EffectView, word: Resolved, authority: Authority | None) -> bool:
    return authority is None or counts(authority, view.opened, effect, word)


def is_of_a_doubt(view: RunView, question: Question) -> bool:
    """Whether the gate was asked this about a call that was in doubt by then, and is: as what would be sent again."""
    if question.effect is None or question.effect.own:
        return False
    effect = view.boundary.effects.get(question.effect.name)
    return effect is not None and effect.settled is None and effect.begun <= question.seq
