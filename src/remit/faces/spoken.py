"""Spoken: what people said of a run, with their reasons. Kept when the run is over, because somebody will ask."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from remit.engine.process.outcome import detail_of
from remit.facts.view import RunView


@dataclass(frozen=True, slots=True)
class Spoken:
    """What one person said. did: "said no to pay". words: the reason or the evidence, "" for none. at: µs UTC."""

    by: str
    did: str
    words: str
    at: int


def spoken(view: RunView) -> tuple[Spoken, ...]:
    """Answers to questions, what became of doubts, and the wish for an end, oldest first."""
    boundary, found = view.boundary, []
    for ask in boundary.asks.values():
        if (given := ask.decided) is not None:
            did = "said yes to" if given.fact.choice == "approve" else "said no to"
            found.append(Spoken(given.by, f"{did} {ask.asked.call}", detail_of(given.reason), given.at))
    for told in (word for words in boundary.resolved.values() for word in words):
        what = "it happened" if told.fact.state == "ok" else "it did not happen"
        did = f"said what became of {told.fact.call}, {what}"
        found.append(Spoken(told.by, did, evidence_of(told.value), told.at))
    if (wish := boundary.cancel) is not None:
        found.append(Spoken(wish.by, "asked for its end", detail_of(wish.reason), wish.at))
    return tuple(sorted(found, key=lambda one: one.at))


def evidence_of(value: bytes | None) -> str:
    """How a person knows what became of a doubt, of {"evidence": words, "outcome": JSON}."""
    told = msgspec.json.decode(value) if value is not None else None
    words = told.get("evidence") if isinstance(told, dict) else None
    return words if isinstance(words, str) else ""
