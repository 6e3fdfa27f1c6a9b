"""A process that forks a child for each job it reads, and kills it where the child says that it has come.

    python -m tests.crash.victim < one job per line > one report per line

A child is a process of its own from its first line on: nothing of Remit was opened before
the fork, only imported, because importing is the slow part. A victim wraps its store from
outside and dies at a named place, by SIGKILL or by leaving with status 3. A survivor looks
at what the dead left behind, goes on with it, and reports.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import msgspec

import remit
from remit.store.url import store_for
from tests.crash.voyage import FLOWS, GIVEN, Stage, Watched, play

LEASE_MS = 600_000  # far longer than any test: whoever waits for a lease to run out fails
HERE = b"here\n"
SECONDS_MAX = 30


class Job(msgspec.Struct, kw_only=True):
    """place: where to die, "" for a survivor. calls_max: how often a survivor calls after the flow raised."""

    url: str
    run: str
    flow: str
    folder: str
    place: str = ""
    way: str = "kill"
    is_start: bool = False
    calls_max: int = 1


class Survey(msgspec.Struct, kw_only=True):
    """What a survivor found and did.

    found: names of the recorded calls, as they were completed; None where there was no run. failed: those that failed.
    """

    found: list[str] | None
    failed: list[str]
    value: Any = None
    calls: int = 0
    epochs: list[int] = []
    worker: str | None = None
    wrong: str | None = None
    took_ms: int = 0


class Report(msgspec.Struct, kw_only=True):
    """status: exit status, minus the signal where one ended it. has_come: the child was killed at its place."""

    status: int
    has_come: bool
    survey: Survey | None
    complaint: str


async def die(job: Job, stage: Stage) -> None:
    """Start or go on with a run until the place comes."""
    store = Watched(store_for(job.url), stage)
    async with remit.open(store, lease_ms=LEASE_MS) as rt:
        try:
            if job.is_start:
                await rt.start(FLOWS[job.flow], GIVEN, id=job.run)
            else:
                await rt.run(FLOWS[job.flow], GIVEN, id=job.run)
        except (remit.StepError, asyncio.CancelledError):
            pass
        stage.at("returned")
    stage.at("closed")


async def survive(job: Job) -> Survey:
    """Look, go on, look again."""
    flow, began = FLOWS[job.flow], time.monotonic()
    async with remit.open(job.url, lease_ms=LEASE_MS) as rt:
        try:
            calls = (await rt.show(job.run)).view.calls.values()
            survey = Survey(found=[c.name for c in calls], failed=[c.name for c in calls if c.kind == "StepFailed"])
        except remit.RunAbsent:
            survey = Survey(found=None, failed=[])
        while True:
            survey.calls += 1
            try:
                survey.value = (await rt.run(flow, GIVEN, id=job.run)).value
                break
            except remit.StepError:
                if survey.calls == job.calls_max:
                    raise
        stored, wrong = await rt.read(job.run), await rt.verify(job.run)
        headers = [msgspec.json.decode(entry.header) for entry in stored.main]
    survey.epochs = [h["epoch"] for h in headers if h["kind"] == "AttemptStarted"]
    survey.worker, survey.wrong = stored.row.worker, None if wrong is None else str(wrong)
    survey.took_ms = int((time.monotonic() - began) * 1_000)
    return survey


def child(job: Job, out: int) -> None:
    """The whole life of one child."""
    signal.alarm(SECONDS_MAX)

    def arrived() -> None:
        os.write(out, HERE)

    async def live() -> None:
        stage = Stage(Path(job.folder), job.place, job.way, arrived)
        stage.caller = asyncio.current_task()
        play(stage)
        if job.place:
            await die(job, stage)
        else:
            os.write(out, msgspec.json.encode(await survive(job)) + b"\n")

    try:
        asyncio.run(live())
    except BaseException:
        os.write(out, b"!" + traceback.format_exc().replace("\n", " | ").encode() + b"\n")
        os._exit(1)
    os._exit(0)


def run_child(job: Job) -> Report:
    """Fork a child, kill it when it has come to its place, and say what became of it."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        child(job, writing)
    os.close(writing)
    report = Report(status=0, has_come=False, survey=None, complaint="")
    with os.fdopen(reading, "rb") as said:
        for line in said:
            if line == HERE:
                os.kill(pid, signal.SIGKILL)
                report.has_come = True
            elif line.startswith(b"!"):
                report.complaint = line[1:].decode()
            else:
                report.survey = msgspec.json.decode(line, type=Survey)
    report.status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return report


def main() -> None:
    for line in sys.stdin.buffer:
        report = run_child(msgspec.json.decode(line, type=Job))
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
