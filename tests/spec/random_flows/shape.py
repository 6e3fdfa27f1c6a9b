"""Shapes of flows: a tree of what asyncio and Remit let a flow do with its calls, drawn from a seed.

A shape is data and prints as Python that makes it again, so a life that failed is told whole by its seed, and
a shape that was made smaller by hand is played again by pasting it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

STEPS = ("note", "count")  # async, plain
EFFECTS = (
    "ask",
    "ask_plain",
    "probe",
    "probe_plain",
    "fence",
    "resend",
    "resend_plain",
    "capped",
    "capped_plain",
    "booked",
    "asked",
    "hasty",
    "hasty_plain",
)
CAPPED = ("capped", "capped_plain")
LEAVES = (*STEPS, *EFFECTS, "question", "draw")

# What becomes of one call, after which delay: "" at once, "slow" some milliseconds, "held" until a call is given up.
DELAYS = ("", "", "", "slow", "slow", "held")
ENDS = (
    *["fine"] * 12,
    "not sent",
    "not sent",
    "declined",
    "lost before",
    "lost after",
    "lost after",
    "lands late",
    "cancelled after",
    "slow after",
    "dies before",
    "dies after",
    "dies, lands late",
    "no value",
)
STEP_ENDS = (*["fine"] * 6, "raises", "raises", "dies before")


@dataclass(frozen=True)
class Shape:
    """One part of a flow. kind: a leaf, or how its parts are played. how: a variation of that. ms: of patience.

    moods: of a leaf, what its calls outside meet in order, as (delay, end); each further one is fine.
    mute: of a leaf, how many times its probe gives no answer.
    """

    kind: str
    parts: tuple[Shape, ...] = ()
    how: str = ""
    ms: int = 0
    moods: tuple[tuple[str, str], ...] = ()
    mute: int = 0

    def __repr__(self) -> str:
        given = [repr(self.kind)]
        if self.parts:
            given.append("(" + "".join(f"{part!r}, " for part in self.parts).rstrip(" ") + ")")
        given += [f"{name}={value!r}" for name in ("how", "ms", "moods", "mute") if (value := getattr(self, name))]
        return f"Shape({', '.join(given)})"

    def all(self) -> Iterator[Shape]:
        """This part and all below it."""
        yield self
        for part in self.parts:
            yield from part.all()

    @property
    def is_bare(self) -> bool:
        """Its parts are calls that it hands on as they are, without a coroutine of the flow's around them."""
        return self.how.endswith("bare") and all(part.kind in LEAVES for part in self.parts)


_MANY = {"gather": ("plain", "plain bare", "all", "all bare", "run", "run bare"), "group": ("", "bare"),
         "first": ("", "bare"), "wait_first": ("", "bare", "unheeded", "unheeded bare")}  # fmt: skip
_ONE = {"timeout": ("", "", "raises"), "wait_for": ("", "", "raises"), "shield": ("",), "retry": ("",)}
_TWO = {**dict.fromkeys(("except", "swallow", "finally"), ("", "early")), "beside": ("await", "cancel", "leave")}
_WEIGHTS = {"seq": 4, "gather": 4, "group": 2, "first": 3, "wait_first": 2, "timeout": 3, "wait_for": 2, "shield": 1,
            "retry": 2, "except": 3, "swallow": 1, "finally": 2, "beside": 2}  # fmt: skip
_LEAF_WEIGHTS = {**dict.fromkeys(STEPS, 3), **dict.fromkeys(EFFECTS, 1), "question": 2, "draw": 2}


def draw_shape(rng: random.Random, *, leaves: int) -> Shape:
    """A flow with about that many leaves: a sequence of parts, as flows are."""
    parts = []
    while leaves > 0:
        size = rng.randint(1, leaves)
        parts.append(_draw(rng, size, depth=0))
        leaves -= size
    if rng.random() < 0.15:
        parts.insert(rng.randint(0, len(parts)), _draw_detour(rng))
    return Shape("seq", tuple(parts))


