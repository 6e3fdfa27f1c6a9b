"""What can't be seen: one answer for who lets a name in, who shows it, and who warns of it."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

import remit
from remit.authority.describe import describe
from remit.authority.policy import policy_from_toml
from remit.authority.suspicious import suspicious
from remit.authority.written import contract_from_toml
from remit.faces.cli.inert import inert
from remit.facts.judgement import Finding, Question, Who
from remit.facts.names import check_visible
from remit.facts.unseen import is_unseen
from tests.spec.conftest import Storage
from tests.support.office import HOURS_72, ROOT

# Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties.txt): what a font may leave out.
IGNORABLE = [
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFEFF, 0xFFA0),
    *chain(range(0x180B, 0x1810), range(0x200B, 0x2010), range(0x202A, 0x202F), range(0x2060, 0x2070)),
    *chain(range(0xFE00, 0xFE10), range(0xFFF0, 0xFFF9), range(0x1BCA0, 0x1BCA4), range(0x1D173, 0x1D17B)),
    *range(0xE0000, 0xE1000),
]
BLANK = [0x2800, 0x16FE4, 0x1D159]  # of which fonts show an empty place
STEERING = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029]
LOOK_ALIKES = ["\u3164", "\ufe0f", "\u2800", "\u034f", "\u115f", "\U000e0100"]


def test_what_can_not_be_seen_is_in_no_name_is_shown_as_an_escape_and_warned_of():  # proves: C32, APR-5
    for point in (*IGNORABLE, *BLANK, *STEERING):
        character = chr(point)
        assert is_unseen(character), hex(point)
        with pytest.raises(remit.IdRefused):
            check_visible(f"lee{character}lee", "name")
        assert inert(character).isascii() and inert(character).startswith("\\"), hex(point)
        assert suspicious(f"a{character}b") or character in "\t\n", hex(point)
        who = Who(known=True, principal=f"agent:lee{character}", roles=[])
        question = Question(authority=7, executor=who, head="", now=0, resume=[], risk="low", seq=1, window_end=1)
        assert describe(question, Finding(check="authority"))[0].isascii(), hex(point)


@pytest.mark.parametrize(
    "text", ["lee", "a b", "\u00fcber", "\u5c71\u7530", "\u2764", "\U0001f980", "\u0939\u093f\u0928"]
)
def test_what_can_be_seen_stays_as_it_is(text: str):
    assert not any(map(is_unseen, text))
    check_visible(text, "name")
    assert inert(text) == text


@pytest.mark.parametrize("unseen", LOOK_ALIKES)
async def test_nobody_becomes_known_who_looks_like_somebody_else(storage: Storage, unseen: str):  # proves: C32
    async with storage.open() as rt:
        for act in (
            rt.grant(f"user:lee{unseen}", "lead", by=ROOT),
            rt.grant("user:lee", "lead", by=f"{ROOT}{unseen}"),
            rt.link("agent:buyer", person=f"user:lee{unseen}", by=ROOT),
            rt.disable(f"user:lee{unseen}", by=ROOT),
        ):
            with pytest.raises(remit.IdRefused):
                await act
        with pytest.raises(remit.Refused) as refused:
            await rt.grant("user:lee", f"lead{unseen}", by=ROOT)
        assert refused.value.code == "authority.role"
        assert set((await rt.authority()).directory) == {"service:local"}


@pytest.mark.parametrize("unseen", LOOK_ALIKES)
def test_no_rule_is_set_for_what_only_looks_like_an_effect_or_a_field(unseen: str):  # proves: C32, GATE-7
    name = f'"refund{unseen}"'
    week = '{ roles = ["lead"], within = "72h" }'
    for key, said in (
        ("forbid", f"forbid = [{name}]"),
        ("approvals", f"approvals = {{ {name} = {week} }}"),
        ("ceilings", f"ceilings = {{ {name} = {{ amount = 1 }} }}"),
        ("ceilings", f'ceilings = {{ "refund.amount{unseen}" = 1 }}'),
        ("evidence", f'evidence = {{ {name} = "24h" }}'),
        ("version", f"version = {name}"),
    ):
        version = "" if key == "version" else 'version = "1"\n'
        with pytest.raises(remit.Refused) as refused:
            policy_from_toml(version + said)
        assert refused.value.code == f"policy.{key}", said
    effects = f'version = "1"\nresume = "anyone"\n[effects.{name}]\n'
    with pytest.raises(remit.DeclarationRefused) as undeclared:
        contract_from_toml(effects)
    assert undeclared.value.code == "contract.effects"


@pytest.mark.parametrize("unseen", LOOK_ALIKES)
def test_nothing_is_declared_under_a_name_that_only_looks_like_another(unseen: str):  # proves: C32
    def pay(order: dict[str, Any], *, key: str) -> None: ...

    for refused, declare in (
        (remit.IdRefused, lambda: remit.effect(name=f"pay{unseen}")(pay)),
        (remit.IdRefused, lambda: remit.step(name=f"pay{unseen}")(lambda: None)),
        (remit.IdRefused, lambda: remit.open("memory:", tenant=f"acme{unseen}")),
        (remit.DeclarationRefused, lambda: remit.effect(connector=f"bank{unseen}")(pay)),
        (remit.DeclarationRefused, lambda: remit.effect(business_key=f"order{unseen}")(pay)),
        (remit.DeclarationRefused, lambda: remit.Approval({f"lead{unseen}"}, HOURS_72)),
        (remit.DeclarationRefused, lambda: remit.Contract(version=f"1{unseen}", resume="anyone")),
        (remit.DeclarationRefused, lambda: remit.Contract(version="1", resume={f"lead{unseen}"})),
    ):
        with pytest.raises(refused):
            declare()
