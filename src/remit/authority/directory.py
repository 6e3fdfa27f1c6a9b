"""The directory: who is known, who holds which role, who is one person, and which policy holds.

All of it is folded from the journal `remit:authority`, and the seq of that journal's head is
its version: whoever says "as of version 7" has named one directory and one policy.

    fold_authority, extend     from verified entries to the value that judgements read
    check_grant, check_...     whether an act may be written next; the fold asks the same ones

An act that its check refuses can't have been written by Remit, so a journal that holds one is
tampered. Nobody gives themselves anything: not to their own principal, nor to one that is
linked to the same person. Links only ever join, and a link is for good, because whoever could
undo one could be two people to an approval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from remit.authority.policy import policy_digest
from remit.authority.roles import role_fault
from remit.errors import Refused, Tampered
from remit.facts.chain import Read
from remit.facts.judgement import Who
from remit.facts.kinds import (
    PolicySet,
    PrincipalDisabled,
    PrincipalEnabled,
    PrincipalLinked,
    RoleGranted,
    RoleRevoked,
    RunOpened,
)
from remit.facts.names import AUTHORITY, check_principal_form
from remit.facts.rules import PolicyPin

LOCAL = "service:local"  # the executor where none is named; known from the start


@dataclass(frozen=True, slots=True)
class Principal:
    """What the directory has about one principal."""

    grants: Mapping[str, int] = field(default_factory=dict)  # role -> seq of the grant by which it is held
    is_disabled: bool = False  # itself; whoever asks wants `Authority.who`, which looks at the person too
    enabled_at: int = 0  # seq of the entry that enabled it again, the last one; 0 where it was never disabled
    person: str = ""  # the principal that it is linked to, "" for none; that one may be linked on


_UNKNOWN = Principal()


@dataclass(frozen=True, slots=True)
class Authority:
    """Directory and policy at one version. Before the first act it is version 0, without a policy."""

    version: int = 0  # head seq of `remit:authority`
    directory: Mapping[str, Principal] = field(default_factory=lambda: {LOCAL: Principal()})
    policy: PolicyPin | None = None
    policy_digest: str = ""  # "" while there is none
    policy_set: int = 0  # seq of the entry that set it: one that is set again is another one to who was asked before

    def who(self, principal: str) -> Who:
        """The principal as a fact of this version. Whoever is linked to somebody disabled is disabled."""
        entry = self.directory.get(principal)
        if entry is None:
            return Who(principal=principal)
        if not entry.person:
            return Who(disabled=entry.is_disabled, known=True, principal=principal, roles=sorted(entry.grants))
        chain = self._chain(principal)
        return Who(
            disabled=any(self._entry(link).is_disabled for link in chain),
            known=True,
            person=chain[-1],
            principal=principal,
            roles=sorted(entry.grants),
        )

    def granted_at(self, principal: str, role: str) -> int | None:
        """The seq of the grant by which the principal holds the role now; None where it does not."""
        return self._entry(principal).grants.get(role)

    def enabled_at(self, principal: str) -> int:
        """The seq since which nobody of those that this principal is was disabled; 0 where nobody ever was."""
        return max(self._entry(link).enabled_at for link in self._chain(principal))

    def person_of(self, principal: str) -> str:
        """The principal that speaks for the person behind this one; itself where it is linked to none."""
        return self._chain(principal)[-1]

    def _entry(self, principal: str) -> Principal:
        return self.directory.get(principal, _UNKNOWN)

    def _chain(self, principal: str) -> list[str]:
        """The principal, whom it is linked to, whom that one is linked to. Links have no cycle: the fold saw to it."""
        chain = [principal]
        while person := self._entry(chain[-1]).person:
            chain.append(person)
        return chain


def fold_authority(reads: Sequence[Read]) -> Authority:
    """The authority that the journal tells. reads: its verified entries, from `RunOpened` on, or none.

    Raises Tampered `chain.move` on an entry that Remit would not have written there.
    """
    return extend(Authority(), reads)


def extend(authority: Authority, reads: Sequence[Read]) -> Authority:
    """The authority after the entries that follow its version. Costs one copy of the directory.

    Raises Tampered `chain.move`, also where `reads` does not begin directly after its version.
    """
    directory = dict(authority.directory)
    after = replace(authority, directory=directory)  # grows below; nobody else has it yet
    for read in reads:
        if read.header.seq != after.version + 1:
            raise _tampered(read, f"it follows version {after.version}")
        try:
            after = _apply(after, directory, read)
        except Refused as refused:
            raise _tampered(read, f"{read.header.kind} that was never allowed: {refused.code}") from None
    return after


def _apply(before: Authority, directory: dict[str, Principal], read: Read) -> Authority:
    """One entry. Writes into `directory`, which is the one of `before`."""
    fact, by, seq = read.fact, read.header.by, read.header.seq
    after = replace(before, version=seq)
    if (seq == 1) != isinstance(fact, RunOpened):
        raise _tampered(read, f"{read.header.kind} in {AUTHORITY}")
    if isinstance(fact, RoleGranted):
        check_grant(before, fact.principal, fact.role, by)
        entry = before._entry(fact.principal)
        directory[fact.principal] = replace(entry, grants={**entry.grants, fact.role: seq})
    elif isinstance(fact, RoleRevoked):
        check_revoke(before, fact.principal, fact.role, by)
        entry = before._entry(fact.principal)
        left = {role: at for role, at in entry.grants.items() if role != fact.role}
        directory[fact.principal] = replace(entry, grants=left)
    elif isinstance(fact, PrincipalDisabled):
        check_disable(before, fact.principal, by)
        directory[fact.principal] = replace(before._entry(fact.principal), is_disabled=True)
    elif isinstance(fact, PrincipalEnabled):
        check_enable(before, fact.principal, by)
        directory[fact.principal] = replace(before._entry(fact.principal), is_disabled=False, enabled_at=seq)
    elif isinstance(fact, PrincipalLinked):
        check_link(before, fact.principal, fact.person, by)
        directory[fact.principal] = replace(before._entry(fact.principal), person=fact.person)
        directory.setdefault(fact.person, Principal())
    elif isinstance(fact, PolicySet):
        check_policy(before, fact.policy, by)
        return replace(after, policy=fact.policy, policy_digest=policy_digest(fact.policy), policy_set=seq)
    elif not isinstance(fact, RunOpened):
        raise _tampered(read, f"{read.header.kind} in {AUTHORITY}")
    return after


def check_grant(authority: Authority, principal: str, role: str, by: str) -> None:
    """Whether `by` may give `principal` the role now.

    Raises Refused: `authority.role`, `authority.self_grant`, `authority.disabled`, `authority.no_change`.
    """
    _check_act(authority, principal, by)
    check_role(role)
    _check_not_own(authority, principal, by, f"grants {role!r} to")
    if authority.granted_at(principal, role) is not None:
        raise _no_change(f"{principal!r} holds {role!r} already")


def check_revoke(authority: Authority, principal: str, role: str, by: str) -> None:
    """Whether `by` may take the role from `principal` now; from oneself is allowed.

    Raises Refused: `authority.role`, `authority.disabled`, `authority.no_change`.
    """
    _check_act(authority, principal, by)
    check_role(role)
    if authority.granted_at(principal, role) is None:
        raise _no_change(f"{principal!r} does not hold {role!r}")


def check_disable(authority: Authority, principal: str, by: str) -> None:
    """Whether `by` may disable `principal` now; one that is not known yet may be disabled before it ever comes.

    Raises Refused: `authority.disabled`, `authority.no_change`.
    """
    _check_act(authority, principal, by)
    if authority._entry(principal).is_disabled:
        raise _no_change(f"{principal!r} is disabled already")


def check_enable(authority: Authority, principal: str, by: str) -> None:
    """Whether `by` may enable `principal` again.

    Raises Refused: `authority.self_grant`, `authority.disabled`, `authority.no_change`.
    """
    _check_act(authority, principal, by)
    _check_not_own(authority, principal, by, "enables")
    if not authority._entry(principal).is_disabled:
        raise _no_change(f"{principal!r} is not disabled itself")


def check_link(authority: Authority, principal: str, person: str, by: str) -> None:
    """Whether `principal` and `person` may be said to be one person from here on, which nothing undoes.

    Raises Refused: `authority.link` (the person is no `user:`, the principal speaks for another one already, or the
    two would speak for each other), `authority.disabled`, `authority.no_change`.
    """
    _check_act(authority, principal, by)
    if not check_principal_form(person, "person").startswith("user:"):
        raise _link(f"{person!r} is not a person", "A person is written `user:dana`.")
    linked = authority._entry(principal).person
    if linked == person:
        raise _no_change(f"{principal!r} is linked to {person!r} already")
    if linked:
        raise _link(f"{principal!r} is linked to {linked!r} already", f"Link {authority.person_of(principal)!r}.")
    if authority.person_of(person) == principal:
        raise _link(f"{principal!r} speaks for {person!r}", "They are one person already, or the same principal.")


def check_policy(authority: Authority, policy: PolicyPin, by: str) -> None:
    """Whether `by` may set the policy now.

    Raises Refused: `authority.disabled`, `authority.no_change` where the very same one holds.
    """
    _check_by(authority, by)
    if authority.policy_digest == policy_digest(policy):
        raise _no_change(f"version {policy.version!r} of the policy holds already")


def _check_act(authority: Authority, principal: str, by: str) -> None:
    check_principal_form(principal, "principal")
    _check_by(authority, by)


def _check_by(authority: Authority, by: str) -> None:
    check_principal_form(by, "principal that acts")
    if authority.who(by).disabled:
        raise Refused(
            f"{by!r} is disabled; nothing was done.",
            code="authority.disabled",
            hint="Somebody who is not disabled may do this.",
        )


def check_role(role: str) -> None:
    """Raises Refused `authority.role` for what no role is called."""
    if fault := role_fault(role):
        raise Refused(f"{fault[0].upper()}{fault[1:]}; nothing was done.", code="authority.role")


def _check_not_own(authority: Authority, principal: str, by: str, does: str) -> None:
    if authority.person_of(by) != authority.person_of(principal):
        return
    whom = "itself" if by == principal else f"{principal!r}, which is the same person"
    raise Refused(
        f"{by!r} {does} {whom}; nothing was done.",
        code="authority.self_grant",
        hint="Somebody else has to do this; nobody gives themselves anything.",
    )


def _link(what: str, hint: str) -> Refused:
    return Refused(f"{what}; nothing was done.", code="authority.link", hint=hint)


def _no_change(what: str) -> Refused:
    return Refused(
        f"{what}; nothing was done.", code="authority.no_change", hint="Nothing is left to do; it is so already."
    )


def _tampered(read: Read, what: str) -> Tampered:
    header = read.header
    message = f"Entry {header.lane} {header.seq} of run {header.run!r}: {what}."
    return Tampered(message, code="chain.move", run=header.run, lane=header.lane, seq=header.seq)
