"""A question as its approver reads it: whole, with what changed, and what in it may deceive.

What an agent wrote stands behind a bar, on each line that it takes, every character of it visible
or named. Nothing is cut, folded away or left out, because somebody decides on what stands here: a
name that data gave is cut in a line of ours, and stands whole behind the bar.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Group

from remit.authority.called import call_name, evidence_name, id_name, whole_names
from remit.authority.describe import describe, fault_text
from remit.authority.difference import Change, Difference
from remit.engine.people.asks import POLICY_MOVED, ROLES_MOVED, Ask, Evidence
from remit.engine.people.earlier import Earlier
from remit.engine.people.left_out import Listed
from remit.faces.cli.inert import Cut, Quoted, cell, line, name_cell
from remit.faces.cli.payload import beginning, compact, payload
from remit.faces.cli.say import Below, Grid, Part, Shown, ago, facts, span, stack, time_of, whose
from remit.faces.cli.show import ask_state
from remit.faces.cli.typed import next_of
from remit.faces.cli.without import without
from remit.faces.documents import suspects_in
from remit.faces.next_step import step
from remit.faces.there import There
from remit.facts.kinds import GateJudged


def asks(found: Listed[Ask], limit: int, now: int, there: There) -> Shown:
    """The inbox: a line for each question; below, whole, the id to be copied, and as much of the payload as fits."""
    if not found:
        where = " in the runs that can be read" if found.left_out else ""
        return stack(cell(f"Nothing waits for an answer{where}."), without(found.left_out, there))
    grid = Grid("run", "call", "asks", "asked", "left", "", fold="run")
    for ask in found:
        changed = cell(_news(ask), "bold yellow")
        roles, asked = roles_of(ask), ago(now - ask.asked_at)
        grid.row(name_cell(id_name(ask.run)), call_name(ask.call), roles, asked, span(ask.until - now), changed)
    hint = there.told("`remit ask ASK` shows one of them whole.")
    if len(found) == limit:
        shown = "1 is shown" if limit == 1 else f"{limit:,} are shown"
        hint = f"{shown}; the next ones with `--after {found[-1].number}`. {hint}"
    table = Below(grid, [_below(ask) for ask in found], gives=("run", "call", "asks"))
    return stack(table, cell(hint, "dim"), without(found.left_out, there))


def _below(ask: Ask) -> list[Part]:
    sent = [cell(words, "bold yellow") for words in sent_before(ask)]
    return [*sent, cell(ask.id, "cyan"), Cut("│", ask.raw, told=beginning(ask.raw))]


def _news(ask: Ask) -> str:
    """Whether it may have happened; else whether something like it was asked or sent before, and what changed since."""
    if ask.sent_before is not None:
        return "sent before"
    if ask.difference is None:
        return "again" if ask.made_before is not None else ""
    is_changed = bool(ask.difference.changes) or any(one.changes for one in ask.evidence)
    return "changed" if is_changed and not _is_of_another(ask, ask.earlier) else "again"


def sent_before(ask: Ask) -> Iterator[str]:
    """That it may have happened already, and what an answer comes to then; nothing where it was not sent."""
    sent = ask.sent_before
    if sent is None:
        return
    often = f" in {sent.calls} calls" if sent.calls > 1 else ""
    said = f"It was sent before{often} under key {sent.key}"
    if sent.told_by:
        what = "it happened" if sent.told == "ok" else "it did not happen"
        who = id_name(sent.told_by)
        yield f"{said}, and {who} said since that {what}; the next turn of its run settles it by that."
        return
    may = "; yes sends it again under the same key, no leaves it in doubt: it may have happened"
    yield f"{said} and nobody knows whether it happened{may if ask.state == 'open' else ''}."


def question(ask: Ask, judged: GateJudged | None, now: int, there: There) -> Shown:
    """One question, whole."""
    is_open = ask.state == "open"
    left = f" ({span(ask.until - now)} left)" if ask.until > now else " (over)"
    what = f"{ask.effect} as {call_name(ask.call)}" if ask.effect and ask.effect != ask.call else call_name(ask.call)
    answer = f"{id_name(ask.decided_by)}, {'yes' if ask.choice == 'approve' else 'no'}" if ask.choice else ""
    told = facts(
        ("question", ask.id),
        ("state", ask_state(ask.state)),
        ("void because", _why(ask.voided)),
        ("may this be sent again" if ask.sent_before else "may this happen", cell(what, "bold")),
        ("run", f"{id_name(ask.run)}, flow {ask.flow}"),
        ("asked by", f"{id_name(ask.by)} for {id_name(ask.behalf)}" if ask.behalf else id_name(ask.by)),
        ("asks", roles_of(ask) + ("; also those for whom it acts" if ask.alone else "")),
        ("asked", time_of(ask.asked_at)),
        ("until", time_of(ask.until) + (left if is_open else "")),
        ("not bound", _not_bound(ask)),
        ("answered by", answer),  # that it was a yes stands there also when that holds no longer
        ("and said", Quoted([ask.reason] if ask.reason else [])),
        ("asked anew as", ask.later),
    )
    version = Group(cell("version", "dim"), cell(ask.version))  # of a line of its own, so that it can be copied
    who = f"What {id_name(ask.by)} asks for; it wrote this text itself:"
    asked = Group(cell(who, "bold"), payload(ask.payload, ask.immaterial))
    found = (_deceives(ask), _evidence(ask, now), _findings(ask, judged, there))
    first = [cell(words, "bold red") for words in sent_before(ask)]
    before = (_difference(ask), _elsewhere(ask), _made_before(ask))
    return stack(*first, told, _named(ask), moved(ask), version, *before, asked, *found)


def _named(ask: Ask) -> Shown | None:
    """The names that are cut above, whole: they may be somebody's data."""
    names = whole_names(ask.call, ask.run, ask.by, ask.behalf or "")
    return Group(cell("What is cut above, whole; data may have given these names:"), Quoted(names)) if names else None


