"""The bank's process: says where it listens, pays until SIGTERM, and leaves its book whole."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path

from examples.procurement.bank.book import Book, Settings
from examples.procurement.bank.service import Service

STOP = (signal.SIGTERM, signal.SIGINT)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.procurement.bank", description=__doc__)
    parser.add_argument("--db", type=Path, required=True, help="SQLite file with the payments; made if absent")
    parser.add_argument("--port", type=int, default=0, help="0, the default, takes a free one")
    parser.add_argument("--no-dedupe", dest="dedupe", action="store_false", help="the same key again pays again")
    parser.add_argument("--fence", action="store_true", help="refuse an epoch below the highest of its group")
    parser.add_argument("--decline", action="append", default=[], metavar="PAYEE", help="pay them nothing; repeatable")
    parser.add_argument("--until-stdin-closes", action="store_true", help="stop when who started it is gone")
    given = parser.parse_args()

    signal.pthread_sigmask(signal.SIG_BLOCK, STOP)  # before any thread begins, so that only `sigwait` gets them
    book = Book(given.db)
    settings = Settings(dedupe=given.dedupe, fence=given.fence, decline=frozenset(given.decline))
    service = Service(book, settings, given.port)
    threading.Thread(target=service.serve_forever, name="bank", kwargs={"poll_interval": 0.05}, daemon=True).start()
    if given.until_stdin_closes:
        threading.Thread(target=_watch_stdin, name="stdin", daemon=True).start()
    print(json.dumps({"port": service.server_port}), flush=True)

    signal.sigwait(STOP)
    service.shutdown()
    service.server_close()
    book.close()
    # Requests that are held are daemon threads: they end here, and made nothing.
    os._exit(0)


def _watch_stdin() -> None:
    os.read(sys.stdin.fileno(), 1)  # returns when the other end is closed, by whatever ended it
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
