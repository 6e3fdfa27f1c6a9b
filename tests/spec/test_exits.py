"""Code that exits ends no other run: it failed. A Ctrl-C is no such code, and ends the program."""

from __future__ import annotations

import asyncio
import inspect
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

import remit
from tests.spec.conftest import Storage
from tests.support.till import OPEN, Order, Till

Leave = Callable[[], NoReturn]
Around = Callable[[remit.Run, Awaitable[Any]], Awaitable[Any]]


def exits() -> NoReturn:
    sys.exit(3)


def interrupts() -> NoReturn:
    """Code that raises it by itself, and no signal."""
    raise KeyboardInterrupt


class Panic(BaseException):
    """As a library's that is not to be caught by `except Exception`."""


def panics() -> NoReturn:
    raise Panic("it panicked")


SAID = {exits: "it raised SystemExit 3", interrupts: "it raised Keyboard", panics: "raised .*Panic: it panicked"}


class Places:
    """A flow for each place at which Remit calls the user's code: it leaves there."""

    def __init__(self, leave: Leave) -> None:
        @remit.step
        async def step() -> None:
            await asyncio.sleep(0)
            leave()

        @remit.step
        async def step_at_once() -> None:
            leave()

        @remit.step
        def step_plain() -> None:
            leave()

        @remit.effect
        async def effect(order: Order, *, key: str) -> None:
            await asyncio.sleep(0)
            leave()

        @remit.effect
        def effect_plain(order: Order, *, key: str) -> None:
            leave()

        async def wanted(order: Order) -> bool:
            leave()

        async def probe(order: Order, *, key: str) -> Any:
            leave()

        async def again() -> int:
            leave()

        async def lose(order: Order, *, key: str) -> None:
            raise ConnectionError("no answer")

        async def leave_later() -> None:
            await asyncio.sleep(0)
            leave()

        self.flows = {
            "step": self._flow(lambda run: run.step(step)),
            "step at once": self._flow(lambda run: run.step(step_at_once)),
            "step plain": self._flow(lambda run: run.step(step_plain)),
            "effect": self._flow(lambda run: run.effect(effect, Order())),
            "effect plain": self._flow(lambda run: run.effect(effect_plain, Order())),
            "flow": self._flow(lambda run: leave_later()),
            "gather": self._flow(lambda run: run.gather(leave_later(), run.step(step))),
            "first": self._flow(lambda run: run.first(leave_later(), run.step(step))),
            "plain flow": self._plain(leave),
            "predicate": self._paying(wanted),
            "predicate plain": self._paying(lambda order: leave()),
            "probe": self._sending(remit.effect(name="pay", doubt="probe", probe=probe)(lose)),
            "probe plain": self._sending(
                remit.effect(name="pay", doubt="probe", probe=lambda order, *, key: leave())(lose)
            ),
            "fetcher": self._resting(again),
            "fetcher plain": self._resting(lambda: leave()),
        }

    def _flow(self, call: Callable[[remit.Run], Awaitable[Any]]) -> remit.Flow[Any]:
        @remit.flow(contract=OPEN, name="leaving")
        async def flow(run: remit.Run) -> None:
            await call(run)

        return flow

    def _plain(self, leave: Leave) -> remit.Flow[Any]:
        @remit.flow(contract=OPEN, name="leaving")
        def flow(run: remit.SyncRun) -> None:
            leave()

        return flow

    def _paying(self, wanted: Callable[[Order], Any]) -> remit.Flow[Any]:
        pay, rule = Till().effect(), remit.Rule(still_wanted=wanted)

        @remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"pay": rule}), name="leaving")
        async def flow(run: remit.Run) -> None:
            await run.effect(pay, Order())

        return flow

    def _sending(self, effect: remit.Effect[Any]) -> remit.Flow[Any]:
        return self._flow(lambda run: run.effect(effect, Order()))

    def _resting(self, again: Callable[[], Any]) -> remit.Flow[Any]:
        pay = Till().effect()

        @remit.flow(contract=OPEN, name="leaving")
        async def flow(run: remit.Run) -> None:
            as_of = datetime.now(UTC) - timedelta(hours=2)
            run.evidence("quote", 1, as_of=as_of, fresh_for=timedelta(hours=1), again=again)
            await run.effect(pay, Order(), rests_on=["quote"])

        return flow


