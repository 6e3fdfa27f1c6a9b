"""Unneeded: a question whose call needs nobody's answer any more is void, and in no list.

It says so in the commit that ends the need: its call passes by another answer or by none, gets a no, is settled as
done or declined, or loses its race. What did not happen after all is judged anew, and its question stands.
"""

from __future__ import annotations

from remit.engine.turn.attempt import Attempt
from remit.engine.turn.writer import Draft
from remit.facts.kinds import ApprovalVoided
from remit.store.marks import CloseAsk, Mark


def unneeded(attempt: Attempt, call: str, *, used: str = "") -> tuple[list[Draft], list[Mark]]:
    """What voids the question of a call that has one. used: whose answer is used up. Raises ClockJumped."""
    ask = attempt.boundary.ask_of(call)
    if ask is None or ask.asked.ask == used:
        return [], []
    voided = ApprovalVoided(ask=ask.asked.ask, codes=["approval.not_needed"])
    return [attempt.writer.draft(voided, name=call)], [CloseAsk(ask.asked.ask)]
