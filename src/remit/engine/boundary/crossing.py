"""The crossing: every way to the outside, and every way back from a pause, leads through here.

    gather     evidence is taken again, predicates are asked, all of it becomes a question
    judge      one pure function answers
    resume     judgement and intention in one commit, fenced by lease and authority; then a permit
    revalidate somebody or something has to say more: the call waits, and is judged again
    abandon    the flow is told no, or the run ends

What the judge saw is still true when the intention is committed. Where directory, policy,
lane `post`, a business key or a ceiling moved in between, nothing was written and the
question is gathered again, a bounded number of times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from remit.authority.gate import end_of, judge
from remit.authority.rules import scope_end
from remit.engine.boundary import asking
from remit.engine.boundary.evidence import take_again
from remit.engine.boundary.question import conditions_of, question_of, read_again, resume_question
from remit.engine.boundary.settling import word_on
from remit.engine.boundary.shared import is_shared, reservations
from remit.engine.boundary.unneeded import unneeded
from remit.engine.boundary.words import words_of
from remit.engine.process.outcome import detail
from remit.engine.process.standing import look
from remit.engine.turn.due import check_heard
from remit.engine.turn.halt import Ended, Parked, ended
from remit.engine.turn.outlived import doubt_of
from remit.engine.turn.posts import notice
from remit.engine.turn.race import has_lost, is_racing, unless_lost
from remit.engine.turn.turn import Turn
from remit.engine.turn.wish import Permit, Wish
from remit.engine.turn.writer import Conditions, Draft, Of
from remit.errors import AuthorityUnreadable, ClockJumped, Conflict, Denied, Moved, ValueUnreadable
from remit.errors.called import called
from remit.facts.calls import Decided
from remit.facts.judgement import Question, Verdict
from remit.facts.kinds import ApprovalUsed, EffectIntended, EffectRefused, GateJudged
from remit.store.marks import Mark, Reserve, TakeKey

MOVES_MAX = 16  # how often a question is judged again because what it rests on moved; then the run parks

Write = Callable[[Turn, Wish, Sequence[Draft], Conditions], Awaitable[None]]


def may_go_on(turn: Turn) -> Ended | Parked | None:
    """The gate at a plain resume: None, or why the run does not go on. Nothing is written."""
    question = resume_question(turn)
    verdict = judge(question)
    if verdict.decision == "resume":
        return None
    words = words_of(question, verdict, turn.attempt.writer.apart)
    if verdict.decision == "revalidate":
        return Parked("gate", verdict.code, words)
    return _abandoned(turn, GateJudged(question=question, verdict=verdict), words)


async def cross(turn: Turn, wish: Wish, write: Write | None = None) -> Permit | Decided | None:
    """Let a call pass: a permit for an effect, or the answer to a question of the flow's own.

    None where it was to be sent again, and somebody said what became of it before it was: that settles it.

    write: how judgement and intention become durable where that is not an append: in the application's transaction.
    Waits where it has to. Raises Denied and Conflict, which are recorded, and AttemptClosed where the turn ends.
    """
    moves, attempt = 0, turn.attempt
    while moves < MOVES_MAX:
        since = attempt.parking.wakes
        try:
            await turn.one_judged.acquire()
            try:
                passed = await _judge_once(turn, wish, write or _commit)
            finally:
                turn.one_judged.release()
        except Moved as moved:
            moves += 1
            wish.is_committed = False  # nothing was written: who gave it up meanwhile is heard now
            if not wish.is_sent_again:
                wish.check_wanted()
            await look_again(turn, moved)
            continue
        if not isinstance(passed, Parked):
            return passed
        if wish.is_sent_again:
            passed = replace(passed, words=f"{passed.words} {still_in_doubt(turn, wish)}")
        await attempt.parking.wait(passed, is_whole=wish.is_whole, since=since)
    words = f"What {called(wish.name)} rests on moved {MOVES_MAX} times while it was judged; nothing was done."
    attempt.stop(Parked("gate", "authority.moving", words))


async def _judge_once(turn: Turn, wish: Wish, write: Write) -> Permit | Decided | Parked | None:
    """Gather, judge and write down the answer, or what the call waits for. Raises Moved: it is to be done again.

    None where a word counts about what would be sent again: whoever said it was told that it settles the call.
    """
    question = await _gather(turn, wish)
    _check_readable(turn, wish)
    if not wish.is_sent_again:  # that one was begun before the race ended, or the flow gave anything up
        if is_racing():
            await unless_lost()
        check_heard(turn.attempt, wish.name)
    if question.authority != turn.host.standing.authority.version:
        raise Moved("authority")  # another turn read on: nobody is refused by what held when this was begun
    if wish.is_sent_again and word_on(turn.host, turn.attempt, turn.attempt.boundary.effects[wish.name]) is not None:
        return None
    verdict = judge(question)
    if verdict.decision == "resume":
        return await _pass(turn, wish, question, verdict, write)
    return await _turn_back(turn, wish, question, verdict)


def _check_readable(turn: Turn, wish: Wish) -> None:
    """That the function would be given what is judged. Raises AttemptClosed: its type reads it as another value."""
    if wish.effect is not None and wish.effect.request_codec.is_typed:
        try:
            wish.effect.request_codec.read_exactly(wish.data, where=f"the request of {called(wish.name)}")
        except ValueUnreadable as exc:
            turn.attempt.lost(exc)


async def _gather(turn: Turn, wish: Wish) -> Question:
    """The question, of a moment in which this run writes nothing that would have to be waited for.

    Between it and the commit nothing is awaited then: no doubt, no lost race and no call given up comes in between.
    """
    writer = turn.attempt.writer
    while True:
        await take_again(turn, wish)
        question = await question_of(turn, wish)
        if not writer.alone:
            return question
        await writer.until_free()


async def look_again(turn: Turn, moved: Moved) -> None:
    """Read what moved. A business key and a ceiling are read with the next question."""
    if moved.what == "post":
        await notice(turn)
    if moved.what == "authority":
        try:
            await look(turn.host)
        except AuthorityUnreadable as exc:
            turn.attempt.stop(Parked("gate", exc.code, exc.message))


async def _pass(turn: Turn, wish: Wish, question: Question, verdict: Verdict, write: Write) -> Permit | Decided:
    """Commit the judgement and what it permits. This commit is the line: what comes later came too late."""
    attempt, boundary = turn.attempt, turn.attempt.boundary
    judged = attempt.writer.draft(GateJudged(question=question, verdict=verdict), name=wish.name)
    ask, item = _used(question, turn)
    if wish.effect is None:
        assert question.answer is not None, "the flow's own question was answered"
        decided = boundary.asks[ask].decided
        assert decided is not None
        used = attempt.writer.draft(
            ApprovalUsed(ask=ask, item=item), name=wish.name, value=decided.reason or detail("")
        )
        await write(turn, wish, [judged, used], conditions_of(turn, question))
        return decided
    crossing = question.effect
    assert crossing is not None
    intended = EffectIntended(
        ask=ask,
        authority=question.authority,
        business=crossing.business,
        effect=crossing.bound.effect,
        function=wish.effect.function,
        item=item,
        key=crossing.key,
        request=crossing.bound.request,
        reserved=reservations(question),
    )
    draft = attempt.writer.draft(intended, name=wish.name, value=wish.data, salt=wish.salt)
    void, closed = unneeded(attempt, wish.name, used=ask)
    marks = (*closed, *_marks(turn, wish, question, intended))
    until = _holds_until(question, intended)
    await write(turn, wish, [*void, judged, draft], conditions_of(turn, question, marks, until=until))
    if not wish.is_sent_again:  # one that was sent before may have landed, or land yet: it stays in doubt meanwhile
        attempt.under_way.add(wish.name)
    intention, epoch = boundary.effects[wish.name].intention, attempt.lease.epoch
    permit = Permit(wish.name, intention, epoch, intended.key, until)
    turn.permits.add(permit)
    return permit


def _holds_until(question: Question, intended: EffectIntended) -> int:
    """Until when what let it pass holds: a commit may wait for a file or a server, and come back late."""
    times = [question.window_end, *(basis.until for basis in question.evidence)]
    times += [end for limit in question.ceilings if (end := scope_end(limit.per, question.now)) is not None]
    if intended.ask and question.answer is not None:
        times.append(question.answer.until)
    return min(times)


class HeardOrVoid:
    """Whoever loses a race while its question stands hears no answer any more: the question is void, said to or not.

    It rides behind the race. A crash before that is written leaves the question, and a turn that comes here behind the
    recorded race says so then. Whoever is given up otherwise says so, and an answer to it is heard before anything new.
    """

    __slots__ = ("_attempt", "_name", "_request")

    def __init__(self, turn: Turn, name: str, request: bytes) -> None:
        self._attempt, self._name, self._request = turn.attempt, name, request

    def __enter__(self) -> None:
        self._attempt.awaited[self._name] = self._request

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        attempt, name = self._attempt, self._name
        attempt.awaited.pop(name, None)
        attempt.delivery.close(name)
        if not isinstance(error, asyncio.CancelledError):
            return
        if not has_lost():
            attempt.given_up[name] = self._request
        elif attempt.is_open and name not in attempt.boundary.in_doubt:
            with suppress(ClockJumped):
                for void in unneeded(attempt, name)[0]:
                    attempt.writer.ride_draft(void)


def _used(question: Question, turn: Turn) -> tuple[str, str]:
    """The question whose answer is used up, and the posted decision."""
    if question.answer is None or not (question.needs or question.unanswered):
        return "", ""
    decided = turn.attempt.boundary.asks[question.answer.ask].decided
    assert decided is not None, "the gate lets nothing pass without a decision on this very question"
    return question.answer.ask, decided.item


def _marks(turn: Turn, wish: Wish, question: Question, intended: EffectIntended) -> tuple[Mark, ...]:
    """What others must not take: held from this commit until the settlement.

    Of a call that is sent again only what is more than it holds, and nothing is given back: what was sent before may
    still land, on the day and under the business key of then. Where that is nothing, the ceiling is compared all the
    same: others may have taken of it, under another maximum, since it was judged.
    """
    marks: list[Mark] = []
    if intended.business:
        marks.append(TakeKey(intended.business, wish.name))
    before = turn.attempt.boundary.effects.get(wish.name)
    held = {} if before is None or before.settled is not None else {r.scope: r.amount for r in before.reserved}
    for taken in intended.reserved:
        if not is_shared(taken.scope):
            continue
        most = min(limit.max for limit in question.ceilings if limit.scope == taken.scope)
        marks.append(Reserve(taken.scope, max(taken.amount - held.get(taken.scope, 0), 0), most))
    return tuple(marks)


async def _commit(turn: Turn, wish: Wish, drafts: Sequence[Draft], conditions: Conditions) -> None:
    """Write under the lease, the authority that was judged by, and what was posted up to now. Raises Moved."""
    attempt = turn.attempt
    attempt.check_open()
    wish.is_committed = True  # from here on a cancelled call of an effect no longer stops it, but where this is refused
    of: Of = "" if wish.is_sent_again else "beginning"
    await attempt.append_if(drafts, conditions, of=of, is_stoppable=wish.effect is None)


async def _turn_back(turn: Turn, wish: Wish, question: Question, verdict: Verdict) -> Parked:
    """Not now, or no: what the call waits for, written down."""
    done, again = turn.attempt.boundary.may_have_happened, wish.is_sent_again
    words = words_of(question, verdict, turn.attempt.writer.apart, done, is_sent_again=again)
    judged = GateJudged(question=question, verdict=verdict)
    if verdict.decision == "abandon":
        await _check_still(turn, wish, question, verdict)
    if verdict.decision == "abandon" and end_of(verdict.code).is_told:
        if wish.name in turn.attempt.boundary.in_doubt:  # it may have happened: a no only says not to send it again
            code, left = doubt_of(turn.attempt)
            return Parked("doubt", code, f"{words}{left}")
        raise await _refuse(turn, wish, judged, words)
    if verdict.decision == "abandon":
        turn.attempt.stop(_abandoned(turn, judged, words, wish.name))
    return await asking.revalidate(turn, wish, judged, words)


async def _check_still(turn: Turn, wish: Wish, question: Question, verdict: Verdict) -> None:
    """Nobody is told no, or ended, by what does not hold any more. Raises Moved, AttemptClosed.

    A turn may have been at its steps for hours since it read the authority, and others give back what they took.
    """
    await look_again(turn, Moved("authority"))
    if turn.host.standing.authority.version != question.authority:
        raise Moved("authority")
    now = await read_again(turn, wish, question)
    if judge(now) != verdict:
        raise Moved("ceiling" if now.effect == question.effect else "business")


def still_in_doubt(turn: Turn, wish: Wish) -> str:
    """What can be done about a call that would be sent again, and is not now."""
    key = turn.attempt.boundary.effects[wish.name].intended.key
    return (
        f"Nobody knows whether {called(wish.name)}, sent before under key {key}, happened; "
        "a person who found out says so with `remit resolve`."
    )


def _abandoned(turn: Turn, judged: GateJudged, words: str, name: str | None = None) -> Ended:
    """The end that a judgement comes to. One that somebody asked for names who did."""
    cancel, code = turn.attempt.boundary.cancel, judged.verdict.code
    item = cancel.item if cancel is not None and code == "cancelled" else ""
    halt = ended(code, words, item=item, judged=judged, name=name)
    # What somebody asked for needs no directory.
    return halt if code == "cancelled" else replace(halt, fence=conditions_of(turn, judged.question).fence)


async def _refuse(turn: Turn, wish: Wish, judged: GateJudged, words: str) -> Denied:
    """Record that the answer to this call is no; the error for the flow."""
    answer, crossing = judged.question.answer, judged.question.effect
    is_denied = judged.verdict.code == "denied"
    used = answer.ask if is_denied and answer is not None else ""
    void, closed = unneeded(turn.attempt, wish.name, used=used)
    if is_denied and answer is not None:
        decided = turn.attempt.boundary.asks[answer.ask].decided
        assert decided is not None
        refused = EffectRefused(ask=answer.ask, code="approval.denied", item=decided.item)
    else:
        assert crossing is not None
        refused = EffectRefused(business=crossing.business, code="idempotency.conflict")
    writer = turn.attempt.writer
    refusal = writer.draft(refused, name=wish.name, value=detail(words))
    drafts = [*void, writer.draft(judged, name=wish.name), refusal]
    await _commit(turn, wish, drafts, conditions_of(turn, judged.question, tuple(closed)))
    return denied(refused, words, wish.name)


def denied(refused: EffectRefused, words: str, call: str) -> Denied:
    """The error that a recorded refusal gives the flow, on the first run and on replay alike."""
    kind = Conflict if refused.code == "idempotency.conflict" else Denied
    return kind(words, code=refused.code, call=call, ask=refused.ask)
