"""Compared: the names in a policy beside those that flows have, because nothing else would find one misspelt.

    declared   what the flows that were named have: effects, fields of their requests, evidence of their rules
    compare    names of a policy that none of them has, each with the one most like it

A rule of a name that nothing has holds for nothing. A ceiling over a field that no request has holds too well:
each call is over it, and the run ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import ModuleType

import msgspec

from remit.authority.policy import unheard_of
from remit.engine.declared.outward import Outward
from remit.faces.cli.target import flow_of
from remit.facts.rules import PolicyPin
from remit.facts.shape import may_be_whole, missing_field, written_as


@dataclass(frozen=True, slots=True)
class Declared:
    """What flows have. requests: of each effect the types of its requests; two effects may have one name."""

    effects: set[str] = field(default_factory=set)
    requests: dict[str, list[msgspec.inspect.Type]] = field(default_factory=dict)
    evidence: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Strange:
    """Names that may be misspelt, each with the known one most like it, or "". fields, texts: "pay.amont".

    texts: fields that are there and never hold a whole number.
    """

    effects: dict[str, str]
    fields: dict[str, str]
    texts: list[str]
    evidence: dict[str, str]

    def sentences(self, nobody: str) -> Iterator[str]:
        """In words. nobody: who was asked for the effects, as a sentence begins with it."""
        for name, like in self.effects.items():
            yield f"{name}: {nobody} has an effect of this name.{_or(like)}"
        for name, like in self.fields.items():
            yield f"{name}: the effect's request has no such field.{_or(like)}"
        for name in self.texts:
            yield f"{name}: no whole number can stand there, so each call would be over this ceiling."
        for name, like in self.evidence.items():
            yield f"evidence {name}: no rule of a flow that was named asks for evidence of this name.{_or(like)}"


def declared(flows: Iterable[str]) -> Declared:
    """What these flows have: in their modules, in what those import, and in their contracts. Raises Refused."""
    found = Declared()
    for flow in map(flow_of, flows):
        names = getattr(flow.fn, "__globals__", {})
        spaces = [names, *(vars(value) for value in names.values() if isinstance(value, ModuleType))]
        for each in (value for space in spaces for value in space.values() if isinstance(value, Outward)):
            found.effects.add(each.name)
            found.requests.setdefault(each.name, []).append(each.request_codec.info)
        found.effects.update(flow.contract.effects)
        for rule in flow.contract.effects.values():
            found.evidence.update(rule.evidence)
    return found


def compare(pin: PolicyPin, known: Declared, *, heard_of: Collection[str] = ()) -> Strange:
    """Names in the policy that none of these has. heard_of: names of further effects.

    Effects are compared where any is known, evidence where a rule names some, fields where the request's type has any.
    """
    effects = known.effects | set(heard_of)
    missing = {f"{effect}.{path}": like for effect, path, like in _missing(pin, known.requests)}
    evidence = {name: _likely(name, known.evidence) for name in sorted(set(pin.evidence) - known.evidence)}
    return Strange(
        effects=unheard_of(pin, effects) if effects else {},
        fields=missing,
        texts=[place for place in _no_numbers(pin, known.requests) if place not in missing],
        evidence=evidence if known.evidence else {},
    )


def _missing(pin: PolicyPin, requests: Mapping[str, list[msgspec.inspect.Type]]) -> Iterator[tuple[str, str, str]]:
    """Effect, path and the path most like it, where a rule is about a field that no request of the effect has."""
    paths = [(effect, each.field) for effect, pins in pin.ceilings.items() for each in pins]
    paths += [(effect, path) for effect, approval in pin.approvals.items() for path in approval.immaterial]
    for effect, path in paths:
        told = [missing_field(info, path.split(".")) for info in requests.get(effect, [])]
        if told and all(names is not None for names in told):
            known = {name for names in told for name in names or ()}
            *before, last = path.split(".")
            as_written = {written_as(info, path.split(".")) for info in requests.get(effect, [])} - {""}
            like = min(as_written, default="") or _likely(last, known)
            yield effect, path, ".".join([effect, *before, like]) if like else ""


def _no_numbers(pin: PolicyPin, requests: Mapping[str, list[msgspec.inspect.Type]]) -> Iterator[str]:
    for effect, pins in pin.ceilings.items():
        for each in pins:
            names = each.field.split(".")
            found = [info for info in requests.get(effect, []) if missing_field(info, names) is None]
            if found and not any(may_be_whole(info, names) for info in found):
                yield f"{effect}.{each.field}"


def _likely(name: str, known: Collection[str]) -> str:
    return next(iter(get_close_matches(name, sorted(known), n=1)), "")


def _or(like: str) -> str:
    return f" Is it {like}?" if like else ""
