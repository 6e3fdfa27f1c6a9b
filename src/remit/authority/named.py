"""Named: what a function of the user's is called in facts, so that a later reader finds it, and how it is called.

Its module and its qualified name, and of one that was made in another function also what it was made
of. The file that Python was started with is a module like any other: `python refunds.py`,
`python -m refunds` and `import refunds` declare one and the same effect, whose approvals and doubts
are not to depend on how somebody went on.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial
from pathlib import PurePath
from types import CellType
from typing import Any

_STARTED = ("__main__", "__mp_main__")  # the second in a process that multiprocessing spawned


def qualified_name(function: object) -> str:
    """Module and name of a function, or of the class of an object that can be called; "" for None.

    >>> qualified_name(qualified_name)
    'remit.authority.named.qualified_name'
    """
    if function is None:
        return ""
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{_module_of(named)}.{getattr(named, '__qualname__', '')}"


def function_text(function: object, told: set[int] | None = None) -> str:
    """Which function it is: its name, and behind a local one those of the functions and classes that it captured.

    "" for None.

    So what one decorator makes of two functions is two. What was captured besides, as a side's address, is not told.

    told: functions whose captures stand in it already, by identity.

    >>> function_text(partial(takes, None))
    'remit.authority.named.takes'
    """
    if isinstance(function, partial):
        return function_text(function.func, told)
    name, told = qualified_name(function), set() if told is None else told
    if "<locals>" not in name or id(function) in told:
        return name
    told.add(id(function))
    captured = [content(cell) for cell in getattr(function, "__closure__", None) or ()]
    texts = [function_text(each, told) for each in captured if _is_named(each)]
    return f"{name}({', '.join(texts)})" if texts else name


def content(cell: CellType) -> object:
    """What a function captured; None where that is not there yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def takes(function: Callable[..., Any], *given: object, **named: object) -> bool:
    """Whether a function can be called like that. True of one that does not say what it takes, as some built-in ones.

    >>> takes(lambda order: True, "order"), takes(lambda: True, "order"), takes(lambda order, *, key: 1, "order")
    (True, False, False)
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return callable(function)
    try:
        signature.bind(*given, **named)
    except TypeError:
        return False
    return True


def _is_named(captured: object) -> bool:
    return isinstance(captured, partial) or inspect.isroutine(captured) or inspect.isclass(captured)


def _module_of(named: object) -> str:
    """Its module, as another one would import it. What was typed in or piped in stays `__main__`: nobody could."""
    module = str(getattr(named, "__module__", ""))
    if module not in _STARTED:
        return module
    started = sys.modules.get(module)
    spec, file = getattr(started, "__spec__", None), getattr(started, "__file__", None)
    return spec.name if spec is not None else PurePath(file).stem if isinstance(file, str) else module
