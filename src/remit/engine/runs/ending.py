"""How a turn ends: the one place where its last entry is written.

    the flow returned     completed, unless an effect is in doubt or somebody cancelled it meanwhile
    it was halted         parked, or over, when all that is under way at the outside is settled
    it raised             parked for repair; a denial that it did not catch fails the run, if none of it is left
    code and journal      disagree: written down once, however often the same code tries

A run does not end while an effect is in doubt: it waits, and whoever settles the doubt lets it end.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from remit.authority.gate import outcome_of
from remit.engine.boundary.crossing import may_go_on
from remit.engine.boundary.settling import take_words
from remit.engine.process.outcome import Outcome, detail, with_done
from remit.engine.process.standing import check_not_behind, look
from remit.engine.turn.attempt import Attempt
from remit.engine.turn.caught import failed_behind, to_run_again
from remit.engine.turn.closing import MISFITS
from remit.engine.turn.halt import Again, Ended, Halt, Parked, ended
from remit.engine.turn.left import cut_short, staying
from remit.engine.turn.outlived import at_work, doubt_of, early_words, is_noted
from remit.engine.turn.posts import cancelled, notice
from remit.engine.turn.step import text_of, type_name
from remit.engine.turn.turn import Turn
from remit.engine.turn.writer import Draft
from remit.errors import (
    AuthorityUnreadable,
    DefinitionIncompatible,
    Denied,
    Moved,
    RemitError,
    StepError,
    ValueUnreadable,
)
from remit.errors.called import all_called
from remit.facts.kinds import RunEnded, RunParked, WaitsFor
from remit.facts.machine import Status
from remit.store.marks import CloseAsk, Mark

E = TypeVar("E", bound=RemitError)


async def begin(turn: Turn, *, is_new: bool) -> Outcome | Again | None:
    """The gate before anything of the flow runs; None where it may, or where it may only settle what is in doubt.

    is_new: the run was opened for this turn, so that the newest authority and the clock were looked at just now.
    Raises ClockJumped, with nothing written.
    """
    if not is_new:
        try:
            await look(turn.host)
            check_not_behind(turn.host, turn.attempt.view)
            turn.host.clock.check()
            await take_words(turn.host, turn.attempt)
        except AuthorityUnreadable as exc:
            return await finish(turn.attempt, Parked("gate", exc.code, exc.message))
    halt = may_go_on(turn)
    if isinstance(halt, Ended) and turn.attempt.boundary.in_doubt:
        turn.attempt.settles_for = halt
        return None
    return None if halt is None else await finish(turn.attempt, halt)


async def complete(turn: Turn, data: bytes, result: Any) -> Outcome | Again:
    """The flow returned."""
    attempt = turn.attempt
    await attempt.drain()
    if attempt.closed_by is not None:
        raise attempt.closed_by
    if attempt.halted is not None:  # by a call that the flow left behind
        return await finish(attempt, attempt.halted)
    if attempt.unasked:
        raise attempt.misfit(tuple(sorted(attempt.unasked)), ())
    if attempt.boundary.in_doubt:
        return await finish(turn.attempt, _doubtful(attempt))
    if attempt.settles_for is not None:
        return await finish(turn.attempt, attempt.settles_for)
    if _is_believing(attempt):
        return await finish(turn.attempt, Again())
    try:
        await attempt.end(RunEnded(status="completed"), data, marks=_closing(attempt))
    except Moved:
        await notice(turn)
        cancel = attempt.boundary.cancel
        if cancel is not None:
            return await finish(turn.attempt, cancelled(cancel))
        await attempt.end(RunEnded(status="completed"), data, marks=_closing(attempt), is_post_seen=False)
    return Outcome(attempt.run_id, Status.COMPLETED, _value=result)


async def finish(attempt: Attempt, halt: Halt) -> Outcome | Again:
    """Write why the turn ends. What is under way at the outside is let finish first. Again: another turn begins.

    An end that directory or policy came to is written only while they are the newest: else another turn judges anew.
    """
    await attempt.drain()
    if attempt.closed_by is not None:
        raise attempt.closed_by
    cancel = attempt.boundary.cancel
    if cancel is not None and not isinstance(halt, Ended):
        halt = cancelled(cancel)
    if isinstance(halt, Ended) and attempt.boundary.in_doubt:
        halt = _doubtful(attempt, halt)
    if isinstance(halt, Again):
        stays = _doubtful(attempt) if attempt.boundary.in_doubt else _undone(attempt)
        if stays is None:
            return halt
        halt = stays
    if isinstance(halt, Parked):
        return await _park(attempt, halt)
    judged: list[Draft] = [] if halt.judged is None else [attempt.writer.draft(halt.judged, name=halt.name)]
    words = with_done(halt.words, attempt.boundary.happened)
    try:
        await attempt.end(
            halt.fact, detail(words), before=judged, marks=_closing(attempt), is_post_seen=False, fence=halt.fence
        )
    except Moved:
        return Again()
    return Outcome(attempt.run_id, halt.status, halt.fact.code, words)


async def _park(attempt: Attempt, halt: Parked) -> Outcome | Again:
    """The run waits. A turn that found nothing new writes nothing: it only gives the lease back.

    Whatever else it waits for, a run with an effect in doubt is found among those in doubt.
    """
    if attempt.boundary.in_doubt:
        halt = replace(halt, waits_for="doubt")
    words = detail(halt.words)
    outcome = Outcome(attempt.run_id, _parked_status(halt), halt.code, halt.words, halt.waits_for)
    fact = _parked(attempt, halt.code, halt.waits_for)
    if _is_news(attempt, fact, words):
        try:
            await attempt.end(fact, words)
        except Moved:
            await attempt.end(fact, words, is_post_seen=False)
            return Again()
    return outcome


def _parked(attempt: Attempt, code: str, waits_for: WaitsFor, calls: Sequence[str] = ()) -> RunParked:
    """How a turn parks, and what only its process knows of the calls in doubt, whatever the run waits for."""
    early, left = early_words(attempt), at_work(attempt)
    return RunParked(at_work=left, calls=list(calls), code=code, early=early, waits_for=waits_for)


def _is_news(attempt: Attempt, fact: RunParked, words: bytes) -> bool:
    """Whether the journal does not end with this already. A word that a turn took up left the run running."""
    before = attempt.view.parked
    told = None if before is None else (before.waits_for, before.code, attempt.view.last_value)
    is_told = told == (fact.waits_for, fact.code, words)
    return attempt.has_news or not is_told or bool(fact.early) or not is_noted(attempt)


def _parked_status(halt: Parked) -> Status:
    return Status.IN_DOUBT if halt.waits_for == "doubt" else Status.WAITING


def _doubtful(attempt: Attempt, after: Ended | None = None) -> Parked:
    names = all_called(attempt.boundary.in_doubt)
    then = "" if after is None else f" When that is known the run ends as {after.status}: {after.words}"
    told = f"Nobody knows whether {names} happened; a person who found out says so with `remit resolve`."
    code, left = doubt_of(attempt)
    return Parked("doubt", code, f"{told}{left}{then}")


def _is_believing(attempt: Attempt) -> bool:
    """Whether what the flow returned may rest on a wrong belief of what it gave up: another turn lets it hear first.

    Not where it recorded anything behind that: it acted on what it knew, and would not find that again.
    """
    effects = attempt.boundary.effects
    wrong = [name for name in attempt.let_go if name not in effects or effects[name].state != "did_not_happen"]
    return bool(wrong) and all(attempt.let_go[name] == attempt.writer.rides for name in wrong)


def _undone(attempt: Attempt) -> Parked | None:
    """The flow gave up an effect that did not happen: another turn at once would send it anew, and so without end."""
    gone_on = [each.name for each in attempt.boundary.effects.values() if each.settled and each.settled.goes_on]
    names = [name for name in gone_on if name in attempt.let_go]
    if not names:
        return None
    words = f"{all_called(names)}, which the flow gave up, is known not to have happened; the next turn tries again."
    return Parked("repair", "effect.did_not_happen", words)


def _closing(attempt: Attempt) -> tuple[Mark, ...]:
    """No question of a run that is over waits for an answer."""
    return tuple(CloseAsk(ask.asked.ask) for ask in attempt.boundary.asks.values() if ask.is_open)


async def refuse(turn: Turn, why: DefinitionIncompatible | ValueUnreadable) -> Outcome | Again | None:
    """Write down that code and journal disagree, unless that is what the run waits for already; None where it waits.

    What rides, draws and races of the flow that does not fit, is dropped. What is under way at the outside is let
    finish first, and is settled. Raises what stopped that.
    """
    attempt = turn.attempt
    await attempt.drain()
    if attempt.closed_by is not None and not isinstance(attempt.closed_by, MISFITS):
        raise attempt.closed_by
    words = detail(why.message)
    waits_for: WaitsFor = "doubt" if attempt.boundary.in_doubt else "repair"
    attempt.reopen_to_end()
    fact = _parked(attempt, why.code, waits_for)
    return await _park_unless_cancelled(turn, fact, words) if _is_news(attempt, fact, words) else None


async def deny(turn: Turn, exc: Denied) -> Outcome | Again:
    """A denial that the flow did not catch. One of a user's class with an odd code or text is one too."""
    code, words = (exc.code, exc.message) if _can_be_stored(exc) else (Denied.code, text_of(exc))
    return await finish(turn.attempt, ended(outcome_of(code), words))


