"""The list form: a list of steps, a state, one call."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import remit
from remit import Step
from tests.spec.conftest import Storage


def test_each_update_is_merged_and_each_step_gets_a_copy(storage: Storage):  # proves: RUN-1, RUN-2
    seen: list[Any] = []

    def fetch(state: dict[str, Any]) -> dict[str, Any]:
        seen.append(copy.deepcopy(state))
        state["spoiled"] = True
        state.setdefault("deep", {})["x"] = 1
        return {"rows": [1, 2]}

    async def total(state: dict[str, Any]) -> dict[str, Any]:
        seen.append(copy.deepcopy(state))
        return {"total": sum(state["rows"])}

    def note(state: dict[str, Any]) -> None:
        seen.append(copy.deepcopy(state))

    steps: list[Step[..., Any]] = [Step("fetch", fetch), Step("total", total), Step("note", note)]
    store = storage.make(None)
    final = remit.run("r", steps, store, state={"deep": {}})

    assert final == {"deep": {}, "rows": [1, 2], "total": 3}
    assert seen == [{"deep": {}}, {"deep": {}, "rows": [1, 2]}, final]
    assert remit.run("r", steps, store, state={"deep": {}}) == final
    assert len(seen) == 3


def test_the_same_call_resumes_by_name(storage: Storage):  # proves: RUN-1, RUN-4, RUN-6
    ran: list[str] = []
    is_broken = True

    def made(name: str) -> Step[..., Any]:
        def body(state: dict[str, Any]) -> dict[str, str]:
            ran.append(name)
            if name == "b" and is_broken:
                raise OSError("b is down")
            return {name: name}

        return Step(name, body)

    store = storage.make(None)
    with pytest.raises(remit.StepError) as raised:
        remit.run("r", [made("a"), made("b"), made("c")], store)
    assert raised.value.name == "b"
    is_broken = False
    assert remit.run("r", [made("a"), made("new"), made("b")], store) == {"a": "a", "new": "new", "b": "b"}
    assert ran == ["a", "b", "new", "b"]


def test_a_recorded_step_that_left_the_list_is_refused(storage: Storage):  # proves: RUN-4
    def fine(state: dict[str, Any]) -> dict[str, Any]:
        return {}

    def bad(state: dict[str, Any]) -> dict[str, Any]:
        raise OSError

    store = storage.make(None)
    with pytest.raises(remit.StepError):
        remit.run("r", [Step("a", fine), Step("b", bad)], store)
    with pytest.raises(remit.DefinitionIncompatible) as refused:
        remit.run("r", [Step("b", fine)], store)
    assert (refused.value.recorded, refused.value.asked) == (("a",), ("b",))


def test_an_update_that_is_no_mapping_fails_its_step_which_can_be_mended(tmp_path: Path):  # proves: RUN-6
    def a_list(state: dict[str, Any]) -> list[int]:
        return [1]

    def a_mapping(state: dict[str, Any]) -> dict[str, Any]:
        return {"mended": True}

    store = f"file:{tmp_path / 's.json'}"
    with pytest.raises(remit.StepError, match="Step 'a' returned list, which can't be merged"):
        remit.run("r", [Step("a", a_list)], store)
    assert remit.run("r", [Step("a", a_mapping)], store) == {"mended": True}
    with pytest.raises(remit.Refused) as refused:
        remit.run("r", [print], "memory:")  # type: ignore[list-item]
    assert refused.value.code == "step.unknown"


def test_the_final_state_is_the_same_when_it_is_asked_for_again(storage: Storage):  # proves: RUN-1, RUN-2
    broken = [True]

    def last(state: dict[str, Any]) -> dict[str, Any]:
        if broken:
            raise ValueError("not yet")
        return {}

    a, b, c = Step("a", lambda state: {"by": "a"}), Step("b", lambda state: {"by": "b"}), Step("c", last)
    store = storage.make(None)
    with pytest.raises(remit.StepError):
        remit.run("r", [a, b, c], store)
    broken.clear()
    assert remit.run("r", [b, a, c], store) == {"by": "a"}
    assert remit.run("r", [b, a, c], store) == {"by": "a"}


class Kept:
    """The smallest store there is."""

    def __init__(self) -> None:
        self.saved: dict[str, Any] = {}
        self.is_down = False

    def load(self, run_id: str) -> Any:
        if self.is_down:
            raise ConnectionError("no disk")
        return self.saved.get(run_id)

    def save(self, mapping: Any) -> None:
        if self.is_down:
            raise ConnectionError("no disk")
        self.saved[mapping["run"]] = mapping


def test_any_object_with_load_and_save_is_a_store():  # proves: RUN-1, RUN-6
    kept, ran = Kept(), []

    def a(state: dict[str, Any]) -> dict[str, int]:
        ran.append("a")
        return {"a": 1}

    def b(state: dict[str, Any]) -> dict[str, int]:
        ran.append("b")
        kept.is_down = len(ran) == 2
        return {"b": 2}

    with pytest.raises(remit.SaveError) as failed:
        remit.run("r", [Step("a", a), Step("b", b)], kept)
    assert isinstance(failed.value.__cause__, ConnectionError)
    with pytest.raises(remit.LoadError):
        remit.run("r", [Step("a", a), Step("b", b)], kept)
    kept.is_down = False
    assert remit.run("r", [Step("a", a), Step("b", b)], kept) == {"a": 1, "b": 2}
    assert ran == ["a", "b", "b"]


_CANCELLED = """
import asyncio, sys
import remit
from remit import RunUnfinished, Step, StepError

def quote(state):
    return {"quote": 38_000}

def order(state):
    raise TimeoutError("no answer")

async def cancel(url):
    async with remit.open(url) as rt:
        await rt.cancel("order-7", by="user:olga", reason="not wanted any more")

url, steps = sys.argv[1], [Step("quote", quote), Step("order", order)]
try:
    remit.run("order-7", steps, url)
except StepError:
    asyncio.run(cancel(url))
try:
    print("returned", remit.run("order-7", steps, url))
except RunUnfinished as exc:
    print(exc.code)
"""


@pytest.mark.parametrize("optimized", [[], ["-O"]])
def test_a_run_that_did_not_complete_returns_no_state(tmp_path: Path, optimized: list[str]):  # proves: RUN-1
    url = f"sqlite:///{tmp_path}/runs.db"
    done = subprocess.run(
        [sys.executable, *optimized, "-c", _CANCELLED, url], capture_output=True, text=True, check=True
    )

    assert done.stdout == "run.unfinished\n"


@pytest.mark.parametrize("store", [object(), type("Loads", (), {"load": lambda self, run_id: None})(), 7])
def test_what_is_no_store_is_refused_by_the_method_that_it_lacks(store: Any):  # proves: RUN-1
    with pytest.raises(remit.Refused) as refused:
        remit.run("r", [], store)
    assert refused.value.code == "store.methods"
