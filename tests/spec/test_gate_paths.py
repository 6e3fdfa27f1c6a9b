"""One gate on every path: the source is read for ways around it, and every way there is gets walked.

A path is walked with an effect that looks, each time its body begins, at what the journal says
at that very moment: a judgement that said `resume` about this call, and directly behind it the
intention, under the epoch of whoever holds the run. Behind a crash and at a takeover it is another process that
looked first, and was killed.
"""

from __future__ import annotations

import ast
import asyncio
import json
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

import remit
from remit.store.protocol import Store
from remit.store.rows import RunRow
from remit.store.units import Claim
from remit.store.url import store_for
from tests.spec.conftest import Storage
from tests.spec.gate_walker import OPEN, Watched, flow_of, sent_again
from tests.support.office import BUYER, BY_DIRECTOR, DANA, DORA, ROOT, RUN, answer, staffed

SOURCE = Path(remit.__file__).parent
FOLDER = Path(__file__).parents[2]
PATIENCE_S = 60  # far below the lease of a worker that is killed

# -- by reading ----------------------------------------------------------------------------------------------------

# Where each of these is named in the product. Whoever adds a place here says how it passes `crossing.cross`.
PLACES: dict[str, dict[str, str]] = {
    # The body of what a user declared.
    ".fn": {
        "engine/boundary/port.py _called": "an effect's, or a probe's",
        "engine/boundary/transaction.py _written.plain": "handed to `cross` as its way to commit",
        "engine/boundary/transaction.py _written.awaited": "the same",
        "engine/declared/outward.py Outward.check_function": "looked at when it is declared",
        "engine/declared/outward.py Outward.is_one": "compared with another",
        "engine/declared/outward.py Outward.tell": "looked at for its name",
        "engine/turn/brought.py brought": "looked at for what it closes over",
        "engine/turn/brought.py _reached": "the same",
        "engine/turn/step.py body": "a step's",
        "engine/boundary/evidence.py _fetched": "a step's, which takes evidence again",
        "engine/boundary/evidence.py take": "the same, looked at when the evidence is stated",
        "engine/declared/flow.py Step.__call__": "a step's",
        "engine/runs/claim_and_run.py _hold_and_run": "a flow's, looked at for its name",
        "engine/runs/rehearsal.py rehearse_to": "the same",
        "engine/runs/invoke.py call_flow": "a flow's",
        "engine/runs/invoke.py call_flow.plain": "a plain flow's, in its thread",
        "faces/cli/compared.py declared": "looked at for the names of what its module has; it is not called",
        "faces/listform.py _checked.called": "a step's, of the list form",
        "faces/listform.py _checked.awaited": "a step's, of the list form",
    },
    ".callee": {
        "engine/boundary/port.py touch": "an effect, with a permit in hand",
        "engine/declared/sink.py Effect.__init__": "looked at when it is declared",
    },
    ".probe": {
        "engine/boundary/port.py ask_outside": "asks whether something landed, and is no effect",
        "engine/declared/sink.py Effect.__init__": "looked at when it is declared",
    },
    "touch()": {"engine/boundary/effect.py _call": "with the permit that `cross` gave"},
    "_called()": {
        "engine/boundary/port.py touch": "with the effect's body",
        "engine/boundary/port.py ask_outside": "with its probe",
    },
    "Permit()": {"engine/boundary/crossing.py _pass": "after the commit of judgement and intention"},
    ".permits": {
        "engine/boundary/crossing.py _pass": "gives one",
        "engine/boundary/port.py touch": "uses it up",
        "engine/boundary/transaction.py _go": "used up within that commit",
    },
    "_pass()": {"engine/boundary/crossing.py _judge_once": "where the judge said `resume`"},
    "_judge_once()": {"engine/boundary/crossing.py cross": ""},
    "cross()": {
        "engine/boundary/effect.py _go": "",
        "engine/boundary/transaction.py _go": "",
        "engine/boundary/approve.py perform": "a question of the flow's own",
    },
    "judge()": {
        "engine/boundary/crossing.py _judge_once": "before a call",
        "engine/boundary/crossing.py _check_still": "again, before a no is written down",
        "engine/boundary/crossing.py may_go_on": "before a turn",
        "engine/process/opening.py check_may_open": "before there is a run",
        "engine/runs/dry.py judge_dry": "changes nothing",
        "engine/runs/dry.py _judged": "changes nothing",
    },
    "EffectIntended()": {"engine/boundary/crossing.py _pass": ""},
    "append_within()": {
        "engine/boundary/transaction.py _written": "",
        "engine/turn/attempt.py Attempt.append_within": "hands it on",
    },
    "may_go_on()": {"engine/runs/ending.py begin": "before anything of the flow runs"},
    "_run_flow()": {"engine/runs/claim_and_run.py _hold_and_run": "after `begin`"},
    "call_flow()": {
        "engine/runs/claim_and_run.py _run_flow": "",
        "engine/runs/rehearsal.py _fit": "where no call's body begins",
    },
}


