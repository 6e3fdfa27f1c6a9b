"""Effects as a user declares them: what reaches the outside world, and what the other side promises.

    doubt="ask"      where it is not known whether it happened, a person says (the default)
    doubt="probe"    the outside world is asked whether the key landed
    doubt="resend"   it is sent again under the same key, which the other side deduplicates

    sink="dedupes"   a second request with the same key does nothing
    sink="fences"    a request with a lower epoch than the newest that it was told is refused
    sink=None        it promises nothing

An effect takes one argument, the request, and `key`, the idempotency key. It raises
`DidNotHappen` where it knows that nothing was sent, and `Declined` where the other side said
no; neither says anything of what was sent before. Whatever else it raises leaves a doubt: the
request may have arrived.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, Literal, Protocol, TypeVar, cast, get_args, overload

from remit.authority.named import takes
from remit.engine.declared.flow import is_async
from remit.engine.declared.outward import Outward, refused
from remit.errors import NotBuilt
from remit.facts.names import check_effect_name
from remit.facts.value import Codec, codec_given, codec_of_parameter, codec_of_return

T = TypeVar("T")

Reversal = Literal["reversible", "compensable", "irreversible"]
Doubt = Literal["probe", "resend", "ask"]
Sink = Literal["dedupes", "fences"]

REQUEST_BYTES_MAX = 16 * 1024 * 1024  # refused before the effect; outcomes never are


class DidNotHappen(Exception):
    """Raised by an effect that knows that nothing was sent: it may be called again."""

    __module__ = "remit"  # as people import it: journals and logs name what was raised


class Declined(Exception):
    """Raised by an effect to which the other side said no: it is settled as failed and not called again.

    Of one that was sent before it says nothing of those sendings: while they may still land, it stays in doubt.
    """

    __module__ = "remit"


@dataclass(frozen=True, slots=True)
class Landed(Generic[T]):
    """A probe's answer: it happened, and this is its outcome."""

    outcome: T


@dataclass(frozen=True, slots=True)
class NotLanded:
    """A probe's answer: the other side knows nothing of this key."""


@dataclass(frozen=True, slots=True)
class Callee:
    """A function that is called at the boundary, with what was found out about it when it was declared."""

    fn: Callable[..., Any]
    is_async: bool
    takes_epoch: bool


class Effect(Outward[T]):
    """Something that reaches the outside world. Made by `@remit.effect`; called by `run.effect`."""

    called_by = "effect"

    def __init__(
        self,
        name: str,
        fn: Callable[..., Any],
        *,
        reversal: Reversal = "irreversible",
        doubt: Doubt = "ask",
        probe: Callable[..., Any] | None = None,
        sink: Sink | None = None,
        lands_within: timedelta | None = None,
        business_key: str | None = None,
        version: str = "1",
        connector: str = "",
        recorded_as: str = "",
        timeout: timedelta | None = None,
        undo: object = None,
    ) -> None:
        self.name, self.fn = check_effect_name(name, "effect name"), fn
        self.reversal, self.doubt, self.sink = reversal, doubt, sink
        self.business_key, self.version, self.timeout = business_key, version, timeout
        self.lands_within = lands_within
        if undo is not None:
            raise NotBuilt(f"Effect {name!r} has an undo, and this version can't undo; nothing was declared.")
        self._check(probe)
        self.tell("effect", connector, recorded_as, {"connector": connector, "doubt": doubt, "sink": sink})
        self.callee = _callee(name, fn, "parameters")
        self.probe = None if probe is None else _callee(name, probe, "probe")
        self.is_probe_fenced = sink == "fences" and self.probe is not None and self.probe.takes_epoch
        if sink == "fences" and not self.callee.takes_epoch:
            raise refused(name, "sink", 'sink="fences" needs a function that takes `epoch` and tells the other side')
        self.request_codec: Codec[Any] = codec_of_parameter(fn, 0)
        self.codec: Codec[Any] = codec_given(codec_of_return(fn), f"What effect {name!r} returns")
        self.__doc__ = fn.__doc__

    def __repr__(self) -> str:
        return f"<effect {self.name}>"

    def _check(self, probe: Callable[..., Any] | None) -> None:
        name = self.name
        self.check_function()
        for field, value, known in (
            ("reversal", self.reversal, get_args(Reversal)),
            ("doubt", self.doubt, get_args(Doubt)),
            ("sink", self.sink, (None, *get_args(Sink))),
        ):
            if value not in known:
                raise refused(name, field, f"{field} {value!r} is none of {', '.join(map(str, known))}")
        if (self.doubt == "probe") != (probe is not None):
            raise refused(name, "probe", 'doubt="probe" and a function `probe=` go together')
        if self.doubt == "resend" and self.sink != "dedupes":
            raise refused(name, "doubt", 'doubt="resend" needs sink="dedupes": a second request must do nothing')
        for field, length in (("lands_within", self.lands_within), ("timeout", self.timeout)):
            given: object = length
            if given is not None and (not isinstance(given, timedelta) or given <= timedelta(0)):
                raise refused(name, field, f"{field} is a timedelta, longer than nothing, and not {given!r}")


