"""One effect, traced: what docs/one-effect.md says is called, is called, in that order."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import remit

ROOT = Path(__file__).resolve().parents[2]
SOURCE = f"{ROOT / 'src' / 'remit'}/"
ROW = re.compile(r"^\| \d+ \| `([\w/]+\.py)` \| `([\w.]+)` \|", re.MULTILINE)

Named = tuple[str, str]  # module, qualified name

# In a process of its own, so that it can die: the step is on the disk, the effect is under way.
VICTIM = """
import asyncio, os, signal, sys
import remit

@remit.step
async def fetch_quote(sku: str) -> int:
    return 120

@remit.effect
async def place_order(order: dict, *, key: str) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return ""

@remit.flow(contract=remit.Contract(version="1", resume={"buyer"}))
async def purchase(run: remit.Run, sku: str) -> str:
    return await run.effect(place_order, {"amount": await run.step(fetch_quote, sku)})

async def main() -> None:
    async with remit.open(sys.argv[1]) as rt:
        await rt.grant("agent:buyer", "buyer", by="user:root")
        await rt.run(purchase, "A-1", id="po-1041", by="agent:buyer")

asyncio.run(main())
"""

# They read, form or note a value and decide nothing; the page leaves them out.
SMALL = (
    "facts/",
    "canonical.py",
    "clock.py",
    "engine/process/hours.py",
    "engine/process/salt.py",
    "errors/called.py",
    "store/units.py",
    "store/tables.py",
)
READ = {
    ("engine/boundary/crossing.py", "HeardOrVoid"),
    ("engine/boundary/evidence.py", "names_of"),
    ("engine/declared/place.py", "enter"),
    ("engine/declared/place.py", "leave"),
    ("engine/process/host.py", "Standing.fence"),
    ("engine/turn/attempt.py", "Attempt.is_open"),
    ("engine/turn/caught.py", "call_made"),
    ("engine/turn/delivery.py", "Delivery.expect"),
    ("engine/turn/exits.py", "note_handlers"),
    ("engine/turn/returned.py", "is_unfinished"),
    ("engine/turn/step.py", "since_us"),
    ("engine/turn/strand.py", "here"),
    ("engine/turn/unbegun.py", "Unbegun.begin"),
    ("engine/turn/unbegun.py", "Unbegun.made"),
    ("engine/turn/unheard.py", "unheard_answers"),
    ("engine/turn/unheard.py", "unheard_of"),
    ("authority/rule.py", "several_names"),
    ("engine/turn/wish.py", "Wish.declared"),
    ("engine/turn/race.py", "come_to"),
    ("engine/turn/race.py", "check_not_lost"),
    ("engine/turn/race.py", "has_lost"),
    ("engine/turn/writer.py", "JournalWriter.between"),
    ("engine/turn/writer.py", "JournalWriter.earliest"),
    ("engine/turn/writer.py", "JournalWriter.now"),
    ("engine/turn/writer.py", "JournalWriter.place"),
    ("engine/turn/writer.py", "JournalWriter.wall"),
    ("store/sqlite/place.py", "file_id"),
}

# While the outcome is waited for, the frames around the flow are entered again: they are not the call's.
AROUND = {
    ("faces/runtime.py", "Runtime.run"),
    ("engine/runs/claim_and_run.py", "claim_and_run"),
    ("engine/runs/invoke.py", "call_flow"),
    ("engine/turn/exits.py", "begun"),
    ("engine/turn/apart.py", "calling_task"),
    ("engine/turn/apart.py", "cancellations_of"),
}

BY_BUYER = remit.Contract(
    version="1", resume={"buyer"}, effects={"place_order": remit.Rule(ceiling=remit.Ceiling("amount", max=25_000))}
)


def named_in(section: str) -> list[Named]:
    """The functions in the tables of a section of the page, in order."""
    page = (ROOT / "docs" / "one-effect.md").read_text(encoding="utf-8")
    _, _, after = page.partition(f"\n## {section}")
    found = [(module, name) for module, name in ROW.findall(after.partition("\n## ")[0])]
    assert found, f"the page has no table under {section!r}"
    return found


class Trace:
    """Functions of Remit's own in the order in which they are first called, in this thread."""

    def __init__(self) -> None:
        self.called: dict[Named, None] = {}

    @contextmanager
    def on(self) -> Iterator[None]:
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCE):
            self.called.setdefault((code.co_filename.removeprefix(SOURCE), code.co_qualname))

    def only(self, named: list[Named]) -> list[Named]:
        return [each for each in self.called if each in named]

    @property
    def public(self) -> list[Named]:
        return [each for each in self.called if not any(part[0] in "_<" for part in each[1].split("."))]


def unnamed(trace: Trace, named: list[Named]) -> list[Named]:
    """Public functions that were called and that the page does not name, though it should."""
    known = {*named, *AROUND, *READ}
    return [each for each in trace.public if each not in known and not each[0].startswith(SMALL)]


@remit.step
async def fetch_quote(sku: str) -> int:
    await asyncio.sleep(0)
    return 120


@remit.effect(recorded_as="victim.place_order")
async def place_order(order: dict[str, int], *, key: str) -> str:
    return f"ordered at {order['amount']}"


async def test_the_way_out_is_the_one_that_the_page_names(tmp_path: Path):  # proves: FX-1, GATE-1
    trace = Trace()

    @remit.flow(contract=BY_BUYER)
    async def purchase(run: remit.Run, sku: str) -> str:
        price = await run.step(fetch_quote, sku)
        with trace.on():
            outcome = await run.effect(place_order, {"amount": price})
        return outcome

    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
        await rt.grant("agent:buyer", "buyer", by="user:root")
        outcome = await rt.run(purchase, "A-1", id="po-1041", by="agent:buyer")
        assert outcome.value == "ordered at 120"

    named = named_in("Out")
    assert trace.only(named) == named
    assert unnamed(trace, named) == []


async def test_the_short_way_of_a_step_is_the_one_that_the_page_names(tmp_path: Path):  # proves: RUN-3
    trace = Trace()

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"))
    async def purchase(run: remit.Run, sku: str) -> int:
        with trace.on():
            outcome: int = await run.step(fetch_quote, sku)
        return outcome

    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
        assert (await rt.run(purchase, "A-1", id="po-1041")).value == 120

    named, above = named_in("Step"), named_in("Out")
    assert trace.only(named) == named
    assert unnamed(trace, [*named, *above]) == []
    assert [each for each in trace.called if each[0] in ("engine/boundary/crossing.py", "authority/gate.py")] == []


async def test_the_way_back_is_the_one_that_the_page_names(tmp_path: Path):  # proves: RUN-3, RUN-5, FX-2
    url = f"sqlite:///{tmp_path}/a.db"
    script = tmp_path / "victim.py"
    script.write_text(VICTIM, encoding="utf-8")
    victim = await asyncio.to_thread(subprocess.run, [sys.executable, str(script), url], check=False)
    assert victim.returncode == -9
    trace = Trace()

    @remit.flow(contract=remit.Contract(version="1", resume={"buyer"}))
    async def purchase(run: remit.Run, sku: str) -> str:
        return await run.effect(place_order, {"amount": await run.step(fetch_quote, sku)})

    async with remit.open(url) as rt:
        with trace.on():
            outcome = await rt.run(purchase, "A-1", id="po-1041", by="agent:buyer")
        assert (outcome.status, outcome.code) == ("in_doubt", "effect.in_doubt")

    named = named_in("Back")
    assert trace.only(named) == named
