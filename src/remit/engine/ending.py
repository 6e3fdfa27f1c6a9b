"""How a turn ends when the flow did not return: parked for repair, refused, or out of time.

An exception that leaves the flow does not end the run: it waits for repair, and only the
calls that failed run again. A mismatch of code and journal is written down once, however
often the same code tries.
"""

from __future__ import annotations

from remit.engine.attempt import Attempt
from remit.engine.outcome import Outcome, detail
from remit.engine.step import text_of, type_name
from remit.errors import DefinitionIncompatible, RemitError, StepError, ValueUnreadable
from remit.facts.kinds import RunEnded, RunParked
from remit.facts.machine import Status
from remit.facts.view import RunView


async def expire(attempt: Attempt) -> Outcome:
    """The run's window is over."""
    words = "Its window was over before it could go on; nothing more was run."
    await attempt.end(RunEnded(code="window_over", status="expired"), detail(words))
    return Outcome(attempt.run_id, Status.EXPIRED, "window_over", words)


async def refuse(parking: Attempt, view: RunView, why: DefinitionIncompatible | ValueUnreadable) -> bool:
    """Write down that code and journal disagree, unless that is what the run waits for already; whether it was written.

    parking: an attempt in which nothing was sealed. What rides on the refused one, draws and races, is dropped.
    """
    words = detail(why.message)
    if view.parked is not None and (view.parked.code, view.last_value) == (why.code, words):
        return False
    await parking.end(RunParked(code=why.code, reason="repair"), words)
    return True


async def park(attempt: Attempt, flow_name: str, exc: BaseException) -> RemitError:
    """The run waits for mended code or surroundings; the error for its caller."""
    error = exc
    if not (isinstance(error, RemitError) and _can_be_stored(error)):
        error = StepError(run=attempt.run_id, name=flow_name, error_type=type_name(exc), detail=text_of(exc))
    calls = sorted(attempt.failed & _named_behind(exc, attempt.run_id))
    await attempt.end(RunParked(calls=calls, code=error.code, reason="repair"), detail(error.message))
    return error


def _can_be_stored(error: RemitError) -> bool:
    """Whether code and text of an error, which may be of a user's own class, can stand in the journal."""
    code, text = error.code, getattr(error, "message", None)
    is_code = type(code) is str and 0 < len(code) <= 200 and code.isascii() and code.isprintable()
    return is_code and isinstance(text, str)


def _named_behind(exc: BaseException, run_id: str) -> set[str]:
    """Names of this run's step errors behind an exception, through causes, contexts, groups and gathers."""
    names: set[str] = set()
    seen: set[int] = set()
    queue: list[BaseException | None] = [exc]
    while queue:
        error = queue.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        if isinstance(error, StepError):
            queue.extend(error.beside)
            if error.run == run_id:
                names.add(error.name)
        if isinstance(error, BaseExceptionGroup):
            queue.extend(error.exceptions)
        queue.append(error.__cause__)
        if not error.__suppress_context__:
            queue.append(error.__context__)
    return names
