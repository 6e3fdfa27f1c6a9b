"""The gate: what people may not answer, what was answered with no, and what moved before a commit."""

from __future__ import annotations

from remit.errors.root import Refused, RemitError


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


class Moved(RemitError):
    """What a commit rests on changed before it came; nothing was written, and it can be judged again.

    what: "authority" (directory or policy), "post" (somebody left something for the run), "business" (another run
    holds the business key), "ceiling" (others used it up), "time" (what was judged is over), "quarantine" (a run was
    set aside or lifted, or its bytes changed).
    """

    code = "commit.moved"
    hint = "Nothing was written. Call again: it is judged by what holds now."
    exit_status = 3

    def __init__(self, what: str) -> None:
        super().__init__(f"Nothing was written: what it rests on has moved ({what}).")
        self.what = what