async def park(turn: Turn, flow: str, exc: BaseException) -> RemitError | Outcome | Again:
    """The run waits for mended code or surroundings; the error for its caller. Outcome: somebody cancelled it."""
    attempt, error = turn.attempt, exc
    await attempt.drain()
    if attempt.closed_by is not None:
        raise attempt.closed_by
    if isinstance(attempt.halted, Ended):
        return await finish(attempt, attempt.halted)
    if not (isinstance(error, RemitError) and _can_be_stored(error)):
        error = StepError(run=attempt.run_id, name=flow, error_type=type_name(exc), detail=text_of(exc))
    calls = to_run_again(exc, attempt.run_id, attempt.failed, staying(attempt))
    if isinstance(error, StepError):
        error.hint = _what_next(attempt, exc, error, calls)
    waits_for: WaitsFor = "doubt" if attempt.boundary.in_doubt else "repair"
    fact = _parked(attempt, error.code, waits_for, calls)
    return await _park_unless_cancelled(turn, fact, detail(error.message)) or error


def _what_next(attempt: Attempt, exc: BaseException, error: StepError, again: list[str]) -> str:
    """What to do about a flow that failed: mending brings only those calls on that run again."""
    if error is exc:
        return _STAYS.format("this") if error.name in attempt.failed and error.name not in again else error.hint
    if names := cut_short(attempt, exc):
        return _CUT_SHORT.format(_named([*names])) + (_AGAIN.format(_named(again)) if again else "")
    stay = [name for name in failed_behind(exc, attempt.run_id) if name not in again]
    if stay:
        hint = _STAYS if attempt.failed.intersection(stay) else _STAYS_NO
        return hint.format(_named(stay)) + (_AGAIN.format(_named(again)) if again else "")
    return error.hint if again else _IS_ITS_OWN + (_RAISED_FROM if attempt.failed else "")


