"""Counting: whether what a person said would still count, were it taken up now.

Whoever looks is told that the next turn takes an answer up only where it would: by the very checks
that the gate and the settling have, with today's directory and policy, at this time.
"""

from __future__ import annotations

import msgspec

from remit.authority.answers import faults
from remit.authority.directory import Authority
from remit.authority.witness import counts
from remit.engine.boundary.question import answer_to
from remit.engine.people.asks import is_policy_moved, standing
from remit.facts.calls import AskView, Resolved
from remit.facts.view import RunView


def answer_counts(view: RunView, ask: AskView, authority: Authority | None, now: int) -> bool:
    """Whether the answer to a question stands. A no does, and what was used; a yes to one that is void does not.

    Of the rest is asked what is known without the code of the run: who gave it and for whom the run acts, whether its
    time is over, and whether the policy was set since. Of a run that is over nothing more. authority: None where it
    can't be believed, so that nobody knows better. now: microseconds UTC.
    """
    decided, judged = ask.decided, view.boundary.asked_for.get(ask.asked.ask)
    if decided is None or decided.fact.choice == "deny" or ask.used_by:
        return True
    if ask.voided or judged is None or authority is None or view.ended is not None:
        return not ask.voided
    if standing(view, ask, now) == "over" or is_policy_moved(ask, authority):
        return False
    opened = view.opened
    question = msgspec.structs.replace(
        judged.question,
        answer=answer_to(authority, ask, decided, call=ask.asked.call, bound=ask.asked.bound),
        behalf=None if opened.behalf is None else authority.who(opened.behalf),
        executor=authority.who(opened.by),
    )
    return not faults(question)


def word_counts(view: RunView, told: Resolved, authority: Authority | None) -> bool:
    """Whether what somebody said became of an effect stands: it was settled by that, or would be now.

    Of one in doubt that is the last word about how it was sent last, by who may say so now.
    """
    effect = view.boundary.effects.get(told.fact.call)
    if told.item in view.boundary.taken or effect is None or effect.settled is not None:
        return told.item in view.boundary.taken
    if told is not view.boundary.last_word(effect) or view.is_early(told):
        return False
    return authority is None or counts(authority, view.opened, effect, told)
