"""The server process: signals, draining, and the watch over engines and connections."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import faulthandler
import logging
import math
import os
import signal
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from nonneg_core.errors import NotReady
from nonneg_server.engine.idle import Idle
from nonneg_server.http.connection import LINGER, Connection, House

if TYPE_CHECKING:
    from nonneg_server.repository import Repository

logger = logging.getLogger("nonneg")
SO_ATTACH_FILTER = 26  # asm-generic/socket.h; Python has no name for it
SETTLE = 0.1  # seconds in which those who stand at the door still come in
PATIENCE = 1.0  # seconds in which a client that was let in last may still send its request
LAST_RESORT = 4.0  # seconds after the grace period in which a process ends that hangs: a thread amid the runtime, say


class Process(uvicorn.Server):
    """uvicorn's server, which drains before it stops and does not outlive its engines."""

    def __init__(
        self,
        config: uvicorn.Config,
        repository: Repository,
        house: House,
        *,
        drain: float,
        grace: float,
        renewals: Sequence[Callable[[], None]] = (),
        farewells: Sequence[Callable[[], None]] = (),
    ) -> None:
        config.timeout_graceful_shutdown = math.ceil(grace + LINGER + 1)  # ours is over before
        super().__init__(config)
        self.servers: list[asyncio.base_events.Server] = []
        self._repository = repository
        self._house = house
        self._drain = drain
        self._grace = grace
        self._renewals = renewals
        self._farewells = farewells
        self._leaving = False
        self._stop_at: float | None = None
        self.interrupted = False
        self.ailment: str | None = None
        self._reloading: asyncio.Future[object] | None = None
        self._again = False
        self._idle = Idle()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM: refuse readiness, keep answering, then stop. SIGINT, or the signal again: stop at once."""
        again = self._house.draining or self.should_exit
        self._house.draining = True
        self.interrupted = self.interrupted or sig == signal.SIGINT
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        if sig == signal.SIGINT or again:
            self.should_exit = True
        else:
            self._stop_at = time.monotonic() + self._drain

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, but that handshakes have a time, too; and read everything anew on SIGHUP."""
        loop, silence, tls = asyncio.get_running_loop(), self._house.silence, self.config.ssl
        patience = None if tls is None else silence
        give_way()
        await self.lifespan.startup()
        for listener in sockets or []:
            server = await loop.create_server(
                self._connection,
                sock=listener,
                ssl=tls,
                ssl_handshake_timeout=patience,
                ssl_shutdown_timeout=patience,
                backlog=self.config.backlog,
            )
            self.servers.append(server)
        self.started = True
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            loop.add_signal_handler(signal.SIGHUP, self._reload)

    def _connection(self) -> Connection:
        kind = self.config.http_protocol_class
        assert issubclass(kind, Connection)
        return kind(self.config, self.server_state, self.lifespan.state)

    def _reload(self) -> None:
        """Keys and certificate at once: both are small. Models now, or again when the reload under way is done."""
        for renew in self._renewals:
            renew()
        self._renew_certificate()
        self._reload_models()

    def _reload_models(self) -> None:
        """Again if one is under way: it may have seen a folder too early."""
        self._again = self._reloading is not None
        if self._reloading is None:
            self._reloading = asyncio.get_running_loop().run_in_executor(None, self._repository.reload)
            self._reloading.add_done_callback(self._reloaded)

    def _renew_certificate(self) -> None:
        """Handshakes to come see the present files; a pair that does not fit changes nothing."""
        cert, key, tls = self.config.ssl_certfile, self.config.ssl_keyfile, self.config.ssl
        if tls is None or cert is None:
            return
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password="")  # never ask a terminal
            tls.load_cert_chain(cert, key, password="")
        except OSError as error:  # ssl.SSLError is one
            fix = f"check that it and {key} are PEM, readable and belong together, then send SIGHUP again"
            logger.error("the certificate stays as it was: %s (%s): %s", cert, error, fix)
        else:
            logger.warning("read the certificate anew: %s", cert)

    def _reloaded(self, done: asyncio.Future[object]) -> None:
        self._reloading = None
        if (error := done.exception()) is not None:
            logger.error("the reload failed, what was served goes on", exc_info=error)
        if self._again:
            self._reload_models()

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        if self._house.draining and not self._leaving:
            self._leaving = True
            logger.info("shutting down: not ready from now on, %d connections are open", self._house.open)
        if self._stop_at is not None and time.monotonic() >= self._stop_at:
            self.should_exit = True
        if counter % 10 == 0:
            self._sweep()
        if self.ailment is None and (found := self._repository.registry.ailment()) is not None:
            self.ailment = found
            self._house.draining = True
            logger.critical("%s: the process ends, so that it can be restarted", found)
            self._stop_at = time.monotonic() + 1.0  # /livez tells, and what still works is answered
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let nobody new in, hear those who came last, finish what is in flight; what takes longer is cut off."""
        self._house.draining = True
        with contextlib.suppress(RuntimeError, OSError):  # no stderr to write to
            faulthandler.dump_traceback_later(self._grace + SETTLE + PATIENCE + LAST_RESORT, exit=True)
        asyncio.get_running_loop().call_later(self._grace, self._cut_off)
        for listener in sockets or []:
            deafen(listener)
        for connection in self._connections():
            if connection.cycle is not None:
                connection.cycle.keep_alive = False
        await asyncio.sleep(SETTLE)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and any(connection.unheard for connection in self._connections()):
            await asyncio.sleep(SETTLE / 5)
        await super().shutdown(sockets)
        for say_farewell in self._farewells:
            say_farewell()

    def _cut_off(self) -> None:
        """The grace period is over."""
        late = self._connections()
        if late:
            logger.error("not served to the end within %g s, and cut off: %d of the clients", self._grace, len(late))
        for connection in late:
            connection.cut_off(
                NotReady("this server shut down before it was done", fix="ask another one", retry_after=1)
            )

    def _sweep(self) -> None:
        now = asyncio.get_running_loop().time()
        for connection in self._connections():
            connection.sweep(now)
        self._idle.look(now, [engine.admission for engine in self._repository.registry.all()])

    def _connections(self) -> list[Connection]:
        return [found for found in self.server_state.connections if isinstance(found, Connection)]


def give_way() -> bool:
    """Have this thread, the loop's, wait for a core instead of taking one from an inference; False if that fails.

    While the cores are busy there is enough to go on with, and what an interrupted inference had in the caches costs
    more than the loop's few milliseconds of waiting. Where a core is free, nothing changes.
    """
    if not hasattr(os, "SCHED_BATCH"):  # Linux only
        return False
    try:
        os.sched_setscheduler(0, os.SCHED_BATCH | os.SCHED_RESET_ON_FORK, os.sched_param(0))
    except OSError as error:
        logger.debug("the loop keeps its ordinary priority: %s", error)
        return False
    return True


def deafen(listener: socket.socket) -> bool:
    """Let those in who have knocked, and nobody else: closing at once would reset who stands in the queue.

    A packet filter that drops everything; connections that exist have passed it. Clients whose knock is dropped try
    again, and are refused as soon as the listener is closed. False where the system has no such filter or does not
    let this user set one: a client that stands in the queue at the last instant then has to try again.
    """
    if not hasattr(socket, "AF_PACKET"):  # Linux only
        return False
    drop_all = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # BPF_RET | BPF_K: accept 0 bytes
    try:
        listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(drop_all)))
    except OSError as error:
        logger.debug("no packet filter on the listener: %s", error)
        return False
    return True
