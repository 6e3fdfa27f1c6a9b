"""The directory: who is known, who holds which role, and who gave it: `remit who`, `grant`, `revoke` and the rest.

Whoever holds the store may write here, except to themselves, and each act is kept in the
journal `remit:authority` under the name that was given.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from remit.authority.called import principal_name
from remit.authority.directory import Authority
from remit.authority.principals import check_new_principal, strangers
from remit.authority.roles import role_fault
from remit.errors import Refused, RunAbsent
from remit.faces.cli.act import Manner, act
from remit.faces.cli.app import ByOption, ReasonOption, command, nothing
from remit.faces.cli.exits import Exit
from remit.faces.cli.inert import cell
from remit.faces.cli.say import Grid, Shown, Voice, facts, stack, time_of
from remit.faces.documents import Document, directory_document, grants_document, principal_document
from remit.faces.runtime import Runtime
from remit.facts.names import AUTHORITY, check_principal
from remit.facts.timeline import Line

WhoArgument = Annotated[str, typer.Argument(metavar="PRINCIPAL", help="user:dana, agent:buyer or service:x.")]
RoleArgument = Annotated[str, typer.Argument(metavar="ROLE", help="The name of a role: director.")]


@command("who")
def who(
    manner: Manner,
    principal: Annotated[str | None, typer.Argument(metavar="[PRINCIPAL]", help="One; all of them without.")] = None,
) -> None:
    """Say who is known and holds what; of one, also who gave it."""

    async def ask(rt: Runtime, voice: Voice, _: None) -> int:
        authority = await rt.authority()
        if principal is None:
            voice.answer(directory_document(authority), _everybody(authority))
            return Exit.OK
        grants = grants_document(authority, principal, await _acts(rt))
        told = {"version": authority.version} | principal_document(authority, principal) | {"grants": grants}
        voice.answer(told, _one(authority, principal, grants))
        return Exit.OK

    act(manner, ask, first=nothing)


@command("grant")
def grant(manner: Manner, principal: WhoArgument, role: RoleArgument, by: ByOption, reason: ReasonOption = "") -> None:
    """Give a principal a role. Nobody gives one to themselves."""
    what = f"{principal} holds {role}"
    done = _Act(what, lambda rt: rt.grant(principal, role, by=by, reason=reason), [principal], by, role)
    _do(manner, done)


@command("revoke")
def revoke(manner: Manner, principal: WhoArgument, role: RoleArgument, by: ByOption, reason: ReasonOption = "") -> None:
    """Take a role from a principal. It stops what was not committed before."""
    what = f"{principal} holds {role} no longer"
    done = _Act(what, lambda rt: rt.revoke(principal, role, by=by, reason=reason), [principal], by, role)
    _do(manner, done)


@command("disable")
def disable(manner: Manner, principal: WhoArgument, by: ByOption, reason: ReasonOption = "") -> None:
    """Let nothing go on under a principal. No answer of theirs counts."""
    what = f"{principal} is disabled"
    done = _Act(what, lambda rt: rt.disable(principal, by=by, reason=reason), [principal], by, is_told=True)
    _do(manner, done)


@command("enable")
def enable(manner: Manner, principal: WhoArgument, by: ByOption, reason: ReasonOption = "") -> None:
    """Let a principal count again that was disabled."""
    what = f"{principal} is enabled"
    done = _Act(what, lambda rt: rt.enable(principal, by=by, reason=reason), [principal], by)
    _do(manner, done)


@command("link")
def link(
    manner: Manner,
    principal: WhoArgument,
    person: Annotated[str, typer.Option("--person", metavar="WHO", help="The person behind it: user:dana.")],
    by: ByOption,
    reason: ReasonOption = "",
) -> None:
    """Say that two principals are one person. It is for good: neither approves what the other asks for."""
    what = f"{principal} and {person} are one person"
    whom = [principal, person]
    done = _Act(what, lambda rt: rt.link(principal, person=person, by=by, reason=reason), whom, by, is_told=True)
    _do(manner, done)


@dataclass(frozen=True, slots=True)
class _Act:
    """One act on the directory. what: is so afterwards, in words. is_told: whether it is told whom nobody knew."""

    what: str
    write: Callable[[Runtime], Awaitable[int]]
    whom: Sequence[str]
    by: str
    role: str | None = None
    is_told: bool = False


def _do(manner: Manner, done: _Act) -> None:
    """Write it, and say from which version on it holds. A new deployment begins with it, so it may make the store."""

    def first() -> None:
        for name in done.whom:  # one that is known already may be called what nobody is called anew
            check_principal(name, "principal")
        check_new_principal(done.by, "principal")
        if done.role is not None and (fault := role_fault(done.role)):
            raise Refused(f"{fault[0].upper()}{fault[1:]}; nothing was done.", code="authority.role")

    async def ask(rt: Runtime, voice: Voice, _: None) -> int:
        unknown = {"unknown": strangers(await rt.authority(), done.whom)} if done.is_told else {}
        version = await done.write(rt)  # which says on standard error whom nobody knew
        document = {"version": version, "done": done.what} | unknown
        voice.answer(document, cell(f"{done.what}, from version {version} of the directory on."))
        return Exit.OK

    act(manner, ask, first=first, may_create=True)


async def _acts(rt: Runtime) -> list[Line]:
    try:
        return (await rt.explain(AUTHORITY)).timeline.lines
    except RunAbsent:
        return []


def _everybody(authority: Authority) -> Shown:
    grid = Grid("principal", "roles", "is one person with", "", fold="roles", folds=("principal",))
    for name in sorted(authority.directory):
        known = authority.who(name)
        state = cell("disabled", "bold red") if known.disabled else ""
        grid.row(cell(principal_name(name), "bold"), ", ".join(known.roles), principal_name(known.person), state)
    return stack(grid.made(), cell(f"Version {authority.version} of the directory.", "dim"))


def _one(authority: Authority, principal: str, grants: list[Document]) -> Shown:
    known = authority.who(principal)
    if not known.known:
        return cell(f"The directory has nothing about {principal}: it holds no role.")
    told = facts(
        ("principal", cell(principal_name(principal), "bold")),
        ("state", cell("disabled", "bold red") if known.disabled else cell("counts", "green")),
        ("is one person with", principal_name(known.person)),
    )
    grid = Grid("role", "since", "version", "given by", "why")
    for one in grants:
        grid.row(
            cell(one["role"], "bold"), time_of(one["at"]), str(one["version"]), principal_name(one["by"]), one["reason"]
        )
    return stack(told, grid.made() if known.roles else cell("It holds no role."))
