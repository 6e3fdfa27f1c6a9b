"""A worker process: goes on with one run and says, in one line of JSON, how it stands then.

python -m tests.scenarios.worker URL RUN FLOW LEASE_MS
"""

from __future__ import annotations

import asyncio
import json
import sys

import remit
from remit.errors import RemitError, RunQuarantined, Tampered
from tests.scenarios.purchase import FLOWS


async def main(url: str, run: str, flow: str, lease_ms: int) -> None:
    async with remit.open(url, lease_ms=lease_ms) as rt:
        print(json.dumps({"ready": run}), flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        try:
            outcome = await rt.resume(run, FLOWS[flow])
            told = {"status": str(outcome.status), "code": outcome.code}
        except (Tampered, RunQuarantined) as exc:
            told = {"status": "quarantined", "code": exc.code}
        except RemitError as exc:
            told = {"status": "raised", "code": exc.code}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
