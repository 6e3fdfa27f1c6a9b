"""Earlier: which question a question is compared with, and what became of the call that it was asked for.

That is the last one that somebody answered, because they had looked at it. A flow that catches a
no, or that tries again what was done, asks for the same as another call: a question of its own,
in which the first answer would otherwise be heard by nobody. Nor would it be heard of that the
same was made before, where nobody was asked for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from remit.authority.rules import is_same_matter
from remit.engine.process.outcome import detail_of
from remit.facts.calls import AskView, EffectState, EffectView
from remit.facts.kinds import EffectRefused
from remit.facts.view import RunView

Became = Literal["", "refused", "void", "used"] | EffectState


@dataclass(frozen=True, slots=True)
class Earlier:
    """A question that came before, as it is told beside the one that is asked now.

    ask: its id. by, choice, reason: who said what and why, "" where nobody did. call: for which call of the run it was
    asked. became: of an answer, what it came to: `ok`, `failed`, `did_not_happen` or `in_doubt` as the call stands that
    it let pass; `used` for a question of the flow's own; `refused` where the call was; `void` where it held no longer
    before any of that; "" while it stands. call_state: how the call stands with this very request, whoever let it pass;
    "" where it was never sent.
    """

    ask: str
    by: str
    choice: Literal["approve", "deny", ""]
    call: str
    became: Became
    reason: str
    call_state: EffectState | Literal[""] = ""

    @property
    def is_made(self) -> bool:
        """Whether what was asked for is done, or may be."""
        return self.became == "used" or self.call_state in ("ok", "in_doubt")


@dataclass(frozen=True, slots=True)
class MadeBefore:
    """Another call of the same effect, about the same matter, that was sent.

    call: its name. at: microseconds UTC, when it was sent last. state: how it stands.
    """

    call: str
    at: int
    state: EffectState


def earlier_of(view: RunView, ask: AskView) -> Earlier:
    """An earlier question as it is told."""
    decided = ask.decided
    state = _state(view, ask)
    if decided is None:
        return Earlier(ask.asked.ask, "", "", ask.asked.call, "", "", state)
    became, reason = _became(view, ask), detail_of(decided.reason)
    return Earlier(ask.asked.ask, decided.by, ask.choice, ask.asked.call, became, reason, state)


def answered_last(view: RunView, ask: AskView) -> AskView | None:
    """The newest question of this call, before this one, that somebody looked at for sure, because they answered it."""
    earlier = view.boundary.asks.get(ask.asked.instead_of)
    while earlier is not None and earlier.decided is None:
        earlier = view.boundary.asks.get(earlier.asked.instead_of)
    return earlier


def answered_elsewhere(view: RunView, ask: AskView, immaterial: Sequence[str]) -> AskView | None:
    """The question of another call, about the same matter, that was answered before this one was.

    Of several the newest whose call was made, or may have been: that goes before what was said since. Else the newest.
    immaterial: fields in which the two requests may differ.
    """
    found = [
        other
        for other in reversed(view.boundary.asks.values())
        if other.decided is not None
        and other.asked.call != ask.asked.call
        and _asks_for(other) == _asks_for(ask)
        and _came_before(other, ask)
        and is_same_matter(other.request, ask.request, immaterial)
    ]
    made = (other for other in found if earlier_of(view, other).is_made)
    return next(made, found[0] if found else None)


def made_before(view: RunView, ask: AskView, immaterial: Sequence[str], told: Sequence[Earlier]) -> MadeBefore | None:
    """The newest other call of this effect, about the same matter, that was made or may have been; else the newest.

    None where what is told beside the question says already that another call was made. immaterial: fields in which
    the two requests may differ.
    """
    effect, call = ask.asked.bound.effect, ask.asked.call
    if not effect or any(earlier.is_made and earlier.call != call for earlier in told):
        return None
    found: EffectView | None = None
    for other in reversed(view.boundary.effects.values()):
        if other.intended.effect != effect or other.name == call or not _was_sent_before(other, ask):
            continue
        if is_same_matter(other.request, ask.request, immaterial):
            found = found or other
            if other.may_have_happened:
                found = other
                break
    return None if found is None else MadeBefore(found.name, found.at, found.state)


def _was_sent_before(other: EffectView, ask: AskView) -> bool:
    """Whether who answers could be told that this call was sent."""
    return other.begun < ask.seq or ask.is_open or (ask.decided is not None and other.at < ask.decided.at)


def _asks_for(ask: AskView) -> tuple[str, str]:
    """The effect, or the name that the flow gave a question of its own: without branch and occurrence."""
    effect = ask.asked.bound.effect
    return effect, "" if effect else ask.asked.call.rpartition("/")[2].partition("#")[0]


def _came_before(other: AskView, ask: AskView) -> bool:
    """Whether who answers this one could be told of the answer to the other, where both waited side by side as well."""
    assert other.decided is not None
    if other.seq < ask.seq or ask.is_open:
        return True
    return ask.decided is not None and other.decided.at < ask.decided.at


def _state(view: RunView, ask: AskView) -> EffectState | Literal[""]:
    effect = view.boundary.effects.get(ask.asked.call)
    if effect is None:
        return ""
    is_same = is_same_matter(effect.request, ask.request, ask.asked.bound.immaterial)
    return effect.state if is_same or _let_pass(effect, ask) else ""


def _let_pass(effect: EffectView, ask: AskView) -> bool:
    """Whether this answer let a sending of the call pass: the last one, or one before it that may have landed."""
    return effect.intended.ask == ask.asked.ask or bool(ask.used_by)


def _became(view: RunView, ask: AskView) -> Became:
    call = ask.asked.call
    effect, recorded = view.boundary.effects.get(call), view.calls.get(call)
    if effect is not None and _let_pass(effect, ask):
        return effect.state
    refused = recorded.fact if recorded is not None and isinstance(recorded.fact, EffectRefused) else None
    if refused is not None and (refused.ask == ask.asked.ask or (not refused.ask and ask.stands)):
        return "refused"  # by this very no; or the yes was there, and the business is another run's
    if ask.used_by:
        return "used"
    return "void" if ask.voided else ""
