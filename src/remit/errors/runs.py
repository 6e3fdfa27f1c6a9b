"""Runs: one that is not as it was asked for, is somebody else's, or does not fit its code or its bytes."""

from __future__ import annotations

from remit.errors.root import Refused, RemitError

Names = tuple[str, ...]

_BACK = "Bring the recorded calls back into the code, where they were (`remit check RUN MODULE:FLOW` lists them)"
_CAUGHT = (
    "It was caught before: bring back the code that did, and make the recorded calls there and nowhere else "
    "(`remit check RUN MODULE:FLOW` lists them)"
)
_BEHIND = (
    "But {} failed before them and is called once more when they are there: where they were made in its stead, as by a "
    "branch that saw its failure, bring them back without a call of it (`remit effects RUN` tells what was done)."
)
_STAYS = "What this one did stays done (`remit effects RUN`)."
FIND_OUT = "First find out outside what was done since the backup: a run would do it again"  # wherever one is restored


def cancel_first(run: str) -> str:
    """What whoever leaves a run that is not over is told, for then two of them are about the same. run: as typed."""
    return (
        f"Where that is to take this one's place, first `remit cancel {run} --by user:YOU`: "
        "else this one may go on as well, also on a yes that it was given."
    )


class InputMismatch(Refused):
    """The run exists with another input; nothing was done."""

    code = "input_mismatch"
    hint = f"Go on with the recorded input, or use another id. {cancel_first('RUN')} {_STAYS}"


class FlowMismatch(Refused):
    """The run exists and belongs to another flow; nothing was done."""

    code = "flow_mismatch"
    hint = f"Use the run's own flow, or another run id. {cancel_first('RUN')} {_STAYS}"


class ExecutorMismatch(Refused):
    """The run was opened by somebody else; nothing was done."""

    code = "executor_mismatch"
    hint = "Only the executor that opened a run goes on with it: name the same one, and the same principal it acts for."


class RunAbsent(Refused):
    """There is no run of that id; nothing was done."""

    code = "run.absent"
    hint = "See `remit list` for the runs of this ledger."


class RunQuarantined(Refused):
    """The run's journal did not verify; nothing of it is resumed or appended to."""

    code = "run.quarantined"
    hint = f"See `remit verify RUN`. {FIND_OUT}; restore its bytes, then `remit lift RUN --by user:YOU --reason WHY`."


class JournalNewer(Refused):
    """The journal verifies and was written by a newer version of Remit; nothing was done."""

    code = "journal.newer"
    hint = "Go on with the version of Remit that wrote it, or a newer one."


class LeaseHeld(Refused):
    """A living worker owns the run; nothing was done."""

    code = "lease.held"
    hint = "Wait until it is done; a dead owner is taken over by itself."


class RunUnfinished(Refused):
    """The run has no value, because it did not complete."""

    code = "run.unfinished"
    hint = "Look at `outcome.status`, `outcome.code` and `outcome.reason`, or ask `remit why RUN`."


class LeaseLost(RemitError):
    """The run is no longer as this worker left it: taken over, or restored from earlier; nothing was written."""

    code = "lease.lost"
    hint = "Stop working on this run. Somebody else extended it, or the database went back to an earlier state."
    exit_status = 3