def _draw_detour(rng: random.Random) -> Shape:
    """A payment that is made where a step takes too long, and a race that may end while it is under way.

    The step is quick the next time, so code that forgot the payment would go another way, and on to another one.
    """
    late = Shape("note", moods=(("slow", "fine"),), ms=rng.choice((5, 10)))
    pays = replace(_draw_leaf(rng, dict.fromkeys(EFFECTS, 1)), moods=(("slow", "fine"),), ms=rng.choice((5, 10, 20)))
    detour = Shape("except", (Shape("timeout", (late,), "raises", rng.choice((1, 2))), pays))
    races = Shape("first", tuple(Shape("note", moods=(("slow", "fine"),), ms=rng.choice((4, 8, 12))) for _ in "ab"))
    beside = Shape("gather", (detour, races), rng.choice(("plain", "run")))
    return Shape("seq", (beside, Shape("note", moods=(("", "raises"),)), Shape("ask")))


def _draw(rng: random.Random, leaves: int, depth: int) -> Shape:
    if leaves <= 1 and (depth > 3 or rng.random() < 0.55):
        return _draw_leaf(rng)
    kind = _pick(rng, _WEIGHTS)
    ms = rng.choice((0, 1, 2, 4, 8))
    if kind in _ONE:
        inner = _draw_leaf(rng, _EFFECT_OR_STEP) if kind == "retry" else _draw(rng, leaves, depth + 1)
        return Shape(kind, (inner,), rng.choice(_ONE[kind]), ms)
    if kind in ("except", "swallow", "finally"):
        return Shape(kind, (_draw(rng, leaves - 1, depth + 1), _draw_handler(rng)), rng.choice(_TWO[kind]))
    if kind in _TWO:
        share = rng.randint(1, max(1, leaves - 1))
        return Shape(
            kind, (_draw(rng, share, depth + 1), _draw(rng, leaves - share, depth + 1)), rng.choice(_TWO[kind])
        )
    parts = tuple(_draw_parts(rng, max(leaves, 2), depth))
    if kind == "wait_first":
        parts = tuple(map(_calling, parts))
    return Shape(kind, parts, rng.choice(_MANY.get(kind, ("",))))


def _calling(shape: Shape) -> Shape:
    """The same with calls for draws: which task is done first is the same again among those that make calls only."""
    if shape.kind == "draw":
        return replace(shape, kind="note")
    return replace(shape, parts=tuple(map(_calling, shape.parts)))


def _draw_parts(rng: random.Random, leaves: int, depth: int) -> Iterator[Shape]:
    while leaves > 0:
        size = rng.choice((1, 1, 2, leaves))
        yield _draw(rng, min(size, leaves), depth + 1) if rng.random() < 0.6 else _draw_leaf(rng)
        leaves -= size


def _draw_handler(rng: random.Random) -> Shape:
    """Calls of its own task alone: what follows a failure in another task is a documented limit."""
    calls = tuple(_draw_leaf(rng) for _ in range(rng.choice((1, 1, 2))))
    return calls[0] if len(calls) == 1 else Shape("seq", calls)


_EFFECT_OR_STEP = {kind: weight for kind, weight in _LEAF_WEIGHTS.items() if kind in (*STEPS, *EFFECTS)}


def _draw_leaf(rng: random.Random, weights: dict[str, int] = _LEAF_WEIGHTS) -> Shape:
    kind = _pick(rng, weights)
    ends: Sequence[str] = STEP_ENDS if kind in STEPS else ENDS if kind in EFFECTS else ()
    moods = [(rng.choice(DELAYS), rng.choice(ends)) for _ in range(rng.choice((1, 1, 2, 3)))] if ends else []
    while moods and moods[-1] == ("", "fine"):
        moods.pop()
    return Shape(kind, moods=tuple(moods), ms=rng.choice((1, 2, 5)), mute=rng.choice((0, 0, 0, 1, 2)))


def _pick(rng: random.Random, weights: dict[str, int]) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]
