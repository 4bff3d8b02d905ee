"""What is refused before the application: malformed requests, upgrades, requests to a full queue, idle handshakes."""

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from httptools import HttpRequestParser
from starlette.responses import Response
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from nonneg_core import errors
from nonneg_server.api import dialect_of
from nonneg_server.api.route import RouteTable
from nonneg_server.engine.admission import Admission
from nonneg_server.http.connection_limits import ConnectionState
from nonneg_server.http.context import Completed, Observer, request_id_of, respond


def refusal(error: errors.NonnegError, scope: Scope, seconds: float) -> bytes:
    """Return the whole answer, in the dialect of the path if that is known, after which the connection ends."""
    request_id: str = scope["state"]["request_id"]
    return serialized(respond(error, request_id, scope.get("path", "")), request_id, seconds, keep_alive=False)


def serialized(response: Response, request_id: str, seconds: float, *, keep_alive: bool) -> bytes:
    """Return a response as uvicorn would send it."""
    lines = [STATUS_LINE[response.status_code], *(b"%s: %s\r\n" % header for header in response.raw_headers)]
    lines.append(b"x-request-id: %s\r\nx-total-time: %.3f\r\n" % (request_id.encode(), seconds * 1e3))
    lines.append(b"\r\n" if keep_alive else b"connection: close\r\n\r\n")
    return b"".join([*lines, bytes(response.body)])


def malformed_request() -> errors.RequestInvalid:
    """Return the error for bytes that are not an HTTP/1.1 request."""
    return errors.RequestInvalid("this is not an HTTP/1.1 request", fix="check what writes it", field="request")


def not_a_proxy() -> errors.MethodNotAllowed:
    """Return the error for CONNECT, which asks for a proxy."""
    return errors.MethodNotAllowed(
        "this server does not answer CONNECT: it is not a proxy",
        fix="send requests to it directly",
        field="method",
        value="CONNECT",
    )


def request_timed_out(what: str, limit: float) -> errors.RequestTimeout:
    """Return the error for a request that took too long to arrive."""
    return errors.RequestTimeout(what, fix="send the request at once and whole", field="body", limit=limit)


def head_too_large(size: int, headers: int) -> errors.HeadTooLarge:
    """Return the error for a request line or headers beyond their limits."""
    return errors.HeadTooLarge(
        f"the URL and headers exceed {size:,} bytes or {headers} headers",
        fix="put less into them",
        field="head",
        limit=size,
    )


def too_many_connections(limit: int) -> errors.NotReady:
    """Return the error for a connection beyond the limit."""
    return errors.NotReady(
        f"{limit} connections are open already",
        fix="retry, or raise --max-connections",
        field="max_connections",
        limit=limit,
        retry_after=1,
    )


def too_many_bytes(total: int, limit: int) -> errors.Overloaded:
    """Return the error for a body or an answer that the memory for requests and answers has no place for."""
    return errors.Overloaded(
        f"requests and answers would take {total} bytes at once, the limit is {limit}",
        fix="send fewer requests at once, or raise --upload-bytes",
        field="upload_bytes",
        value=total,
        limit=limit,
        retry_after=1,
    )


# Requests to switch the protocol: read again without `Upgrade`, and answered like any other.


def parser_for(connection: asyncio.Protocol) -> HttpRequestParser:
    """Return a parser at its beginning, as uvicorn sets it up."""
    parser = HttpRequestParser(connection)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def without_upgrade(method: str, url: bytes, version: str, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return the head without its request to switch the protocol, which a server may ignore (RFC 9110, 7.8)."""
    lines = [b"%s %s HTTP/%s" % (method.encode(), url, version.encode())]
    for name, value in headers:
        if name == b"connection":
            value = b", ".join(option for option in value.split(b",") if option.strip().lower() != b"upgrade")
        if name != b"upgrade":
            lines.append(name + b": " + value)
    return b"\r\n".join([*lines, b"", b""])


# Refuse requests at their headers while the queue is full, without reading the body.
#
# Only what the application would refuse after its body as well: a request to a route that embeds, with a key if one
# is needed, while as many images are in flight as may be.

READABLE_HEADERS = ("retry-after", "retry-after-ms", "x-fingerprint", "x-request-id", "x-total-time")  # by web pages
FRESH = 0.05  # seconds for which one answer is as good as another
_ID = "0" * 32  # stands where the request's id will be


class EarlyRejection:
    """The 429 of a full queue, prepared."""

    def __init__(
        self,
        admission: Callable[[], Admission | None],
        routes: RouteTable,
        is_authorized: Callable[[Scope], bool],
        observers: Sequence[Observer],
        *,
        origins: Collection[str] = (),
    ) -> None:
        self._admission = admission
        self._routes = routes
        self._is_authorized = is_authorized
        self._observers = observers
        self._origins = origins  # whose pages may read the answer
        self._prepared: dict[tuple[str, bool, str], tuple[float, bytes]] = {}

    @property
    def full(self) -> bool:
        """Whether not even one image more is let in."""
        admission = self._admission()
        return admission is not None and admission.full

    def answer(self, scope: Scope, *, keep_alive: bool) -> bytes | None:
        """Return the whole answer, counted and logged; None if the application has to answer."""
        admission, route = self._admission(), self._routes.find(scope["method"], scope["path"])
        if admission is None or route is None or not route.embeds or scope["method"] not in (route.methods or ()):
            return None
        if not self._is_authorized(scope):
            return None
        request_id, path = request_id_of(scope), str(scope["path"])
        admission.refused += 1
        scope["state"]["request_id"], scope["route"] = request_id, route
        answer = self._written(admission, path, request_id, self._readable_by(scope), keep_alive=keep_alive)
        seconds = time.perf_counter() - scope["state"]["started"]
        for observe in self._observers:
            observe(Completed(scope, 429, time.time() - seconds, seconds))
        return answer

    def _readable_by(self, scope: Scope) -> str:
        """Return the origin whose page may read the answer; empty where none asks or may."""
        if not self._origins:
            return ""
        origin: str = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"), "")
        if origin and "*" in self._origins:
            return "*"
        return origin if origin in self._origins else ""

    def _written(self, admission: Admission, path: str, request_id: str, origin: str, *, keep_alive: bool) -> bytes:
        if len(request_id) != len(_ID):
            return _serialized(admission, path, request_id, origin, keep_alive=keep_alive)
        kind, now = (dialect_of(path).name, keep_alive, origin), time.monotonic()
        until, answer = self._prepared.get(kind, (0.0, b""))
        if now > until:
            answer = _serialized(admission, path, _ID, origin, keep_alive=keep_alive)
            self._prepared[kind] = now + FRESH, answer
        return answer.replace(_ID.encode(), request_id.encode())


def _serialized(admission: Admission, path: str, request_id: str, origin: str, *, keep_alive: bool) -> bytes:
    response = respond(admission.refusal(), request_id, path)
    if origin:
        response.headers["access-control-allow-origin"] = origin
        response.headers["access-control-expose-headers"] = ", ".join(READABLE_HEADERS)
        response.headers["vary"] = "Origin"
    return serialized(response, request_id, 0.0, keep_alive=keep_alive)


# TLS handshakes that are not finished: each counts as a connection, and is ended after some seconds.

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
