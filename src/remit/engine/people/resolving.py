"""Resolving: a person found out what became of an effect in doubt, and says so, once.

Nothing is called. The word is posted with the evidence for it; the next attempt takes it up
and settles the effect by it, if whoever said it may still say so, and might all the while. Where that
is not so, it is lost for good, and is said anew: by somebody else, or by them once they may again.

Who looked before it was sent again says nothing about what was sent since. So a word that it did not happen, which lets
it be called anew, says at how many calls it was when they looked. It is the number that `remit effects` shows, and not
the intention's hash, as a yes names a version: it can be told over the telephone, and one command after another shows
it. It grows with each intention of that call and is read from the journal, so it names one sending just as well.
"""

from __future__ import annotations

import shlex
from typing import Any, Literal

from remit.authority.moments import dated
from remit.authority.witness import counts, objection
from remit.engine.boundary.settling import is_early
from remit.engine.people.post import Letter, post
from remit.engine.process.admit import Found, find, is_worked_at
from remit.engine.process.at_work import listed, places_of
from remit.engine.process.host import Host
from remit.engine.process.liveness import place, place_of
from remit.engine.process.outcome import check_words
from remit.errors import Refused
from remit.facts.announced import DoubtTold
from remit.facts.calls import EffectView
from remit.facts.kinds import DoubtResolved
from remit.facts.value import codec_for
from remit.store.checkups import OVERLONG_HINT
from remit.store.marks import Announce
from remit.store.protocol import LEASE_US_OVERLONG
from remit.store.rows import RunRow

_PLAIN = codec_for(object)
_AND_CHILDREN = ", and what it started and still sends"  # no child process ends with it
_LOOK_AGAIN = "Then look again by its key, and say what you find."
_GIVEN_HINT = "Give what the effect's function would have returned as JSON's own types, and the evidence as text."


async def resolve(
    host: Host,
    run: str,
    call: str,
    state: Literal["ok", "did_not_happen"],
    *,
    by: str,
    evidence: str,
    outcome: Any,
    calls: int | None,
    returned: bool,
) -> None:
    """Say what became of an effect. outcome: of one that happened, plain JSON types; `...` where none is said.

    calls: at how many calls it was when they looked (`Effected.calls`); None where that was not said.
    returned: they say as well that its call has returned, or that its process is gone, which nobody here can see.
    Raises Refused: `doubt.outcome` (it happened and gave nothing), `doubt.absent` (no such effect, or it is settled),
    `doubt.under_way` (a living worker is at it, or its call has not returned as far as is known),
    `doubt.resolved` (somebody said so already), `doubt.sent_again` (they looked before that), `doubt.calls` (it was
    sent more than once, and which sending they looked after was not said), `doubt.evidence`, `doubt.decider`,
    `doubt.self`, `doubt.role`; ValueRefused: nothing was written.
    """
    data = _said(call, state, evidence, outcome)
    row, now = await host.store.read_row(host.tenant, run), await host.store.now()
    # Who held it last and is not at it any more: another holder, or this one's renewed lease, is another hold.
    gone = _hold(row) if row is not None and not await is_worked_at(host, row, now=now) else None
    places = {} if row is None else await _places(host, run)
    see = f"See `remit effects {shlex.quote(run)}`."

    def write(found: Found) -> Letter:
        authority, opened = host.standing.authority, found.view.opened
        effect = found.view.boundary.effects.get(call)
        if effect is None or effect.settled is not None:
            state_now = "was never intended" if effect is None else f"is settled: {effect.state}"
            raise Refused(f"{call!r} of run {run!r} {state_now}; nothing was done.", code="doubt.absent", hint=see)
        if (refused := objection(authority, opened, effect, by)) is not None:
            raise refused
        told = found.view.boundary.last_word(effect)
        is_taken = told is not None and not is_early(host, found.view, effect, told)
        if told is not None and is_taken and counts(authority, opened, effect, told):
            raise Refused(f"{told.by} said so already; nothing was done.", code="doubt.resolved", hint=see)
        if found.row.worker and _hold(found.row) != gone:  # as of the journal that this is judged by
            raise _held(host, found.row, call)
        # A call that ended may have left it to a thread of its client's, or not: nobody can know before this process
        # ends. Holding everybody to that would keep every doubt until a restart, which cuts others short. So the pages
        # say what to look to, and they are believed.
        if effect.intended.key in host.outstanding:
            raise Refused(
                f"The call of {call!r} has not returned in {place()}; nothing was done.",
                code="doubt.under_way",
                hint=f"It may still happen: wait until it returned, or end that process{_AND_CHILDREN}. {_LOOK_AGAIN}",
            )
        noted = found.view.at_work.get(call, ())
        at = [places.get(each, place_of(each, "")) for each in noted if not host.lock.has(each)]
        if any(at) and state != "ok" and not returned:
            raise _is_elsewhere(call, at)
        _check_seen(run, effect, state, calls)
        is_over = returned or (state != "ok" and bool(noted))
        fact = DoubtResolved(
            authority=authority.version, call=call, intended=effect.intention, returned=is_over, state=state
        )
        return Letter(fact, data, (Announce(DoubtTold(call=call)),))

    before = await post(host, run, by=by, write=write, is_fenced=True)
    _check_heard(before, await find(host, run), call, by, see)


