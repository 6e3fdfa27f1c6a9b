"""Errors: each says what was done, has a stable code and names the next step.

    Refused                  nothing was done
    LeaseLost                nothing was written; the run went on without this worker, or went back
    Tampered                 the stored bytes are not the ones that were written
    DefinitionIncompatible   the code and the journal disagree; no step was run
    StoreUnavailable         nothing was written; safe to try again
    CommitUnknown            the answer to a commit was lost; read before trying again
    StepError                a step, or the flow itself, raised; all before it is saved

The tree is cut by what was done, because that is what a caller decides on. The code is
stable across versions; the text is not. Signals that steer a flow are not errors: they
derive from BaseException and live in the engine.
"""

from __future__ import annotations

from typing import ClassVar

FIND_OUT = "First find out outside what was done since the backup: a run would do it again"  # wherever one is restored


class RemitError(Exception):
    """Any error of Remit's own.

    code: stable, dotted for errors, snake_case where it is also a run's outcome code.
    hint: one sentence that says what to do next.
    """

    code: str = "remit.error"
    hint: str = "This was not foreseen; please report it, with its text."
    exit_status: ClassVar[int] = 1

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        if hint is not None:
            self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} [{self.code}] {self.hint}"


class Refused(RemitError):
    """The request was not acceptable; nothing was done."""

    code = "refused"
    hint = "Correct the request and try again; nothing was changed."
    exit_status = 2


class ClockJumped(Refused):
    """This machine's clock runs far ahead of the store's; nothing was written under it."""

    code = "clock.jumped"
    hint = "Set the clock right and try again; one false date would expire everything."


class NotBuilt(Refused):
    """This version cannot do that yet; nothing was done."""

    code = "not_built"
    hint = "See the changelog for what this version can do."


class IdRefused(Refused):
    """A run id, tenant or name that can't be stored and shown safely; nothing was done."""

    code = "id.refused"
    hint = "Use 1 to 200 visible characters, without control or invisible ones, and not beginning with `remit:`."


OVERSIZE_HINT = "Keep what is that large elsewhere, and store its name and its digest."


class ValueRefused(Refused):
    """A value that would not come back the same; nothing was written.

    path: where inside the value, from its root: "$.lines[3].amount".
    """

    code = "value.refused"
    hint = "Return something that survives being stored, or annotate the type that it should come back as."

    def __init__(self, reason: str, *, path: str = "$", where: str = "", hint: str | None = None) -> None:
        place = f" of {where}" if where else ""
        super().__init__(f"The value{place} can't be stored: {reason} at {path}.", hint=hint)
        self.reason, self.path, self.where = reason, path, where


class ValueUnreadable(Refused):
    """Stored bytes that no longer fit the type they are read as; the bytes are untouched."""

    code = "value.unreadable"
    hint = "Bring the type back, or read the bytes as they are with `remit show RUN --raw`."

    def __init__(self, reason: str, *, type_name: str, where: str = "") -> None:
        place = f" of {where}" if where else ""
        super().__init__(f"The stored value{place} can't be read as {type_name}: {reason}.")
        self.reason, self.type_name, self.where = reason, type_name, where


class InputMismatch(Refused):
    """The run exists with another input; nothing was done."""

    code = "input_mismatch"
    hint = "Go on with the recorded input, or use another id: what this run did stays done (`remit effects RUN`)."


class FlowMismatch(Refused):
    """The run exists and belongs to another flow; nothing was done."""

    code = "flow_mismatch"
    hint = "Use the run's own flow, or another run id: what this run did stays done (`remit effects RUN`)."


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


class NameAmbiguous(Refused):
    """Two tasks of one flow asked for the same name; which came first is chance."""

    code = "name.ambiguous"
    hint = "Give each task its own branch: `run.branch('supplier-a').step(...)`."


class CallRefused(Refused):
    """A call of the run that can't be made like that, or from there; nothing was done."""

    code = "call.refused"
    hint = "Mend the call and go on with the run: all before it is saved."


class PermitRefused(Refused):
    """An effect was to be called without a permit of the gate; it was not called."""

    code = "permit.refused"
    hint = "Effects are called by `run.effect(...)`, and by nothing else."


class SyncInLoop(Refused):
    """A synchronous call inside a running event loop; nothing was done."""

    code = "sync.in_loop"
    hint = "Await the asynchronous twin instead."


class ApprovalRefused(Refused):
    """A question could not be answered like that; nothing was written.

    code: `approval.` and absent, decided, void, stale, expired, decider, disabled, role, role_new or self.
    """

    code = "approval.refused"
    hint = "Somebody else answers it: a person who holds the role, and for whom the run does not act."


class Denied(Refused):
    """The answer to this call was no; nothing was done. The flow may catch it and go another way.

    call: name of the call. ask: id of the question that was denied, "" where it was no person.
    """

    code = "approval.denied"
    hint = "The run may go another way; where the flow does not catch this, it ends as failed."

    def __init__(self, message: str, *, code: str | None = None, call: str = "", ask: str = "") -> None:
        super().__init__(message, code=code)
        self.call, self.ask = call, ask


class Conflict(Denied):
    """The business key is held by another run, or another call of this one; this effect was not called."""

    code = "idempotency.conflict"
    hint = "Look at the run that holds the key; where this is another matter, give it another business key."


class DeclarationRefused(Refused):
    """A flow, step or contract that can't be declared like that."""

    code = "declaration.refused"
    hint = "Correct the declaration; no run can be opened under it."