FAILS = ["step", "step at once", "step plain", "flow", "gather", "first", "plain flow"]
IN_DOUBT = ["effect", "effect plain", "probe", "probe plain"]
UNSURE = ["predicate", "predicate plain", "fetcher", "fetcher plain"]
IN_THE_LOOP = ["step", "step at once", "effect", "flow", "gather", "first", "predicate", "probe", "fetcher"]


async def become_of(rt: remit.Runtime, place: str, leave: Leave) -> None:
    """What becomes of a run that leaves there, while another one pays."""
    till = Till()
    till.next(till.hold)
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def paying(run: remit.Run) -> int:
        return (await run.effect(pay, Order(invoice="other"))).number

    other = asyncio.ensure_future(rt.run(paying, id="other"))
    await till.is_held.wait()
    leaving = Places(leave).flows[place]
    if place in FAILS:
        with pytest.raises(remit.StepError, match=SAID.get(leave, "it raised SystemExit 3")) as failed:
            await rt.run(leaving, id="r")
        assert failed.value.name == (place.replace(" ", "_") if "step" in place else "leaving")
        assert (await rt.why("r")).status == "waiting"
    else:
        told = await rt.run(leaving, id="r")
        assert told.status == ("in_doubt" if place in IN_DOUBT else "waiting")
        raised = "it raised tests.spec.test_exits.Panic" if leave is panics else "it raised RuntimeError"
        assert raised in told.reason or "effect" not in place
    till.let_go.set()
    assert (await other).value == 1


@pytest.mark.parametrize("place", [*FAILS, *IN_DOUBT, *UNSURE])
async def test_what_exits_has_failed_and_another_run_pays_on(place: str, storage: Storage):  # proves: RUN-2, FX-2
    async with storage.open() as rt:
        await become_of(rt, place, exits)


@pytest.mark.parametrize("place", [*FAILS, *IN_DOUBT, *UNSURE])
def test_a_keyboard_interrupt_that_no_key_made_is_one_too(place: str, storage: Storage):  # proves: RUN-2, RUN-10
    """In any other thread than the main one, which alone hears of the keyboard."""

    async def go() -> None:
        async with storage.open() as rt:
            await become_of(rt, place, interrupts)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, go()).result()


@pytest.mark.parametrize("place", [*FAILS, *IN_DOUBT, *UNSURE])
async def test_what_is_no_exception_to_python_has_failed_too(place: str, storage: Storage):  # proves: RUN-6, FX-2
    async with storage.open() as rt:
        await become_of(rt, place, panics)


@pytest.mark.parametrize("place", ["step", "step plain", "effect", "effect plain", "probe", "probe plain"])
async def test_a_flow_hears_of_it_as_the_journal_does(place: str, storage: Storage):  # proves: RUN-6, FX-2
    """Else what a `finally` calls behind it is recorded, and the call itself is not: no code goes on with that."""
    heard = list[BaseException]()

    @remit.step
    async def unlock() -> None:
        pass

    async def around(run: remit.Run, leaving: remit.Flow[Any]) -> None:
        try:
            await leaving.fn(run)
        except BaseException as exc:
            heard.append(exc)
            raise
        finally:
            await run.step(unlock)

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        await around(run, Places(panics).flows[place])

    async with storage.open() as rt:
        told = "in_doubt" if place in IN_DOUBT else "waiting"
        for _ in range(2):
            if place in IN_DOUBT:
                await rt.run(flow, id="r")
            else:
                with pytest.raises(remit.StepError, match="Panic: it panicked"):
                    await rt.run(flow, id="r")
            assert (await rt.why("r")).status == told
        assert [type(exc) is remit.StepError for exc in heard] == [place not in IN_DOUBT] * len(heard)
        assert list((await rt.show("r")).view.calls) == (
            [] if place in IN_DOUBT else [place.replace(" ", "_"), "unlock"]
        )


