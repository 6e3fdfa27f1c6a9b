"""Without: which runs an answer over many leaves out, so that nobody takes it for all there is."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.text import Text

from remit.authority.called import id_name
from remit.engine.people.left_out import LeftOut
from remit.faces.cli.inert import cell
from remit.faces.there import There

_NAMED_MAX = 5

_WHY = {"run.quarantined": "set aside", "journal.newer": "written by a newer version of Remit"}


def without(found: Sequence[LeftOut], there: There) -> Text | None:
    """Which runs were not looked into, and why; None where all were. All of them stand in the document."""
    if not found:
        return None
    named = [f"{id_name(one.run)} ({_WHY.get(one.code, one.code)})" for one in found[:_NAMED_MAX]]
    named += [f"{len(found) - _NAMED_MAX:,} more"] if len(found) > _NAMED_MAX else []
    listed = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
    which = shlex.quote(found[0].run) if len(found) == 1 else "RUN"
    why = there.typed(f"remit why {which}")
    return cell(f"This is not all, it leaves out {listed}. `{why}` tells more.", "bold red")