def _named(calls: list[str]) -> str:
    """The first of them, where there are many."""
    return all_called(calls) if len(calls) <= _MANY else f"{all_called(calls[:_MANY])} and {len(calls) - _MANY} more"


_MANY = 3
_STAYS = (
    "Let the flow catch {} and go another way, which may be the same call once more where nothing was done in its "
    "stead (`remit effects RUN`), and call again with the same id, or cancel the run: what is recorded stays, because "
    "the flow called something behind it, as in a `finally` or for the next of a list, or may have, in a task or a "
    "thread."
)
_STAYS_NO = "It was a no, which stays: let the flow catch {} and go another way, or cancel the run."
_IS_ITS_OWN = "Mend the code or its surroundings and call again with the same id: what is recorded stays."
_AGAIN = " What runs again at the next call is {}."
_CUT_SHORT = (
    "Mend the code or its surroundings and call again with the same id: what is recorded stays, also {}, to which the "
    "flow did not come this time."
)
_RAISED_FROM = (
    " A failed call stays failed too; it may run again only where what leaves the flow was raised from it, or is a "
    "group that has it."
)


async def _park_unless_cancelled(turn: Turn, fact: RunParked, words: bytes) -> Outcome | Again | None:
    """Park, and hear first what was posted while the flow ran; None where nobody cancelled it."""
    attempt = turn.attempt
    while True:
        try:
            await attempt.end(fact, words)
        except Moved:
            await notice(turn)
            cancel = attempt.boundary.cancel
            if cancel is not None:
                return await finish(attempt, cancelled(cancel))
        else:
            return None


def with_doubts(error: E, names: Sequence[str]) -> E:
    """The same error for whoever asked for the turn, who would read of it that nothing was done outside.

    One of its own: what the store raised may be the answer to other runs of the same commit as well.
    """
    told = copy.copy(error)
    told.message = f"{error.message} But {_named([*names])} may have happened: what became of it is not written."
    told.args = (told.message,)
    return told.with_traceback(error.__traceback__)


def _can_be_stored(error: RemitError) -> bool:
    """Whether code and text of an error, which may be of a user's own class, can stand in the journal."""
    code, text = error.code, getattr(error, "message", None)
    is_code = type(code) is str and 0 < len(code) <= 200 and code.isascii() and code.isprintable()
    return is_code and isinstance(text, str)
