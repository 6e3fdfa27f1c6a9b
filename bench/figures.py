"""Figures: what is measured, in which unit, and what it must reach.

A target is a promise of the README. `raw` says what the bare database (or hash) is timed at, in the same process.
"""

from __future__ import annotations

from dataclasses import dataclass, field

STORES = ("sqlite", "postgres")
NO_STORE = "none"  # measured in memory


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table.

    workload: what has to be run to measure it; several figures come from one. target: by store; absent means none.
    """

    key: str
    workload: str
    text: str
    unit: str
    raw: str
    digits: int = 0
    is_least: bool = True  # the target is the least that is wanted; False: the most
    target: dict[str, float] = field(default_factory=dict)

    def is_reached(self, store: str, value: float) -> bool | None:
        """None where the figure has no target on this store."""
        wanted = self.target.get(store)
        if wanted is None:
            return None
        return value >= wanted if self.is_least else value <= wanted


def _both(value: float) -> dict[str, float]:
    return dict.fromkeys(STORES, value)


FIGURES = (
    Figure("seq", "seq", "one run after another", "steps/s", "INSERTs, a COMMIT each"),
    Figure("seq.ratio", "seq", "  of the raw rate", "", "", 2, target={"sqlite": 0.40, "postgres": 0.45}),
    Figure(
        "conc",
        "conc",
        "200 runs at once, in lockstep",
        "steps/s",
        "INSERTs, 200 to a COMMIT",
        target={"sqlite": 20_000, "postgres": 17_000},
    ),
    Figure(
        "waits",
        "waits",
        "200 runs at once, waiting 0-2 ms",
        "steps/s",
        "INSERTs, 200 to a COMMIT",
        target={"sqlite": 15_000, "postgres": 17_000},
    ),
    Figure(
        "resume",
        "resume",
        "resume of 10,000 steps after SIGKILL",
        "ms",
        "SELECT of 10,000 rows",
        is_least=False,
        target={"sqlite": 150, "postgres": 200},
    ),
    Figure("verify", "verify", "verification", "entries/s", "their SHA-256 alone", target={NO_STORE: 200_000}),
    Figure("bytes", "bytes", "on disk", "bytes/step", "bare rows", is_least=False, target=_both(1_300)),
    Figure("growth", "growth", "10,000 steps of 1 KB: last 500 to first", "", "INSERTs", 2, False, target=_both(1.5)),
    Figure("growth.mb", "growth", "  on disk", "MB", "", 1, False, target=_both(40)),
    Figure("judge", "judge", "the judge, about an effect", "us", "writing it as JSON", 1, False, {NO_STORE: 10}),
    Figure(
        "effects",
        "effects",
        "effects of 200 runs at once, waiting 0-2 ms",
        "effects/s",
        "their INSERTs, 200 runs to a COMMIT",
        target={"sqlite": 5_000, "postgres": 6_000},
    ),
    Figure("effects.tuned", "effects.tuned", "  garbage looked for less often", "effects/s", "their INSERTs"),
    Figure("effects.lockstep", "effects.lockstep", "  in lockstep", "effects/s", "their INSERTs, 200 runs to a COMMIT"),
    Figure("effects.bytes", "effects.bytes", "  on disk", "bytes/effect", "bare rows", 0, False, _both(4_500)),
    Figure("parked.memory", "parked", "parked runs: memory of an open store", "MB", "", 1, False, _both(10)),
    Figure("parked.idle", "parked", "  processor while nothing happens", "%", "", 2, False, _both(1)),
    Figure("parked.inbox", "parked", "  a page of the inbox, verified", "ms", "SELECT of 80 rows", 2, False, _both(20)),
    Figure("parked.role", "parked", "  a page for a rare role", "ms", "SELECT of 80 rows", 2, False, _both(20)),
    Figure(
        "parked.answer", "parked", "  decision to first new step", "ms", "3 INSERTs, a COMMIT each", 2, False, _both(10)
    ),
)

WORKLOADS = tuple(dict.fromkeys(figure.workload for figure in FIGURES))


def stores_of(workload: str) -> tuple[str, ...]:
    """Where a workload is run."""
    return (NO_STORE,) if workload in ("verify", "judge") else STORES
