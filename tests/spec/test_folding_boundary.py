"""Folding refuses: a journal whose chain holds, and that tells of the boundary what Remit can't have written.

Whoever goes around the gate, in code or in the database, knows every hash and still has to
put a judgement in front of what it did, about that very call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

import remit
from remit.facts.entry import value_digest
from remit.facts.fact import Fact
from remit.facts.judgement import Answer, Bound, Crossing, Need, Question, Verdict, Who
from remit.facts.kinds import (
    ApprovalAsked,
    ApprovalDecided,
    ApprovalUsed,
    ApprovalVoided,
    CancelAsked,
    DoubtResolved,
    EffectIntended,
    EffectRefused,
    EffectSettled,
    EvidenceTaken,
    GateJudged,
    RunEnded,
    RunParked,
    StepDone,
)
from remit.store.memory import MemoryStore
from tests.support.journal import BY, SALT, WINDOW_END, Hand, open_held, read_stored, read_view, view_of

PAY = b'{"amount":5}'
REQUEST = value_digest(SALT, PAY)
OTHER = value_digest(SALT, b'{"amount":6}')
KEY = "a1" * 32
ASK = "b2" * 16
DETAIL = b'{"detail":"because"}'
NEED = Need(roles=["director"], source="contract", within=1_000)
BOUND = Bound(effect="pay", request=REQUEST)
DORA = Who(known=True, principal="user:dora", roles=["director"])


def question(name: str = "pay", *, bound: Bound = BOUND, key: str = KEY, authority: int = 3, **fields: Any) -> Question:
    crossing = Crossing(bound=bound, key=key, name=name)
    executor = Who(known=True, principal=BY)
    return Question(
        authority=authority, effect=crossing, executor=executor, head="cd" * 32, now=1, risk="low", seq=2,
        window_end=WINDOW_END, **fields,
    )  # fmt: skip


def judged(decision: Any = "resume", **fields: Any) -> GateJudged:
    code = "" if decision == "resume" else "approval_needed"
    return GateJudged(question=question(**fields), verdict=Verdict(code=code, decision=decision, findings=[]))


def intended(**fields: Any) -> EffectIntended:
    return EffectIntended(
        **{"authority": 3, "effect": "pay", "function": "shop.pay", "key": KEY, "request": REQUEST, **fields}
    )


def asked(**fields: Any) -> ApprovalAsked:
    return ApprovalAsked(**{"ask": ASK, "authority": 3, "bound": BOUND, "call": "pay", "until": WINDOW_END, **fields})


OK = EffectSettled(state="ok")
NOT = EffectSettled(state="did_not_happen")


class Forger:
    """Writes a chain that holds, entry by entry."""

    def __init__(self, store: MemoryStore, hand: Hand) -> None:
        self.store, self.hand = store, hand

    async def main(self, *facts: Fact, name: str | None = "pay", value: bytes = PAY) -> None:
        for fact in facts:
            await self.store.append(self.hand.unit(self._sealed(fact, name, value)))

    def _sealed(self, fact: Fact, name: str | None, value: bytes) -> Any:
        valued = {"EffectIntended", "ApprovalAsked"}
        told = value if type(fact).__name__ in valued else DETAIL
        bare = {"GateJudged", "ApprovalVoided", "AttemptStarted"}
        unnamed = isinstance(fact, RunEnded | RunParked)
        return self.hand.seal(fact, name=None if unnamed else name, value=None if type(fact).__name__ in bare else told)

    async def post(self, fact: Fact) -> str:
        """An item of lane post; its hash."""
        stored = await read_stored(self.store, self.hand.row.run_key)
        hand = Hand(self.store, stored.row, lane="post")
        await self.store.append(hand.unit(hand.seal(fact, value=DETAIL)))
        return hand.pen.head.hex()

    async def answered(self, choice: Any = "approve", **fields: Any) -> str:
        """The question that was asked last is answered; the item."""
        told = {"ask": ASK, "asked": self.head, "authority": 3, "choice": choice, "meaning": "", "roles": ["director"]}
        return await self.post(ApprovalDecided(**{**told, **fields}))

    @property
    def head(self) -> str:
        return self.hand.pen.head.hex()

    async def refused(self, what: str) -> None:
        stored = await read_stored(self.store, self.hand.row.run_key)
        with pytest.raises(remit.Tampered) as found:
            view_of(self.store, stored)
        assert (found.value.code, found.value.lane) == ("chain.move", "main")
        assert what in found.value.message
        assert found.value.seq == stored.row.seq


@pytest.fixture
async def forger() -> Any:
    store = MemoryStore()
    await store.open()
    yield Forger(store, await open_held(store, "r"))
    await store.close()


async def folds(forger: Forger) -> Any:
    return await read_view(forger.store, forger.hand.row.run_key)


# -- what is legal, so that each refusal below is of what it says -----------------------------------------------------


async def test_judged_intended_and_settled_is_how_an_effect_is_told(forger: Forger):  # proves: GATE-1, LOG-4
    await forger.main(judged(), intended(), OK)
    assert (await folds(forger)).boundary.effects["pay"].state == "ok"


async def test_asked_answered_and_used_is_how_an_approval_is_told(forger: Forger):  # proves: APR-1, LOG-4
    await forger.main(judged("revalidate", needs=[NEED]), asked())
    item = await forger.answered()
    await forger.main(judged(needs=[NEED]), intended(ask=ASK, item=item), OK)
    assert (await folds(forger)).boundary.asks[ASK].used_by == "pay"


# -- intentions -------------------------------------------------------------------------------------------------------

WRONG: list[tuple[str, str, list[Fact]]] = [
    ("without a judgement", "an intention that no judgement let pass", [intended()]),
    ("after a judgement that said no", "an intention that no judgement let pass", [judged("revalidate"), intended()]),
    ("after an abandonment", "an intention that no judgement let pass", [judged("abandon"), intended()]),
    ("twice after one judgement", "an intention that no judgement let pass", [judged(), intended(), OK, intended()]),
    ("of another request", "something else than was judged", [judged(bound=replace(BOUND, request=OTHER)), intended()]),
    ("of another effect", "something else than was judged", [judged(bound=replace(BOUND, effect="wire")), intended()]),
    ("under another key", "something else than was judged", [judged(key="ff" * 32), intended()]),
    ("under another authority", "something else than was judged", [judged(authority=2), intended()]),
    ("with another request than its value", "something else than was judged",
     [judged(bound=replace(BOUND, request=OTHER)), intended(request=OTHER)]),
    ("without the approval that was demanded", "without the approval", [judged(needs=[NEED]), intended()]),
    ("without the approval that could not be ruled out", "without the approval", [judged(unanswered="E"), intended()]),
    ("with an approval that nobody demanded", "without the approval", [judged(), intended(ask=ASK)]),
    ("with an approval that was never asked", "never asked", [judged(needs=[NEED]), intended(ask=ASK)]),
    ("again after it was settled", "settled is intended again", [judged(), intended(), OK, judged(), intended()]),
    ("again after it was declined", "settled is intended again",
     [judged(), intended(), EffectSettled(state="failed"), judged(), intended()]),
    ("again under another key", "intended again under another key",
     [judged(), intended(), NOT, judged(key="ff" * 32), intended(key="ff" * 32)]),
    ("behind something else", "does not follow", [judged(), StepDone(took=1)]),
    ("behind an attempt to end", "does not follow", [judged(), RunEnded(status="completed")]),
    ("behind another judgement", "does not follow", [judged(), judged()]),
    ("behind a park", "does not follow", [judged(), RunParked(code="x", waits_for="gate")]),
]  # fmt: skip


async def test_an_effect_is_not_intended_again_with_another_request(forger: Forger):  # proves: FX-11, LOG-4
    """The key does not tell: it is the call's."""
    await forger.main(judged(), intended(), NOT)
    other = judged(bound=replace(BOUND, request=OTHER))
    await forger.main(other, intended(request=OTHER), value=b'{"amount":6}')
    await forger.refused("again under another key, or with another request")