def moved(ask: Ask) -> Shown | None:
    """What a yes may come to nothing by, although nobody looked again since it was asked."""
    if not ask.moved:
        return None
    if ROLES_MOVED in ask.moved:
        return cell(
            "Nobody who held the role when it was asked is left to answer: the next turn of its run asks anew.",
            "bold yellow",
        )
    said = ["the policy" if one == POLICY_MOVED else f"what the directory says of {id_name(one)}" for one in ask.moved]
    return cell(f"Moved since it was asked: {', '.join(said)}. A yes may be void.", "bold yellow")


def _not_bound(ask: Ask) -> str:
    """What a yes does not bind, also where the request does not have it yet."""
    return f"{', '.join(ask.immaterial)}: may still change after a yes" if ask.immaterial else ""


def _why(codes: Sequence[str]) -> str:
    """Why a question holds no longer, in words. What is shown moves with all that is named beside it."""
    return ", ".join(fault_text(code) for code in codes if code != "approval.shown" or len(codes) == 1)


def roles_of(ask: Ask) -> str:
    """Whose yes it takes. Several rules that ask the same people are one yes."""
    return whose(ask.roles)


def _difference(ask: Ask) -> Shown | None:
    found = ask.difference
    if found is None:
        return None
    why = _why(ask.void)
    void = f" What was asked before holds no longer: {why}." if why else ""
    again = f" as {call_name(ask.call)}" if _is_of_another(ask, ask.earlier) else ""
    head = f"Asked again{again}; {_counted(found)} changed since{_told(ask, ask.earlier)}.{void}"
    parts: list[Shown] = [cell(head, "bold yellow"), *_reason(ask.earlier)]
    for is_material, changes in groupby(found.changes, key=lambda change: change.is_material):
        parts.append(cell("  Changed:" if is_material else "  Changed, and the rule calls it immaterial:", "dim"))
        parts += [Quoted([text], f"  │ {mark}", style) for change in changes for mark, text, style in _lines_of(change)]
    parts.append(cell(f"  {found.unchanged} {'place is' if found.unchanged == 1 else 'places are'} as before.", "dim"))
    return Group(*parts)


def _elsewhere(ask: Ask) -> Shown | None:
    """What somebody said to the same matter as another call, where the difference is told from something else."""
    if ask.elsewhere is None or ask.elsewhere == ask.earlier:
        return None
    return Group(
        cell(f"The same was asked as another call:{_told(ask, ask.elsewhere)}.", "bold yellow"), *_reason(ask.elsewhere)
    )


def _made_before(ask: Ask) -> Shown | None:
    """That the same was sent as another call, where no answer to a question that is told of here let it pass."""
    made = ask.made_before
    if made is None:
        return None
    said = f"The same was sent before as {call_name(made.call)}, {time_of(made.at)}; {_MADE[made.state]}."
    return cell(said, "bold yellow")


_MADE = {
    "ok": "it was done, and a yes does it once more",
    "failed": "the other side declined",
    "did_not_happen": "it did not happen",
    "in_doubt": "nobody knows whether it happened, and a yes may do it once more",
}


def _is_of_another(ask: Ask, earlier: Earlier | None) -> bool:
    return earlier is not None and earlier.call != ask.call


def _told(ask: Ask, earlier: Earlier | None) -> str:
    """Whose answer it was; of another call also to which, and what became of that."""
    said = _said(earlier)
    if earlier is None or not said or not _is_of_another(ask, earlier):
        return said
    became = _BECAME.get((earlier.choice, earlier.became), "")
    anyhow = "" if earlier.became == earlier.call_state else _ANYHOW.get(earlier.call_state, "")
    return f"{said} to {call_name(earlier.call)}{became}{anyhow}"


