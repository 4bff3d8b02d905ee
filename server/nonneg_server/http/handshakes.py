"""TLS handshakes that are not finished: each counts as a connection, and is ended after some seconds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any

from nonneg_server.http.connection_limits import ConnectionState
from nonneg_server.http.refusals import too_many_connections

logger = logging.getLogger("nonneg")
SECONDS = 5.0  # that a handshake may take
SPARE = 16  # handshakes that may be under way while all connections are taken: who makes one can read why it is refused
PAUSE = 1.0  # seconds until a client is accepted again where the process may open no more files


class Handshakes:
    """The handshakes under way; who has made one is answered by what `connect` returns."""

    def __init__(self, tls: ssl.SSLContext, shared: ConnectionState, connect: Callable[[], asyncio.Protocol]) -> None:
        self._tls = tls
        self._shared = shared
        self._connect = connect
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def settings(self) -> dict[str, Any]:
        """What the loop needs to know of TLS."""
        patience = self._shared.limits.read_timeout
        return {
            "ssl": self._tls,
            "ssl_handshake_timeout": min(patience, SECONDS),
            "ssl_shutdown_timeout": patience,
        }

    def begin(self, client: socket.socket) -> None:
        """Begin the handshake of a client that was accepted; close it where too many are connected."""
        limit = self._shared.limits.connections
        if self._shared.open + self._shared.handshakes >= limit + SPARE:
            self._shared.turned_away[too_many_connections(limit).type] += 1
            client.close()
            return
        client.setblocking(False)
        self._shared.handshakes += 1
        task = asyncio.get_running_loop().create_task(self._make(client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _make(self, client: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError):  # not made, or not in time: the loop has closed the connection
                await asyncio.get_running_loop().connect_accepted_socket(self._connect, client, **self.settings)
        finally:
            self._shared.handshakes -= 1

    async def over(self) -> None:
        """Wait until none is under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Listener:
    """A socket whose clients make a handshake first."""

    def __init__(self, listener: socket.socket, backlog: int, handshakes: Handshakes) -> None:
        self._socket = listener
        self._handshakes = handshakes
        self._loop = asyncio.get_running_loop()
        self._closed = False
        listener.setblocking(False)
        listener.listen(backlog)
        self._listen()

    def _listen(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        try:
            client, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:  # no more files, or no memory
            logger.error("no client can be accepted for %g s: %s", PAUSE, error)
            self._loop.remove_reader(self._socket)
            self._loop.call_later(PAUSE, self._listen)
        else:
            self._handshakes.begin(client)

    def close(self) -> None:
        """Accept no more clients."""
        self._closed = True
        self._loop.remove_reader(self._socket)

    async def wait_closed(self) -> None:
        """Return at once: handshakes are waited for before."""
