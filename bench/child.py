"""One repetition, in a process of its own: `python -m bench.child seq URL` prints what it found, as JSON."""

from __future__ import annotations

import asyncio
import sys

import msgspec

from bench.timing import print_watched, watch
from bench.workloads import WORKLOADS


def main(workload: str, url: str, *, is_profiled: bool) -> None:
    """Run one workload on an empty store."""
    if is_profiled:
        watch()
    found = asyncio.run(WORKLOADS[workload](url))
    print_watched()
    print(msgspec.json.encode(found).decode(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], is_profiled="--profile" in sys.argv[3:])
