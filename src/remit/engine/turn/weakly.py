"""Weakly: what an attempt is made of tells it things, and does not keep it.

A turn whose parts know it for good is a cycle, which only the collector of garbage takes apart: it stops all other runs
of its process meanwhile, and looks at all that they hold. One that nobody holds any more is gone at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec
from weakref import WeakMethod

P = ParamSpec("P")


def weakly(method: Callable[P, None]) -> Callable[P, None]:
    """Call the method while whose it is lives, and nothing after that."""
    known = WeakMethod(method)

    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        if (living := known()) is not None:
            living(*args, **kwargs)

    return call
