"""Doubts: an effect was intended, and nobody knows whether it happened.

    a person said       that is what became of it
    probe               the outside world is asked; "it landed" settles it
    resend              it is sent again under the same key, which the other side deduplicates
    ask                 the run waits for a person

"It did not land" ends a doubt only where that is final: the other side fences and the probe raised
the fence above the first request; or the process that sent it is proven dead, and the time was over
in which what it sent may still land, before the probe was asked. Where the other side deduplicates
it is leave to send again, and no more: a late first request does nothing beside a second under this
key, and may well land where no second one follows. Nor does a no to what was sent again end a doubt,
while what was sent before may still land. Otherwise a person decides. Never is a second call made in
silence.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

from remit.authority.durations import MICROSECOND
from remit.authority.moments import datetime_of
from remit.engine.boundary.crossing import look_again
from remit.engine.boundary.port import Answered, ask_outside
from remit.engine.boundary.settling import is_early, settle, take_word, word_on
from remit.engine.declared.sink import Declined, DidNotHappen, Effect, Landed, NotLanded
from remit.engine.process.liveness import boot_of
from remit.engine.turn.halt import Parked
from remit.engine.turn.outlived import doubt_of
from remit.engine.turn.step import text_of, type_name
from remit.engine.turn.turn import Turn
from remit.engine.turn.wish import Wish
from remit.errors import Moved
from remit.errors.called import called
from remit.facts.calls import EffectView, Resolved
from remit.facts.kinds import AT_WORK, TOLD_EARLY

RESENDS_MAX = 1  # in one attempt; a sink that does not answer twice is left to the next attempt

_DATED_MAX = 253_402_300_799_000_000  # the end of the year 9999
_NOT_LANDED = "the probe found nothing, but what was sent may still land"
_DECLINED = "it was declined this time, but what was sent before may still land"


async def end_doubt(turn: Turn, wish: Wish, view: EffectView) -> bool:
    """Whether it may be sent again now, by rule. False where it was settled, or waited for somebody."""
    effect, attempt = wish.effect, turn.attempt
    assert isinstance(effect, Effect)
    since = attempt.parking.wakes
    try:
        if await take_word(turn.host, attempt, view):
            return False
        is_asked = is_probed(wish, view)
        why = await _probe(turn, wish, view) if is_asked else ""
    except Moved as moved:
        await look_again(turn, moved)
        return False
    if not _is_same_other_side(effect, view):
        why = "the code talks to another connector or version since, which can't know of it"
    elif is_asked:
        wish.probed |= {view.intention}
        if attempt.boundary.effects[wish.name].settled is not None:
            return False
        if why == _NOT_LANDED and effect.sink == "dedupes" and _may_send_again(turn, wish):
            return _sends_again(turn, wish, view)
        why += _how_long(turn, wish, view) if why == _NOT_LANDED else ""
    elif is_due_again(turn, wish, view):
        return _sends_again(turn, wish, view)
    elif told := attempt.boundary.last_word(view):
        why = _untaken(turn, view, told)
    elif isinstance(wish.doubt, Declined):
        why = f"{_DECLINED}{_how_long(turn, wish, view)}"
    await attempt.parking.wait(_in_doubt(turn, wish, view, why), is_whole=wish.is_whole, since=since)
    return False


def is_due_again(turn: Turn, wish: Wish, view: EffectView) -> bool:
    """Whether its rule sends it again now, where nobody said what became of it."""
    effect = wish.effect
    if not isinstance(effect, Effect) or effect.doubt != "resend" or not _is_same_other_side(effect, view):
        return False
    return _may_send_again(turn, wish)


def is_probed(wish: Wish, view: EffectView) -> bool:
    """Whether its rule asks the other side now, where nobody said what became of it."""
    effect = wish.effect
    if not isinstance(effect, Effect) or effect.doubt != "probe" or not _is_same_other_side(effect, view):
        return False
    return view.intention not in wish.probed


def _may_send_again(turn: Turn, wish: Wish) -> bool:
    """Whether this attempt sends it once more, where the other side deduplicates."""
    return wish.times_sent_again < RESENDS_MAX and turn.attempt.settles_for is None


def _sends_again(turn: Turn, wish: Wish, view: EffectView) -> Literal[True]:
    """Nothing is settled or given back by that, and it is judged anew.

    Whether what was sent before is over is asked now: what lands while this one is on its way is not in its answer.
    """
    wish.times_sent_again += 1
    wish.is_sent_again, wish.is_rest_over = True, _is_final(turn, wish, view)
    wish.is_first_here = turn.attempt.lease.epoch not in view.attempts
    return True


def _is_same_other_side(effect: Effect[Any], view: EffectView) -> bool:
    """Whether the code still talks to whom the intention was sent to."""
    crossing = view.judged.question.effect
    assert crossing is not None  # the fold saw to it
    return (crossing.bound.connector, crossing.bound.version) == (effect.connector, effect.version)


async def _probe(turn: Turn, wish: Wish, view: EffectView) -> str:
    """Ask outside, and settle where the answer is final; else why it is not. Raises Moved: somebody else said so."""
    effect = wish.effect
    assert isinstance(effect, Effect)
    is_final = _is_final(turn, wish, view)  # before it is asked: what landed while the answer came is not in it
    said: Any = await ask_outside(turn, effect, view.request, view.intended.key)
    if isinstance(said, Landed):
        await settle(turn, wish, Answered("ok", said.outcome, None, 0), found="probe")
        turn.attempt.parking.wake()
        return ""
    if isinstance(said, NotLanded):
        if not is_final:
            return _NOT_LANDED
        if word_on(turn.host, turn.attempt, view) is not None:
            raise Moved("post")  # it was said while the other side was asked, and goes before its "no"
        await settle(
            turn, wish, Answered("did_not_happen", None, DidNotHappen("the probe found nothing"), 0), found="probe"
        )
        turn.attempt.parking.wake()
        return ""
    if isinstance(said, BaseException):
        return f"the probe raised {type_name(said)}: {text_of(said)}"
    return f"the probe gave {type(said).__name__}, which is neither Landed nor NotLanded"


def _is_final(turn: Turn, wish: Wish, view: EffectView) -> bool:
    """Whether "not landed", or a no to what is sent again, stays so: nothing that holds for it is needed any more."""
    effect, attempt = wish.effect, turn.attempt
    assert isinstance(effect, Effect)
    if view.intended.key in turn.host.outstanding:
        return False  # its call has not returned in this process
    if effect.is_probe_fenced and view.attempt < attempt.lease.epoch:
        return True  # the probe told the other side this epoch: a late request of the sender's is refused from then on
    until = _lands_until(turn, wish, view)
    return until is not None and attempt.writer.earliest() > until and not _lands_for(turn, effect, view)


def _lands_until(turn: Turn, wish: Wish, view: EffectView) -> int | None:
    """Until when what was sent may land, microseconds UTC; None where nobody knows that.

    Not from the intention on: a sender may have worked at it for long before it sent, so the time is counted from
    when the journal first says that it is dead, and each whose sending may still land has to be.
    """
    effect, known = wish.effect, turn.attempt.view
    assert isinstance(effect, Effect)
    dead_at = [known.dead.get(known.worker_of(attempt) or "") for attempt in _senders(turn, view)]
    if effect.lands_within is None or None in dead_at:
        return None
    return max([0, *(death.at for death in filter(None, dead_at))]) + effect.lands_within // MICROSECOND


def _senders(turn: Turn, view: EffectView) -> list[int]:
    """Attempts whose sending may still land: not those of which this process heard that nothing came of theirs."""
    answered = turn.host.lock.answered.get(view.intended.key, ())
    return [attempt for attempt in view.attempts if attempt not in answered]


def _lands_for(turn: Turn, effect: Effect[Any], view: EffectView) -> int:
    """For how long what was sent may still land by the time that this machine is up: microseconds, 0 for no longer.

    A clock that is set forward ends no doubt early where its sender died since this machine was started.
    """
    known, up = turn.attempt.view, turn.host.clock.up()
    if up is None or effect.lands_within is None:
        return 0
    deaths = filter(None, (known.dead.get(known.worker_of(attempt) or "") for attempt in _senders(turn, view)))
    here = [death.up for death in deaths if boot_of(death.host) == boot_of(turn.host.me.host) != ""]
    return max([0, *(then + effect.lands_within // MICROSECOND - up for then in here)])


def _how_long(turn: Turn, wish: Wish, view: EffectView) -> str:
    """For how long what was sent may still land, where the effect says that of its other side."""
    effect = wish.effect
    assert isinstance(effect, Effect)
    if effect.lands_within is None:
        return ""
    until = _lands_until(turn, wish, view)
    if until is None:
        known, here = turn.attempt.view, turn.host
        is_here = any(here.lock.has(known.worker_of(attempt) or here.worker) for attempt in _senders(turn, view))
        told = " before this process has ended" if is_here else ""
        return f" for {effect.lands_within} once its sender is proven dead, which it is not{told}"
    more = _lands_for(turn, effect, view)
    if more and turn.attempt.writer.earliest() > until:
        return f" for {timedelta(microseconds=more)} more: the clock was set forward since its sender was proven dead"
    return f" until {datetime_of(min(until, _DATED_MAX)):%Y-%m-%d %H:%M:%S} UTC"


def _untaken(turn: Turn, view: EffectView, told: Resolved) -> str:
    """Why the last word about it is not taken up."""
    if is_early(turn.host, turn.attempt.view, view, told):
        return (
            f"{told.by} said that it did not happen before its call came back, which may have done it since: "
            "look again by its key, and say anew what you find"
        )
    if view.intended.key in turn.host.outstanding:
        return ""  # which is said beside this
    return f"{told.by} said what became of it, and lost the right to say so since: it has to be said anew"


def _in_doubt(turn: Turn, wish: Wish, view: EffectView, why: str) -> Parked:
    """What whoever looks is told; its code is that of the whole run, which may have several calls in doubt."""
    boundary, effect = turn.attempt.boundary, wish.effect
    assert isinstance(effect, Effect)
    (code, left), told = doubt_of(turn.attempt), boundary.last_word(view)
    if code != AT_WORK and told is not None and is_early(turn.host, turn.attempt.view, view, told):
        code = TOLD_EARLY
    raised = f"; it raised {type_name(wish.doubt)}: {text_of(wish.doubt)}" if wish.doubt is not None else ""
    found = f"; {why}" if why else ""
    words = (
        f"{called(wish.name)} was intended and never settled, so nobody knows whether it happened{raised}{found}."
        f"{left} Its key is {view.intended.key}. A person who found out says so with `remit resolve`."
    )
    return Parked("doubt", code, words)
