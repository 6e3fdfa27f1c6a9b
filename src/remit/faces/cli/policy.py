"""The operators' policy: `remit policy` shows it, `remit policy set` shows what would change, and asks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Group

from remit.authority.directory import Authority
from remit.authority.money import money
from remit.authority.policy import policy_difference, policy_from_toml
from remit.authority.principals import check_new_principal
from remit.engine.people.asks import Ask
from remit.engine.people.left_out import Listed
from remit.engine.people.used import Used
from remit.errors import Refused, RemitError, RunAbsent
from remit.faces.cli.act import Manner, act
from remit.faces.cli.app import ByOption, ReasonOption, app, command, nothing, taking
from remit.faces.cli.compared import Declared, Strange, compare, declared
from remit.faces.cli.exits import Exit
from remit.faces.cli.inert import cell
from remit.faces.cli.say import Shown, Voice
from remit.faces.cli.without import without
from remit.faces.documents import Document, left_out_document, policy_document
from remit.faces.runtime import Runtime
from remit.faces.there import There
from remit.faces.written import text_of
from remit.facts.names import AUTHORITY
from remit.facts.rules import PolicyPin

policy = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})
app.add_typer(policy, name="policy")

FlowsOption = Annotated[
    list[str] | None,
    typer.Option("--flow", metavar="MODULE:FLOW", help="Compare with the names that it has; may be given again."),
]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The policy, as TOML.")]

_STYLES = {"+": "green", "-": "red", " ": "yellow"}


@policy.callback(invoke_without_command=True)
@taking
def policy_(manner: Manner, context: typer.Context) -> None:
    """Show the operators' policy, or set it. The stricter of it and a contract holds."""
    if context.invoked_subcommand is not None:
        return

    async def ask(rt: Runtime, voice: Voice, _: None) -> int:
        authority = await rt.authority()
        used = await rt.used()
        document = policy_document(authority.policy) | {"authority": authority.version}
        voice.answer(document | {"used": [asdict(one) for one in used]}, _shown(authority), *map(_used, used))
        return Exit.OK

    act(manner, ask, first=nothing)


@command("set", group=policy)
def set_(
    manner: Manner,
    file: FileArgument,
    by: ByOption,
    reason: ReasonOption = "",
    is_yes: Annotated[bool, typer.Option("--yes", help="Set it without being asked.")] = False,
    flows: FlowsOption = None,
) -> None:
    """Set the policy that FILE states. What would change is shown first."""

    def first() -> tuple[PolicyPin, Declared]:
        check_new_principal(by, "principal")
        return _read(file), declared(flows or ())

    async def ask(rt: Runtime, voice: Voice, given: tuple[PolicyPin, Declared]) -> int:
        pin, known = given
        authority = await rt.authority()
        changes = policy_difference(authority.policy, pin)
        voided = await rt.voided_by(pin) if changes else Listed[Ask]()
        is_namesake = await _is_namesake(rt, pin)
        strange = compare(pin, known, heard_of=await rt.effect_names())
        if not voice.is_json:
            there = voice.there
            beside = _told(strange, "none of the newest 1,000 runs here that can be read, nor a flow that was named,")
            voice.answer(None, _changes(changes), *_voided(voided, there), *_namesake(pin, is_namesake, there), *beside)
        if not is_yes and not voice.is_attended:
            raise Refused(
                "Nobody sits at a terminal to say yes to that; nothing was done.",
                code="policy.unseen",
                hint="Say --yes to set it as it stands.",
            )
        if not is_yes and not await voice.assent(f"Set it as {by}?"):
            voice.answer(None, cell("Nothing was done."))
            return Exit.REFUSED
        version = await rt.set_policy(pin, by=by, reason=reason, over=authority.policy_digest)
        told = cell(f"Policy {pin.version} holds, from version {version} of the directory on.")
        document = policy_document(pin) | {"authority": version, "changes": changes, **_strange_document(strange)}
        document |= {"voided": [_voided_document(ask) for ask in voided], "is_namesake": is_namesake}
        document["left_out"] = [left_out_document(one) for one in voided.left_out]
        voice.answer(document, told)
        return Exit.OK

    act(manner, ask, first=first, may_create=True)


