"""People: what is asked of them, what they answer, what they found out, and what they may.

    inbox, ask, decide       questions of runs that wait for somebody's yes
    effects, resolve         what was done outside, and what nobody knows of until a person says
    grant ... set_policy     the directory and the operators' policy, in the journal `remit:authority`

Each act is checked against the newest directory and written behind it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from remit.authority.directory import (
    Authority,
    check_disable,
    check_enable,
    check_grant,
    check_link,
    check_policy,
    check_revoke,
    check_role,
)
from remit.authority.policy import policy_from
from remit.authority.principals import check_new_principal, stranger_said, strangers
from remit.engine.people.asks import Ask, Choice, inbox, read_ask
from remit.engine.people.deciding import decide
from remit.engine.people.effected import Effected, effect_names, effects
from remit.engine.people.left_out import Listed
from remit.engine.people.resolving import resolve
from remit.engine.process.standing import act, glance
from remit.errors import Refused
from remit.faces.opened import Opened, twin
from remit.facts.fact import Fact
from remit.facts.kinds import (
    PolicySet,
    PrincipalDisabled,
    PrincipalEnabled,
    PrincipalLinked,
    RoleGranted,
    RoleRevoked,
)
from remit.facts.names import check_principal_form
from remit.facts.rules import PolicyPin

_log = logging.getLogger("remit")


class People(Opened):
    """What a runtime has for people."""

    # -- questions -----------------------------------------------------------------------------------------------------

    async def inbox(self, *, role: str | None = None, limit: int = 20, after: int = 0) -> Listed[Ask]:
        """Questions that wait for a person, oldest first, each read from its verified journal.

        role: only those that a holder of this role may answer. after: `ask.number` of the last one on the page before.
        A list, whose `left_out` names the runs that ask and can't be believed or read: while there are any, this is not
        all. Raises Refused `authority.role` for what no role is called: nobody would ever find a question by it.
        """
        host = self._ready()
        if role is not None:
            check_role(role)
        return await inbox(host, role=role, limit=limit, after=after)

    async def ask(self, id: str) -> Ask:
        """One question by its id, open or not. Raises ApprovalRefused `approval.absent`."""
        return await read_ask(self._ready(), id)

    async def decide(self, id: str, choice: Choice, *, by: str, seen: str, reason: str = "") -> Ask:
        """Answer a question. The run is due then; no flow is run here.

        choice: "approve" or "deny". by: a person, "user:dana". seen: `ask.version`, of what was shown.
        Raises ApprovalRefused (`approval.decided`, `.used`, `.void`, `.stale`, `.expired`, `.role`, `.self` ...),
        Refused `run.ended`, Tampered: nothing was written.
        """
        host = self._ready()
        check_new_principal(by, "decider")
        if choice not in ("approve", "deny"):
            raise Refused(f"{choice!r} is no answer; nothing was done.", code="approval.choice", hint=_CHOICE_HINT)
        return await decide(host, id, choice, by=by, reason=reason, seen=seen)

    # -- effects -----------------------------------------------------------------------------------------------------

    async def effects(self, id: str | None = None, *, in_doubt: bool = False, limit: int = 50) -> Listed[Effected]:
        """Effects of one run, or with `in_doubt=True` those of all runs of which nobody knows.

        in_doubt: only those. A list, whose `left_out` names the runs that may have doubts and are not in it: they are
        set aside, or can't be believed or read. While there are any, an empty list does not say that there is none.
        Raises Refused `effects.which` where neither is said, RunAbsent, Tampered.
        """
        host = self._ready()
        if id is None and not in_doubt:
            raise Refused("Effects of which run? Nothing was done.", code="effects.which", hint=_WHICH_HINT)
        return await effects(host, run=id, in_doubt=in_doubt, limit=limit)

    async def resolve(
        self,
        id: str,
        call: str,
        state: Literal["ok", "did_not_happen"],
        *,
        by: str,
        evidence: str,
        outcome: Any = ...,
        calls: int | None = None,
        returned: bool = False,
    ) -> None:
        """Say what became of an effect in doubt, and how that is known; the next turn of the run settles it by that.

        outcome: of one that happened, what its function would have returned, as plain JSON types; None is to be
        written out. It can't be corrected, and is read by the type of the code at the next turn. Raises Refused
        `doubt.absent`, `doubt.resolved`, `doubt.under_way`, `doubt.decider`, `doubt.evidence`, `doubt.outcome`.

        calls: `Effected.calls` as it was when they looked. Where it was sent again since, that is refused:
        `doubt.sent_again`. Needed for `did_not_happen` of what is at more than one call: `doubt.calls`.

        returned: they say as well that its call has returned, or that its process is gone. Needed for `did_not_happen`
        where the journal does not tell that, and nothing here can prove it.
        """
        host = self._ready()
        check_new_principal(by, "principal")
        if state not in ("ok", "did_not_happen"):
            hint = "Say `ok` or `did_not_happen`."
            raise Refused(f"{state!r} is no end of a doubt; nothing was done.", code="doubt.state", hint=hint)
        await resolve(host, id, call, state, by=by, evidence=evidence, outcome=outcome, calls=calls, returned=returned)

    # -- authority --------------------------------------------------------------------------------------------------

    async def grant(self, principal: str, role: str, *, by: str, reason: str = "") -> int:
        """Give a principal a role; the version of the directory from which it holds. Nobody grants to themselves."""
        principal = check_principal_form(principal, "principal")
        fact = RoleGranted(principal=principal, role=role)
        return await self._act(
            fact, reason, by, lambda known: check_grant(known, principal, role, by), whom=[principal]
        )

    async def revoke(self, principal: str, role: str, *, by: str, reason: str = "") -> int:
        """Take a role from a principal; what was not committed before this returns is stopped by it."""
        principal = check_principal_form(principal, "principal")
        fact = RoleRevoked(principal=principal, role=role)
        return await self._act(
            fact, reason, by, lambda known: check_revoke(known, principal, role, by), whom=[principal]
        )

    async def disable(self, principal: str, *, by: str, reason: str = "") -> int:
        """Let nothing go on under a principal, also one that is not known yet: the log `remit` says so then."""
        principal = check_principal_form(principal, "principal")
        fact = PrincipalDisabled(principal=principal)
        return await self._act(
            fact, reason, by, lambda known: check_disable(known, principal, by), whom=[principal], is_told=True
        )

    async def enable(self, principal: str, *, by: str, reason: str = "") -> int:
        """Let a principal count again."""
        fact = PrincipalEnabled(principal=check_principal_form(principal, "principal"))
        return await self._act(fact, reason, by, lambda known: check_enable(known, principal, by), whom=[principal])

    async def link(self, principal: str, *, person: str, by: str, reason: str = "") -> int:
        """Say that two principals are one person, for good: neither approves what the other asks for.

        Either may be one that is not known yet: the log `remit` says so then.
        """
        principal, person = check_principal_form(principal, "principal"), check_principal_form(person, "person")
        fact = PrincipalLinked(person=person, principal=principal)
        whom = [principal, person]
        return await self._act(
            fact, reason, by, lambda known: check_link(known, principal, person, by), whom=whom, is_told=True
        )

    async def set_policy(
        self, policy: Mapping[str, Any] | PolicyPin, *, by: str, reason: str = "", over: str | None = None
    ) -> int:
        """Set the operators' policy, whole; the stricter of it and a contract holds. Raises Refused `policy.*`.

        over: digest of the policy that it was compared with, "" for none; `policy.moved` where another one holds now.
        """
        pin = policy_from(policy)

        def check(known: Authority) -> None:
            if over is not None and over != known.policy_digest:
                what = "Another policy was set since this one was compared with it"
                raise Refused(f"{what}; nothing was done.", code="policy.moved", hint="Compare again, then set it.")
            check_policy(known, pin, by)

        return await self._act(PolicySet(policy=pin), reason, by, check)

    async def effect_names(self) -> set[str]:
        """Names of effects that the newest 1,000 runs called, asked about or had rules for.

        A policy is set by name, and nothing refuses a name that no effect has: compare, before a misspelt rule holds
        for nothing. Reads those runs whole; what can't be believed or read is not among them.
        """
        return await effect_names(self._ready())

    async def authority(self) -> Authority:
        """Directory and policy as they are now, read from their verified journal. Raises AuthorityUnreadable."""
        return await glance(self._ready())

    async def _act(
        self,
        fact: Fact,
        reason: str,
        by: str,
        check: Callable[[Authority], None],
        *,
        whom: Sequence[str] = (),
        is_told: bool = False,
    ) -> int:
        """whom: principals that the fact names. One that the directory has was let in, whatever can be seen here.

        is_told: whether it is said of whom the directory has nothing: under a misspelt name it would stop nobody.
        """
        unknown: dict[str, list[str]] = {}

        def at_the_door(known: Authority) -> None:
            nonlocal unknown
            unknown = strangers(known, whom) if is_told else {}
            for name in (*whom, by):
                if name not in known.directory:
                    check_new_principal(name, "principal")
            check(known)

        host, by = self._ready(), check_principal_form(by, "principal that acts")
        version = await act(host, fact, reason, by=by, check=at_the_door)
        for name, like in unknown.items():
            _log.warning("%s", stranger_said(name, like))
        return version

    inbox_sync = twin(inbox)
    ask_sync = twin(ask)
    decide_sync = twin(decide)
    effects_sync = twin(effects)
    resolve_sync = twin(resolve)
    grant_sync = twin(grant)
    revoke_sync = twin(revoke)
    disable_sync = twin(disable)
    enable_sync = twin(enable)
    link_sync = twin(link)
    set_policy_sync = twin(set_policy)
    effect_names_sync = twin(effect_names)
    authority_sync = twin(authority)


_CHOICE_HINT = "Answer `approve` or `deny`."
_WHICH_HINT = "Name it, `rt.effects(id)`, or ask for the doubts of all runs, `rt.effects(in_doubt=True)`."
