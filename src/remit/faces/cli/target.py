"""What a command works on: a store that must exist, a flow that is named as MODULE:FLOW, and its input."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from remit.authority.leaves import path_text
from remit.authority.principals import check_new_principal
from remit.engine.declared.flow import Flow
from remit.errors import Refused, RemitError, StoreRefused, ValueUnreadable
from remit.faces.runtime import Runtime, open
from remit.faces.there import There
from remit.facts.names import check_word
from remit.store.url import store_for

STORE_DEFAULT = "sqlite:///remit.db"

_HINT = "Write it as `package.module:flow`, from the folder that holds the package."


async def runtime(url: str | None, tenant: str | None, *, may_create: bool) -> tuple[Runtime, str]:
    """The runtime of a store, not yet opened, and where opening makes a new one; "" where there is one.

    Raises StoreRefused `store.missing` where looking would make it.
    """
    store = store_for(url or os.environ.get("REMIT_STORE") or STORE_DEFAULT)
    is_new = not await store.exists()
    if is_new and not may_create:
        raise StoreRefused(
            f"There is no store at {store.url}; nothing was done.",
            code="store.missing",
            hint="Name the store that has what you look for, with --store URL or REMIT_STORE: "
            "a new one knows nothing of any run that is there, and would do again what it did.",
        )
    return open(store, tenant=tenant or "default"), _place(store.url) if is_new else ""


def there_of(url: str | None, tenant: str | None) -> There:
    """What the commands name that are told to be typed: what this one was given, without the password of a URL."""
    return There(_shown(url) if url else "", tenant or "")


def _shown(url: str) -> str:
    """A URL for people to see; "" where it names no store at all."""
    if not url.startswith(("postgresql:", "postgres:")):
        return url
    try:
        return store_for(url).url
    except RemitError:
        return ""


def _place(url: str) -> str:
    """Where a store is, in full: a relative path says nothing to whoever reads it in another folder."""
    for prefix in ("sqlite:///", "file:"):
        if url.startswith(prefix):
            return os.path.abspath(url.removeprefix(prefix))
    return url


def flow_of(named: str) -> Flow[Any]:
    """The flow behind MODULE:FLOW, looked for from the current folder on. Raises Refused `flow.unknown`."""
    module_name, colon, flow_name = named.partition(":")
    if not colon or not module_name or not flow_name or module_name.startswith("."):
        raise _unknown(f"{named!r} does not name a flow; nothing was done.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except RemitError:
        raise  # a declaration that was refused says it better
    except ModuleNotFoundError as exc:
        raise _unknown(f"{named!r} can't be found: {exc}; nothing was done.") from exc
    except Exception as exc:
        raise _unknown(
            f"{module_name!r} can't be imported: {type(exc).__name__}: {exc} ({_where(exc)}); nothing was done.",
            hint=f"See all of it with `python -c 'import {module_name}'`, and mend it.",
        ) from exc
    found: Any = getattr(module, flow_name, None)
    if not isinstance(found, Flow):
        there = sorted(name for name, value in vars(module).items() if isinstance(value, Flow))
        told = f"it has {', '.join(there)}" if there else "it has no flow"
        raise _unknown(f"{module_name!r} has no flow {flow_name!r}; {told}. Nothing was done.")
    return found


def check_names(id: str, by: str | None, behalf: str | None) -> None:
    """What the runtime refuses as well, before a store is made for it. Raises IdRefused."""
    check_word(id, "run id")
    for who in (by, behalf):
        if who is not None:
            check_new_principal(who, "principal")


def input_of(flow: Flow[Any], text: str | None, file: Path | None) -> Any:
    """What --input or --input-file gives the flow. Raises Refused `input.twice`, `.unreadable`, `.unexpected`."""
    if text is not None and file is not None:
        raise Refused("Give --input or --input-file, not both; nothing was done.", code="input.twice")
    where, data = "--input", (text if text is not None else "null").encode("utf-8", "surrogateescape")
    if file is not None:
        try:
            where, data = str(file), file.read_bytes()
        except OSError as exc:
            raise Refused(f"{str(file)!r} can't be read: {exc}; nothing was done.", code="input.unreadable") from exc
    if flow.takes_input:
        try:
            return flow.input_codec.read(data)
        except ValueUnreadable as exc:
            if exc.strange is not None:  # whoever misspelt a key would run without what they said
                raise _strange(where, *exc.strange, exc.type_name) from exc
            if text is None and file is None:
                raise Refused(
                    f"Flow {flow.name!r} takes an input and was given none; nothing was done.",
                    code="input.unreadable",
                    hint="Give it with --input or --input-file, as JSON; text stands in double quotes.",
                ) from exc
            raise Refused(
                f"The input of {where} can't be read as {exc.type_name}: {exc.reason}; nothing was done.",
                code="input.unreadable",
                hint=f"Give what flow {flow.name!r} takes, as JSON; text stands in double quotes.",
            ) from exc
    if text is None and file is None:
        return None
    raise Refused(f"Flow {flow.name!r} takes no input; nothing was done.", code="input.unexpected")


def _strange(where: str, path: tuple[str | int, ...], known: list[str], type_name: str) -> Refused:
    return Refused(
        f"The input of {where} has {path_text(path)}, which {type_name} has not; nothing was done.",
        code="input.unreadable",
        hint=f"What it has there is {', '.join(known)}." if known else "It has nothing there; leave it out.",
    )


def _unknown(message: str, *, hint: str = _HINT) -> Refused:
    return Refused(message, code="flow.unknown", hint=hint)


def _where(exc: Exception) -> str:
    """File and line at which a module broke."""
    if isinstance(exc, SyntaxError):
        return f"{exc.filename}:{exc.lineno}"
    frames = traceback.extract_tb(exc.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "nowhere"