@pytest.mark.parametrize(("what", "facts"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
async def test_an_intention_is_of_what_was_judged_directly_before(what, facts, forger):  # proves: GATE-1, LOG-4
    await forger.main(*facts)
    await forger.refused(what)


async def test_an_intention_of_another_call_than_was_judged(forger: Forger):  # proves: GATE-1, LOG-4
    await forger.main(judged())
    await forger.main(intended(), name="pay#2")
    await forger.refused("what it permitted does not follow")


async def test_a_judgement_under_the_name_of_another_call(forger: Forger):  # proves: GATE-1, LOG-4
    await forger.main(judged(), name="pay#2")
    await forger.refused("a judgement about another call")


async def test_a_journal_does_not_end_between_judgement_and_intention(forger: Forger):  # proves: GATE-1, LOG-4
    """The two are one commit: nobody reads the one without the other."""
    await forger.main(judged())
    await forger.refused("the journal ends before what it permitted")


async def test_a_judgement_of_a_plain_resume_permits_no_effect(forger: Forger):  # proves: GATE-1, LOG-4
    plain = GateJudged(question=replace(question(), effect=None), verdict=Verdict(decision="resume", findings=[]))
    await forger.main(plain, name=None)
    await forger.main(intended())
    await forger.refused("an intention that no judgement let pass")


# -- approvals --------------------------------------------------------------------------------------------------------

Tell = Callable[[Forger], Any]


async def unanswered(forger: Forger) -> EffectIntended:
    return intended(ask=ASK, item="00" * 32)


async def denied(forger: Forger) -> EffectIntended:
    return intended(ask=ASK, item=await forger.answered("deny"))


async def of_another_question(forger: Forger) -> EffectIntended:
    return intended(ask=ASK, item=await forger.answered(asked="ee" * 32))


async def of_another_decision(forger: Forger) -> EffectIntended:
    await forger.answered("deny")
    return intended(ask=ASK, item=await forger.answered("approve"))


async def voided(forger: Forger) -> EffectIntended:
    item = await forger.answered()
    await forger.main(ApprovalVoided(ask=ASK, codes=["approval.payload"]))
    return intended(ask=ASK, item=item)


USES: list[tuple[str, str, Tell]] = [
    ("nobody answered", "an approval that nobody gave", unanswered),
    ("somebody said no", "an approval that nobody gave", denied),
    ("the answer was to another question", "an approval that nobody gave", of_another_question),
    ("the first answer was a no", "an approval that nobody gave", of_another_decision),
    ("it is void", "answered, void or used up", voided),
]


@pytest.mark.parametrize(("what", "tell"), [u[1:] for u in USES], ids=[u[0] for u in USES])
async def test_a_yes_that_was_not_given_lets_nothing_happen(what, tell, forger):  # proves: APR-1, APR-6, LOG-2
    await forger.main(judged("revalidate", needs=[NEED]), asked())
    fact = await tell(forger)
    await forger.main(judged(needs=[NEED]), fact)
    await forger.refused(what)


async def test_a_yes_is_used_once(forger: Forger):  # proves: APR-6, LOG-4
    await forger.main(judged("revalidate", needs=[NEED]), asked())
    item = await forger.answered()
    use = intended(ask=ASK, item=item)
    await forger.main(judged(needs=[NEED]), use, EffectSettled(state="failed"))
    await forger.main(judged("resume", name="pay#2", needs=[NEED]), use, name="pay#2")
    await forger.refused("answered, void or used up")


async def test_a_yes_is_of_one_call(forger: Forger):  # proves: APR-7, LOG-4
    await forger.main(judged("revalidate", needs=[NEED]), asked())
    item = await forger.answered()
    await forger.main(judged(name="pay#2", needs=[NEED]), intended(ask=ASK, item=item), name="pay#2")
    await forger.refused("an approval of another call")


async def test_a_yes_comes_back_only_where_its_effect_did_not_happen(forger: Forger):  # proves: APR-6, FX-12
    await forger.main(judged("revalidate", needs=[NEED]), asked())
    use = intended(ask=ASK, item=await forger.answered())
    await forger.main(judged(needs=[NEED]), use, NOT, judged(needs=[NEED]), use, OK)
    assert (await folds(forger)).boundary.effects["pay"].calls == 2
    await forger.main(judged(needs=[NEED]), use)
    await forger.refused("settled is intended again")


async def test_a_question_follows_the_judgement_that_led_to_it(forger: Forger):  # proves: APR-1, LOG-4
    await forger.main(asked())
    await forger.refused("a question that no judgement led to")


@pytest.mark.parametrize(
    "fact", [asked(bound=replace(BOUND, version="2")), asked(call="wire")], ids=["bound otherwise", "of another call"]
)
async def test_a_question_is_the_one_that_was_judged(fact: Fact, forger: Forger):  # proves: APR-1, LOG-4
    await forger.main(judged("revalidate", needs=[NEED]), fact)
    await forger.refused("a question that no judgement led to")


async def test_a_question_shows_the_request_that_it_is_bound_to(forger: Forger):  # proves: APR-1, FX-4
    await forger.main(judged("revalidate", needs=[NEED]))
    await forger.main(asked(), value=b'{"amount":6}')
    await forger.refused("a question about another request than it is bound to")


@pytest.mark.parametrize("ask", [ASK, "c3" * 16], ids=["under the same id", "under another"])
async def test_nobody_is_asked_twice_at_once(ask: str, forger: Forger):  # proves: APR-6, LOG-4
    await forger.main(judged("revalidate", needs=[NEED]), asked(), asked(ask=ask))
    await forger.refused("a question that was asked before")


async def test_what_was_never_asked_is_not_voided(forger: Forger):  # proves: LOG-4
    await forger.main(ApprovalVoided(ask=ASK, codes=["approval.payload"]))
    await forger.refused("never asked")


async def test_a_refusal_names_a_no_that_somebody_said(forger: Forger):  # proves: LOG-2, LOG-4
    await forger.main(judged("revalidate", needs=[NEED]), asked())
    item = await forger.answered("approve")
    await forger.main(judged("abandon", needs=[NEED]), EffectRefused(ask=ASK, code="approval.denied", item=item))
    await forger.refused("a refusal by somebody who did not say so")


BEFORE: list[tuple[str, str, list[Fact]]] = [
    ("in doubt", "a refusal of what may have happened", [judged(), intended()]),
    ("settled", "'pay' completed a second time", [judged(), intended(), OK]),
]


@pytest.mark.parametrize(("what", "before"), [b[1:] for b in BEFORE], ids=[b[0] for b in BEFORE])
async def test_what_may_have_happened_is_not_refused_afterwards(what, before, forger):  # proves: LOG-4
    await forger.main(*before, judged("abandon"), EffectRefused(code="idempotency.conflict"))
    await forger.refused(what)


OWN = Bound(effect="", request=REQUEST)
YES = Answer(
    ask=ASK, asked_at=1, at=1, bound=OWN, by=DORA, choice="approve", roles=["director"], until=WINDOW_END
)  # fmt: skip


async def test_a_question_of_the_flows_own_is_used_behind_its_judgement(forger: Forger):  # proves: APR-10, LOG-4
    await forger.main(judged("revalidate", bound=OWN, needs=[NEED]), asked(bound=OWN))
    used = ApprovalUsed(ask=ASK, item=await forger.answered())
    await forger.main(judged(bound=OWN, needs=[NEED], answer=YES), used)
    assert (await folds(forger)).calls["pay"].fact == used


@pytest.mark.parametrize("before", [[], [judged(needs=[NEED])]], ids=["without one", "behind one about an effect"])
async def test_no_question_is_used_without_its_judgement(before: list[Fact], forger: Forger):  # proves: APR-10, LOG-4
    await forger.main(judged("revalidate", bound=OWN, needs=[NEED]), asked(bound=OWN))
    item = await forger.answered()
    await forger.main(*before, ApprovalUsed(ask=ASK, item=item))
    await forger.refused("an approval that no judgement let pass")


# -- settlements ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [[], [judged(), intended(), OK]], ids=["never intended", "settled before"])
async def test_nothing_is_settled_that_was_not_intended(before: list[Fact], forger: Forger):  # proves: FX-2, LOG-4
    await forger.main(*before, OK)
    await forger.refused("a settlement of what was not intended")


async def test_a_person_s_word_is_one_that_was_said_about_this_call(forger: Forger):  # proves: FX-9, LOG-4
    await forger.main(judged(), intended())
    stated = DoubtResolved(authority=1, call="pay", intended=forger.head, state="ok")
    item = await forger.post(stated)
    assert (await folds(forger)).boundary.in_doubt == ["pay"]
    await forger.main(EffectSettled(found="person", item=item, state="did_not_happen"))
    await forger.refused("a settlement by a person who did not say so")


@pytest.mark.parametrize("intention", ["00" * 32, "own"], ids=["about another call", "by nobody"])
async def test_a_word_that_nobody_said_settles_nothing(intention: str, forger: Forger):  # proves: FX-9, LOG-4
    await forger.main(judged(), intended())
    item = "ab" * 32
    if intention != "own":
        item = await forger.post(DoubtResolved(authority=1, call="pay", intended=intention, state="ok"))
    await forger.main(EffectSettled(found="person", item=item, state="ok"))
    await forger.refused("a settlement by a person who did not say so")


async def test_no_run_ends_while_an_effect_is_in_doubt(forger: Forger):  # proves: FX-2, LOG-4
    await forger.main(judged(), intended(), RunEnded(status="completed"))
    await forger.refused("an end while an effect is in doubt")


async def test_an_end_that_names_a_wish_for_it_names_one_that_was_posted(forger: Forger):  # proves: RUN-14, LOG-4
    item = await forger.post(CancelAsked())
    await forger.main(RunEnded(code="cancelled", item=item, status="cancelled"))
    assert (await folds(forger)).status == "cancelled"


@pytest.mark.parametrize("status", ["cancelled", "completed"])
async def test_a_run_ends_by_no_wish_that_nobody_had(status: Any, forger: Forger):  # proves: RUN-14, LOG-4
    item = "ab" * 32 if status == "cancelled" else await forger.post(CancelAsked())
    await forger.main(RunEnded(item=item, status=status))
    await forger.refused("an end that nobody asked for")


# -- evidence ---------------------------------------------------------------------------------------------------------


async def test_evidence_is_taken_before_it_is_taken_again(forger: Forger):  # proves: GATE-2, LOG-4
    again = EvidenceTaken(again=True, as_of=1, evidence="quote", until=2)
    await forger.main(again, name="run.evidence.quote")
    await forger.refused("evidence taken again that was never taken")


async def test_evidence_names_the_call_that_stated_it(forger: Forger):  # proves: GATE-2, LOG-4
    await forger.main(EvidenceTaken(as_of=1, evidence="quote", until=2), name=None)
    await forger.refused("without the call that stated it")
