"""Settling: what became of an effect is written down, and what it held is given back.

An outcome never fails its effect. One that can't be stored settles as done, with what is known
of it, and the run waits: a doubt about money that was paid would be worse than a lost receipt.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Literal

import msgspec

from remit.authority.witness import counts
from remit.engine.boundary.port import Answered
from remit.engine.boundary.shared import is_shared
from remit.engine.boundary.unneeded import unneeded
from remit.engine.process.host import Host
from remit.engine.process.outcome import detail
from remit.engine.process.standing import check_not_behind, look
from remit.engine.turn.attempt import Attempt
from remit.engine.turn.outlived import was_said_early
from remit.engine.turn.posts import read_post
from remit.engine.turn.step import text_of, type_name
from remit.engine.turn.turn import Turn
from remit.engine.turn.wish import Wish
from remit.engine.turn.writer import Conditions, Draft
from remit.errors import Moved, RemitError
from remit.facts.calls import EffectView, Resolved
from remit.facts.kinds import EffectSettled, ValueLost
from remit.facts.view import Recorded, RunView
from remit.store.marks import FreeKey, Mark, Unreserve

OUTCOME_BYTES_MAX = 256 * 1024 * 1024  # an outcome over this is settled as lost


async def settle(
    turn: Turn, wish: Wish, answered: Answered, *, found: Literal["", "probe", "unsent"] = ""
) -> tuple[EffectSettled, bytes]:
    """Record what became of an effect. found: how that is known, "" where its call said so.

    Raises AttemptClosed where it was not written.
    """
    effect = wish.effect
    assert effect is not None and answered.state != "doubt" and answered.state != "unsent"
    if answered.state == "ok":
        settled, value = _kept(effect.codec, answered, found)
    else:
        assert answered.error is not None
        state, error = answered.state, answered.error
        settled = EffectSettled(error=type_name(error), found=found, state=state, took=answered.took)
        value = detail(text_of(error))
    await _write(turn, wish, settled, value)
    return settled, value


async def _write(turn: Turn, wish: Wish, settled: EffectSettled, value: bytes) -> None:
    """The settlement, with what the intention held and need not hold any more, in one commit.

    Raises Moved where a probe found nothing, and somebody posted meanwhile: they may have said that it happened.
    """
    attempt = turn.attempt
    void, marks = _ended(attempt, attempt.boundary.effects[wish.name], settled)
    draft = attempt.writer.draft(settled, name=wish.name, value=value)
    post_head = attempt.post_head if settled.found == "probe" and settled.state == "did_not_happen" else None
    if wish.is_committed and not marks and post_head is None:
        # Nothing can refuse it but the loss of the lease, and nobody cancels this task any more.
        await attempt.append_surely(draft)
    else:
        await attempt.append_if([*void, draft], Conditions(post_head=post_head, marks=marks), of="answer")
    _forget(turn.host, attempt.boundary.effects[wish.name])


def _forget(host: Host, view: EffectView) -> None:
    """What this process heard of the sendings of a call that is settled."""
    if view.intended.key in host.lock.answered or view.intended.key in host.lock.returned:
        host.lock.forget(view.intended.key)


def _ended(attempt: Attempt, view: EffectView, settled: EffectSettled) -> tuple[list[Draft], tuple[Mark, ...]]:
    """What goes with a settlement: what the call held is given back, and nobody is asked about it any more."""
    if settled.state == "did_not_happen":  # it is judged anew, and a question whether it may be sent stands
        return [], released(view)
    void, closed = unneeded(attempt, view.name)
    return void, (*closed, *(() if settled.state == "ok" else released(view)))


async def take_words(host: Host, attempt: Attempt) -> None:
    """Settle what people found out. It needs none of the run's code, which may not come there any more.

    Raises AuthorityUnreadable, also where the run was judged by more of the directory than there is, in which whoever
    said so may have been disabled; and what `look` raises. AttemptClosed where lane post can't be read.
    """
    check_not_behind(host, attempt.view)
    for name in attempt.boundary.in_doubt:
        while True:
            effect = attempt.boundary.effects[name]
            try:
                if await take_word(host, attempt, effect) and effect.state == "ok":
                    _record(attempt, effect)
                break
            except Moved as moved:
                await (read_post(host, attempt) if moved.what == "post" else look(host))


def _record(attempt: Attempt, effect: EffectView) -> None:
    """It was settled before the flow came to anything: given to it in its turn, as each later turn will."""
    assert effect.settled is not None, "somebody said that it happened"
    recorded = Recorded(effect.name, attempt.writer.place[1], effect.settled, effect.outcome, effect.begun)
    attempt.view.calls[effect.name] = recorded
    attempt.replay.add(recorded)


async def take_word(host: Host, attempt: Attempt, view: EffectView) -> bool:
    """Settle one effect as somebody said who may say so now; whether there is such a word. Raises Moved: look again.

    Written only while nothing was posted since: a word that came meanwhile was taken because this one did not count.
    Whether the outcome they gave fits its type is found when it is read. Nobody's word counts while the call has not
    returned in this process.
    """
    told = word_on(host, attempt, view)
    if told is None:
        return False
    if told.fact.state == "ok":
        value = msgspec.json.encode(msgspec.json.decode(told.value or b"{}").get("outcome"))
    else:
        value = detail(f"{told.by} said so")
    settled = EffectSettled(found="person", item=told.item, state=told.fact.state)
    void, marks = _ended(attempt, view, settled)
    conditions = Conditions(fence=host.standing.fence, post_head=attempt.post_head, marks=marks)
    await attempt.append_if([*void, attempt.writer.draft(settled, name=view.name, value=value)], conditions)
    _forget(host, view)
    attempt.parking.wake()
    return True


def word_on(host: Host, attempt: Attempt, view: EffectView) -> Resolved | None:
    """The last word about an effect in doubt, where it counts by the directory that is known now.

    One before it is over, whoever may speak again: the last was taken because that one did not count any more. So is
    one whose speaker might not have said so in between.
    """
    told = attempt.boundary.last_word(view)
    if told is None or view.intended.key in host.outstanding or is_early(host, attempt.view, view, told):
        return None
    return told if counts(host.standing.authority, attempt.view.opened, view, told) else None


def is_early(host: Host, run: RunView, view: EffectView, told: Resolved) -> bool:
    """Whether they say that it did not happen, and said so before its call came back, as far as this process knows."""
    return run.is_early(told) or was_said_early(host.lock, view, told)


def released(view: EffectView) -> tuple[Mark, ...]:
    """What a call took of what runs share, with all its sendings."""
    room = [Unreserve(taken.scope, taken.amount) for taken in view.reserved if is_shared(taken.scope)]
    return (*room, *(FreeKey(business) for business in view.businesses))


def is_lost(settled: EffectSettled) -> bool:
    """Whether it is done and its outcome could not be stored."""
    return settled.lost is not None


def _kept(codec: Any, answered: Answered, found: Literal["", "probe", "unsent"]) -> tuple[EffectSettled, bytes]:
    lost = None
    try:
        data, _ = codec.write(answered.outcome, where="the outcome")
        if len(data) > OUTCOME_BYTES_MAX:
            lost = ValueLost(code="value.size", digest=sha256(data).hexdigest(), size=len(data))
            data = detail(f"it has {len(data):,} bytes of at most {OUTCOME_BYTES_MAX:,}")
    except RemitError as exc:
        lost, data = ValueLost(code=exc.code), detail(exc.message)
    except MemoryError:
        lost, data = ValueLost(code="value.size"), detail("it does not fit into memory")
    return EffectSettled(found=found, lost=lost, state="ok", took=answered.took), data