class Declare(Protocol):
    """What makes an effect of a function, asynchronous or not; its outcome keeps its type."""

    @overload
    def __call__(self, fn: Callable[..., Coroutine[Any, Any, T]], /) -> Effect[T]: ...
    @overload
    def __call__(self, fn: Callable[..., T], /) -> Effect[T]: ...


@overload
def effect(fn: Callable[..., Coroutine[Any, Any, T]], /) -> Effect[T]: ...
@overload
def effect(fn: Callable[..., T], /) -> Effect[T]: ...
@overload
def effect(
    *,
    name: str | None = None,
    reversal: Reversal = "irreversible",
    doubt: Doubt = "ask",
    probe: Callable[..., Any] | None = None,
    sink: Sink | None = None,
    lands_within: timedelta | None = None,
    business_key: str | None = None,
    version: str = "1",
    connector: str = "",
    recorded_as: str = "",
    timeout: timedelta | None = None,
    undo: object = None,
) -> Declare: ...
def effect(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    reversal: Reversal = "irreversible",
    doubt: Doubt = "ask",
    probe: Callable[..., Any] | None = None,
    sink: Sink | None = None,
    lands_within: timedelta | None = None,
    business_key: str | None = None,
    version: str = "1",
    connector: str = "",
    recorded_as: str = "",
    timeout: timedelta | None = None,
    undo: object = None,
) -> Any:
    """Declare an effect: `@remit.effect(doubt="probe", probe=find_order, sink="dedupes")`.

    The function takes the request and `key` (and `epoch`, if it has such a parameter, for sinks that fence).
    probe: takes the same and returns `Landed(outcome)` or `NotLanded()`; whatever else it does, the doubt stays. Where
        the sink fences, "not landed" is final only from a probe that takes `epoch` and raises the fence by it.
    lands_within: the longest that a request under way may take to land once its sender is dead; counted from the first
        turn that proved that its process is.
    business_key: field of the request that no two runs may use ("invoice"). version, connector: of what it talks to;
        an approval is bound to both. recorded_as: the words by which journals know its function, where that was moved
        or renamed, or several have the same. timeout: of one call; after it the effect is in doubt. A probe has thirty
        seconds. What the function handed to a thread of its own goes on.
    Raises DeclarationRefused (`effect.doubt`, `.probe`, `.sink`, `.reversal`, `.parameters` ...), NotBuilt for `undo`.
    """

    def declare(function: Callable[..., Any]) -> Effect[Any]:
        return Effect(
            str(name or getattr(function, "__name__", "")),
            function,
            reversal=reversal,
            doubt=doubt,
            probe=probe,
            sink=sink,
            lands_within=lands_within,
            business_key=business_key,
            version=version,
            connector=connector,
            recorded_as=recorded_as,
            timeout=timeout,
            undo=undo,
        )

    return cast(Declare, declare) if fn is None else declare(fn)


def _callee(name: str, fn: Callable[..., Any], field: str) -> Callee:
    """What the port has to know of a function. Raises DeclarationRefused unless it takes a request and `key`."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name != "key"]
    named = {p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)} & {"key", "epoch"}
    others = [p for p in positional if p.name != "epoch"]
    if len(others) != 1 or "key" not in named or not takes(fn, None, **dict.fromkeys(named)):
        whose = "its probe" if field == "probe" else "it"
        raise refused(
            name,
            field,
            f"{whose} takes one request and `key`, and may take `epoch`: `def pay(order: Order, *, key: str)`",
        )
    return Callee(fn, is_async(fn), takes_epoch="epoch" in named)
