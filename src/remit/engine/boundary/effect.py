"""Effects: the only way to the outside world.

    recall          the journal has what became of it: return that, touch nothing
    in doubt        end the doubt as declared, or wait for a person
    cross           the gate; judgement and intention are durable before the outside world is touched
    touch           the user's function, with the stored request and the key
    EffectSettled   durable after it answered

Forward and recovery are one path: after a crash it is walked again from its first line. An effect
that was intended is seen through to its settlement even where its call is cancelled, because
what it did outside does not go away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec

from remit.authority.denials import is_refused
from remit.engine.boundary.crossing import HeardOrVoid, cross, denied
from remit.engine.boundary.doubt import end_doubt
from remit.engine.boundary.port import Answered, note_left, touch
from remit.engine.boundary.settling import is_lost, settle
from remit.engine.boundary.shared import business_digest
from remit.engine.declared.outward import Outward
from remit.engine.declared.sink import REQUEST_BYTES_MAX, Effect
from remit.engine.process.outcome import detail_of
from remit.engine.process.salt import draw_salt
from remit.engine.turn.answers import is_trouble
from remit.engine.turn.attempt import Attempt
from remit.engine.turn.closing import AttemptClosed, until_done
from remit.engine.turn.due import until_due
from remit.engine.turn.halt import Parked
from remit.engine.turn.race import has_lost
from remit.engine.turn.step import text_of, type_name
from remit.engine.turn.turn import Turn
from remit.engine.turn.wish import Permit, RestsOn, Wish
from remit.errors import (
    OVERSIZE_HINT,
    DefinitionIncompatible,
    EffectDeclined,
    EffectDidNotHappen,
    RemitError,
    ValueRefused,
    ValueUnreadable,
)
from remit.errors.called import called
from remit.facts.boundary import Boundary
from remit.facts.calls import EffectView
from remit.facts.kinds import EffectRefused, EffectSettled
from remit.facts.view import Recorded

CALLS_MAX = 3  # of one effect in one attempt, each after it was known that the one before did not happen

_REQUEST_HINT = "Give what the effect's function annotates for its request; with no annotation, JSON's own types only."

_log = logging.getLogger("remit")

Go = Callable[[Turn, Wish], Coroutine[Any, Any, Any]]


async def perform(turn: Turn, effect: Effect[Any], name: str, data: bytes, rests_on: RestsOn) -> Any:
    """The outcome of one call of an effect, recorded or new.

    data: the request's bytes, from when the call was named. Raises EffectFailed, Denied, Conflict, AttemptClosed.
    """
    attempt = turn.attempt
    attempt.unbegun.begin(name)
    with attempt.parking, HeardOrVoid(turn, name, data):
        try:
            recorded = await attempt.recall(name, "effect")
            if recorded is not None:
                check_same(turn, effect, name, data)
                return recall_outcome(turn, effect, recorded)
            wish = wish_for(turn, effect, name, data, rests_on)
            await attempt.meet(wish)
        except asyncio.CancelledError:
            attempt.see_to(name, partial(_see_to, turn, effect, data, rests_on))
            raise
        return await seen_through(turn, wish, _go)


async def seen_through(turn: Turn, wish: Wish, go: Go) -> Any:
    """Wait for it in the flow's task, while it runs in one of its own that a cancelled call does not end."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = _begin(turn, wish, go, over)
    try:
        await over  # and not the task: whoever is cancelled here cancels what they wait for
        if turn.attempt.rest.is_several:
            await turn.attempt.delivery.turn(wish.name)
        return task.result()
    except asyncio.CancelledError:
        if task.cancelled() and (not turn.attempt.is_open or turn.attempt.over_by == "raised"):
            raise AttemptClosed from None  # it was not the flow that gave it up
        if not task.done() and not turn.attempt.is_outside(wish):
            task.cancel()
            await until_done(task)
        if not task.done():
            wish.let_go()
            turn.attempt.parking.outlive(task)
            turn.attempt.parking.wake()  # where it waits, the flow does not wait with it any more
            if not has_lost():
                turn.attempt.let_go[wish.name] = turn.attempt.writer.rides
                if wish.name not in turn.attempt.boundary.in_doubt:
                    task.add_done_callback(partial(_never_begun, turn, wish))
        elif not task.cancelled() and not has_lost():
            # It was over in the very moment in which it was given up, and the flow goes on as if it were not.
            turn.attempt.let_go[wish.name] = turn.attempt.writer.rides
        raise


def _never_begun(turn: Turn, wish: Wish, task: asyncio.Task[Any]) -> None:
    """What was given up before its intention was on the disk: nothing of it is outside, and nobody waits for it."""
    if task.cancelled() and not wish.is_committed:
        turn.attempt.let_go.pop(wish.name, None)