async def by_run(run: remit.Run, call: Awaitable[Any]) -> Any:
    return await run.gather(call)


async def in_a_race(run: remit.Run, call: Awaitable[Any]) -> Any:
    return await run.first(call)


async def by_asyncio(run: remit.Run, call: Awaitable[Any]) -> Any:
    return await asyncio.gather(call)


async def in_time(run: remit.Run, call: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(call, 60)


@pytest.mark.parametrize("around", [by_run, in_a_race, by_asyncio, in_time])
async def test_a_step_that_exits_has_failed_whatever_waits_for_it(around: Around, storage: Storage):  # proves: RUN-2
    @remit.step
    async def leaving() -> None:
        await asyncio.sleep(0)
        exits()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        with pytest.raises(remit.StepError, match="it raised SystemExit 3"):
            await around(run, run.step(leaving))
        return "another way"

    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).value == "another way"
        assert (await rt.check("r", flow)).fit == "compatible"


async def test_a_loser_that_exits_when_it_is_let_go_ends_nothing(storage: Storage):  # proves: RUN-2, RUN-8
    @remit.step
    async def quick() -> str:
        return "quick"

    async def leaving() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            exits()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        return str(await run.first(run.step(quick), leaving()))

    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).value == "quick"


@pytest.fixture(params=["at the second", "at once"])
def interrupted(request: pytest.FixtureRequest) -> Iterator[None]:
    """`asyncio.run` cancels at the first Ctrl-C, of which code that computes hears nothing; others raise at once."""
    before = signal.getsignal(signal.SIGINT)
    if request.param == "at once":
        signal.signal(signal.SIGINT, lambda number, frame: signal.default_int_handler(number, frame))
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupted")
@pytest.mark.parametrize("place", IN_THE_LOOP)
def test_ctrl_c_ends_the_program_whatever_code_it_meets(place: str, database: Storage):  # proves: RUN-5, FX-2
    def press() -> NoReturn:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("nobody pressed anything")

    async def go() -> None:
        async with database.open() as rt:
            await rt.run(Places(press).flows[place], id="r")

    async def look() -> None:
        async with database.open() as rt:
            assert list((await rt.show("r")).view.calls) == []
            assert [effect.state for effect in await rt.effects("r")] == ["in_doubt"] * (place in IN_DOUBT)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(go())
    asyncio.run(look())


class Handlers:
    """What programs set for SIGTERM, each of which exits."""

    def method(self, *_: object) -> NoReturn:
        sys.exit(0)

    __call__ = method


def stops(*_: object) -> NoReturn:
    sys.exit(0)


def puts_the_default_back(number: int, frame: object) -> NoReturn:
    """So that a second signal kills at once."""
    signal.signal(number, signal.SIG_DFL)
    sys.exit(0)


HANDLERS: dict[str, Callable[..., Any]] = {
    "one that puts the default back": puts_the_default_back,
    "a function": stops,
    "a lambda": lambda *_: sys.exit(0),
    "a method": Handlers().method,
    "a partial": partial(stops, 1),
    "an object": Handlers(),
}


@pytest.fixture(params=HANDLERS)
def terminated(request: pytest.FixtureRequest) -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, HANDLERS[request.param])
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("terminated")
@pytest.mark.parametrize("place", IN_THE_LOOP)
def test_a_signal_whose_handler_exits_ends_the_program_and_is_no_failure_of_what_it_meets(
    place: str, tmp_path: Path
):  # proves: RUN-5, FX-2
    """A step that failed has failed for good, and its flow went another way, and paid there."""
    met_by_a_signal(place, tmp_path)


