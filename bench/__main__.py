"""The command line of the measurements: `python -m bench --help`."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack

from bench.figures import NO_STORE, STORES, WORKLOADS, stores_of
from bench.measure import ChildFailed, Measured, measure, prepared_store, run_child
from bench.parked import PARKED, PARKED_DEFAULT
from bench.table import as_json, as_text, machine
from tests.support.postgres import postgres_for_tests

_PROFILE = "profile"


def main() -> int:
    """Measure what was asked for and print it; 1 where something could not be measured. A missed target is no error."""
    arguments = _parse()
    os.environ[PARKED] = str(arguments.parked)
    names = [name for name in arguments.figures if name != _PROFILE] or list(WORKLOADS)
    stores = STORES if arguments.store == "both" else (arguments.store,)
    wanted = [(name, store) for store in (NO_STORE, *stores) for name in names if store in stores_of(name)]
    with ExitStack() as stack:
        is_on_server = any(store == "postgres" for _, store in wanted)
        server = stack.enter_context(postgres_for_tests()) if is_on_server else None
        if _PROFILE in arguments.figures:
            return _profile(wanted, server)
        measured: list[Measured] = []
        failed = 0
        for name, store in wanted:
            print(f"measuring {name}{'' if store == NO_STORE else f' on {store}'} ...", file=sys.stderr)
            try:
                measured += measure(name, store, server, arguments.repetitions)
            except ChildFailed as exc:
                failed = 1
                print(f"{name} on {store} could not be measured:\n{exc}", file=sys.stderr)
        print((as_json if arguments.json else as_text)(measured, machine(server)))
    return failed


def _profile(wanted: list[tuple[str, str]], server: str | None) -> int:
    for name, store in wanted:
        with prepared_store(name, store, server) as url:
            print(f"-- {name} on {store}, by time inside each function\n{run_child(name, url, '--profile').stderr}")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Remit beside the bare database.")
    parser.add_argument(
        "figures",
        nargs="*",
        metavar="figure",
        help=f"which ones (all when none is named): {', '.join(WORKLOADS)}; `{_PROFILE}` shows where the time goes",
    )
    parser.add_argument("--store", choices=[*STORES, "both"], default="both")
    parser.add_argument("--repetitions", type=int, default=3, help="3 unless given")
    parser.add_argument(
        "--parked", type=int, default=PARKED_DEFAULT, help=f"runs that wait; {PARKED_DEFAULT:,} unless given"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    unknown = set(arguments.figures) - {_PROFILE, *WORKLOADS}
    if unknown:
        parser.error(f"no figure is called {', '.join(sorted(unknown))}; there are {', '.join(WORKLOADS)}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
