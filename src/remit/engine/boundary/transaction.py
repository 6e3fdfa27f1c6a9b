"""Transactions: an effect whose outside is the application's own database, beside Remit's tables.

    GateJudged, EffectIntended, the application's rows, EffectSettled     one transaction: all of it, or nothing

So it happens exactly once. The function is given the connection and must not end the
transaction. Where it raises or takes too long, its rows are rolled back and the journal says
that it did not happen: there is no doubt. Where what let it pass is over by the time it returns, its
rows are rolled back too, and it is judged anew. At high risk it is refused, because nobody outside
could acknowledge the intention before its body ran.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from remit.authority.answers import is_high
from remit.engine.boundary.crossing import HeardOrVoid, cross
from remit.engine.boundary.effect import check_same, outcome_of, recall_outcome, seen_through, wish_for
from remit.engine.declared.place import enter, leave
from remit.engine.declared.rows import Transaction
from remit.engine.process.outcome import detail
from remit.engine.turn.apart import times_cancelled
from remit.engine.turn.exits import is_of_a_signal
from remit.engine.turn.returned import is_unfinished
from remit.engine.turn.step import text_of, type_name
from remit.engine.turn.turn import Turn
from remit.engine.turn.wish import Permit, RestsOn, Wish
from remit.engine.turn.writer import Conditions, Draft, Seal
from remit.errors import CallRefused, Moved, Refused, RemitError, ValueUnreadable
from remit.errors.called import called
from remit.facts.kinds import EffectSettled
from remit.store.marks import Reserve, TakeKey

_OWN_FAULTS = ("transact.late", "transact.ended")


async def perform(turn: Turn, effect: Transaction[Any], name: str, data: bytes, rests_on: RestsOn) -> Any:
    """The outcome of one transaction, recorded or new.

    Raises EffectFailed where it rolled back, Denied, Conflict, CallRefused, ValueRefused, AttemptClosed.
    """
    attempt = turn.attempt
    attempt.unbegun.begin(name)
    with attempt.parking, HeardOrVoid(turn, name, data):
        recorded = await attempt.recall(name, "effect")
        if recorded is not None:
            check_same(turn, effect, name, data)
            return recall_outcome(turn, effect, recorded)
        wish = wish_for(turn, effect, name, data, rests_on)
        if attempt.settles_for is None:  # that turn ends as it has to, whatever the flow would do
            _check_may(turn, effect, name)
        await attempt.meet(wish)
        return await seen_through(turn, wish, _go)


def _check_may(turn: Turn, effect: Transaction[Any], name: str) -> None:
    """Raises CallRefused at high risk, and where this store has no rows of yours, or calls other functions."""
    if is_high(turn.risk):
        raise CallRefused(
            f"{called(name)} is a transaction in a flow of high risk; nothing was done.",
            code="transact.risk",
            hint="Make it an effect: its intention is on the disk before it is called, a transaction's only with it.",
        )
    how = turn.host.store.transacts
    if not how:
        raise CallRefused(
            f"{effect.name} is a transaction, and this store has no rows of yours; nothing was done.",
            code="transact.store",
            hint="Use `sqlite:` or `postgresql:` in the database that your tables are in.",
        )
    if (how == "awaited") != effect.is_async:
        wanted = "an async function" if how == "awaited" else "a plain function"
        raise CallRefused(
            f"{effect.name} must be {wanted} on this store; nothing was done.",
            code="transact.function",
            hint="SQLite gives a plain function its connection, Postgres an async one.",
        )


async def _go(turn: Turn, wish: Wish) -> Any:
    """The gate, and then everything in one transaction. Where that rolls back, the journal says so in another."""
    effect, attempt = wish.effect, turn.attempt
    assert isinstance(effect, Transaction)

    async def write(_turn: Turn, _wish: Wish, drafts: Sequence[Draft], conditions: Conditions) -> None:
        raised = await _written(turn, wish, drafts, conditions)
        if raised is not None:
            await _rolled_back(turn, wish, drafts, conditions, raised)

    permit = await cross(turn, wish, write)
    assert isinstance(permit, Permit)
    turn.permits.discard(permit)  # used up within that commit
    view = attempt.boundary.effects[wish.name]
    assert view.settled is not None
    attempt.parking.wake()
    if view.state == "did_not_happen":
        attempt.failed |= {wish.name}
    return outcome_of(turn, effect, wish.name, view.settled, view.outcome)


async def _written(turn: Turn, wish: Wish, drafts: Sequence[Draft], conditions: Conditions) -> Exception | None:
    """Judgement, intention, the application's rows and settlement; what rolled them back, if that was its own fault."""
    effect, attempt = wish.effect, turn.attempt
    assert isinstance(effect, Transaction)
    try:
        request = effect.request_codec.read_exactly(wish.data, where=f"the request of {called(wish.name)}")
    except ValueUnreadable as exc:  # by now it is another value than was judged
        attempt.lost(exc)
    around = _Around(wish.name)

    def stored(outcome: Any) -> bytes:
        if is_unfinished(outcome):
            raise TypeError(f"it returned {type(outcome).__name__}, which nobody awaits here; return one outcome")
        data, _ = effect.codec.write(
            outcome, where=called(wish.name)
        )  # one that can't be stored rolls back what it is of
        return data

    def settled(data: bytes, seal: Seal) -> Any:
        draft = attempt.writer.draft(EffectSettled(state="ok"), name=wish.name, value=data)
        return seal([*drafts, draft], conditions)

    def look_at_time() -> None:
        if conditions.until is not None and attempt.writer.now() > conditions.until:
            raise Moved("time")

    # Time is looked at before the function, because the database may have let it wait, and after it: the commit is the
    # line, and no fault of the function's.
    def plain(connection: Any, seal: Seal) -> Any:
        look_at_time()
        with around:
            data = stored(effect.fn(connection, request))
        look_at_time()
        return settled(data, seal)

    async def awaited(connection: Any, seal: Seal) -> Any:
        look_at_time()
        with around:
            data = stored(await effect.fn(connection, request))
        look_at_time()
        return settled(data, seal)

    wish.is_committed = True
    attempt.delivery.expect("EffectSettled", wish.name)
    try:
        await attempt.append_within(awaited if effect.is_async else plain, limit_ms=turn.host.lease_ms // 6)
    except Exception as exc:
        attempt.delivery.withdraw(wish.name)
        if exc in around.raised or _is_its_own_fault(exc):
            return exc
        raise
    return None


def _is_its_own_fault(exc: Exception) -> bool:
    """Whether the application rolled it back after its function: by being late, or by what is looked at in COMMIT."""
    if isinstance(exc, RemitError):
        return isinstance(exc, Refused) and exc.code in _OWN_FAULTS
    return not isinstance(exc, AssertionError)


class _Around:
    """Around the application's function: where it stands, and what rolled it back.

    No generator, which what ends an iteration would end. That, and what is no `Exception`, would end the store's writer
    as well: it becomes an error. So does a cancellation that the function met, and that nobody asked of the call.
    """

    def __init__(self, name: str) -> None:
        self.raised: list[Exception] = []
        self._name = name

    def __enter__(self) -> None:
        self._before = times_cancelled()
        self._here = enter("transaction")

    def __exit__(self, kind: object, exc: BaseException | None, trace: object) -> None:
        leave(self._here)
        if isinstance(exc, Exception) and not isinstance(exc, StopIteration | StopAsyncIteration):
            self.raised.append(exc)
        elif exc is not None and not is_of_a_signal(exc) and not self._is_asked(exc):
            error = RuntimeError(
                ": ".join(filter(None, (f"{called(self._name)} raised {type_name(exc)}", text_of(exc))))
            )
            self.raised.append(error)
            raise error from exc

    def _is_asked(self, exc: BaseException) -> bool:
        return isinstance(exc, asyncio.CancelledError) and times_cancelled() != self._before


async def _rolled_back(
    turn: Turn, wish: Wish, drafts: Sequence[Draft], conditions: Conditions, error: BaseException
) -> None:
    """Record that the gate let it pass and that nothing came of it. It holds no key and no ceiling."""
    settled = EffectSettled(error=type_name(error), state="did_not_happen")
    draft = turn.attempt.writer.draft(settled, name=wish.name, value=detail(text_of(error)))
    kept = tuple(mark for mark in conditions.marks if not isinstance(mark, TakeKey | Reserve))
    await turn.attempt.append_if([*drafts, draft], conditions._replace(marks=kept), of="beginning")
