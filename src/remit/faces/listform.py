"""The list form: work that is a list of steps, and the smallest call there is.

    state = remit.run("r", [Step("a", fetch), Step("b", write)], store="file:state.json")

A step is a name and a function from the state to an update that is merged into it. One
call starts or goes on; what is done is skipped, by name. The contract of such a run is
written here for everybody to see: anyone who can open the store may resume it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol, cast

from remit.authority.contract import Contract
from remit.engine.declared.flow import Flow, Step
from remit.engine.runs.run import Run
from remit.engine.turn.returned import finished, is_unfinished
from remit.errors import Refused
from remit.faces.portal import Portal, refuse_inside_loop
from remit.faces.runtime import Runtime
from remit.faces.runtime import open as open_runtime
from remit.facts.names import path
from remit.facts.value import Codec
from remit.facts.view import RunView
from remit.store.protocol import Store

FLOW_NAME = "list"
CONTRACT = Contract(version="1", resume="anyone", risk="low", window=timedelta(days=30))

State = dict[str, Any]

_UNTYPED: Codec[Any] = Codec(Any)


class LoadSave(Protocol):
    """Any object that keeps one mapping per run id."""

    def load(self, run_id: str, /) -> Any: ...

    def save(self, mapping: Any, /) -> Any: ...


def run(
    id: str,
    steps: Sequence[Step[..., Any]],
    store: str | Store | LoadSave,
    *,
    state: Mapping[str, Any] | None = None,
    contract: Contract = CONTRACT,
) -> State:
    """Run a list of steps, or go on with it; the final state.

    state: to begin with, {} by default; the same at each call. A step's update is saved before the next one begins.
    Raises StepError where a step raised, DefinitionIncompatible where a recorded step is no longer in the list,
    LoadError and SaveError of a two-method store, SyncInLoop inside a running event loop.
    """
    refuse_inside_loop("remit.run(...)", "await remit.run_async(...)")
    portal = Portal()
    try:
        return portal.call(run_async(id, steps, store, state=state, contract=contract))
    finally:
        portal.close()


async def run_async(
    id: str,
    steps: Sequence[Step[..., Any]],
    store: str | Store | LoadSave,
    *,
    state: Mapping[str, Any] | None = None,
    contract: Contract = CONTRACT,
) -> State:
    """`run`, inside an event loop."""
    for step in steps:
        if not isinstance(step, Step):
            raise Refused(
                f"{step!r} is not a step; nothing was done.", code="step.unknown", hint='Use `Step("name", fn)`.'
            )
    checked = [_checked(step) for step in steps]
    final: list[State] = []

    async def every_step(run: Run, state: State) -> None:
        final.append(await _every_step(run, checked, state))

    flow: Flow[Any] = Flow(FLOW_NAME, every_step, contract)
    async with _runtime(store) as rt:
        outcome = await rt.run(flow, dict(state or {}), id=id)
        _ = outcome.value  # raises unless the run completed
        if final:
            return final[0]
        return _merged(steps, (await rt.show(id)).view)


async def _every_step(run: Run, steps: Sequence[Step[..., Any]], state: State) -> State:
    for step in steps:
        # Each step gets a copy: what it does to the state it was given changes nothing.
        update = await run.step(step, copy.deepcopy(state))
        state.update(update or {})
    return state


def _checked(step: Step[..., Any]) -> Step[..., Any]:
    """The same step, which fails where its update can't be merged: recorded as done, it could never be mended."""

    def check(update: Any) -> Any:
        if update is not None and not isinstance(update, Mapping):
            raise Refused(
                f"Step {step.name!r} returned {type(update).__name__}, which can't be merged into the state.",
                code="step.update",
                hint="Return a mapping of what changed, or None.",
            )
        return update

    async def awaited(state: State) -> Any:
        return check(await finished(await step.fn(state)))

    def called(state: State) -> Any:
        update = step.fn(state)
        return awaited_of(update) if is_unfinished(update) else check(update)

    async def awaited_of(update: Any) -> Any:
        return check(await finished(update))

    return Step(step.name, awaited if step.body.is_async else called, step.codec)


def _merged(steps: Sequence[Step[..., Any]], view: RunView) -> State:
    """The final state of a run that had ended before, from what is recorded."""
    codecs: dict[str, Codec[Any]] = {}
    for step in steps:
        occurrence = 1
        while (name := path("", step.name, occurrence)) in codecs:
            occurrence += 1
        codecs[name] = step.codec
    gone = [name for name in view.calls if name not in codecs]
    state: State = _UNTYPED.read(view.input)
    # In the order of the list, as the run itself merged them; what left the list since then comes before.
    for name in (*gone, *codecs):
        recorded = view.calls.get(name)
        if recorded is not None and recorded.kind == "StepDone" and recorded.value is not None:
            state.update(codecs.get(name, _UNTYPED).read(recorded.value, where=name) or {})
    return state


def _runtime(store: str | Store | LoadSave) -> Runtime:
    if isinstance(store, str) or hasattr(store, "open_run"):
        return open_runtime(cast("str | Store", store))
    from remit.store.two_method import TwoMethodStore

    return open_runtime(TwoMethodStore(store))
