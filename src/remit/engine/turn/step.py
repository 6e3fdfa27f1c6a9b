"""Steps: compute once, record, and never compute again.

    recall    the journal has it: return what is recorded, run nothing
    body      the user's function
    StepDone  durable before anything that could have seen the outcome begins
    StepFailed the same for a failure, which a flow may catch and will catch again on replay

What the flow gets is what was read back from the bytes, so that the first run sees
exactly what a replay will see.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any

from remit.engine.declared.flow import Step
from remit.engine.declared.place import enter, leave
from remit.engine.process.outcome import detail, detail_of
from remit.engine.process.salt import draw_salt
from remit.engine.turn.apart import apart, calling_task, cancellations_of, through
from remit.engine.turn.attempt import Attempt
from remit.engine.turn.caught import raised_behind
from remit.engine.turn.exits import EXITS, failure_of, is_failure
from remit.engine.turn.given import check_given, given_digest
from remit.engine.turn.returned import finished, is_unfinished
from remit.errors import RemitError, StepError, ValueUnreadable
from remit.errors.called import called
from remit.facts.kinds import StepDone, StepFailed, write
from remit.facts.view import Recorded

Call = tuple[tuple[Any, ...], dict[str, Any]]


async def perform(attempt: Attempt, step: Step[..., Any], name: str, call: Call, told: bytes, threads: Executor) -> Any:
    """The outcome of one call of a step, recorded or new. told: what it is given. Raises StepError, AttemptClosed."""
    attempt.unbegun.begin(name)
    with attempt.parking:
        try:
            recorded = await attempt.recall(name, "step")
            if recorded is None:
                await attempt.check_may_begin(name)
                return await compute(attempt, step, name, call, told, threads)
            check_given(attempt, recorded, told)
            return recorded_outcome(attempt.run_id, step, recorded)
        except ValueUnreadable as exc:
            attempt.lost(exc)  # no outcome of the step: a flow that caught it would go another way than it went
        finally:
            attempt.delivery.close(name)


async def compute(attempt: Attempt, step: Step[..., Any], name: str, call: Call, told: bytes, threads: Executor) -> Any:
    """Run the body and record what came of it."""
    task = calling_task()
    cancelled_before = cancellations_of(task)
    handled = sys.exception()
    salt = draw_salt()
    given = given_digest(salt, told)
    began = time.perf_counter_ns()
    here = enter("step")
    try:
        outcome = await body(step, call, threads)
        _check_not_cancelled(task, cancelled_before)
        data, twin = step.codec.write(outcome, where=called(name))
    except BaseException as exc:
        if not (is_failure(exc) or isinstance(exc, asyncio.CancelledError)):
            raise
        _check_not_cancelled(task, cancelled_before)
        raised_behind(exc, handled)
        # Not cancelled, and yet a CancelledError: something inside the body was, which is a failure like any other.
        raise await fail(attempt, name, exc, since_us(began), given, salt) from exc
    finally:
        leave(here)
    # A crash here loses the outcome; the step runs again, which for a step is only waste.
    beside = b'"beside":true,' if attempt.rest.is_several else b""
    done = b'{%b"given":"%b","took":%d}' % (beside, given.encode(), since_us(began))
    await attempt.append("StepDone", done, name=name, value=data, salt=salt)
    if attempt.rest.is_several:
        await attempt.delivery.turn(name)
    return twin


def _check_not_cancelled(task: asyncio.Task[Any] | None, before: int) -> None:
    """Raises CancelledError where the call was cancelled meanwhile: the flow was told so, whatever the body did."""
    if cancellations_of(task) > before:
        raise asyncio.CancelledError("the call was cancelled while its step ran")


async def body(step: Step[..., Any], call: Call, threads: Executor) -> Any:
    """Run the user's function, on the loop when it is async, in a thread when it is not; and await what it returns."""
    args, kwargs = call
    if step.body.is_async:
        work = step.fn(*args, **kwargs)
        outcome = await apart(work) if step.body.may_wait else through(work)
    else:
        outcome = await in_thread(threads, partial(step.fn, *args, **kwargs))
    return await apart(finished(outcome)) if is_unfinished(outcome) else outcome


async def in_thread(threads: Executor, function: Callable[[], Any], on_over: Callable[[], None] | None = None) -> Any:
    """Run a plain function off the loop, with the context of the caller.

    on_over: called when it returned or will never begin; whoever stopped waiting for it does not stop it.
    """
    try:
        call = threads.submit(contextvars.copy_context().run, _without_stop, function)
    except BaseException:
        if on_over is not None:
            on_over()
        raise
    if on_over is not None:
        call.add_done_callback(lambda _: on_over())
    return await asyncio.wrap_future(call)


async def fail(attempt: Attempt, name: str, exc: BaseException, took: int, given: str, salt: bytes) -> StepError:
    """Record that a step raised; the error that the flow is to be given. given: as in the entry, by this salt."""
    error = StepError(run=attempt.run_id, name=name, error_type=type_name(exc), detail=text_of(exc))
    fact = StepFailed(beside=attempt.rest.is_several, error=error.error_type, given=given, took=took)
    await attempt.append("StepFailed", write(fact), name=name, value=detail(error.detail), salt=salt)
    attempt.failed |= {name}
    await attempt.delivery.turn(name)
    return error


def recorded_outcome(run_id: str, step: Step[..., Any], recorded: Recorded) -> Any:
    """What a recorded call gives the flow. Raises the StepError that the first run raised."""
    fact = recorded.fact
    if isinstance(fact, StepFailed):
        raise StepError(run=run_id, name=recorded.name, error_type=fact.error, detail=detail_of(recorded.value))
    assert isinstance(fact, StepDone), "`recall` saw to it"
    assert recorded.value is not None, "the fold saw to it"
    return step.codec.read(recorded.value, where=called(recorded.name))


def type_name(exc: BaseException) -> str:
    """Qualified name of an exception's class; builtins without their module."""
    cls = type(exc)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


_SAID_MAX = 5  # of the exceptions of a group


def text_of(exc: BaseException) -> str:
    """An exception's text, whatever its `__str__` does; lone surrogates are escaped, so that it can be stored."""
    try:
        text = exc.message if isinstance(exc, RemitError) else str(exc)
        if isinstance(exc, BaseExceptionGroup):  # by itself it only says how many they are
            text += "".join([f"; {type_name(each)}: {text_of(each)}" for each in exc.exceptions[:_SAID_MAX]])
        return text.encode("utf-8", "backslashreplace").decode()
    except Exception as broken:
        return f"(its text could not be made: {type(broken).__name__})"


def since_us(began_ns: int) -> int:
    """Whole microseconds since a reading of `time.perf_counter_ns`."""
    return (time.perf_counter_ns() - began_ns) // 1_000


def _without_stop(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except StopIteration as exc:  # which a future can't carry
        raise RuntimeError("it raised StopIteration") from exc
    except EXITS as exc:
        raise failure_of(exc) from exc
