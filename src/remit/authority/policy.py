"""Policy: the rules that an operator sets, changed at run time. The stricter of contract and policy holds."""

from __future__ import annotations

from hashlib import sha256

from remit.canonical import encode
from remit.facts.rules import PolicyPin

_PIN_TAG = b"remit/policy/1\n"


def policy_digest(pin: PolicyPin) -> str:
    """Hex SHA-256 over the canonical bytes of a policy."""
    return sha256(_PIN_TAG + encode(pin)).hexdigest()
