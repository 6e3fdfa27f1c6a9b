"""Named: what a function of the user's is called in facts, so that a later reader finds it, and how it is called.

Its module and its qualified name. The file that Python was started with is a module like any
other: `python refunds.py`, `python -m refunds` and `import refunds` declare one and the same
effect, whose approvals and doubts are not to depend on how somebody went on.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import PurePath
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


def _module_of(named: object) -> str:
    """Its module, as another one would import it. What was typed in or piped in stays `__main__`: nobody could."""
    module = str(getattr(named, "__module__", ""))
    if module not in _STARTED:
        return module
    started = sys.modules.get(module)
    spec, file = getattr(started, "__spec__", None), getattr(started, "__file__", None)
    return spec.name if spec is not None else PurePath(file).stem if isinstance(file, str) else module