class DefinitionIncompatible(RemitError):
    """The journal has calls that the code no longer makes, or that another function made; no step was run.

    recorded: names that the journal has and the flow did not ask for.
    asked: names that the flow asked for and the journal does not have.
    done: effects of the run that happened or may have, which a new run would do again.
    begun: calls that an earlier turn came to and that are not over: they failed, wait for somebody, or are in doubt.
    failed: calls that failed before what is recorded was called, and that run again.
    behind: calls whose recorded failure or no leaves the flow, where an earlier turn went on to what is recorded.
    is_beside: whether calls stood side by side, where some may hold what the others need.
    is_given_else: whether what is recorded was called with other arguments than it is now.
    is_undone: whether it is known of what is recorded that it did not happen.
    functions: where one name went from one function to another: which one did what is recorded, which has it now.
    """

    code = "definition_incompatible"
    # Of a run that did nothing outside. Else `done_anew` says what a new one would do again.
    hint = f"{_BACK}, or open a new run. {cancel_first('RUN')}"
    exit_status = 4

    def __init__(
        self,
        recorded: Names,
        asked: Names,
        *,
        done: Names = (),
        begun: Names = (),
        failed: Names = (),
        behind: Names = (),
        is_beside: bool = False,
        is_given_else: bool = False,
        is_undone: bool = False,
        functions: tuple[str, str] | None = None,
    ) -> None:
        again = done_anew(done)
        new = f"the flow asks for {_listed(asked)}" if asked else "the flow ended without them"
        hint = f"{_BACK}. {again}" if done else self.hint
        if failed:
            hint = f"{_BACK}. {_BEHIND.format(_listed(failed))} {again or cancel_first('RUN')}"
        if begun or (is_beside and asked):
            held = f"{_listed(begun)} was begun before, is not over" if begun else f"{_listed(asked)} waits"
            hint += (
                f" Where they are there: {held}, goes on once all that is recorded was asked for, and may hold what "
                "the others need for that. Let that semaphore, lock or pool be wider, until the run is over."
            )
        told = f"The journal has {_listed(recorded)}, which the code no longer asks for; {new}."
        if behind:
            told = f"The journal has {_listed(recorded)}; the code lets {_listed(behind)} leave the flow before that."
            anew = done_anew(done) or f"Or open a new run. {cancel_first('RUN')}"
            hint = f"{_CAUGHT}. {anew}"
        if is_undone:
            told = f"The journal has {_listed(recorded)}, which is known not to have happened; {new}."
            # To call it as before may be to do once more what the flow did in another way meanwhile.
            hint = (
                "Give what is asked for now a name of its own, as `run.branch` with a name of its order does: then it "
                f"is another call under another key, and the one of before is not made again. {again}"
            ).rstrip()
        if is_given_else:
            told = (
                f"The journal has {_listed(recorded)}, which stands or stood beside other calls, and the code gives it "
                "other arguments now."
            )
            hint = (
                "Calls that stand side by side took other work than before. Bring back what each is given: the queue "
                "or list that they share, its order, how many of them there are. A clock or a counter in an argument "
                f"is another one in each turn: give the step what does not change. {again}"
            ).rstrip()
        if functions is not None:
            did, has = functions
            told = f"The journal has {_listed(recorded)} of {did}, and by that name the code calls {has} now."
            hint = (
                f"Declare the one that did it, and no other, with recorded_as={did!a}: it was moved or renamed, or has "
                f"another connector. Give any other one a name of its own. {again}"
            ).rstrip()
        super().__init__(told, hint=hint)
        self.recorded, self.asked, self.done, self.begun = recorded, asked, done, begun
        self.behind, self.functions = behind, functions


class Tampered(RemitError):
    """The stored bytes are not the ones that were written; nothing was resumed.

    run: which run, "" where it is not about one. lane, seq: the first entry that is wrong, 0 where unknown.
    """

    code = "chain.hash"
    hint = f"`remit verify` shows what is wrong; other runs are not affected. {FIND_OUT}; restore the run's bytes."
    exit_status = 5

    def __init__(self, message: str, *, code: str = "chain.hash", run: str = "", lane: str = "", seq: int = 0) -> None:
        super().__init__(message, code=code)
        self.run, self.lane, self.seq = run, lane, seq


def done_anew(done: tuple[str, ...]) -> str:
    """What whoever gives a run up is told of the effects that it did or may have done; "" where there are none."""
    return f"A new run would do again what happened or may have: {_listed(done)}." if done else ""


def _listed(names: tuple[str, ...], most: int = 5) -> str:
    shown = ", ".join(repr(n) for n in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