def _see_to(turn: Turn, effect: Effect[Any], data: bytes, rests_on: RestsOn, view: EffectView) -> None:
    """End the doubt of a call that nobody waits for: by all that it would be held to if somebody did."""
    wish = wish_for(turn, effect, view.name, data, rests_on)
    wish.let_go()
    turn.attempt.parking.outlive(_begin(turn, wish, _go_when_replayed))


def _begin(turn: Turn, wish: Wish, go: Go, awaited: asyncio.Future[None] | None = None) -> asyncio.Task[Any]:
    """awaited: done when the task is."""
    task = asyncio.create_task(go(turn, wish), name=f"remit-effect-{wish.name}")
    turn.attempt.in_flight[task] = wish
    task.add_done_callback(partial(_heard, turn.attempt, wish, awaited))
    return task


def _heard(attempt: Attempt, wish: Wish, awaited: asyncio.Future[None] | None, over: asyncio.Task[Any]) -> None:
    attempt.in_flight.pop(over, None)
    if awaited is not None and not awaited.done():
        awaited.set_result(None)
    # Where nobody waits for it any more, what became of it stands in the journal all the same; but for a fault.
    error = None if over.cancelled() else over.exception()
    if error is not None and is_trouble(error):
        attempt.close(error)
    if wish.is_let_go and isinstance(error, Exception) and not isinstance(error, RemitError):
        what = "%s of run %a, which its flow let go of, raised %s: %s"
        _log.error(what, wish.name, attempt.run_id, type_name(error), text_of(error), exc_info=error)


async def _go_when_replayed(turn: Turn, wish: Wish) -> Any:
    """Once nothing recorded can contradict it any more."""
    await turn.attempt.replay.until_over(wish.name)
    turn.attempt.check_held()  # a flow that goes on to something new halts the turn, which then waits for this
    return await _go(turn, wish)


async def _go(turn: Turn, wish: Wish) -> Any:
    """The call from its doubt, if it is in one, to its settlement."""
    effect, attempt = wish.effect, turn.attempt
    assert isinstance(effect, Effect)
    while True:
        view = attempt.boundary.effects.get(wish.name)
        if view is not None and view.settled is None:
            if not await end_doubt(turn, wish, view):
                continue  # settled, or it waited: look again
        elif view is not None and view.settled is not None and view.state != "did_not_happen":
            return outcome_of(turn, effect, wish.name, view.settled, view.outcome)
        else:
            wish.check_wanted()
            if view is not None:
                attempt.delivery.withdraw(wish.name)  # what was drafted was not the last of it
                attempt.check_open()  # a turn that is over lets finish what it asked outside, and then asks nobody
            await attempt.check_may_begin(wish.name)
            if attempt.unasked:  # its doubt ended here, and it would begin anew
                await until_due(attempt, wish)
        _check_not_too_often(turn, wish)
        permit = await cross(turn, wish)
        if permit is None:
            wish.is_sent_again, wish.times_sent_again = False, wish.times_sent_again - 1
            continue
        assert isinstance(permit, Permit)
        told = await _call(turn, wish, effect, permit)
        if told is None:
            continue  # in doubt, or never begun
        settled, value = told
        attempt.parking.wake()
        if settled.state == "did_not_happen":
            attempt.failed |= {wish.name}
        return outcome_of(turn, effect, wish.name, settled, value)


def _check_not_too_often(turn: Turn, wish: Wish) -> None:
    if wish.calls == CALLS_MAX:
        words = (
            f"{called(wish.name)}, called {CALLS_MAX} times, is known not to have happened; the next turn tries again."
        )
        turn.attempt.stop(Parked("repair", "effect.did_not_happen", words))


async def _call(turn: Turn, wish: Wish, effect: Effect[Any], permit: Permit) -> tuple[EffectSettled, bytes] | None:
    """One call and its settlement; None where it leaves a doubt, or never began and is judged anew."""
    wish.calls += 1
    told: tuple[EffectSettled, bytes] | None = None
    try:
        answered = await touch(turn, effect, permit)
        was_sent_before, wish.is_sent_again = wish.is_sent_again, False
        if answered.state == "doubt" or (was_sent_before and _is_of_this_time(wish, answered)):
            if answered.state != "doubt" and wish.is_first_here:
                turn.host.lock.answer(permit.key, permit.epoch)
            wish.doubt = answered.error
            return None
        if answered.state == "unsent":
            told = await settle(turn, wish, answered._replace(state="did_not_happen"), found="unsent")
            return None
        # A crash here leaves the intention alone: in doubt, and found out as declared.
        told = await settle(turn, wish, answered)
        return told
    finally:
        turn.attempt.under_way.discard(wish.name)
        if told is None:
            note_left(turn, permit)


