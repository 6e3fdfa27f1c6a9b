"""What a command works on: a store that must exist, and a flow that is named as MODULE:FLOW."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from remit.engine.flow import Flow
from remit.errors import Refused, StoreRefused
from remit.faces.runtime import Runtime, open
from remit.store.url import store_for

STORE_DEFAULT = "sqlite:///remit.db"


def runtime(url: str | None, tenant: str | None, *, may_create: bool) -> Runtime:
    """The runtime of a store. Raises StoreRefused `store.missing` where looking would make a new one."""
    place = url or os.environ.get("REMIT_STORE") or STORE_DEFAULT
    store = store_for(place)
    path = getattr(store, "path", None)
    if not may_create and path is not None and not os.path.exists(path):
        raise StoreRefused(
            f"There is no store at {path}; nothing was done.",
            code="store.missing",
            hint="Name one with --store URL or REMIT_STORE; `remit run` makes a new one.",
        )
    return open(store, tenant=tenant or "default")


def flow_of(named: str) -> Flow[Any]:
    """The flow behind MODULE:FLOW, looked for from the current folder on. Raises Refused `flow.unknown`."""
    module_name, colon, flow_name = named.partition(":")
    hint = "Write it as `package.module:flow`, from the folder that holds the package."
    if not colon or not module_name or not flow_name:
        raise Refused(f"{named!r} does not name a flow; nothing was done.", code="flow.unknown", hint=hint)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as exc:
        raise Refused(f"{named!r} can't be found: {exc}; nothing was done.", code="flow.unknown", hint=hint) from exc
    found: Any = getattr(module, flow_name, None)
    if not isinstance(found, Flow):
        there = sorted(name for name, value in vars(module).items() if isinstance(value, Flow))
        told = f"it has {', '.join(there)}" if there else "it has no flow"
        raise Refused(f"{module_name} has no flow {flow_name!r}; {told}.", code="flow.unknown", hint=hint)
    return found