@command("check", group=policy, has_store=False)
def check(manner: Manner, file: FileArgument, flows: FlowsOption = None) -> None:
    """Say what FILE would set, without a store. Changes nothing."""
    voice = Voice(is_json=manner.is_json)
    try:
        pin = _read(file)
        strange = compare(pin, declared(flows or ()))
    except RemitError as refusal:
        voice.complain(refusal)
        raise typer.Exit(refusal.exit_status) from None
    told = _told(strange, "no flow that was named")
    voice.answer(policy_document(pin) | _strange_document(strange), _rules(pin), *told)


def _read(file: Path) -> PolicyPin:
    return policy_from_toml(text_of(file, code="policy.file"))


async def _is_namesake(rt: Runtime, pin: PolicyPin) -> bool:
    """Whether another policy was ever set here under this one's version."""
    try:
        lines = (await rt.explain(AUTHORITY)).timeline.lines
    except RunAbsent:
        return False
    told = [one.body["policy"] for one in lines if one.kind == "PolicySet" and one.is_verified]
    return any(each["version"] == pin.version and each != msgspec.to_builtins(pin) for each in told)


def _voided(asks: Listed[Ask], there: There) -> list[Shown]:
    """Of whose work is undone, before it is, and in which runs nobody can say."""
    unread = without(asks.left_out, there)
    return [*_counted_voided(asks), *([unread] if unread is not None else [])]


def _counted_voided(asks: list[Ask]) -> list[Shown]:
    if not asks:
        return []
    approved = sum(ask.state == "approved" for ask in asks)
    told = " and ".join(_counted(asks, approved))
    tail = "it is asked anew" if len(asks) == 1 else "each is asked anew"
    return [cell(f"Setting it voids {told}; {tail} when its run goes on.", "bold yellow")]


def _counted(asks: list[Ask], approved: int) -> Iterator[str]:
    if waiting := len(asks) - approved:
        yield f"{waiting:,} open question{'s' if waiting > 1 else ''}"
    if approved:
        yield f"{approved:,} yes{'es' if approved > 1 else ''} that nothing used yet"


def _voided_document(ask: Ask) -> Document:
    return {"ask": ask.id, "run": ask.run, "call": ask.call, "state": ask.state}


def _namesake(pin: PolicyPin, is_namesake: bool, there: There) -> list[Shown]:
    words = f"Another policy was called {pin.version} before; `remit explain remit:authority` tells them apart."
    return [cell(there.told(words), "yellow")] if is_namesake else []


def _told(strange: Strange, nobody: str) -> list[Shown]:
    return [cell(words, "yellow") for words in strange.sentences(nobody)]


def _strange_document(strange: Strange) -> Document:
    return {
        "unheard_of": strange.effects,
        "fields_unheard_of": strange.fields,
        "fields_not_whole": strange.texts,
        "evidence_unheard_of": strange.evidence,
    }


def _shown(authority: Authority) -> Shown:
    if authority.policy is None:
        return cell("No policy is set: contracts alone hold.")
    return _rules(authority.policy)


def _used(one: Used) -> Shown:
    words = money(f"{one.used:,} of {one.max:,}", one.currency)
    when = "today" if one.per == "day" else "this month"  # UTC, as the ceiling counts
    return cell(f"used of {one.effect}.{one.field} {when}: {words}", "dim")


def _rules(pin: PolicyPin) -> Shown:
    return Group(*(cell(rule.removeprefix("+ ")) for rule in policy_difference(None, pin)))


def _changes(changes: list[str]) -> Shown:
    if not changes:
        return cell("It says what holds already.")
    return Group(*(cell(change, _STYLES[change[0]]) for change in changes))
