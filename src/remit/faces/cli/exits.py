"""Exits: the status that a command ends with, and what it means. The help and the page say the same."""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class Exit(IntEnum):
    """What a command ends with. Those of errors are theirs, `exit_status`; a test looks that each stands here."""

    meaning: str

    def __new__(cls, status: int, meaning: str) -> Self:
        exit_ = int.__new__(cls, status)
        exit_._value_, exit_.meaning = status, meaning
        return exit_

    OK = 0, "all is well"
    UNEXPECTED = 1, "an unexpected error; please report it"
    REFUSED = 2, "refused, nothing was done"
    LEASE_LOST = 3, "the lease was lost; somebody else owns the run"
    DISAGREE = 4, "code and journal disagree"
    TAMPERED = 5, "a journal does not verify, or the answer leaves out a run"
    STORE = 6, "the store can't be used, or `doctor` found something wrong"
    RAISED = 7, "a step raised, or the flow; all before it is saved"
    NOT_COMPLETED = 8, "the run did not complete, or would not go on"
    INTERRUPTED = 130, "interrupted; what was saved stays"
