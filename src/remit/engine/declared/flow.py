"""Flows and steps: what a user declares, before any run of it exists.

A declaration is a frozen value. What can be wrong with it is found here, at import time,
and not in the middle of a run.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar, overload
from weakref import WeakKeyDictionary

from remit.authority.contract import Contract
from remit.authority.named import qualified_name
from remit.engine.declared.place import check_not_bare, is_in_flow
from remit.engine.declared.terms import Terms
from remit.errors import DeclarationRefused, ValueUnreadable
from remit.facts.names import check_name
from remit.facts.value import Codec, codec_for, codec_given, codec_of_parameter, codec_of_return

P = ParamSpec("P")
R = TypeVar("R")

_NO_INPUT = b"null"


@dataclass(frozen=True, slots=True)
class Body:
    """What is known of a step's function.

    may_wait: whether its code awaits anything; what does not can't be cancelled in the middle. told: which it is.
    is_bare: it was made with its module, or brings nothing, and wraps none.
    """

    is_async: bool
    may_wait: bool
    codec: Codec[Any]
    told: str
    is_bare: bool

    @staticmethod
    def of(name: str, fn: Callable[..., Any]) -> Body:
        """Raises DeclarationRefused."""
        known = _bodies.get(fn) if isinstance(fn, FunctionType) else None
        if known is not None:
            return known
        if not callable(fn):
            raise DeclarationRefused(f"Step {name!r} needs a function, not {type(fn).__name__}.", code="step.function")
        if yields(fn):
            raise DeclarationRefused(f"Step {name!r} yields; a step returns one outcome.", code="step.function")
        codec = codec_given(codec_of_return(fn), f"What step {name!r} returns")
        body = Body(is_async(fn), may_wait(fn), codec, f"step {qualified_name(fn)}", is_bare(fn))
        if isinstance(fn, FunctionType):
            _bodies[fn] = body
        return body


# What was found out about a plain function, for as long as it lives: a step would keep it alive.
_bodies: WeakKeyDictionary[Callable[..., Any], Body] = WeakKeyDictionary()


class Step(Generic[P, R]):
    """A named computation whose outcome is recorded; running it twice is only waste.

    Made by `@remit.step`, or as `Step("name", function)` for a list of steps. is_of_flow: whether a flow made it.
    """

    def __init__(self, name: str, fn: Callable[P, R], codec: Codec[Any] | None = None) -> None:
        self.name = check_name(name, "step name")
        self.fn = fn
        self.is_of_flow = is_in_flow()
        self.body = Body.of(name, fn)
        self.codec: Codec[Any] = codec or self.body.codec
        self.__doc__ = fn.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The plain function, for tests and use outside a run. Raises CallRefused inside one."""
        check_not_bare(self.name)
        return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<step {self.name}>"


class Flow(Generic[R]):
    """The code that describes the work, with the contract that it declares. Made by `@remit.flow`."""

    def __init__(self, name: str, fn: Callable[..., Any], contract: Contract) -> None:
        self.name = check_name(name, "flow name")
        self.fn = fn
        self.contract = contract
        self.terms = Terms.of(contract)
        if yields(fn):
            raise DeclarationRefused(f"Flow {name!r} yields; a flow returns one outcome.", code="flow.function")
        self.is_async = is_async(fn)
        parameters = [p for p in inspect.signature(fn).parameters.values() if p.kind in _POSITIONAL]
        if len(parameters) not in (1, 2):
            raise DeclarationRefused(
                f"Flow {name!r} takes {len(parameters)} parameters; nothing was declared.",
                code="flow.parameters",
                hint="A flow takes the run and, if it needs one, its input: `def purchase(run, request)`.",
            )
        self.takes_input = len(parameters) == 2
        self.input_codec: Codec[Any] = codec_for(Any)
        if self.takes_input:
            self.input_codec = codec_given(codec_of_parameter(fn, 1), f"The input of flow {name!r}")
        self.result_codec: Codec[Any] = codec_of_return(fn)
        self.__doc__ = fn.__doc__

    def read_input(self, data: bytes, run: str) -> Any:
        """What this run is given, by its recorded bytes. Raises ValueUnreadable where that is not what it takes."""
        where = f"the input of run {run!r}"
        if not self.takes_input and data != _NO_INPUT:
            raise ValueUnreadable(f"flow {self.name!r} takes no input any more", type_name="None", where=where)
        return self.input_codec.read(data, where=where)

    def __repr__(self) -> str:
        return f"<flow {self.name}, contract {self.contract.version}>"


def is_async(fn: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine; an object that can be called is asked for its `__call__`."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__)


def yields(fn: Callable[..., Any]) -> bool:
    """Whether calling it gives a generator, of which nothing has run; partials and objects are asked what they call."""
    while isinstance(fn, partial):
        fn = fn.func
    called = (fn, type(fn).__call__)
    return any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in called)


def may_wait(fn: Callable[..., Any]) -> bool:
    """Whether calling it may give a coroutine that suspends. An `async def` without `await`, `async for` and
    `async with` runs through."""
    if not (isinstance(fn, FunctionType) and fn.__code__.co_flags & inspect.CO_COROUTINE):
        return True  # it hands on whatever it calls
    return any(found.opname == "YIELD_VALUE" for found in dis.get_instructions(fn.__code__))


def is_bare(fn: object) -> bool:
    """Whether it is a function that was made with its module, or brings nothing along, and wraps none: most are."""
    return (
        isinstance(fn, FunctionType)
        and ("<locals>" not in fn.__qualname__ or not has_values(fn))
        and getattr(fn, "__wrapped__", None) is None
    )


def has_values(fn: FunctionType) -> bool:
    """Whether it closes over anything, or has defaults."""
    return bool(fn.__closure__ or fn.__defaults__ or fn.__kwdefaults__)


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@overload
def step(fn: Callable[P, R], /) -> Step[P, R]: ...
@overload
def step(*, name: str | None = None) -> Callable[[Callable[P, R]], Step[P, R]]: ...
def step(fn: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
    """Declare a step. Its name is the function's, or `name`.

    The outcome comes back as the type that the function's return annotation names.
    Raises IdRefused or DeclarationRefused.
    """
    if fn is None:
        return lambda function: Step(name or _name_of(function), function)
    return Step(name or _name_of(fn), fn)


def flow(
    bare: object = None, /, *, contract: Contract | None = None, name: str | None = None
) -> Callable[[Callable[..., Any]], Flow[Any]]:
    """Declare a flow under a contract. Its name is the function's, or `name`.

    Raises DeclarationRefused: `contract.missing`, or `contract.resume` where it does not say who may resume.
    """
    if bare is not None or not isinstance(contract, Contract):
        raise DeclarationRefused(
            "A flow needs a Contract; nothing was declared.",
            code="contract.missing",
            hint='Write `@remit.flow(contract=remit.Contract(version="1", resume=...))`.',
        )
    return lambda fn: Flow(name or _name_of(fn), fn, contract)


def step_of(fn: Callable[..., Any]) -> Step[..., Any]:
    """A step for what the flow handed in: itself, or a plain named function."""
    if isinstance(fn, Step):
        return fn
    return Step(_name_of(fn), fn)


def _name_of(fn: Callable[..., Any]) -> str:
    name = getattr(fn, "__name__", "")
    if not name or name == "<lambda>":
        raise DeclarationRefused(
            f"{fn!r} has no name, by which a run could find it again; nothing was done.",
            code="step.unnamed",
            hint='Use a named function, or `Step("name", function)`.',
        )
    return name
