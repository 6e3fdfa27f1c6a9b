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

from remit.errors.calls import (
    CallRefused,
    DeclarationRefused,
    EffectDeclined,
    EffectDidNotHappen,
    EffectFailed,
    NameAmbiguous,
    PermitRefused,
    StepError,
    SyncInLoop,
)
from remit.errors.gate import ApprovalRefused, Conflict, Denied, Moved
from remit.errors.root import ClockJumped, NotBuilt, Refused, RemitError
from remit.errors.runs import (
    FIND_OUT,
    DefinitionIncompatible,
    ExecutorMismatch,
    FlowMismatch,
    InputMismatch,
    JournalNewer,
    LeaseHeld,
    LeaseLost,
    RunAbsent,
    RunQuarantined,
    RunUnfinished,
    Tampered,
    cancel_first,
    done_anew,
)
from remit.errors.stores import (
    FORKED_HINT,
    AuthorityUnreadable,
    CommitUnknown,
    LoadError,
    SaveError,
    StoreClosed,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)
from remit.errors.values import OVERSIZE_HINT, IdRefused, ValueRefused, ValueUnreadable

__all__ = [
    "FIND_OUT",
    "FORKED_HINT",
    "OVERSIZE_HINT",
    "ApprovalRefused",
    "AuthorityUnreadable",
    "CallRefused",
    "ClockJumped",
    "CommitUnknown",
    "Conflict",
    "DeclarationRefused",
    "DefinitionIncompatible",
    "Denied",
    "EffectDeclined",
    "EffectDidNotHappen",
    "EffectFailed",
    "ExecutorMismatch",
    "FlowMismatch",
    "IdRefused",
    "InputMismatch",
    "JournalNewer",
    "LeaseHeld",
    "LeaseLost",
    "LoadError",
    "Moved",
    "NameAmbiguous",
    "NotBuilt",
    "PermitRefused",
    "Refused",
    "RemitError",
    "RunAbsent",
    "RunQuarantined",
    "RunUnfinished",
    "SaveError",
    "StepError",
    "StoreClosed",
    "StoreError",
    "StoreRefused",
    "StoreUnavailable",
    "SyncInLoop",
    "Tampered",
    "ValueRefused",
    "ValueUnreadable",
    "cancel_first",
    "done_anew",
]
