"""Questions: `remit inbox`, `remit ask`, `remit approve`, `remit deny`.

An answer is to what was shown. On a terminal the question is shown and the answer asked for;
elsewhere the version that was looked at has to be named. Whoever answers from an old page is
shown what is asked now, and nothing is written.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from remit.authority.called import call_name, id_name
from remit.authority.principals import check_new_principal
from remit.engine.people.asks import POLICY_MOVED, Ask, Choice
from remit.engine.people.counting import answer_counts
from remit.engine.people.deciding import check_decider
from remit.errors import ApprovalRefused
from remit.faces.cli import question
from remit.faces.cli.act import Manner, act
from remit.faces.cli.app import ByOption, ReasonOption, command, nothing
from remit.faces.cli.exits import Exit
from remit.faces.cli.inert import cell
from remit.faces.cli.say import Shown, Voice, now, stack
from remit.faces.cli.typed import next_of
from remit.faces.documents import Document, ask_document, left_out_document
from remit.faces.next_step import Step, step
from remit.faces.runtime import Runtime
from remit.faces.there import There
from remit.store.tables import NUMBER_MAX

AskArgument = Annotated[str, typer.Argument(metavar="ASK", help="The question's id, from `remit inbox`.")]
SeenOption = Annotated[
    str | None, typer.Option("--seen", metavar="VERSION", help="The version that you looked at, from `remit ask`.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Answer what is asked now, without being asked again.")]


@command("inbox")
def inbox(
    manner: Manner,
    role: Annotated[
        str | None, typer.Option("--role", metavar="ROLE", help="Only what a holder of this role may answer.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000, help="How many; 20.", show_default=False)] = 20,
    after: Annotated[
        int,
        typer.Option(
            "--after",
            metavar="NUMBER",
            min=0,
            max=NUMBER_MAX,
            help="Only those behind this one.",
            show_default=False,
        ),
    ] = 0,
) -> None:
    """List the questions that wait for a person, oldest first."""

    async def ask(rt: Runtime, voice: Voice, _: None) -> int:
        found = await rt.inbox(role=role, limit=limit, after=after)
        document = [*map(ask_document, found), *map(left_out_document, found.left_out)]
        voice.answer(document, question.asks(found, limit, now(), voice.there))
        return Exit.TAMPERED if found.left_out else Exit.OK

    act(manner, ask, first=nothing)


@command("ask")
def ask_(manner: Manner, id: AskArgument) -> None:
    """Show one question whole, and what changed since it was asked last."""

    async def ask(rt: Runtime, voice: Voice, _: None) -> int:
        found = await rt.ask(id)
        voice.answer(ask_document(found), stack(await _whole(rt, found, voice.there), question.how(found, voice.there)))
        return Exit.OK

    act(manner, ask, first=nothing)


@command("approve")
def approve(
    manner: Manner,
    id: AskArgument,
    by: ByOption,
    reason: ReasonOption = "",
    seen: SeenOption = None,
    is_yes: YesOption = False,
) -> None:
    """Say yes to a question: it may happen, once, as far as it is bound.

    That is exactly as shown, but for the fields that its page names as not bound.
    """

    async def ask(rt: Runtime, voice: Voice, _: str) -> int:
        return await _decide(rt, voice, id, "approve", _Word(by, reason, seen, is_yes))

    act(manner, ask, first=lambda: check_new_principal(by, "decider"))


@command("deny")
def deny(
    manner: Manner,
    id: AskArgument,
    by: ByOption,
    reason: ReasonOption = "",
    seen: SeenOption = None,
    is_yes: YesOption = False,
) -> None:
    """Say no to a question: it must not happen."""

    async def ask(rt: Runtime, voice: Voice, _: str) -> int:
        return await _decide(rt, voice, id, "deny", _Word(by, reason, seen, is_yes))

    act(manner, ask, first=lambda: check_new_principal(by, "decider"))


@dataclass(frozen=True, slots=True)
class _Word:
    """What the decider said on the command line."""

    by: str
    reason: str
    seen: str | None
    is_yes: bool


async def _decide(rt: Runtime, voice: Voice, id: str, choice: Choice, word: _Word) -> int:
    """Answer with the version that was seen: named, shown just now, or shown and asked for."""
    seen = word.seen
    if seen is None:
        if not word.is_yes and not voice.is_attended:
            raise _unseen(id)
        found = await rt.ask(id)
        seen = found.version
        if found.state == "open" and not voice.is_json:
            await _check_decider(rt, found, choice, word.by)
            voice.answer(None, await _whole(rt, found, voice.there), cell(""))
            if not word.is_yes and not await voice.assent(f"{choice.capitalize()} this as {word.by}?"):
                voice.answer(None, cell("Nothing was done."))
                return Exit.REFUSED
    try:
        decided = await rt.decide(id, choice, by=word.by, seen=seen, reason=word.reason)
    except ApprovalRefused as refusal:
        return await _refused(rt, voice, id, refusal)
    document = {"ask": id, "choice": choice, "by": word.by, "run": decided.run, "call": decided.call, "version": seen}
    said = "approved" if choice == "approve" else "denied"
    told = cell(f"{word.by} {said} {call_name(decided.call)} of run {id_name(decided.run)}.")
    sent = [cell(words, "bold yellow") for words in _still(decided, choice)]
    if choice == "approve" and not await _is_good(rt, decided):
        void = cell(_void(decided), "bold yellow")
        voice.answer(document | _since(decided) | {"counts": False}, told, void, next_of(_anew(decided), voice.there))
        return Exit.NOT_COMPLETED
    moved = question.moved(decided) if choice == "approve" and word.seen is not None else None  # else it was shown
    parts = [part for part in (told, *sent, moved, next_of(_next(decided, choice), voice.there)) if part is not None]
    voice.answer(document | _since(decided) | {"counts": True}, *parts)
    return Exit.OK


async def _is_good(rt: Runtime, decided: Ask) -> bool:
    """Whether the yes that was given just now would be taken up, by directory and policy as they are."""
    view = (await rt.show(decided.run)).view
    return answer_counts(view, view.boundary.asks[decided.id], await rt.authority(), now())


def _void(decided: Ask) -> str:
    why = "the policy was set" if POLICY_MOVED in decided.moved else "what it rests on moved"
    return f"That yes is void already: {why} since it was asked. It is kept, and releases nothing."


async def _refused(rt: Runtime, voice: Voice, id: str, refusal: ApprovalRefused) -> int:
    """Tell why the answer does not count, and show what is asked now where the page that it came from is old."""
    fresh = await _fresh(rt, id) if refusal.code in ("approval.stale", "approval.void") else None
    if fresh is None:
        raise refusal
    if not voice.is_json:
        voice.answer(None, stack(await _whole(rt, fresh, voice.there), question.how(fresh, voice.there)), cell(""))
    voice.complain(refusal, ask=ask_document(fresh))
    return refusal.exit_status


async def _fresh(rt: Runtime, id: str) -> Ask | None:
    """The question that stands now in the place of this one."""
    old = await rt.ask(id)
    last = (await rt.show(old.run)).view.boundary.last_ask_of(old.call)
    return await rt.ask(last.asked.ask) if last is not None and last.is_open else None


async def _check_decider(rt: Runtime, ask: Ask, choice: Choice, by: str) -> None:
    """Refuse whom it is not for before anything is shown to them, or asked of them."""
    view = (await rt.show(ask.run)).view
    check_decider(await rt.authority(), view, view.boundary.asks[ask.id], by, choice)


async def _whole(rt: Runtime, ask: Ask, there: There) -> Shown:
    judged = (await rt.show(ask.run)).view.boundary.asked_for.get(ask.id)
    return question.question(ask, judged, now(), there)


def _since(decided: Ask) -> Document:
    """What a yes may come to nothing by, and what may have happened whatever was said."""
    sent = decided.sent_before
    return {"moved": decided.moved, "sent_before": asdict(sent) if sent is not None else None}


def _still(decided: Ask, choice: Choice) -> Iterator[str]:
    """What an answer does not change: what was sent before may have happened."""
    if (sent := decided.sent_before) is None:
        return
    if sent.told_by:
        yield from question.sent_before(decided)
    elif choice == "deny":
        yield (
            f"It is not sent again. What was sent before under key {sent.key} may still have happened: nobody knows, "
            "and the run stays in doubt until somebody finds out."
        )
    else:
        yield f"The next turn sends it again, under the same key {sent.key}: what was sent before may have happened."


def _next(ask: Ask, choice: Choice) -> Step:
    sent = ask.sent_before
    if choice == "deny" and sent is not None and not sent.told_by:
        return _find_out(ask.run, ask.call, sent.calls)
    words = "`remit resume {run} MODULE:FLOW` goes on with it, or whoever works at it does."
    return step(words, run=shlex.quote(ask.run))


def _anew(ask: Ask) -> Step:
    words = "`remit resume {run} MODULE:FLOW` asks anew where a yes is still needed, or ends the run."
    return step(words, run=shlex.quote(ask.run))


def _find_out(run: str, call: str, calls: int) -> Step:
    """How a doubt ends that is not sent again. calls: at how many it is as this is shown."""
    return step(
        "find out by its key, and say so: it happened, "
        "`remit resolve {run} {call} ok --by user:YOU --evidence WHAT --outcome JSON{seen}`, or it did not: "
        "`remit resolve {run} {call} did-not-happen --by user:YOU --evidence WHAT{seen}`.",
        run=shlex.quote(run),
        call=shlex.quote(call),
        seen=f" --calls {calls}" if calls > 1 else "",
    )


def _unseen(id: str) -> ApprovalRefused:
    return ApprovalRefused(
        "Nobody sits at a terminal to be shown the question; nothing was done.",
        code="approval.unseen",
        hint=f"Look at it with `remit ask {shlex.quote(id)}`, and name its version with --seen; or say --yes.",
    )
