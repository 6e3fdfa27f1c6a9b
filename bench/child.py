"""One repetition, in a process of its own: `python -m bench.child seq URL` prints what it found, as JSON."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from bench.outward import effects, effects_bytes, effects_lockstep, effects_tuned, judging
from bench.parked import park, parked
from bench.timing import print_watched, watch
from bench.workloads import Found, bytes_, conc, growth, hang, resume, seq, verify, waits

WORKLOADS: dict[str, Callable[[str], Coroutine[Any, Any, Found]]] = {
    "seq": seq,
    "conc": conc,
    "waits": waits,
    "resume": resume,
    "verify": verify,
    "bytes": bytes_,
    "growth": growth,
    "judge": judging,
    "effects": effects,
    "effects.tuned": effects_tuned,
    "effects.lockstep": effects_lockstep,
    "effects.bytes": effects_bytes,
    "parked": parked,
    # what has to be there before a figure can be measured
    "hang": hang,
    "park": park,
}


def main(workload: str, url: str, *, is_profiled: bool) -> None:
    """Run one workload on an empty store."""
    if is_profiled:
        watch()
    found = asyncio.run(WORKLOADS[workload](url))
    print_watched()
    print(msgspec.json.encode(found).decode(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], is_profiled="--profile" in sys.argv[3:])