def met_by_a_signal(place: str, tmp_path: Path, *at_hand: object) -> None:
    """SIGTERM comes there, whose handler exits. at_hand: what the code has there."""

    def stop(at_hand: tuple[object, ...], *_: object) -> NoReturn:
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("nobody ended it")

    async def go() -> None:
        async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
            await rt.run(Places(partial(stop, at_hand, *at_hand)).flows[place], id="r")

    async def look() -> None:
        async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
            assert list((await rt.show("r")).view.calls) == []
            assert [effect.state for effect in await rt.effects("r")] == ["in_doubt"] * (place in IN_DOUBT)

    with pytest.raises(SystemExit):
        asyncio.run(go())
    asyncio.run(look())


class LettingGo:
    """The same, and keeps nothing that it was given."""

    def method(self, number: int, frame: object) -> NoReturn:
        del number, frame
        sys.exit(0)

    __call__ = method


def deletes_the_frame(number: int, frame: object) -> NoReturn:
    del frame
    sys.exit(0)


def forgets_the_frame(number: int, frame: object) -> NoReturn:
    frame = None  # noqa: F841
    sys.exit(0)


def forgets_all(*given: object) -> NoReturn:
    given = None  # type: ignore[assignment] # noqa: F841
    sys.exit(0)


def names_the_signal(number: Any, frame: object) -> NoReturn:
    number = signal.Signals(number).name
    sys.exit(0)


def puts_the_default_back_and_lets_go(number: int, frame: object) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)
    del frame
    sys.exit(0)


def around(function: Callable[..., Any]) -> Callable[..., Any]:
    """What decorators put around a handler, and around others."""

    def inner(*given: Any) -> Any:
        return function(*given)

    return inner


LETTING_GO: dict[str, Callable[..., Any]] = {
    "one that deletes the frame": deletes_the_frame,
    "one that forgets the frame": forgets_the_frame,
    "one that forgets all": forgets_all,
    "one that names the signal": names_the_signal,
    "one that puts the default back": puts_the_default_back_and_lets_go,
    "a method": LettingGo().method,
    "a partial": partial(LettingGo().method),
    "an object": LettingGo(),
    "a decorated one": around(deletes_the_frame),
}


@pytest.mark.parametrize("handler", LETTING_GO)
@pytest.mark.parametrize("place", ["step", "effect"])
def test_a_handler_that_lets_go_of_what_it_was_given_ends_the_program_too(
    place: str, handler: str, tmp_path: Path
):  # proves: RUN-5, FX-2
    before = signal.signal(signal.SIGTERM, LETTING_GO[handler])
    try:
        met_by_a_signal(place, tmp_path)
    finally:
        signal.signal(signal.SIGTERM, before)


class Contrary:
    """As arrays do, it does not say whether it is the same."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ValueError("not to be compared")


@pytest.mark.usefixtures("terminated")
@pytest.mark.parametrize("place", ["step", "effect"])
def test_what_the_code_has_at_hand_that_a_signal_meets_is_not_compared(
    place: str, tmp_path: Path
):  # proves: RUN-5, FX-2
    met_by_a_signal(place, tmp_path, Contrary(), (Contrary(),))


def looks_at_its_caller() -> NoReturn:
    """As loggers do."""
    here = inspect.currentframe()
    caller = here.f_back if here is not None else None
    raise SystemExit(3 if caller is not None else "nobody called")


def is_given_a_frame(why: str, frame: object) -> NoReturn:
    sys.exit(3)


def tells_its_frame() -> NoReturn:
    is_given_a_frame("why", inspect.currentframe())


OWN_EXITS: dict[str, Leave] = {
    "one that looks at its caller": looks_at_its_caller,
    "one that tells its frame": tells_its_frame,
    "one decorated as the handler is": around(exits),
}


@pytest.mark.parametrize("leave", OWN_EXITS)
@pytest.mark.parametrize("place", ["step", "effect", "flow"])
async def test_code_that_exits_by_itself_is_not_taken_for_a_signal_s(
    place: str, leave: str, storage: Storage
):  # proves: RUN-2, FX-2
    """It ended the program, in which another run paid."""
    before = signal.signal(signal.SIGTERM, around(stops))
    try:
        async with storage.open() as rt:
            await become_of(rt, place, OWN_EXITS[leave])
    finally:
        signal.signal(signal.SIGTERM, before)