def _is_of_this_time(wish: Wish, answered: Answered) -> bool:
    """Whether it is known only that nothing happened this time, and what was sent before may still land."""
    return answered.state in ("did_not_happen", "unsent") or (answered.state == "failed" and not wish.is_rest_over)


def recall_outcome(turn: Turn, effect: Outward[Any], recorded: Recorded) -> Any:
    """What a recorded call gives the flow: its outcome, or the error that the first run raised."""
    fact = recorded.fact
    if isinstance(fact, EffectRefused):
        raise denied(fact, detail_of(recorded.value), recorded.name)
    assert isinstance(fact, EffectSettled)  # `recall` saw to it
    return outcome_of(turn, effect, recorded.name, fact, recorded.value)


def outcome_of(turn: Turn, effect: Outward[Any], name: str, settled: EffectSettled, value: bytes | None) -> Any:
    attempt = turn.attempt
    if is_lost(settled):
        lost = f"{called(name)} happened and its outcome is lost ({detail_of(value)}); nothing is called again."
        words = f"{lost} The run can't go on: look outside for what the outcome was, and cancel the run."
        attempt.stop(Parked("repair", "effect.value_lost", words))
    if settled.state == "ok":
        assert value is not None  # the fold saw to it
        try:
            return effect.codec.read(value, where=called(name))
        except ValueUnreadable as exc:
            attempt.lost(exc if settled.found != "person" else _unread(name, exc))
    kind = EffectDeclined if settled.state == "failed" else EffectDidNotHappen
    raise kind(run=attempt.run_id, name=name, error_type=settled.error, detail=detail_of(value))


def _unread(name: str, exc: ValueUnreadable) -> ValueUnreadable:
    """The same of an outcome that a person gave, who could not be told that it does not fit: nobody had the code."""
    way = "it happened and is not called again; let its function's return type read that, or cancel the run"
    return ValueUnreadable(
        f"{exc.reason}; {way}", type_name=exc.type_name, where=f"{called(name)}, as a person gave it"
    )


def request_of(effect: Outward[Any], name: str, request: Any) -> bytes:
    """The bytes of a request, from here on the only form of it. Raises ValueRefused: nothing was done."""
    where = f"the request of {called(name)}"
    data: bytes = effect.request_codec.write_whole(request, where=where, hint=_REQUEST_HINT)
    if len(data) > REQUEST_BYTES_MAX:
        reason = f"it has {len(data):,} bytes of at most {REQUEST_BYTES_MAX:,}"
        raise ValueRefused(reason, where=where, hint=OVERSIZE_HINT)
    return data


def wish_for(turn: Turn, effect: Outward[Any], name: str, data: bytes, rests_on: RestsOn) -> Wish:
    """What this call wants, for whoever waits for it or sees to it. Raises AttemptClosed: it wanted something else."""
    check_same(turn, effect, name, data)
    return Wish(name, effect, data, salt_of(turn, name), rests_on, is_whole=turn.attempt.replay.is_whole())


def check_same(turn: Turn, effect: Outward[Any], name: str, data: bytes) -> None:
    """After an intention, or a no, the request is what it is: code that would send another one is another code."""
    view, calls = turn.attempt.boundary.effects.get(name), turn.attempt.view.calls
    refused = calls[name].fact if name in calls else None
    other = ""
    if view is not None:
        other = "" if view.request == data else "another request"
    elif isinstance(refused, EffectRefused):
        other = _unrefused(turn.attempt.boundary, effect, name, refused, data)
    if other and view is not None and view.state == "did_not_happen":
        done = turn.attempt.boundary.may_have_happened
        turn.attempt.lost(DefinitionIncompatible((name,), (f"{name} with {other}",), done=done, is_undone=True))
    if other:
        turn.attempt.disagree((name,), (f"{name} with {other}",))


def _unrefused(boundary: Boundary, effect: Outward[Any], name: str, refused: EffectRefused, data: bytes) -> str:
    """Why a recorded no is none to this call: a person's is to its matter, a conflict to its business key; "" if it is.

    Of the business key only the digest is known, and another one follows from other code as well as from a request.
    """
    if refused.ask:
        return "" if is_refused(boundary, name, refused, data) else "another request"
    return "" if business_digest(effect, msgspec.json.decode(data)) == refused.business else "another business key"


def salt_of(turn: Turn, name: str) -> bytes:
    """The salt of this call's request, so that its digests compare with those of its question or intention."""
    boundary = turn.attempt.boundary
    effect, ask = boundary.effects.get(name), boundary.last_ask_of(name)
    return effect.salt if effect is not None else ask.salt if ask is not None else draw_salt()
