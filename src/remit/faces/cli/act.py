"""Acting: what every command does around its own question.

    look at the request    before a store is opened, so that a wrong word makes no store
    open, act, close       an error of Remit's own is told with its code and sets the exit status
    interrupted            the run's lease is given back, then the process ends with 130

With --json, standard output belongs to the answer: what flows and steps print meanwhile goes
to standard error.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, TypeVar

import typer

from remit.errors import RemitError
from remit.faces.cli.exits import Exit
from remit.faces.cli.inert import InertFormatter
from remit.faces.cli.say import Voice
from remit.faces.cli.target import runtime, there_of
from remit.faces.runtime import Runtime
from remit.faces.there import There

T = TypeVar("T")


@dataclass(slots=True)
class Manner:
    """What every command can be told: which store, whose runs, and how to answer."""

    store: str | None = None
    tenant: str | None = None
    is_json: bool = False
    is_plain: bool = False

    def over(self, before: Manner) -> Manner:
        """This, and what was said before the command where nothing was said after it."""
        return Manner(
            self.store or before.store,
            self.tenant or before.tenant,
            self.is_json or before.is_json,
            self.is_plain or before.is_plain,
        )


def act(
    manner: Manner,
    ask: Callable[[Runtime, Voice, T], Awaitable[int]],
    *,
    first: Callable[[], T],
    may_create: bool = False,
) -> None:
    """Do one command and end with its exit status.

    first: what has to be looked up before the store is opened; it is handed to `ask`.
    """
    there = there_of(manner.store, manner.tenant)
    with _output(manner.is_json) as out, _log(there):
        voice = Voice(is_json=manner.is_json, is_colored=not manner.is_plain, out=out, there=there)

        async def asked(found: T) -> int:
            opening, made = await runtime(manner.store, manner.tenant, may_create=may_create)
            async with opening as rt:
                if made:  # from another folder, or without REMIT_STORE, nothing of the runs elsewhere is known here
                    voice.note(f"made a new store at {made}")
                return await ask(rt, voice, found)

        try:
            status = asyncio.run(_interruptible(asked(first())))
        except RemitError as exc:
            voice.complain(exc)
            status = exc.exit_status
        except KeyboardInterrupt:
            status = Exit.INTERRUPTED
        if status == Exit.INTERRUPTED:
            hint = "The same command goes on with the run from there."
            voice.object("interrupted", "Interrupted; what was saved stays.", hint)
    if status == Exit.INTERRUPTED:
        _leave(status)
    raise typer.Exit(int(status))


async def _interruptible(work: Coroutine[Any, Any, int]) -> int:
    """`work`, or INTERRUPTED after it was cancelled by Ctrl-C. A second one ends the process as it is.

    Of all handlers only the loop's own wakes a loop that was about to sleep when the signal came: with the one of
    `asyncio.run` about every tenth interrupt was left lying until the step was over.
    """
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    interrupts = 0

    def interrupt() -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > 1:
            os._exit(Exit.INTERRUPTED)
        task.cancel()

    is_main = threading.current_thread() is threading.main_thread()
    if is_main:
        loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        return await task
    except asyncio.CancelledError:
        if not interrupts:
            raise
        return Exit.INTERRUPTED
    finally:
        if is_main:
            loop.remove_signal_handler(signal.SIGINT)


@contextmanager
def _output(is_json: bool) -> Iterator[IO[str]]:
    """Where the answer goes. With --json, all else that is printed goes to standard error, by child processes too."""
    answer = sys.stdout
    try:
        number = answer.fileno() if is_json else -1
    except (OSError, ValueError):
        number = -1
    if number < 0:  # no JSON, or a caller in this process that caught the output
        sys.stdout = sys.stderr if is_json else answer
        try:
            yield answer
        finally:
            sys.stdout = answer
        return
    answer.flush()
    kept = os.dup(number)
    os.dup2(sys.stderr.fileno(), number)
    try:
        with open(os.dup(kept), "w", encoding="utf-8") as out:
            yield out
    finally:
        answer.flush()
        os.dup2(kept, number)
        os.close(kept)


@contextmanager
def _log(there: There) -> Iterator[None]:
    """A run that is set aside calls for a person on the log `remit`; here that is a line on standard error."""
    handler, log = logging.StreamHandler(sys.stderr), logging.getLogger("remit")
    handler.setFormatter(InertFormatter(there))
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _leave(status: int) -> None:
    """End at once where a plain step is still under way: a thread can't be stopped, and nothing of it is recorded."""
    if any(each is not threading.main_thread() and not each.daemon for each in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
