"""The server process: signals, draining, and the watch over engines and connections."""

import asyncio
import concurrent.futures
import contextlib
import faulthandler
import logging
import math
import os
import signal
import socket
import ssl
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import uvicorn

from nonneg_core.errors import NotReady
from nonneg_server.engine.admission import Idle
from nonneg_server.engine.canary import Canaries
from nonneg_server.http.connection import LINGER, Connection
from nonneg_server.http.connection_limits import ConnectionState
from nonneg_server.http.refusals import Handshakes, Listener
from nonneg_server.models.served_models import Repository

logger = logging.getLogger("nonneg")
TURN = 0.001  # seconds that one thread may compute in Python while others wait; Python's own 5 ms add up over a request
PATIENCE = 1.0  # seconds in which a client that was accepted last may still send its request
LAST_RESORT = 4.0  # seconds after the grace period in which a process ends that hangs, in the runtime's code, say
TELLING = 1.0  # seconds before that in which it says where it hangs
AFTER_FAILURE = (
    0.5  # seconds in which `/livez` tells that a thread hangs or has died; then as much grace for the others
)
GONE = 1.75  # seconds after which such a process ends in any case


class Process(uvicorn.Server):
    """uvicorn's server, which drains before it stops and does not outlive its engines."""

    def __init__(
        self,
        config: uvicorn.Config,
        repository: Repository,
        shared: ConnectionState,
        loading: concurrent.futures.Future[None],
        *,
        drain: float,
        grace: float,
        on_loaded: Callable[[], None] = lambda: None,
        reload_hooks: Sequence[Callable[[], None]] = (),
        shutdown_hooks: Sequence[Callable[[], None]] = (),
    ) -> None:
        config.timeout_graceful_shutdown = math.ceil(grace + LINGER + 1)  # ours is over before
        super().__init__(config)
        self.servers: list[Any] = []  # asyncio's, or Listeners
        self._handshakes = None if config.ssl is None else Handshakes(config.ssl, shared, self._connection)
        self._repository = repository
        self._shared = shared
        self._loading = loading
        shared.loading = True
        self._on_loaded = on_loaded
        self._drain = drain
        self._grace = grace
        self.reload_hooks = [*reload_hooks]
        self._shutdown_hooks = shutdown_hooks
        self._leaving = False
        self._stop_at: float | None = None
        self.interrupted = False
        self.failure: str | None = None
        self._reloading: asyncio.Future[object] | None = None
        self._again = False
        self._idle = Idle()
        self._canaries = Canaries()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop on SIGTERM: refuse readiness, keep answering, then end. On SIGINT, or the signal again, stop at once."""
        again = self._shared.draining or self.should_exit
        self._shared.draining = True
        self.interrupted = self.interrupted or sig == signal.SIGINT
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        if sig == signal.SIGINT or again or self._shared.loading:
            self.should_exit = True
        else:
            self._stop_at = time.monotonic() + self._drain

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start as uvicorn does, but that handshakes count and end in time, and models may still be loading."""
        lower_loop_priority()
        sys.setswitchinterval(TURN)
        await self.lifespan.startup()
        for listener in sockets or []:
            self.servers.append(await self._listening(listener))
        self.started = True
        asyncio.wrap_future(self._loading).add_done_callback(self._loaded)
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload)

    async def _listening(self, listener: socket.socket) -> asyncio.Server | Listener:
        """Listen to a socket; on Windows, whose loop tells of no clients by themselves, handshakes do not count."""
        backlog, loop = self.config.backlog, asyncio.get_running_loop()
        if self._handshakes is None:
            return await loop.create_server(self._connection, sock=listener, backlog=backlog)
        if sys.platform == "win32":
            return await loop.create_server(
                self._connection, sock=listener, backlog=backlog, **self._handshakes.settings
            )
        return Listener(listener, backlog, self._handshakes)

    def _loaded(self, done: asyncio.Future[None]) -> None:
        """Begin to answer: the models are loaded; or end the process, if they could not be."""
        self._shared.loading = False
        if done.cancelled() or done.exception() is not None:
            self._shared.draining = self.should_exit = True
        elif not self._shared.draining:
            self._on_loaded()

    def _connection(self) -> Connection:
        return Connection(self.config, self.server_state, self._shared)

    def _reload(self) -> None:
        """Reload keys and certificate at once: both are small. Models now, or after the reload under way."""
        for reload in self.reload_hooks:
            reload()
        self._reload_certificate()
        if not self._shared.loading:
            self._reload_models()

    def _reload_models(self) -> None:
        """Reload again if one is under way: it may have seen a folder too early."""
        self._again = self._reloading is not None
        if self._reloading is None:
            self._reloading = asyncio.get_running_loop().run_in_executor(None, self._repository.reload)
            self._reloading.add_done_callback(self._reloaded)

    def _reload_certificate(self) -> None:
        """Show the present files to handshakes to come; a pair that does not fit changes nothing."""
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
            logger.warning("read the certificate again: %s", cert)

    def _reloaded(self, done: asyncio.Future[object]) -> None:
        self._reloading = None
        if (error := done.exception()) is not None:
            logger.error("the reload failed, what was served goes on", exc_info=error)
        if self._again:
            self._reload_models()

    async def on_tick(self, counter: int) -> bool:
        """Look, ten times a second, whether to stop."""
        if self._shared.draining and not self._leaving:
            self._leaving = True
            logger.info("shutting down: not ready from now on, %d connections are open", self._shared.open)
        if self._stop_at is not None and time.monotonic() >= self._stop_at:
            self.should_exit = True
        if counter % 10 == 0:
            self._sweep()
        if self.failure is None and (reason := self._repository.registry.failure_reason()) is not None:
            self.failure = reason
            self._shared.draining = True
            logger.critical("%s: the process ends, so that it can be restarted", reason)
            logger.critical("where the threads are:\n%s", thread_stacks())
            self._exit_after(GONE)
            self._stop_at = time.monotonic() + AFTER_FAILURE  # /livez tells, and what still works is answered
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, answer those there are; what takes longer than the grace period is cut off."""
        self._shared.draining = True
        grace, patience = self._grace, PATIENCE
        if self.failure is None:
            self._end_in_any_case(grace + PATIENCE + LAST_RESORT)
        else:
            grace, patience = min(grace, AFTER_FAILURE), 0.0
        asyncio.get_running_loop().call_later(grace, self._cut_off, grace)
        await self._close_listeners(sockets or [])
        for connection in self._connections():
            if connection.cycle is not None:
                connection.cycle.keep_alive = False
        until = time.monotonic() + patience
        while time.monotonic() < until and any(connection.unheard for connection in self._connections()):
            await asyncio.sleep(PATIENCE / 50)
        await super().shutdown(sockets)
        for close in self._shutdown_hooks:
            close()

    def _end_in_any_case(self, seconds: float) -> None:
        """End where a thread hangs, and say where; also while the runtime's own code keeps the interpreter."""
        teller = threading.Timer(seconds - TELLING, lambda: logger.critical("it hangs:\n%s", thread_stacks()))
        teller.daemon = True
        teller.start()
        self._exit_after(seconds)

    def _exit_after(self, seconds: float) -> None:
        with contextlib.suppress(RuntimeError, OSError):  # descriptor 2 is the log's, where writing does not wait
            faulthandler.dump_traceback_later(seconds, exit=True, file=2)

    async def _close_listeners(self, listeners: Sequence[socket.socket]) -> None:
        """Stop listening, but accept the clients whose connection the system has made: closing would reset them."""
        loop, spares, accepted = asyncio.get_running_loop(), [listener.dup() for listener in listeners], []
        for server in self.servers:
            server.close()
        for spare in spares:
            spare.setblocking(False)
            with spare, contextlib.suppress(OSError):  # the last of them is that there is none left
                while True:
                    accepted.append(spare.accept()[0])
        if self._handshakes is None:
            making = (loop.connect_accepted_socket(self._connection, client) for client in accepted)
            await asyncio.gather(*making, return_exceptions=True)
            return
        for client in accepted:
            self._handshakes.begin(client)
        await self._handshakes.over()

    def _cut_off(self, grace: float) -> None:
        """End what is left: the grace period is over."""
        late = self._connections()
        if late:
            logger.error("not served to the end within %g s, and cut off: %d of the clients", grace, len(late))
        for connection in late:
            connection.cut_off(
                NotReady("this server shut down before it was done", fix="ask another one", retry_after=1)
            )

    def _sweep(self) -> None:
        now = asyncio.get_running_loop().time()
        for connection in self._connections():
            connection.sweep(now)
        engines = self._repository.registry.all()
        self._idle.look(now, [engine.admission for engine in engines])
        if not self._shared.draining:
            self._canaries.look(now, engines)

    def _connections(self) -> list[Connection]:
        return [connection for connection in self.server_state.connections if isinstance(connection, Connection)]


def thread_stacks() -> str:
    """Return what every thread is at."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames().items()
    return "".join(f"{names.get(number)}:\n{''.join(traceback.format_stack(frame))}" for number, frame in frames)


def lower_loop_priority() -> bool:
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
