"""Vectors of what the gate never let happen: chains that hold and tell it all the same."""

from __future__ import annotations

import msgspec

from remit.facts import kinds
from remit.facts.judgement import Crossing
from tests.vectors.crossings import ASK, AUTHORITY, HOUR, NEEDS, ORDER, OTHER_SALT, QUOTE, SALT, Purchase
from tests.vectors.writer import AT, Journal


def refused() -> list[tuple[str, str, Journal]]:
    """Chains that hold and tell what the gate never let happen."""
    return [(title, "chain.move", story().w.journal("")) for title, story in _STORIES]


def _unjudged() -> Purchase:
    p = Purchase()
    crossing = p.crossing("send", b"1", effect="send", is_asked=False)
    p.w.add(_intended(crossing), name="send", value=b"1", salt=SALT)
    return p


def _judged_no() -> Purchase:
    p = Purchase()
    crossing = p.crossing("send", b"1", effect="send", is_asked=False)
    p.w.add(p.judged(crossing, cancelled=True), name="send")
    p.w.add(_intended(crossing), name="send", value=b"1", salt=SALT)
    return p


def _judged_then_something() -> Purchase:
    p = Purchase()
    crossing = p.crossing("send", b"1", effect="send", is_asked=False)
    p.w.add(p.judged(crossing), name="send")
    p.w.add(kinds.StepDone(took=1), name="wait", value=b"1")
    p.w.add(_intended(crossing), name="send", value=b"1", salt=SALT)
    return p


def _judged_then_an_attempt() -> Purchase:
    p = Purchase()
    crossing = p.crossing("send", b"1", effect="send", is_asked=False)
    p.w.add(p.judged(crossing), name="send")
    p.w.attempt(2, "w")
    p.w.add(_intended(crossing), name="send", value=b"1", salt=SALT)
    return p


def _judged_and_nothing() -> Purchase:
    p = Purchase()
    p.w.add(p.judged(p.crossing("send", b"1", effect="send", is_asked=False)), name="send")
    return p


def _another_call() -> Purchase:
    p = Purchase()
    crossing = p.crossing("send", b"1", effect="send", is_asked=False)
    p.w.add(p.judged(crossing), name="send")
    p.w.add(_intended(crossing), name="send#2", value=b"1", salt=SALT)
    return p


def _another_request() -> Purchase:
    p = Purchase()
    crossing = p.crossing("send", b"1", effect="send", is_asked=False)
    p.w.add(p.judged(crossing), name="send")
    p.w.add(_intended(crossing), name="send", value=b"2", salt=SALT)
    return p


def _another_authority() -> Purchase:
    p = Purchase()
    crossing = p.crossing("send", b"1", effect="send", is_asked=False)
    p.w.add(p.judged(crossing), name="send")
    p.w.add(msgspec.structs.replace(_intended(crossing), authority=8), name="send", value=b"1", salt=SALT)
    return p


def _unapproved() -> Purchase:
    p = Purchase()
    crossing = p.crossing("pay", ORDER, effect="pay", is_asked=True)
    judged = p.judged(crossing, needs=NEEDS, answer=p.answer(crossing.bound, "approve"))
    p.pass_(judged, ORDER)
    return p


def _approved_by_nobody() -> Purchase:
    p = Purchase()
    crossing = p.crossing("pay", ORDER, effect="pay", is_asked=True)
    p.ask(crossing, ORDER)
    judged = p.judged(crossing, needs=NEEDS, answer=p.answer(crossing.bound, "approve"))
    p.pass_(judged, ORDER, ask=ASK, item="ab" * 32)
    return p


def _denied_and_done() -> Purchase:
    p = Purchase()
    crossing = p.crossing("pay", ORDER, effect="pay", is_asked=True)
    item = p.decide(p.ask(crossing, ORDER), "deny")
    judged = p.judged(crossing, needs=NEEDS, answer=p.answer(crossing.bound, "approve"))
    p.pass_(judged, ORDER, ask=ASK, item=item)
    return p


