"""Documents: plain JSON, told by whoever tells it, without anything that paints a terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import remit
from remit.faces import documents
from remit.faces.proving import every_journal, prove
from remit.faces.there import There
from tests.support.office import DORA, ORDER, RUN, Office, answer, asked, staffed

PAINTERS = ("rich", "typer", "click")


def test_documents_are_made_without_what_paints_a_terminal():
    program = f"import sys, remit.faces.documents; print([m for m in {PAINTERS} if m in sys.modules])"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


async def test_each_document_is_plain_json():
    async with remit.open("memory:") as rt:
        office, there = Office(), There()
        outcome = await office.go(await staffed(rt))
        ask, authority = await asked(rt), await rt.authority()
        acts = (await rt.explain("remit:authority")).timeline.lines
        found, why, explained = await rt.show(RUN), await rt.why(RUN), await rt.explain(RUN)
        told: list[Any] = [
            [documents.run_document(row) for row in await rt.list()],
            documents.outcome_document(outcome, found, there, why),
            documents.shown_document(found, explained.timeline.lines),
            documents.why_document(why, there),
            documents.explanation_document(explained),
            documents.ask_document(ask),
            documents.judged_document(await rt.judge(RUN, office.flow), there),
            documents.compatibility_document(await rt.check(RUN, office.flow)),
            documents.directory_document(authority),
            documents.principal_document(authority, DORA),
            documents.grants_document(authority, DORA, acts),
            documents.policy_document(authority.policy),
            documents.proof_document(await prove(rt, await every_journal(rt))),
            [documents.checkup_document(one, there) for one in await rt.doctor()],
            documents.error_document("a.b", "what was done", "what to do"),
        ]
        await answer(rt)
        outcome = await office.go(rt)
        told.append(documents.outcome_document(outcome, await rt.show(RUN), there))
        told += [documents.effected_document(one) for one in await rt.effects(RUN)]
    json.dumps(told, allow_nan=False)  # which refuses what is not plain
    asked_of = told[3]["asks"][0]
    assert (asked_of["id"], asked_of["payload"], asked_of["decided_by"]) == (ask.id, ORDER, "")
    assert "raw" not in asked_of and told[3]["next"].startswith(f"`remit ask {ask.id}`")
    assert told[-2]["value"] == "paid 82000"
