"""Spoken: what people said of a run, with their reasons. Kept when the run is over, because somebody will ask."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from remit.authority.directory import Authority
from remit.engine.people.counting import answer_counts, word_counts
from remit.engine.process.outcome import detail_of
from remit.errors.called import called
from remit.facts.view import RunView


@dataclass(frozen=True, slots=True)
class Spoken:
    """What one person said. did: "said no to pay". words: the reason or the evidence, "" for none. at: µs UTC.

    counts: of what the next turn would take up, whether it does, by the directory and the policy of now. False as well
    of a yes to a question that became void, or whose time is over, and of a word by which no effect was settled.
    """

    by: str
    did: str
    words: str
    at: int
    counts: bool = True


def spoken(view: RunView, authority: Authority | None, now: int) -> tuple[Spoken, ...]:
    """Answers to questions, what became of doubts, and the wish for an end, oldest first.

    authority: as it is now; None where it can't be believed. now: microseconds UTC.
    """
    boundary, found = view.boundary, []
    for ask in boundary.asks.values():
        if (given := ask.decided) is not None:
            did = "said yes to" if given.fact.choice == "approve" else "said no to"
            is_good = answer_counts(view, ask, authority, now)
            did = f"{did} {called(ask.asked.call)}"
            found.append(Spoken(given.by, did, detail_of(given.reason), given.at, is_good))
    for told in (word for words in boundary.resolved.values() for word in words):
        what = "it happened" if told.fact.state == "ok" else "it did not happen"
        did = f"said what became of {called(told.fact.call)}, {what}"
        is_good = word_counts(view, told, authority)
        found.append(Spoken(told.by, did, evidence_of(told.value), told.at, is_good))
    if (wish := boundary.cancel) is not None:
        found.append(Spoken(wish.by, "asked for its end", detail_of(wish.reason), wish.at))
    return tuple(sorted(found, key=lambda one: one.at))


def evidence_of(value: bytes | None) -> str:
    """How a person knows what became of a doubt, of {"evidence": words, "outcome": JSON}."""
    told = msgspec.json.decode(value) if value is not None else None
    words = told.get("evidence") if isinstance(told, dict) else None
    return words if isinstance(words, str) else ""
