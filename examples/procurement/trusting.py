"""A resume that trusts its log: the same rows, the same flow, and no question asked.

    python -m examples.procurement.trusting DATABASE RUN

An honest reading of how a run is gone on with where nothing is verified: a step that has a
saved outcome is skipped, the first one that has none is run. It writes to a desk of its
own, so what it does is done for real and to nobody's harm. Prints the paper that it wrote.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import remit
from examples.procurement.desk import desk
from examples.procurement.flow import purchase


class TrustingRun:
    """What the flow is handed: saved outcomes by step name, believed as they stand."""

    def __init__(self, saved: dict[str, bytes]) -> None:
        self.saved = saved

    async def step(self, step: remit.Step[..., Any], *args: Any) -> Any:
        if step.name in self.saved:
            return step.codec.read(self.saved[step.name])
        return step.fn(*args)


def resume(database: str, run: str) -> Any:
    """Go on with a run from what its rows say; its result."""
    with remit.open(f"sqlite:///{database}") as rt:
        entries = rt.read_sync(run).main  # as they are stored, not verified
    saved = {json.loads(entry.header)["name"]: entry.value for entry in entries if entry.value is not None}
    given = purchase.input_codec.read(entries[0].value or b"null")
    return asyncio.run(purchase.fn(TrustingRun(saved), given))


if __name__ == "__main__":
    result = resume(sys.argv[1], sys.argv[2])
    print(json.dumps(json.loads((desk().folder / result.paper).read_text(encoding="utf-8"))))
