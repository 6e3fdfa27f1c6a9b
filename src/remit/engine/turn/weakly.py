"""Weakly: what an attempt is made of tells it things, and does not keep it.

A turn whose parts know it for good is a cycle, which only the collector of garbage takes apart: it stops all other runs
of its process meanwhile, and looks at all that they hold. One that nobody holds any more is gone at once.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Generic, ParamSpec
from weakref import ref

P = ParamSpec("P")


class _Weakly(Generic[P]):
    __slots__ = ("_function", "_of")

    def __init__(self, method: Callable[P, None]) -> None:
        assert isinstance(method, MethodType), "somebody's method, who may be gone"
        self._of, self._function = ref(method.__self__), method.__func__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        if (living := self._of()) is not None:
            self._function(living, *args, **kwargs)


def weakly(method: Callable[P, None]) -> Callable[P, None]:
    """Call the method while whose it is lives, and nothing after that."""
    return _Weakly(method)
