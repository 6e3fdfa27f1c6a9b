"""The bank in a process of its own: started, stopped, killed and started again at the same place.

It outlives whoever calls it and is killed apart from them, as the outside world is. A bank
that is down refuses connections: that is `stop`, and `start` is the way back, with the same
payments on the same port. It ends when the process that started it ends, however that was.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[3]
SECONDS_TO_STOP_MAX = 10.0


class PaymentService:
    """A bank of its own process. Leaves by `stop`, or at the end of a `with`.

    db: the SQLite file with its payments.
    dedupe, fence, decline: what it begins with, at each start.
    """

    def __init__(
        self, db: Path | str, *, port: int = 0, dedupe: bool = True, fence: bool = False, decline: tuple[str, ...] = ()
    ) -> None:
        self._db = Path(db).resolve()
        self._port = port
        self._options = [
            *([] if dedupe else ["--no-dedupe"]),
            *(["--fence"] if fence else []),
            *(f"--decline={payee}" for payee in decline),
        ]
        self._process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def url(self) -> str:
        """ "http://127.0.0.1:PORT", the same for as long as this object lives."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """None while it is down."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Begin, or begin again; returns when it listens. Raises RuntimeError where it does not come up."""
        if self._process is not None:
            return
        command = [sys.executable, "-m", "examples.procurement.bank", "--db", str(self._db)]
        process = subprocess.Popen(
            [*command, f"--port={self._port}", "--until-stdin-closes", *self._options],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._process = process
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            self._over()
            raise RuntimeError(f"The bank did not come up: it ended with {process.returncode}.")
        self._port = json.loads(line)["port"]

    def stop(self) -> None:
        """End it and wait until it is over: what it was doing is done or was not begun."""
        if self._process is not None:
            self._process.terminate()
            self._over()

    def kill(self) -> None:
        """End it as a power cut would, by SIGKILL, and wait until it is over."""
        if self._process is not None:
            self._process.kill()
            self._over()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _over(self) -> None:
        process, self._process = self._process, None
        assert process is not None
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        try:
            process.wait(SECONDS_TO_STOP_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
