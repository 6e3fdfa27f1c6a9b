"""Remit: durable execution that does not confuse *can continue* with *may continue*."""

import remit.forks  # noqa: F401  (before anybody forks: what is open then is known only then)
from remit.authority.contract import Contract
from remit.authority.difference import Change, Difference
from remit.authority.directory import Authority
from remit.authority.rule import Approval, Ceiling, Rule
from remit.engine.boundary.approve import Yes
from remit.engine.declared.flow import Flow, Step, flow, step
from remit.engine.declared.rows import Transaction, transaction
from remit.engine.declared.sink import Declined, DidNotHappen, Effect, Landed, NotLanded, effect
from remit.engine.people.asks import Ask, Evidence
from remit.engine.people.earlier import Earlier, MadeBefore
from remit.engine.people.effected import Effected
from remit.engine.people.left_out import LeftOut
from remit.engine.people.sent_before import SentBefore
from remit.engine.people.used import Used
from remit.engine.process.admit import Found
from remit.engine.process.outcome import Outcome
from remit.engine.runs.dry import Judged
from remit.engine.runs.plain import SyncRun
from remit.engine.runs.rehearsal import Compatibility
from remit.engine.runs.run import Run
from remit.errors import (
    ApprovalRefused,
    AuthorityUnreadable,
    CallRefused,
    ClockJumped,
    CommitUnknown,
    Conflict,
    DeclarationRefused,
    DefinitionIncompatible,
    Denied,
    EffectDeclined,
    EffectDidNotHappen,
    EffectFailed,
    ExecutorMismatch,
    FlowMismatch,
    IdRefused,
    InputMismatch,
    JournalNewer,
    LeaseHeld,
    LeaseLost,
    LoadError,
    NameAmbiguous,
    NotBuilt,
    PermitRefused,
    Refused,
    RemitError,
    RunAbsent,
    RunQuarantined,
    RunUnfinished,
    SaveError,
    StepError,
    StoreClosed,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    SyncInLoop,
    Tampered,
    ValueRefused,
    ValueUnreadable,
)
from remit.faces.explain import Explanation, Failure, Objection, Why
from remit.faces.listform import run, run_async
from remit.faces.runtime import Runtime, open
from remit.faces.spoken import Spoken
from remit.faces.written import load_contract
from remit.facts.judgement import Finding, Verdict
from remit.facts.machine import Status
from remit.facts.rules import PolicyPin
from remit.facts.timeline import Line, Timeline
from remit.facts.view import RunView
from remit.store.rows import Checkup, RunRow, Stored

__version__ = "0.1.0"

__all__ = [
    "Approval",
    "ApprovalRefused",
    "Ask",
    "Authority",
    "AuthorityUnreadable",
    "CallRefused",
    "Ceiling",
    "Change",
    "Checkup",
    "ClockJumped",
    "CommitUnknown",
    "Compatibility",
    "Conflict",
    "Contract",
    "DeclarationRefused",
    "Declined",
    "DefinitionIncompatible",
    "Denied",
    "DidNotHappen",
    "Difference",
    "Earlier",
    "Effect",
    "EffectDeclined",
    "EffectDidNotHappen",
    "EffectFailed",
    "Effected",
    "Evidence",
    "ExecutorMismatch",
    "Explanation",
    "Failure",
    "Finding",
    "Flow",
    "FlowMismatch",
    "Found",
    "IdRefused",
    "InputMismatch",
    "JournalNewer",
    "Judged",
    "Landed",
    "LeaseHeld",
    "LeaseLost",
    "LeftOut",
    "Line",
    "LoadError",
    "MadeBefore",
    "NameAmbiguous",
    "NotBuilt",
    "NotLanded",
    "Objection",
    "Outcome",
    "PermitRefused",
    "PolicyPin",
    "Refused",
    "RemitError",
    "Rule",
    "Run",
    "RunAbsent",
    "RunQuarantined",
    "RunRow",
    "RunUnfinished",
    "RunView",
    "Runtime",
    "SaveError",
    "SentBefore",
    "Spoken",
    "Status",
    "Step",
    "StepError",
    "StoreClosed",
    "StoreError",
    "StoreRefused",
    "StoreUnavailable",
    "Stored",
    "SyncInLoop",
    "SyncRun",
    "Tampered",
    "Timeline",
    "Transaction",
    "Used",
    "ValueRefused",
    "ValueUnreadable",
    "Verdict",
    "Why",
    "Yes",
    "effect",
    "flow",
    "load_contract",
    "open",
    "run",
    "run_async",
    "step",
    "transaction",
]
