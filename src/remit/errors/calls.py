"""Calls: what can't be declared or called like that, and what a step or an effect came to."""

from __future__ import annotations

from remit.errors.called import called
from remit.errors.root import Refused, RemitError


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


class DeclarationRefused(Refused):
    """A flow, step or contract that can't be declared like that."""

    code = "declaration.refused"
    hint = "Correct the declaration; no run can be opened under it."


class StepError(RemitError):
    """A step raised, or the flow itself; everything before it is saved.

    run: the run id. name: the call's name with its occurrence, "fetch_quote#2", or the flow's own name.
    error_type: qualified name of what was raised. detail: its text. beside: what else failed in the same gather.
    """

    code = "step.failed"
    hint = "Mend the code or its surroundings and call again with the same id: it goes on from the failed call."
    exit_status = 7

    def __init__(self, *, run: str, name: str, error_type: str, detail: str) -> None:
        super().__init__(f"{called(name)} of run {run!r} raised {error_type}: {detail}")
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
