"""Waiting for several calls: all of them, or the first.

    gather   waits for every call, then returns or raises; nothing that finished is lost
    first    the winner is recorded; a loser is cancelled and may not begin any more

Which call finished first is chance, so it is written down. On replay the winner comes from
the journal, see `won`, after every completion that came before it was delivered, and every question
or doubt that began before it was come to; a loser that has nothing recorded is still held
back by the replay when the race ends, and so never begins.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Coroutine, Sequence
from functools import partial
from typing import Any

from remit.engine.declared.place import check_in_flow
from remit.engine.turn import race
from remit.engine.turn.attempt import Attempt
from remit.engine.turn.caught import call_made, come_behind, give
from remit.engine.turn.due import until_asked
from remit.engine.turn.handed import Handed
from remit.engine.turn.strand import branched
from remit.engine.turn.won import recorded_winner, side_of
from remit.errors import CallRefused, StepError
from remit.facts.kinds import RaceWon, write


def gather(attempt: Attempt, calls: Sequence[Awaitable[Any]]) -> Coroutine[Any, Any, list[Any]]:
    """All outcomes, in the order of the calls. Raises what the earliest failed call raised, when all are done."""
    handed = Handed(attempt)
    return handed.to(_gather(handed, calls))


async def _gather(handed: Handed, calls: Sequence[Awaitable[Any]]) -> list[Any]:
    come_behind()
    _check_calls(calls)
    handed.take(calls)
    handed.tasks = tasks = [branched(call) for call in calls]
    try:
        with handed:
            if tasks:
                await asyncio.wait(tasks)
        errors = [error for task in tasks if (error := task.exception()) is not None]
        if errors:
            if isinstance(errors[0], StepError):
                errors[0].beside = tuple(errors[1:])  # where this one leaves the flow, all of them run again
            give(errors[0])
            raise errors[0]
        return [task.result() for task in tasks]
    finally:
        await _cancel(handed)


def _check_calls(calls: Sequence[object]) -> None:
    """Raises CallRefused before the first of them begins: what began could not be waited for any more."""
    for call in calls:
        if not inspect.isawaitable(call):
            for made in calls:
                _close(made)
            raise CallRefused(
                f"{type(call).__name__} can't be awaited; no call of this gather or race began.",
                code="call.not_awaitable",
                hint="Pass calls one by one: `run.gather(run.step(a), run.step(b))`, or `run.gather(*calls)`.",
            )


def _check_unbegun(calls: Sequence[Awaitable[Any]]) -> None:
    """Raises CallRefused where a task is among them: what it began before bears no mark of this race."""
    if any(isinstance(call, asyncio.Future) for call in calls):
        for made in calls:
            made.cancel() if isinstance(made, asyncio.Future) else _close(made)
        raise CallRefused(
            "A task is under way already and can't race; no other call of this race began, and it was cancelled.",
            code="call.begun",
            hint="Pass the call itself: `run.first(run.step(a), pay(run))`, and not `asyncio.create_task(...)`.",
        )


def _close(call: object) -> None:
    if inspect.iscoroutine(call):
        call.close()


def first(attempt: Attempt, name: str, calls: Sequence[Awaitable[Any]]) -> Coroutine[Any, Any, Any]:
    """The outcome of the call that finishes first, raised if it failed. The others are cancelled."""
    handed = Handed(attempt)
    return handed.to(_first(attempt, name, calls, handed))


async def _first(attempt: Attempt, name: str, calls: Sequence[Awaitable[Any]], handed: Handed) -> Any:
    call_made(name)
    if not calls:
        hint = "Give it the calls that race: `run.first(run.step(a), run.step(b))`."
        raise CallRefused("A race needs at least one call; nothing was done.", code="call.empty", hint=hint)
    _check_calls(calls)
    _check_unbegun(calls)
    finished: asyncio.Queue[int] = asyncio.Queue()
    handed.take(calls)
    names = attempt.unbegun.names()
    tasks, marks = race.enter(list(calls), [names.get(id(call)) or side_of(call) for call in calls])
    handed.tasks = tasks
    for position, task in enumerate(tasks):
        task.add_done_callback(partial(_note, finished, position))
    try:
        with handed:
            winner = await _decided(attempt, name, marks, finished)
            handed.is_decided = True
            # No await between knowing the winner and marking the losers: one that was let go must not take a turn.
            race.decide(marks, winner)
            race.tell(marks)
            for task in tasks[:winner] + tasks[winner + 1 :]:
                task.cancel()
            try:
                return await tasks[winner]
            except StepError as exc:
                give(exc)
                raise
    finally:
        attempt.delivery.close(name)
        await _cancel(handed)


async def _decided(attempt: Attempt, name: str, marks: list[race.Contestant], finished: asyncio.Queue[int]) -> int:
    """The position of the winner, which is recorded. Raises CallRefused inside a body, before any of them began."""
    check_in_flow(name, attempt)
    if attempt.replay.has(name):
        return await recorded_winner(attempt, name, marks)
    race.come_to(name)
    attempt.rest.calls[name] = None
    winner = await finished.get()
    race.decide(marks, winner)
    try:
        # What is recorded and left happened beside the race, for after it the journal would have its end.
        await attempt.replay.until_over(name)
        if attempt.unasked:
            await until_asked(attempt)  # by a loser, whose question or doubt is come to before it is let go
        await attempt.writer.until_free()  # an intention of a loser's may be on its way, and stands before this end
        attempt.check_open()
        race.check_not_lost()
        beside = race.beside(marks, winner, attempt.boundary.in_doubt)
        won = RaceWon(
            beside=beside, calls=sorted(marks[winner].calls), sides=[mark.side for mark in marks], winner=winner
        )
        attempt.ride("RaceWon", write(won), name=name)
        attempt.delivery.expect("RaceWon", name)
        await attempt.delivery.turn(name)
    except asyncio.CancelledError:
        race.reopen(marks)  # nobody lost a race whose end the flow did not hear, and who is given up says so
        raise
    return winner


def _note(finished: asyncio.Queue[int], position: int, _: object) -> None:
    finished.put_nowait(position)


async def _cancel(handed: Handed) -> None:
    """Leave no call behind that nobody waits for."""
    for task in handed.tasks:
        task.cancel()
    if handed.tasks:
        with handed:  # whoever is cancelled here does not get the outcome that is on its way out
            await asyncio.gather(*handed.tasks, return_exceptions=True)
