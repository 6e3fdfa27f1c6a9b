"""The player: a shape as a flow, in plain asyncio over Remit's calls.

What a part gives is text that depends on nothing but what its calls gave, and each request has what the flow was
given before it. So a replay that tells the flow something else than the first play shows as another request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import timedelta
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any

import remit
from tests.spec.random_flows.outside import Outside, Process, pause, pause_plain
from tests.spec.random_flows.place import Place, Scope, Turn
from tests.spec.random_flows.shape import CAPPED, EFFECTS, LEAVES, STEPS, Shape
from tests.spec.stateful.world import Crash

AMOUNT, DAY_MAX = 40, 100
WITHIN, LANDS_WITHIN, WINDOW = timedelta(hours=20), timedelta(hours=1), timedelta(days=30)
HASTE = timedelta(milliseconds=3)

_BY_DIRECTOR = remit.Approval({"director"}, WITHIN)
_CEILING = remit.Ceiling("amount", max=DAY_MAX, per="day")
CONTRACT = remit.Contract(
    version="1",
    resume={"buyer"},
    window=WINDOW,
    effects={
        **{kind: remit.Rule() for kind in EFFECTS},
        "asked": remit.Rule(approval=_BY_DIRECTOR),
        **dict.fromkeys(CAPPED, remit.Rule(ceiling=_CEILING)),
    },
)
_DECLARED: dict[str, dict[str, Any]] = {
    "probe": {"doubt": "probe", "lands_within": LANDS_WITHIN},
    "probe_plain": {"doubt": "probe", "sink": "dedupes"},
    "fence": {"doubt": "probe", "sink": "fences"},
    "resend": {"doubt": "resend", "sink": "dedupes"},
    "resend_plain": {"doubt": "resend", "sink": "dedupes"},
    "capped": {"doubt": "resend", "sink": "dedupes"},
    "booked": {"business_key": "invoice"},
    "hasty": {"timeout": HASTE},
    "hasty_plain": {"timeout": HASTE},
}


class Player:
    """The effects and steps of one process, and how each shape is played."""

    def __init__(self, outside: Outside, process: Process) -> None:
        self.outside, self.process = outside, process
        self.effects: dict[str, remit.Effect[Any]] = {kind: self._effect(kind) for kind in EFFECTS}

    def flow(self, shape: Shape, turn: Turn) -> remit.Flow[Any]:
        @remit.flow(name="played", contract=CONTRACT)
        async def played(run: remit.Run) -> str:
            turn.begin()
            try:
                turn.gave = await self.play(Place(turn, run), shape)
                return turn.gave
            finally:
                turn.is_over = True
                turn.has_given_up |= any(not task.done() for task in turn.left)

        return played

    # -- what is called ------------------------------------------------------------------------------------------------

    def _effect(self, kind: str) -> remit.Effect[Any]:
        outside, process = self.outside, self.process

        async def body(request: dict[str, Any], *, key: str, epoch: int) -> str:
            sent = outside.begin(process, kind, key, request, epoch)
            try:
                await pause(outside, sent)
                outcome = outside.end(sent)
                await pause(outside, sent, is_after=True)
                return outcome  # type: ignore[no-any-return]
            finally:
                sent.over.set()

        def plain(request: dict[str, Any], *, key: str, epoch: int) -> str:
            sent = outside.begin(process, kind, key, request, epoch)
            try:
                pause_plain(outside, sent)
                outcome = outside.end(sent)
                pause_plain(outside, sent, is_after=True)
                return outcome  # type: ignore[no-any-return]
            finally:
                sent.over.set()

        async def find(request: dict[str, Any], *, key: str, epoch: int) -> Any:
            return outside.look(process, kind, request, key, epoch)

        declared = dict(_DECLARED.get(kind, {}))
        if declared.get("doubt") == "probe":
            declared["probe"] = find
        made: Any = remit.effect(name=kind, recorded_as=kind, **declared)
        effect: remit.Effect[Any] = made(plain if kind.endswith("plain") else body)
        return effect

    def _step(self, kind: str, name: str, run: str) -> Callable[..., Any]:
        outside, process = self.outside, self.process

        def begin() -> tuple[str, int]:
            if process.is_dead:
                raise Crash
            outside.tick()
            outside.steps[run, name] += 1
            delay, end = outside.mood_of(run, name)
            shape = outside.moods.get((run, name))
            return end, shape.ms if delay == "slow" and shape is not None else 0

        def end_with(end: str) -> str:
            if process.is_dead:
                raise Crash
            if end == "dies before":
                raise process.die()
            if end == "raises":
                raise OSError("the step failed")
            return f"{kind} {name}"

        async def note() -> str:
            end, ms = begin()
            if ms:
                await asyncio.sleep(ms / 1000)
            return end_with(end)

        def count() -> str:
            end, ms = begin()
            time.sleep(ms / 1000)
            return end_with(end)

        return note if kind == "note" else count

    def call(self, place: Place, shape: Shape) -> tuple[str, Coroutine[Any, Any, Any]]:
        """A call, made and named now, and not awaited yet."""
        kind, turn = shape.kind, place.turn
        base = kind if kind != "draw" else "run.random"
        name = place.name(base)
        turn.made[name] = self.outside.tick()
        if place.is_racing:
            self.outside.racing.add((turn.run, name))
        self.outside.moods.setdefault((turn.run, name), shape)
        if kind in STEPS:
            return name, place.run.step(self._step(kind, name, turn.run))
        if kind == "question":
            about = {"given": place.given}
            return name, place.run.approve("question", about, roles={"director"}, within=WITHIN)
        if kind == "draw":
            return name, _drawn(place.run.random())
        request = {"run": turn.run, "call": name, "given": place.given, "amount": AMOUNT, "invoice": "I-1"}
        return name, place.run.effect(self.effects[kind], request)

    # -- parts ---------------------------------------------------------------------------------------------------------

    async def play(self, place: Place, shape: Shape) -> str:
        """Play a part; what it gives, as text. Raises what its calls raise."""
        if shape.kind in LEAVES:
            place.given = await self._heard(place, *self.call(place, shape))
        else:
            play: Callable[[Place, Shape], Awaitable[str]] = getattr(self, f"_{shape.kind}")
            place.given = await play(place, shape)
        return place.given

    async def _heard(self, place: Place, name: str, call: Coroutine[Any, Any, Any]) -> str:
        try:
            return _hear(place.turn, name, await call)
        except asyncio.CancelledError:
            place.turn.let_go(name, place)
            raise
        except Exception as exc:
            place.turn.note(name, type(exc).__name__)
            raise

    async def _seq(self, place: Place, shape: Shape) -> str:
        for part in shape.parts:
            await self.play(place, part)
        return place.given

    def _begin(self, place: Place, shape: Shape, *scopes: Scope) -> list[Awaitable[Any]]:
        """The parts side by side: each under a branch, or, bare, as the calls that they are."""
        if not shape.is_bare:
            return [self._in_branch(place.branch(f"b{at}", *scopes), part) for at, part in enumerate(shape.parts)]
        tasks: list[Awaitable[Any]] = []
        for name, call in [self.call(place, part) for part in shape.parts]:
            task = _begun(call)
            task.add_done_callback(lambda over, name=name: _overheard(place, name, over, scopes))  # type: ignore[misc]
            tasks.append(task)
        return tasks

    async def _in_branch(self, place: Place, part: Shape) -> str:
        return await self.play(place, part)

    async def _gather(self, place: Place, shape: Shape) -> str:
        calls = self._begin(place, shape)
        if shape.how.startswith("run"):
            return _texts(await place.run.gather(*calls))
        tasks = [_begun(call) for call in calls]
        place.turn.left += tasks
        given = await asyncio.gather(*tasks, return_exceptions=shape.how.startswith("all"))
        for one in given:
            if isinstance(one, BaseException) and not isinstance(one, Exception):
                raise one  # the end of the attempt, which nobody may keep
        return _texts(given)

    async def _group(self, place: Place, shape: Shape) -> str:
        scope = Scope()

        async def watched(call: Awaitable[Any]) -> Any:
            try:
                return await call
            except Exception:
                scope.is_fired = place.turn.has_given_up = True  # from here on the group cancels the others
                raise

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(watched(call)) for call in self._begin(place, shape, scope)]
        return _texts([task.result() for task in tasks])

    async def _first(self, place: Place, shape: Shape) -> str:
        if not shape.is_bare:
            branches = [place.branch(f"b{at}", races=True) for at in range(len(shape.parts))]
            calls: list[Any] = [self._in_branch(*each) for each in zip(branches, shape.parts, strict=True)]
            for at, call in enumerate(calls):
                call.__qualname__ = f"side_{at}"  # as of functions of their own, by which a turned race is known
            return f"first {await place.run.first(*_turned(place, shape, calls))}"
        try:  # as they are, what each of them gave is not seen
            bare = [self.call(place, part)[1] for part in shape.parts]
            return f"first {_text(await place.run.first(*_turned(place, shape, bare)))}"
        except asyncio.CancelledError:
            place.turn.has_given_up = True
            raise

    async def _wait_first(self, place: Place, shape: Shape) -> str:
        scope, order = Scope(), list[asyncio.Future[Any]]()
        tasks = [_begun(call) for call in self._begin(place, shape, scope)]
        place.turn.left += tasks
        for task in tasks:
            task.add_done_callback(order.append)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            late = [task for task in tasks if not task.done()]
            scope.is_fired = bool(late)
        finally:
            for task in tasks:
                place.turn.has_given_up |= task.cancel()
        if late and not shape.how.startswith("unheeded"):
            await asyncio.wait(late)
        return f"first {_text(order[0].result())}"

    async def _timeout(self, place: Place, shape: Shape) -> str:
        ms = None if place.turn.is_patient else shape.ms
        try:
            async with asyncio.timeout(None if ms is None else ms / 1000):
                return await self.play(place.within(Scope(ms)), shape.parts[0])
        except TimeoutError:
            place.turn.has_given_up = True  # maybe before anything began
            if shape.how == "raises":
                raise
            return "late"

    async def _wait_for(self, place: Place, shape: Shape) -> str:
        ms = None if place.turn.is_patient else shape.ms
        inner = self._in_branch(place.branch("w", Scope(ms)), shape.parts[0])
        try:
            return await asyncio.wait_for(inner, None if ms is None else ms / 1000)
        except TimeoutError:
            place.turn.has_given_up = True  # maybe before anything began
            if shape.how == "raises":
                raise
            return "late"

    async def _shield(self, place: Place, shape: Shape) -> str:
        task = _begun(self._in_branch(place.branch("s"), shape.parts[0]))
        place.turn.left.append(task)
        return await asyncio.shield(task)

    async def _retry(self, place: Place, shape: Shape) -> str:
        error: Exception | None = None
        for _ in range(3):
            try:
                return await self.play(place, shape.parts[0])
            except remit.StepError as exc:
                error = exc
        assert error is not None
        raise error

    async def _except(self, place: Place, shape: Shape) -> str:
        with self._handler(place, shape) as handler:
            try:
                return await self.play(place, shape.parts[0])
            except Exception as exc:
                place.given = type(exc).__name__
                return await handler()

    async def _swallow(self, place: Place, shape: Shape) -> str:
        with self._handler(place, shape) as handler:
            try:
                return await self.play(place, shape.parts[0])
            except asyncio.CancelledError:
                place.given = "cancelled"
                return await handler()

    async def _finally(self, place: Place, shape: Shape) -> str:
        given = place.given
        with self._handler(place, shape) as handler:
            try:
                return await self.play(place, shape.parts[0])
            finally:
                place.given = given
                await handler()

    @contextmanager
    def _handler(self, place: Place, shape: Shape) -> Iterator[Callable[[], Awaitable[str]]]:
        """How the second part is played. Early, its first call is made here, and given up where it is not awaited."""
        if shape.how != "early":
            yield lambda: self.play(place, shape.parts[1])
            return
        first, *others = shape.parts[1].parts or (shape.parts[1],)
        name, call = self.call(place, first)

        async def handle() -> str:
            place.turn.awaited[name] = self.outside.tick()
            place.given = await self._heard(place, name, call)
            return await self._seq(place, Shape("seq", tuple(others)))

        try:
            yield handle
        finally:
            if getcoroutinestate(call) == CORO_CREATED:
                place.turn.made.pop(name, None)
                call.close()

    async def _beside(self, place: Place, shape: Shape) -> str:
        scope = Scope()
        task = _begun(self._in_branch(place.branch("beside", scope), shape.parts[0]))
        place.turn.left.append(task)
        given = await self.play(place, shape.parts[1])
        if shape.how == "cancel" and not task.done():
            scope.is_fired = place.turn.has_given_up = True
            task.cancel()
            await asyncio.wait([task])
        return f"{given}, {await task}" if shape.how == "await" else given


def _turned(place: Place, shape: Shape, sides: list[Coroutine[Any, Any, Any]]) -> list[Coroutine[Any, Any, Any]]:
    """The sides of a race, in the order that this turn has them in; as written where more than one has no name."""
    rng = place.turn.turned
    nameless = sum(all(one.kind == "draw" or one.kind not in LEAVES for one in part.all()) for part in shape.parts)
    return sides if rng is None or nameless > 1 else rng.sample(sides, len(sides))


def _begun(call: Awaitable[Any]) -> asyncio.Future[Any]:
    """A task of the flow's own, which may fail although nobody waits for it any more."""
    task = asyncio.ensure_future(call)
    task.add_done_callback(lambda over: over.cancelled() or over.exception())
    return task


async def _drawn(value: float) -> float:
    return value


def _hear(turn: Turn, name: str, value: Any) -> str:
    turn.note(name, "value", value)
    return _text(value)


def _overheard(place: Place, name: str, over: asyncio.Future[Any], scopes: tuple[Scope, ...]) -> None:
    if over.cancelled():
        place.turn.let_go(name, place, *scopes)
    elif (error := over.exception()) is None:
        place.turn.note(name, "value", over.result())
    elif isinstance(error, Exception):
        place.turn.note(name, type(error).__name__)


def _text(value: Any) -> str:
    if isinstance(value, remit.Yes):
        return f"yes of {value.by}"
    return type(value).__name__ if isinstance(value, BaseException) else str(value)


def _texts(values: Any) -> str:
    return f"({', '.join(map(_text, values))})"