def _approved_twice() -> Purchase:
    p = Purchase()
    crossing = p.crossing("pay", ORDER, effect="pay", is_asked=True)
    item = p.decide(p.ask(crossing, ORDER), "approve")
    for call in ("pay", "pay#2"):
        again = p.crossing(call, ORDER, effect="pay", is_asked=True)
        judged = p.judged(again, needs=NEEDS, answer=p.answer(again.bound, "approve"))
        p.pass_(judged, ORDER, ask=ASK, item=item)
    return p


def _another_question() -> Purchase:
    p = Purchase()
    crossing = p.crossing("pay", ORDER, effect="pay", is_asked=True)
    p.ask(crossing, ORDER)
    item = p.decide("ab" * 32, "approve")
    judged = p.judged(crossing, needs=NEEDS, answer=p.answer(crossing.bound, "approve"))
    p.pass_(judged, ORDER, ask=ASK, item=item)
    return p


def _settled_twice() -> Purchase:
    p = Purchase()
    p.send("send", b"1")
    for _ in range(2):
        p.w.add(kinds.EffectSettled(state="ok"), name="send", value=b"1")
    return p


def _raced_beside_nothing() -> Purchase:
    p = Purchase()
    p.send("send", b"1")
    p.w.add(kinds.RaceWon(beside=["send", "send#2"], sides=["send", "send#2"], winner=0), name="run.first")
    p.send("send#2", b"1")
    return p


def _raced_without_a_winner() -> Purchase:
    p = Purchase()
    p.w.add(kinds.RaceWon(sides=["a", "b"], winner=2), name="run.first")
    return p


def _settled_and_again() -> Purchase:
    p = Purchase()
    p.send("send", b"1")
    p.w.add(kinds.EffectSettled(state="ok"), name="send", value=b"1")
    p.send("send", b"1")
    return p


def _sent_with_another() -> Purchase:
    p = Purchase()
    p.send("send", b"1")
    p.send("send", b"2")
    return p


def _said_by_nobody() -> Purchase:
    p = Purchase()
    p.send("send", b"1")
    p.w.add(kinds.EffectSettled(found="person", item="ab" * 32, state="ok"), name="send", value=b"1")
    return p


def _asked_for_nothing() -> Purchase:
    p = Purchase()
    crossing = p.crossing("pay", ORDER, effect="pay", is_asked=True)
    asked = kinds.ApprovalAsked(ask=ASK, authority=AUTHORITY, bound=crossing.bound, call="pay", until=AT)
    p.w.add(asked, name="pay", value=ORDER, salt=SALT)
    return p


def _asked_twice() -> Purchase:
    p = Purchase()
    crossing = p.crossing("pay", ORDER, effect="pay", is_asked=True)
    p.ask(crossing, ORDER)
    p.ask(crossing, ORDER, ask="00" * 15 + "02")
    return p


def _voided_unasked() -> Purchase:
    p = Purchase()
    p.w.add(kinds.ApprovalVoided(ask=ASK, codes=["approval.payload"]), name="pay")
    return p


def _refused_unasked() -> Purchase:
    p = Purchase()
    item = p.decide("ab" * 32, "deny")
    p.w.add(kinds.EffectRefused(ask=ASK, code="approval.denied", item=item), name="pay", value=b'{"detail":""}')
    return p


def _refused_in_doubt() -> Purchase:
    p = Purchase()
    p.send("send", b"1")
    p.w.add(kinds.EffectRefused(business="b0" * 32, code="idempotency.conflict"), name="send", value=b'{"detail":""}')
    return p


def _salted_anew() -> Purchase:
    p = Purchase()
    p.take_evidence()
    fact = kinds.EvidenceTaken(again=True, as_of=AT, evidence="quote", until=AT + HOUR)
    p.w.add(fact, name="run.evidence.quote", value=QUOTE, salt=SALT)
    return p


