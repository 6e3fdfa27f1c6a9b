"""The contract in TOML on docs/concepts.md has each key that the reader knows, and no other."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

import remit
from remit.authority.written import contract_from_toml
from tests.docs.pages import section

HEAD = 'version = "1"\nresume = "anyone"\n'


def written() -> dict[str, Any]:
    block = re.search(r"^```toml\n(.*?)^```$", section("concepts.md", "Contracts in TOML"), re.MULTILINE | re.DOTALL)
    assert block
    return tomllib.loads(block[1])


def known(line: str) -> set[str]:
    """The keys that a refusal of another one names."""
    with pytest.raises(remit.DeclarationRefused) as refused:
        contract_from_toml(f"{HEAD}{line}\n")
    return set(re.findall(r"\w+", refused.value.message.partition("there are ")[2]))


def test_each_key_of_a_contract_in_toml_stands_on_the_page():
    page = written()
    effects = page["effects"].values()
    approvals = [rule["approval"] for rule in effects if "approval" in rule]
    ceilings = [rule["ceiling"] for rule in effects if "ceiling" in rule]
    each = [one for given in ceilings for one in (given if isinstance(given, list) else [given])]
    assert set(page) == known("other = 1")
    assert {key for rule in effects for key in rule} == known("effects.pay.other = 1")
    assert {key for one in approvals for key in one} == known("effects.pay.approval = {other = 1}")
    assert {key for one in each for key in one} == known("effects.pay.ceiling = {other = 1}")


def test_what_only_a_function_can_say_has_no_key():
    assert {"when", "still_wanted", "predicate"}.isdisjoint(known("effects.pay.approval = {other = 1}"))