class _Reader(ast.NodeVisitor):
    """Where names are used: `.fn` for an attribute that is read, `touch()` for a call."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.within: list[str] = []
        self.found: dict[str, set[str]] = defaultdict(set)

    def _enter(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.within.append(node.name)
        self.generic_visit(node)
        self.within.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _enter

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Load):
            self.found[f".{node.attr}"].add(self.place)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        self.found[f"{name}()"].add(self.place)
        if name in ("getattr", "attrgetter", "methodcaller"):
            self.found["by a name in text"] |= {
                f"{self.place} {arg.value!r}" for arg in node.args if isinstance(arg, ast.Constant)
            }
        self.generic_visit(node)

    @property
    def place(self) -> str:
        return f"{self.module} {'.'.join(self.within)}"


def read_source() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(SOURCE.rglob("*.py")):
        reader = _Reader(str(path.relative_to(SOURCE)))
        reader.visit(ast.parse(path.read_text(encoding="utf-8")))
        for what, places in reader.found.items():
            found[what] |= places
    return found


def test_every_way_to_an_effects_body_is_known_and_leads_through_the_crossing() -> None:  # proves: GATE-1
    found = read_source()
    for what, places in PLACES.items():
        # Faces and stores have functions of the same names; only the engine has a permit to give or to use.
        named = {place for place in found[what] if what.startswith(".") or place.startswith("engine/")}
        assert (what, named) == (what, set(places))
    hidden = [place for place in found["by a name in text"] if place.rpartition(" ")[2] in ("'fn'", "'probe'")]
    assert hidden == []


def test_no_other_module_knows_the_port() -> None:  # proves: GATE-1
    """What `touch` is called by was read above; nobody else even imports it."""
    importers = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        and node.module == "remit.engine.boundary.port"
        and "touch" in [alias.name for alias in node.names]
    }
    assert importers == {"engine/boundary/effect.py"}


# -- by walking ----------------------------------------------------------------------------------------------------


Path_ = Callable[[Watched], Awaitable[int]]  # walks it; how often the body has to have begun
PATHS: dict[str, Path_] = {}


def path(walk: Path_) -> Path_:
    PATHS[walk.__name__.replace("_", " ").strip()] = walk
    return walk


@path
async def a_first_run(seen: Watched) -> int:
    assert (await seen.turn(flow_of(seen.effect()), is_first=True)).value == "paid 7"
    assert (await seen.turn(flow_of(seen.effect()))).value == "paid 7"
    return 1


@path
async def a_run_that_was_started_before(seen: Watched) -> int:
    async with seen.storage.open() as rt:
        await (await staffed(rt)).start(flow_of(seen.effect()), id=RUN, by=BUYER, behalf=DANA)
    async with seen.storage.open() as rt:
        seen.rt = rt
        assert (await rt.resume(RUN, flow_of(seen.effect()))).value == "paid 7"
    return 1


@path
async def a_resume_after_a_repair(seen: Watched) -> int:
    broken = [True]

    def early() -> int:
        if broken:
            raise OSError("not now")
        return 1

    async def body(run: remit.Run) -> str:
        await run.step(early)
        outcome: str = await run.effect(seen.effect(), 7)
        return outcome

    with pytest.raises(remit.StepError):
        await seen.turn(flow_of(seen.effect(), body), is_first=True)
    broken.clear()
    assert (await seen.turn(flow_of(seen.effect(), body))).value == "paid 7"
    return 1


@path
async def an_approval(seen: Watched) -> int:
    flow = flow_of(seen.effect(), effects={"pay": remit.Rule(approval=BY_DIRECTOR)}, window=BY_DIRECTOR.within)
    assert (await seen.turn(flow, is_first=True)).waits_for == "approval"
    assert seen.saw == []
    async with seen.storage.open() as rt:
        await answer(rt)
    assert seen.saw == []
    assert (await seen.turn(flow)).value == "paid 7"
    return 1


@path
async def an_approval_while_the_run_is_held(seen: Watched) -> int:
    """Somebody answers one question while another effect of the run is under way: that turn goes on by itself."""
    pay, other = seen.effect(), seen.effect("other")
    asked: list[str] = []

    async def slow() -> None:
        assert seen.rt is not None
        while not (asks := await seen.rt.inbox()):
            await asyncio.sleep(0)
        asked.append((await answer(seen.rt, ask=asks[0])).call)

    async def body(run: remit.Run) -> list[Any]:
        return await run.gather(run.effect(pay, 7), run.step(slow), run.branch("b").effect(other, 7))

    rules = {"pay": remit.Rule(approval=BY_DIRECTOR), "other": remit.Rule()}
    flow = flow_of(pay, body, effects=rules, window=BY_DIRECTOR.within)
    assert (await seen.turn(flow, is_first=True)).value == ["paid 7", None, "paid 7"]
    assert asked == ["pay"]
    return 2


@path
async def an_operators_word_that_it_did_not_happen(seen: Watched) -> int:
    seen.raises = [OSError("the line went dead")]
    assert (await seen.turn(flow_of(seen.effect()), is_first=True)).status == "in_doubt"
    assert (await seen.turn(flow_of(seen.effect()))).status == "in_doubt"
    async with seen.storage.open() as rt:
        await rt.resolve(RUN, "pay", "did_not_happen", by=DORA, evidence="no such transfer in their books")
    assert len(seen.saw) == 1
    assert (await seen.turn(flow_of(seen.effect()))).value == "paid 7"
    return 2


@path
async def an_operators_word_that_it_happened(seen: Watched) -> int:
    seen.raises = [OSError("the line went dead")]
    assert (await seen.turn(flow_of(seen.effect()), is_first=True)).status == "in_doubt"
    async with seen.storage.open() as rt:
        await rt.resolve(RUN, "pay", "ok", by=DORA, evidence="their receipt 88", outcome="receipt 88")
    assert (await seen.turn(flow_of(seen.effect()))).value == "receipt 88"
    return 1


@path
async def a_probe_that_found_nothing(seen: Watched) -> int:
    async def find(amount: int, *, key: str) -> remit.NotLanded:
        return remit.NotLanded()

    seen.raises = [OSError("the line went dead")]
    pay = seen.effect(doubt="probe", probe=find, sink="dedupes")
    assert (await seen.turn(flow_of(pay), is_first=True)).value == "paid 7"
    return 2


@path
async def a_probe_that_found_it(seen: Watched) -> int:
    async def find(amount: int, *, key: str) -> remit.Landed[str]:
        return remit.Landed("found")

    seen.raises = [OSError("the line went dead")]
    pay = seen.effect(doubt="probe", probe=find, sink="dedupes")
    assert (await seen.turn(flow_of(pay), is_first=True)).value == "found"
    return 1


@path
async def a_request_that_is_sent_again(seen: Watched) -> int:
    seen.raises = [OSError("twice"), OSError("once")]
    pay = seen.effect(doubt="resend", sink="dedupes")
    assert (await seen.turn(flow_of(pay), is_first=True)).status == "in_doubt"
    assert (await seen.turn(flow_of(pay))).value == "paid 7"
    return 3


@path
async def a_call_after_one_that_did_not_happen(seen: Watched) -> int:
    seen.raises = [remit.DidNotHappen("their office is closed")]
    with pytest.raises(remit.EffectFailed):
        await seen.turn(flow_of(seen.effect()), is_first=True)
    assert (await seen.turn(flow_of(seen.effect()))).value == "paid 7"
    return 2


@path
async def a_call_that_was_declined(seen: Watched) -> int:
    seen.raises = [remit.Declined("no such account")]
    for is_first in (True, False):
        with pytest.raises(remit.EffectFailed):
            await seen.turn(flow_of(seen.effect()), is_first=is_first)
    return 1


@path
async def calls_side_by_side_and_in_a_race(seen: Watched) -> int:
    pay = seen.effect()

    async def body(run: remit.Run) -> list[Any]:
        both = await run.gather(run.branch("a").effect(pay, 1), run.branch("b").effect(pay, 2))
        return [*both, await run.first(run.effect(pay, 3))]

    assert (await seen.turn(flow_of(pay, body), is_first=True)).value == ["paid 1", "paid 2", "paid 3"]
    return 3


@path
async def a_plain_flow(seen: Watched) -> int:
    pay = seen.effect()

    def body(run: remit.SyncRun) -> list[Any]:
        return [run.effect(pay, 1), *run.gather(run.effect_call(pay, 2))]

    assert (await seen.turn(flow_of(pay, body), is_first=True)).value == ["paid 1", "paid 2"]
    return 2


@path
async def a_run_that_was_cancelled(seen: Watched) -> int:
    flow = flow_of(seen.effect(), effects={"pay": remit.Rule(approval=BY_DIRECTOR)}, window=BY_DIRECTOR.within)
    await seen.turn(flow, is_first=True)
    async with seen.storage.open() as rt:
        await answer(rt)
        assert (await rt.cancel(RUN, by=ROOT)).status == "cancelled"
    assert (await seen.turn(flow)).status == "cancelled"
    return 0


@path
async def a_run_that_is_cancelled_while_its_effect_is_in_doubt(seen: Watched) -> int:
    seen.raises = [OSError("the line went dead")]
    await seen.turn(flow_of(seen.effect()), is_first=True)
    async with seen.storage.open() as rt:
        assert (await rt.cancel(RUN, by=ROOT)).status == "in_doubt"
        await rt.resolve(RUN, "pay", "did_not_happen", by=DORA, evidence="no such transfer in their books")
    assert (await seen.turn(flow_of(seen.effect()))).status == "cancelled"
    return 1


@path
async def a_directory_that_moves_while_it_is_judged(seen: Watched) -> int:
    """The question is gathered, a role is granted, and the judgement that is committed is of the newer version."""
    grants = iter(range(3))

    async def still_wanted(amount: int) -> bool:
        if (n := next(grants, None)) is not None:
            async with seen.elsewhere() as rt:
                await rt.grant("user:new", f"role-{n}", by=ROOT)
        return True

    flow = flow_of(seen.effect(), effects={"pay": remit.Rule(still_wanted=still_wanted)})
    assert (await seen.turn(flow, is_first=True)).value == "paid 7"
    assert next(grants, None) is None
    return 1


@path
async def an_executor_who_is_revoked_while_it_is_judged(seen: Watched) -> int:
    async def still_wanted(amount: int) -> bool:
        async with seen.elsewhere() as rt:
            if "buyer" in (await rt.authority()).who(BUYER).roles:
                await rt.revoke(BUYER, "buyer", by=ROOT)
        return True

    flow = flow_of(seen.effect(), effects={"pay": remit.Rule(still_wanted=still_wanted)})
    outcome = await seen.turn(flow, is_first=True)
    assert (outcome.status, outcome.code) == ("failed", "resume_denied")
    return 0


@path
async def looking_and_asking(seen: Watched) -> int:
    """Nothing that only looks calls anything: show, explain, why, judge, check, the inbox, effects."""
    flow = flow_of(seen.effect(), effects={"pay": remit.Rule(approval=BY_DIRECTOR)}, window=BY_DIRECTOR.within)
    await seen.turn(flow, is_first=True)
    async with seen.storage.open() as rt:
        await answer(rt)
        for look in (rt.show, rt.explain, rt.why, rt.read, rt.effects, rt.verify):
            await look(RUN)
        assert (await rt.judge(RUN, flow)).verdict.decision == "resume"
        assert (await rt.check(RUN, flow)).fit != "incompatible"
        await rt.inbox()
    return 0


@pytest.mark.parametrize("walk", list(PATHS.values()), ids=PATHS)
async def test_on_every_path_the_gate_stands_before_the_body(walk: Path_, storage: Storage):  # proves: GATE-1, GATE-4
    seen = Watched(storage)
    times = await walk(seen)
    assert len(seen.saw) == times
    assert all(judged == intended for judged, intended in seen.saw)
    assert await seen.intentions() == times


@asynccontextmanager
async def walker(seen: Watched, notes: Path, end: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Another process, in the body of the effect; it has been killed behind this, and what it saw there is seen."""
    command = ["-m", "tests.spec.gate_walker", seen.storage.make(None), str(notes), end]
    pipe = subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=pipe, stderr=pipe, cwd=FOLDER)
    try:
        yield process
    finally:
        if process.returncode is None and end != "die":
            process.kill()
        _, complaint = await process.communicate()
    assert process.returncode == -signal.SIGKILL, complaint.decode()
    seen.saw += [tuple(each) for each in json.loads(notes.read_text(encoding="utf-8"))]