_BECAME = {
    ("approve", "ok"): ", which was done",
    ("approve", "failed"): ", which the other side declined",
    ("approve", "did_not_happen"): ", which did not happen",
    ("approve", "in_doubt"): ", of which nobody knows whether it happened",
    ("approve", "refused"): ", which was refused all the same",
    ("approve", "void"): ", and that yes was void before it was used",
    ("approve", "used"): ", which the flow was told",
    ("approve", ""): ", and that yes is not used yet",
}
# The call with the very same request, where it was not this answer that let it pass.
_ANYHOW = {
    "ok": "; it was done without that",
    "failed": "; it was sent without that, and the other side declined",
    "in_doubt": "; it was sent without that, and nobody knows whether it happened",
}


def _reason(earlier: Earlier | None) -> list[Shown]:
    """Why they said so, behind a bar: it is their text."""
    return [Quoted([earlier.reason], bar="  │ ")] if earlier is not None and earlier.reason else []


def _said(earlier: Earlier | None) -> str:
    """Whose answer a difference is told from; nothing where it is told from a question that nobody answered."""
    if earlier is None or not earlier.choice:
        return ""
    return f" {id_name(earlier.by)} said {'yes' if earlier.choice == 'approve' else 'no'}"


def _counted(found: Difference) -> str:
    count = len(found.changes)
    return "nothing of the request" if not count else f"{count} {'place' if count == 1 else 'places'}"


def _lines_of(change: Change) -> Iterator[tuple[str, str, str]]:
    """A change, and before each line that a text takes what it is: a key of the agent's can't pass for a value."""
    yield "at ", change.path, ""
    if change.old is not None:
        yield "   - ", _leaf(change.old), "red"
    if change.new is not None:
        yield "   + ", _leaf(change.new), "green"


def _leaf(text: str) -> str:
    return compact(json.loads(text))


def _deceives(ask: Ask) -> Shown | None:
    """What in the payload, the evidence and the call's name is not what it seems, by its place."""
    found = suspects_in(ask)
    if not found:
        return None
    head = cell("Some of its characters may deceive:", "bold red")
    rows = Grid("how many", "character", "", "what it does", "where", folds=("",))
    for (path, code, name, trick), count in found.items():
        rows.row(str(count), cell(code, "bold"), name, trick, Quoted([path]))
    return Group(head, rows.made(is_headed=False))


def _evidence(ask: Ask, now: int) -> Shown | None:
    if not ask.evidence:
        return None
    parts: list[Shown] = [cell("It rests on:", "bold")]
    for one in ask.evidence:
        fresh = f"fresh until {time_of(one.until)}" if one.until > now else f"not fresh since {time_of(one.until)}"
        age = f"as of {time_of(one.as_of)}, {span(max(0, now - one.as_of))} old; {fresh}"
        parts.append(line("  ", cell(evidence_name(one.name), "bold"), f"  {age if one.as_of else 'is not there'}"))
        parts.append(Quoted([compact(one.value)], bar="  │ "))
        if one.changes:
            said = f", and{_told(ask, ask.earlier)}" if _said(ask.earlier) else " last"
            parts += [cell(_CHANGED[one.since].format(said=said), "bold yellow"), Quoted([*_moves(one)], bar="  │ ")]
    return Group(*parts)


def _moves(one: Evidence) -> Iterator[str]:
    """Where evidence parts from what it was, a line for each place: `price: 6 -> 11`."""
    for change in one.changes:
        old, new = (_leaf(text) if text is not None else "nothing" for text in (change.old, change.new))
        place = change.path.removeprefix("$").removeprefix(".")
        yield f"{place}: {old} -> {new}" if place else f"{old} -> {new}"


_CHANGED = {
    "asked": "  It changed since it was asked{said}:",
    "relied": "  It changed since the flow made this request from it:",
}


def _findings(ask: Ask, judged: GateJudged | None, there: There) -> Shown | None:
    """What the gate found when it asked."""
    if judged is None:
        return None
    grid = Grid("check", "code", "seen", "required", fold="seen", folds=("required",))
    for finding in judged.verdict.findings:
        if not finding.ok or finding.code:
            seen, required = describe(judged.question, finding, is_sent_again=ask.sent_before is not None)
            grid.row(cell(finding.check, "" if finding.ok else "bold"), finding.code, seen, there.told(required))
    fine = sum(finding.ok and not finding.code for finding in judged.verdict.findings)
    told = f"{fine} {'check' if fine == 1 else 'checks'} passed then."
    return Group(cell("The gate found, when it asked:", "bold"), grid.made(), cell(told, "dim"))


def how(ask: Ask, there: There) -> Shown | None:
    """How it is answered, or where the question is that was asked after it; None where it is no longer open."""
    if ask.later:
        return next_of(step("`remit ask {ask}` shows what was asked in its place.", ask=ask.later), there)
    if ask.state != "open":
        return None
    words = "`remit approve {ask} --by user:YOU`, or `remit deny {ask} --by user:YOU`"
    words += "; away from a terminal with `--seen {version}`."
    return next_of(step(words, ask=ask.id, version=ask.version), there)
