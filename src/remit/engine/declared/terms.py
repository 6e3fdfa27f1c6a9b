"""Terms: the contract under which code runs, as facts, with their digest.

A flow has them from its declaration. The gate judges by them and by what was pinned when the run
was opened; it needs nothing else of the code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from remit.authority.contract import Contract, digest
from remit.facts.rules import ContractPin


@dataclass(frozen=True, slots=True)
class Terms:
    """A contract, the pin of it, and the pin's digest, hex."""

    contract: Contract
    pin: ContractPin
    digest: str

    @classmethod
    def of(cls, contract: Contract) -> Self:
        """Made once: the digest is asked for at every crossing."""
        pin = contract.pin()
        return cls(contract, pin, digest(pin))