def _said(call: str, state: str, evidence: str, outcome: Any) -> bytes:
    """What they say, as it is posted. Raises Refused, ValueRefused."""
    check_words(evidence)
    if not evidence.strip():
        raise Refused("How is that known? Nothing was done.", code="doubt.evidence", hint="State the evidence.")
    _check_outcome(call, state, outcome)
    given = None if outcome is ... else outcome
    data, _ = _PLAIN.write({"evidence": evidence, "outcome": given}, where=f"the outcome of {call}", hint=_GIVEN_HINT)
    return data


async def _places(host: Host, run: str) -> dict[str, str]:
    """By worker at which calls of the run may still be at work, its process in words; "" of one proven dead."""
    return await places_of(host, {at for workers in (await find(host, run)).view.at_work.values() for at in workers})


def _is_elsewhere(call: str, at: list[str]) -> Refused:
    return Refused(
        f"As far as the journal says, the call of {call!r} has not returned in {listed(at)}; nothing was done.",
        code="doubt.under_way",
        hint="It may still happen: wait until it returned there, and go on with the run there, which writes that down; "
        f"or end that process{_AND_CHILDREN}. {_LOOK_AGAIN} That there is no such process here says nothing of another "
        "machine or container. Where it can't be seen from here, who knows that it returned, or that its process is "
        "gone, says that as well: `--returned` (`returned=True`).",
    )


def _held(host: Host, row: RunRow, call: str) -> Refused:
    until, why = dated(row.lease_until), f"`remit why {shlex.quote(row.run)}`"
    waits = (
        f"It holds the run until {until}, and longer where it renews, and what you looked for may still happen. "
        f"Wait until that is over, or {why} calls it dead. {_LOOK_AGAIN}"
    )
    is_overlong = row.lease_until > host.clock.now() + LEASE_US_OVERLONG
    return Refused(
        f"A worker is at {call!r}; nothing was done.",
        code="doubt.under_way",
        hint=OVERLONG_HINT if is_overlong else waits,
    )


def _check_seen(run: str, effect: EffectView, state: str, calls: int | None) -> None:
    """That who says so looked after it was sent last. What happened, happened; what did not, may have since."""
    name, shown = shlex.quote(effect.name), shlex.quote(run)
    if calls is not None and calls != effect.calls:
        raise Refused(
            f"{effect.name!r} of run {run!r} is at call {effect.calls} now, and not at {calls!r}; nothing was done.",
            code="doubt.sent_again",
            hint=f"`remit effects {shown}` shows its key, and in how many calls it was. Look again by that key what "
            f"became of {name}, and say what you find with that number.",
        )
    if calls is None and state == "did_not_happen" and effect.calls > 1:
        raise Refused(
            f"{effect.name!r} of run {run!r} is at call {effect.calls}. At which was it, when you looked? "
            "Nothing was done.",
            code="doubt.calls",
            hint=f"Who looked when `remit effects {shown}` showed {effect.calls} calls adds `--calls {effect.calls}` "
            f"(`calls={effect.calls}`). Who looked before that looks again first.",
        )


def _check_heard(before: Found, after: Found, call: str, by: str, see: str) -> None:
    """That the word is about what is still in doubt, or was taken up: the post compares no end of lane main."""
    intended, now = before.view.boundary.effects[call], after.view.boundary.effects[call]
    said = {told.item for told in after.view.boundary.resolved.get(intended.intention, ()) if told.by == by}
    if now.intention == intended.intention and (now.settled is None or now.settled.item in said):
        return
    is_again = now.intention != intended.intention and now.settled is None
    state_now = "was sent again" if is_again else f"was settled: {now.state}"
    raise Refused(
        f"{call!r} of run {after.view.identity.run!r} {state_now}, while this was posted; it changes nothing.",
        code="doubt.sent_again" if is_again else "doubt.absent",
        hint=see,
    )


def _hold(row: RunRow) -> tuple[str | None, int, int]:
    return row.worker, row.epoch, row.lease_until


def _check_outcome(call: str, state: str, outcome: Any) -> None:
    """That one that happened gives what the flow is to get, written out: a word is taken once, and never corrected."""
    if state == "ok" and outcome is ...:
        raise Refused(
            f"{call!r} happened and gave what? Nothing was done.",
            code="doubt.outcome",
            hint="Give what the effect's function would have returned, as JSON: `--outcome JSON`, or `--outcome null`.",
        )
    if state != "ok" and outcome is not ...:
        raise Refused(
            "What did not happen has no outcome; nothing was done.",
            code="doubt.outcome",
            hint="Leave the outcome out, or say that it happened: `ok`.",
        )
