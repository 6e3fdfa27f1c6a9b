"""Roles: what a role may be called. One spelling each, so that two that look alike are not two."""

from __future__ import annotations

import re

ANYONE = "anyone"  # written in place of roles; never a role

ROLE_CHARACTERS_MAX = 64

_ROLE = re.compile(rf"[a-z0-9_.-]{{1,{ROLE_CHARACTERS_MAX}}}")


def role_fault(role: object) -> str:
    """Why `role` can't be the name of a role, as the end of a sentence; "" where it can."""
    if not isinstance(role, str):
        return f"a role is named by text, not {type(role).__name__}"
    if role == ANYONE:
        return '"anyone" is not a role'
    if not _ROLE.fullmatch(role):
        return f"a role has 1 to {ROLE_CHARACTERS_MAX} of the characters a-z 0-9 _ . - and is not called {role!a}"
    return ""