async def test_after_a_crash_the_gate_stands_before_the_body(database: Storage, tmp_path: Path):  # proves: GATE-1, FX-2
    seen = Watched(database)
    async with walker(seen, tmp_path / "notes", "die"):
        pass
    assert seen.saw == [("pay", "pay")]
    assert (await seen.turn(sent_again(seen))).value == "paid 7"
    assert seen.saw == [("pay", "pay")] * 2
    assert await seen.intentions() == 2


class Refusing:
    """A store that says when a run is claimed in vain."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.refused = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, claim: Claim) -> RunRow | None:
        row = await self._store.claim(claim)
        if row is None:
            self.refused.set()
        return row


async def test_at_a_takeover_the_gate_stands_before_the_body(
    database: Storage, tmp_path: Path
):  # proves: GATE-1, OWN-2
    """Whoever waits for a run while its worker lives goes on with it at once where that one is killed."""
    seen, store = Watched(database), Refusing(store_for(database.make(None), clock=None))
    async with remit.open(cast(Store, store)) as seen.rt:
        async with walker(seen, tmp_path / "notes", "stay") as living:
            assert living.stdout is not None
            assert await living.stdout.readline() == b"here\n"
            heir = asyncio.create_task(seen.rt.run(sent_again(seen), id=RUN, by=BUYER, behalf=DANA))
            await asyncio.wait_for(store.refused.wait(), PATIENCE_S)
            assert not heir.done() and seen.saw == []
        assert (await asyncio.wait_for(heir, PATIENCE_S)).value == "paid 7"
    assert seen.saw == [("pay", "pay")] * 2
    assert await seen.intentions() == 2


async def test_a_transaction_stands_behind_the_same_gate(database: Storage):  # proves: GATE-1, FX-6
    """Its body runs before the commit of its judgement, inside it: where the gate says no it never begins."""
    began: list[int] = []

    def plain(connection: Any, amount: int) -> int:
        began.append(amount)
        return amount

    async def awaited(connection: Any, amount: int) -> int:
        return plain(connection, amount)

    declare = remit.transaction(name="book")
    book: remit.Transaction[int] = declare(plain) if database.kind == "sqlite" else declare(awaited)

    async def body(run: remit.Run) -> int:
        return await run.transact(book, 7)

    rule = remit.Rule(approval=BY_DIRECTOR)
    flow = remit.flow(
        contract=remit.Contract(**OPEN, effects={"book": rule}, window=BY_DIRECTOR.within), name="purchase"
    )(body)
    async with database.open() as rt:
        await staffed(rt)
        assert (await rt.run(flow, id=RUN, by=BUYER, behalf=DANA)).waits_for == "approval"
        assert began == []
        await answer(rt)
        assert (await rt.run(flow, id=RUN, by=BUYER, behalf=DANA)).value == 7
        await rt.set_policy({"version": "1", "forbid": ["book"]}, by=ROOT)
        assert (await rt.run(flow, id="r-2", by=BUYER, behalf=DANA)).code == "policy_forbids"
    assert began == [7]
