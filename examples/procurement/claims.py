"""Claims: what the demo says of itself, each with what was found.

    steps     counted in the log outside Remit, compared with what Remit had saved at the kill
    money     in pence: papers on the desk, results in the ledger, the publisher's own total

The demo ends with an error when one of them does not hold.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from examples.procurement.desk import Desk
from examples.procurement.flow import Decision
from examples.procurement.ledger import Standing, read_ledger, saved_calls
from examples.procurement.payments import Published, pounds, prefix, read_payment
from examples.procurement.watch import Call, Refusal, count


@dataclass(frozen=True)
class Claim:
    """A sentence, and whether it holds. found: what was seen, for people."""

    says: str
    found: str
    holds: bool


@dataclass(frozen=True)
class Played:
    """An act at the bank that is over: what it claims, and its payments by why they were not made; "" was made."""

    name: str
    claims: list[Claim]
    ends: Counter[str]  # by outcome code

    @property
    def paid(self) -> int:
        return self.ends[""]


@dataclass(frozen=True)
class Death:
    """What a killed worker left, read when it was dead."""

    pid: int
    status: int  # of the process: -9
    completed: int  # purchases
    saved: frozenset[Call]
    half_way: frozenset[Call]  # began, by the log, and not saved


@dataclass(frozen=True)
class Sums:
    """A month's money, in pence."""

    proposed: int
    denied: int
    refused: int  # what the refused purchases are about
    total: int  # as published

    @property
    def is_whole(self) -> bool:
        return self.proposed + self.denied + self.refused == self.total


@dataclass(frozen=True)
class Month:
    """A month as it stands at the end."""

    file: Published
    death: Death
    counts: Counter[Call]
    standings: dict[str, Standing]
    refused: dict[str, Refusal]
    sums: Sums
    is_on_paper: bool  # the papers say the same as the ledger

    @property
    def completed(self) -> int:
        return sum(standing.status == "completed" for standing in self.standings.values())

    @property
    def again(self) -> set[Call]:
        """Steps that began more than once."""
        return {call for call, times in self.counts.items() if times > 1}


def take_stock(desk: Desk, file: Published, death: Death, refused: dict[str, Refusal]) -> Month:
    """Everything that is said of a month, from the log, the ledger and the papers."""
    start, ledger = prefix(file.month), read_ledger(desk, file.month)
    counts = Counter({call: times for call, times in count(desk).items() if call[0].startswith(start)})
    results = {run: standing.result for run, standing in ledger.items() if standing.result is not None}
    amounts = {request.run: read_payment(request).amount_pence for request in file.requests}
    sums = Sums(
        proposed=sum(r.amount_pence for r in results.values() if r.decision is not Decision.DENIED),
        denied=sum(r.amount_pence for r in results.values() if r.decision is Decision.DENIED),
        refused=sum(amounts[run] for run in refused),
        total=file.total_pence,
    )
    said = {
        run: ("denial" if result.decision is Decision.DENIED else "proposal", result.amount_pence)
        for run, result in results.items()
    }
    written = {paper["run"]: (paper["paper"], paper["amount_pence"]) for paper in desk.papers(start)}
    return Month(file, death, counts, ledger, refused, sums, is_on_paper=said == written)


def claims_at_the_end(acts: list[Played], counters: dict[str, Any]) -> list[Claim]:
    """The bank's own count, over all acts: what the runs say was paid, and nothing twice."""
    paid = sum(act.paid for act in acts)
    return [
        Claim(
            "Payments at the bank, by its own count, are those that the runs know of",
            f"{counters['payments']} of {paid}",
            counters["payments"] == paid,
        ),
        Claim(
            "Keys that the bank paid more than once",
            str(counters["above_one"]),
            counters["above_one"] == 0 and len(counters["by_key"]) == paid,
        ),
    ]


def claims_of_a_death(month: Month) -> list[Claim]:
    """It happened, and in the middle of the work."""
    death, payments = month.death, len(month.file.rows)
    return [
        Claim(
            "The worker died by SIGKILL, in the middle of steps",
            f"{death.completed} of {payments} complete",
            death.status == -9 and 0 < death.completed < payments and bool(death.half_way),
        )
    ]


def claims_of_steps(month: Month) -> list[Claim]:
    """What was saved never ran again, what was half-way did, and nothing else ran twice."""
    saved, half_way, counts = month.death.saved, month.death.half_way, month.counts
    stopped = {call for call in half_way if call[0] in month.refused}
    saved_once = sum(counts[call] == 1 for call in saved)
    half_way_again = sum(counts[call] == 2 for call in half_way - stopped)
    late = counts.keys() - saved - half_way
    late_once = sum(counts[call] == 1 for call in late)
    unseen = saved_calls(month.standings) - counts.keys()
    return [
        Claim("Steps saved before the kill: ran once", f"{saved_once} of {len(saved)}", saved_once == len(saved)),
        Claim(
            "Steps killed before their outcome was saved: ran again",
            f"{half_way_again} of {len(half_way - stopped)}",
            half_way_again == len(half_way - stopped),
        ),
        Claim(
            "Steps after the kill: ran once",
            f"{late_once} of {len(late)}",
            late_once == len(late) and not unseen and all(counts[call] == 1 for call in stopped),
        ),
    ]


def claims_of_results(month: Month) -> list[Claim]:
    """Nothing is missing: every purchase that was not refused is complete, and the money adds up to the penny."""
    payments, sums = len(month.file.rows), month.sums
    due = payments - len(month.refused)
    parts = "Proposed + denied + refused" if month.refused else "Proposed + denied"
    return [
        Claim(
            "Purchases complete, each journal verified",
            f"{month.completed} of {due}",
            month.completed == due and len(month.standings) == month.file.count == payments,
        ),
        Claim("Papers on the desk say the same as the ledger", "yes" if month.is_on_paper else "no", month.is_on_paper),
        Claim(f"{parts} = the published total", pounds(sums.total), sums.is_whole),
    ]


def claims_of_an_edit(edit: dict[str, str], trusting: dict[str, str]) -> list[Claim]:
    """The edit is one that pays where it is believed; otherwise refusing it would prove nothing."""
    return [
        Claim(
            "The edit was made, and whoever believes it pays",
            trusting["paper"],
            (edit["was"], edit["now"], trusting["paper"]) == ('"denied"', '"approved"', "proposal"),
        )
    ]


def claims_of_a_refusal(month: Month, run: str, desk: Desk) -> list[Claim]:
    """Exactly the edited purchase was refused and set aside, and nothing was written for it."""
    refusal, standing = month.refused.get(run), month.standings[run]
    calls = [line for line in desk.calls_log.read_text(encoding="utf-8").splitlines() if repr(run) in line]
    papers = [paper for paper in desk.papers(prefix(month.file.month)) if paper["run"] == run]
    quarantined = [s.run for s in month.standings.values() if s.status == "quarantined"]
    return [
        Claim(
            f"Remit refused {run} and no other",
            refusal.code if refusal else "not refused",
            list(month.refused) == [run] == quarantined and refusal is not None and standing.complaint == refusal.code,
        ),
        Claim("Papers written for it", str(len(papers)), not papers),
        Claim("Remit called for a person", "once" if len(calls) == 1 else f"{len(calls)} times", len(calls) == 1),
    ]
