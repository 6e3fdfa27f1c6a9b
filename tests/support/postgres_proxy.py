"""A proxy before a Postgres that loses what it is told to lose: answers, connections, the way to the server.

It sits on a unix socket of its own and hands bytes on. It knows nothing of the protocol:
an answer is whatever the server says after the proxy was told to lose it.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlencode

SOCKET = ".s.PGSQL.5432"


class Proxy:
    """Hands on until it is told otherwise. url: of the database, through the proxy."""

    def __init__(self, socket: str, url: str) -> None:
        self._socket, self.url = socket, url
        self._to_pass, self._is_losing = 0, False
        self._is_closed_after_loss = self._is_holding = False
        self.is_closed = False
        self.lost = 0  # answers that the server gave and nobody heard
        self._links: set[asyncio.StreamWriter] = set()
        self._servers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def lose_answers(self, *, after: int = 0, then_close: bool = False) -> None:
        """Cut the connection instead of handing on the next answer, or the one `after` so many. then_close: let nobody
        in from then on.
        """
        self._to_pass, self._is_losing, self._is_closed_after_loss = after, True, then_close

    def hold_answers(self) -> None:
        """Hand on no answer from now on, and cut nothing: nobody knows that the server is gone."""
        self._is_holding = True

    def cut(self) -> None:
        """End all connections towards the client; what the server was told is still being done."""
        for link in list(self._links):
            link.transport.abort()

    async def serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        if self.is_closed:
            to_client.transport.abort()
            return
        server, to_server = await asyncio.open_unix_connection(self._socket)
        self._links.add(to_client)
        self._servers.add(to_server)
        talk = asyncio.create_task(self._pass(client, to_server, lambda: False))
        # The server's end stays open when the client's is cut: a network that fails tells the server nothing.
        listen = asyncio.create_task(self._pass(server, to_client, self._is_lost))
        self._tasks |= {talk, listen}
        try:
            await listen
        finally:
            self._links.discard(to_client)
            to_client.transport.abort()

    def _is_lost(self) -> bool:
        if not self._is_losing:
            return False
        if self._to_pass > 0:
            self._to_pass -= 1
            return False
        self._is_losing = False
        self.lost += 1
        self.is_closed = self.is_closed or self._is_closed_after_loss
        return True

    async def _pass(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, is_lost: Callable[[], bool]
    ) -> None:
        try:
            while data := await source.read(65_536):
                if is_lost():
                    return
                if self._is_holding and target in self._links:
                    continue
                target.write(data)
                await target.drain()
        except (OSError, asyncio.CancelledError):
            return

    async def stop(self) -> None:
        self.cut()
        for server in self._servers:
            server.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def proxy_before(url: str) -> AsyncIterator[Proxy]:
    """A proxy before the database of `url`, which names a unix socket's folder as its host."""
    base, _, query = url.partition("?")
    values = {name: found[0] for name, found in parse_qs(query).items()}
    with tempfile.TemporaryDirectory(prefix="remit-px-") as folder:  # short: a socket's path has room for 107 bytes
        through = urlencode(values | {"host": folder})
        proxy = Proxy(str(Path(values["host"], SOCKET)), f"{base}?{through}")
        server = await asyncio.start_unix_server(proxy.serve, str(Path(folder, SOCKET)))
        try:
            yield proxy
        finally:
            server.close()
            await proxy.stop()