class LeaseLost(RemitError):
    """The run is no longer as this worker left it: taken over, or restored from earlier; nothing was written."""

    code = "lease.lost"
    hint = "Stop working on this run. Somebody else extended it, or the database went back to an earlier state."
    exit_status = 3


class Moved(RemitError):
    """What a commit rests on changed before it came; nothing was written, and it can be judged again.

    what: "authority" (directory or policy), "post" (somebody left something for the run), "business" (another run
    holds the business key), "ceiling" (others used it up), "time" (what was judged is over).
    """

    code = "commit.moved"
    hint = "Nothing was written. Call again: it is judged by what holds now."
    exit_status = 3

    def __init__(self, what: str) -> None:
        super().__init__(f"Nothing was written: what it rests on has moved ({what}).")
        self.what = what


class DefinitionIncompatible(RemitError):
    """The journal has calls that the code no longer makes; no step was run, none was written.

    recorded: names that the journal has and the flow did not ask for.
    asked: names that the flow asked for and the journal does not have.
    done: effects of the run that happened or may have, which a new run would do again.
    """

    code = "definition_incompatible"
    hint = "Bring the recorded calls back into the code (`remit check RUN MODULE:FLOW` lists them), or open a new run."
    exit_status = 4

    def __init__(self, recorded: tuple[str, ...], asked: tuple[str, ...], *, done: tuple[str, ...] = ()) -> None:
        new = f"the flow asks for {_listed(asked)}" if asked else "the flow ended without them"
        back = "Bring the recorded calls back into the code (`remit check RUN MODULE:FLOW` lists them)"
        hint = f"{back}. {done_anew(done)}" if done else None
        super().__init__(f"The journal has {_listed(recorded)}, which the code no longer asks for; {new}.", hint=hint)
        self.recorded, self.asked, self.done = recorded, asked, done


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


class StoreError(RemitError):
    """The store can't be used as asked."""

    code = "store.error"
    hint = "Ask `remit doctor` what is wrong with the store."
    exit_status = 6


class StoreUnavailable(StoreError):
    """The store did not answer; nothing was written, and trying again is safe."""

    code = "store.unavailable"
    hint = "Nothing was written. Try again when the store is back."


class AuthorityUnreadable(StoreUnavailable):
    """Directory or policy can't be read or do not verify; nothing proceeds, and every run stays where it is."""

    code = "authority.unreadable"
    hint = "See `remit verify remit:authority`; restore it from a backup, and grant and revoke again what came since."


class StoreRefused(StoreError):
    """The store can't be opened: missing, broken, newer, locked, or on the wrong file system."""

    code = "store.refused"
    hint = "Ask `remit doctor URL` what is wrong with the store."


class StoreClosed(StoreError):
    """The store was used after it was closed, after a fork, or from another event loop; nothing was written."""

    code = "store.closed"
    hint = "Open the store again, in the process and the event loop that use it."


# store.forked
FORKED_HINT = "Start the process with `spawn` instead of `fork`, or fork it before anything opens the store."


class LoadError(StoreUnavailable):
    """A two-method store raised in `load`; nothing was run."""

    code = "store.load"
    hint = "Nothing was run. Mend the store's `load` and call again."


class SaveError(StoreUnavailable):
    """A two-method store raised in `save`; what was saved before is still there."""

    code = "store.save"
    hint = "The steps saved before this one are kept. Mend the store's `save` and call again."


class CommitUnknown(StoreError):
    """The answer to a commit was lost; it may or may not have been written."""

    code = "commit.unknown"
    hint = "Call again with the same id: what was written is read back before anything runs."


class StepError(RemitError):
    """A step raised, or the flow itself; everything before it is saved.

    run: the run id. name: the call's name with its occurrence, "fetch_quote#2", or the flow's own name.
    error_type: qualified name of what was raised. detail: its text. beside: what else failed in the same gather.
    """

    code = "step.failed"
    hint = "Mend the code or its surroundings and call again with the same id: it goes on from the failed call."
    exit_status = 7

    def __init__(self, *, run: str, name: str, error_type: str, detail: str) -> None:
        super().__init__(f"{name} of run {run!r} raised {error_type}: {detail}")
        self.run, self.name, self.error_type, self.detail = run, name, error_type, detail
        self.beside: tuple[BaseException, ...] = ()

    @property
    def occurrence(self) -> int:
        """Which call of that name in its branch, from 1."""
        _, _, number = self.name.rpartition("#")
        return int(number) if number.isdigit() and "#" in self.name else 1


class EffectFailed(StepError):
    """An effect is known not to have happened: EffectDeclined, or EffectDidNotHappen, which may be called again."""

    code = "effect.failed"
    hint = "Nothing of it happened. Whether it may be called again is said by the error's class and code."


class EffectDeclined(EffectFailed):
    """The other side said no to an effect; that stays so, and it is not called again."""

    code = "effect.declined"
    hint = "It is not called again. Let the flow catch this and go another way, or cancel the run."


class EffectDidNotHappen(EffectFailed):
    """Nothing was sent, or nothing of it arrived; where the flow does not catch this, the next turn calls again."""

    code = "effect.did_not_happen"
    hint = "Call again with the same id: the gate judges anew, and it is called under the same key."


def done_anew(done: tuple[str, ...]) -> str:
    """What whoever gives a run up is told of the effects that it did or may have done; "" where there are none."""
    return f"A new run would do again what happened or may have: {_listed(done)}." if done else ""


def _listed(names: tuple[str, ...], most: int = 5) -> str:
    shown = ", ".join(repr(n) for n in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
