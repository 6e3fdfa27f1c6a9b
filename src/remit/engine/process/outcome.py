"""What became of a run, as its caller is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from remit.errors import Refused, RunUnfinished
from remit.errors.called import all_called
from remit.facts.machine import Status
from remit.facts.value import Codec, codec_for
from remit.facts.view import RunView

_detail = codec_for(dict[str, str])


def check_words(words: object) -> None:
    """Raises Refused `words.text` where a reason, or what somebody found out, is no text."""
    if not isinstance(words, str):
        what = f"A reason is text, and not {type(words).__name__}; nothing was done."
        raise Refused(what, code="words.text", hint='Say it in words; "" where there is nothing to say.')


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run's standing when it ended or parked.

    status: one of the run statuses, as text. code: why, "" where there is nothing to say.
    reason: the same in words. waits_for: what an open run waits for ("repair"), "" otherwise.
    """

    run: str
    status: Status
    code: str = ""
    reason: str = ""
    waits_for: str = ""
    _value: Any = field(default=None, repr=False)

    @property
    def value(self) -> Any:
        """What the flow returned. Raises RunUnfinished unless the run completed."""
        if self.status is not Status.COMPLETED:
            told = f": {self.reason}" if self.reason else ""
            raise RunUnfinished(f"Run {self.run!r} is {self.status}{told}; it has no value.")
        return self._value


def outcome_of(view: RunView, codec: Codec[Any]) -> Outcome:
    """The outcome that a verified journal tells. Raises ValueUnreadable where its value no longer fits its type."""
    run = view.identity.run
    if view.ended is not None:
        if view.status is Status.COMPLETED:
            assert view.last_value is not None  # the fold saw to it
            return Outcome(run, view.status, _value=codec.read(view.last_value, where=f"run {run!r}"))
        return Outcome(run, view.status, view.ended.code, detail_of(view.last_value))
    if view.parked is not None:
        return Outcome(run, view.status, view.parked.code, detail_of(view.last_value), view.parked.waits_for)
    return Outcome(run, view.status)


def with_done(words: str, done: Iterable[str]) -> str:
    """Why a run ended early, and then the effects that happened all the same. Two sentences, whoever wrote words."""
    told = done_before(done)
    if not told:
        return words
    return f"{words} {told}" if words.rstrip().endswith((".", "!", "?", "…")) else f"{words}. {told}"


def done_before(done: Iterable[str]) -> str:
    """Effects that happened in a run that ended early, as a sentence; "" where none did."""
    names = all_called(done)
    return f"Done before: {names}." if names else ""


def detail_of(value: bytes | None) -> str:
    """The words that stand beside a code."""
    return _detail.read(value)["detail"] if value is not None else ""


def detail(text: str) -> bytes:
    """The value bytes of words that stand beside a code; lone surrogates are escaped, so that they can be stored.

    Raises Refused `words.text` for what is no text.
    """
    check_words(text)
    data, _ = _detail.write({"detail": text.encode("utf-8", "backslashreplace").decode()})
    return data