def _taken_elsewhere() -> Purchase:
    p = Purchase()
    p.take_evidence()
    fact = kinds.EvidenceTaken(again=True, as_of=AT, evidence="quote", until=AT + HOUR)
    p.w.add(fact, name="a/run.evidence.quote", value=QUOTE, salt=OTHER_SALT)
    return p


def _ended_in_doubt() -> Purchase:
    p = Purchase()
    p.send("send", b"1")
    p.w.add(kinds.RunEnded(status="completed"), value=b"1")
    return p


def _answered_in_main() -> Purchase:
    p = Purchase()
    crossing = p.crossing("pay", ORDER, effect="pay", is_asked=True)
    fact = kinds.ApprovalDecided(
        ask=ASK, asked=p.ask(crossing, ORDER), authority=AUTHORITY, choice="approve", meaning="", roles=["director"]
    )
    p.w.add(fact, value=b'{"detail":""}')
    return p


def _intended_in_post() -> Purchase:
    p = Purchase()
    p.w.post(_intended(p.crossing("send", b"1", effect="send", is_asked=False)), name="send", value=b"1")
    return p


def _judged_by_more_posts() -> Purchase:
    p = Purchase()
    p.posted = 1
    p.w.add(p.judged(p.crossing("send", b"1", effect="send", is_asked=False), wanted="unknown"), name="send")
    return p


def _judged_by_fewer_posts() -> Purchase:
    p = Purchase()
    p.w.post(kinds.SignalSent(), name="note", value=b"1")
    crossing = p.crossing("send", b"1", effect="send", is_asked=False)
    for p.posted in (1, 0):
        p.w.add(p.judged(crossing, wanted="unknown"), name="send")
    return p


def _intended(crossing: Crossing) -> kinds.EffectIntended:
    return kinds.EffectIntended(
        authority=AUTHORITY,
        business=crossing.business,
        effect=crossing.bound.effect,
        function=f"shop.{crossing.bound.effect}",
        key=crossing.key,
        request=crossing.bound.request,
    )


_STORIES = [
    ("an effect without a judgement", _unjudged),
    ("an effect that the gate abandoned", _judged_no),
    ("something between judgement and intention", _judged_then_something),
    ("an attempt between judgement and intention", _judged_then_an_attempt),
    ("a judgement that let pass, and the journal ends", _judged_and_nothing),
    ("another call than was judged", _another_call),
    ("another request than was judged", _another_request),
    ("another authority than was judged by", _another_authority),
    ("an effect without the approval that it needs", _unapproved),
    ("an approval that nobody gave", _approved_by_nobody),
    ("a denial, used as an approval", _denied_and_done),
    ("one approval for two calls", _approved_twice),
    ("an answer to another question", _another_question),
    ("an effect that was settled twice", _settled_twice),
    ("a race beside an effect that was not intended by then", _raced_beside_nothing),
    ("a race that was won by none of its sides", _raced_without_a_winner),
    ("an effect that was settled and happens again", _settled_and_again),
    ("an effect in doubt that is sent with another request", _sent_with_another),
    ("a doubt that nobody resolved, settled by a person", _said_by_nobody),
    ("a question that no judgement led to", _asked_for_nothing),
    ("a second question while the first one waits", _asked_twice),
    ("a question that was never asked is void", _voided_unasked),
    ("a denial of a question that was never asked", _refused_unasked),
    ("a refusal of what may have happened", _refused_in_doubt),
    ("evidence that was taken again under another salt", _salted_anew),
    ("evidence that was taken again for another branch", _taken_elsewhere),
    ("an end while an effect is in doubt", _ended_in_doubt),
    ("a decision in lane main", _answered_in_main),
    ("an intention in lane post", _intended_in_post),
    ("a judgement by more of lane post than there is", _judged_by_more_posts),
    ("a judgement by less of lane post than one before it", _judged_by_fewer_posts),
]
