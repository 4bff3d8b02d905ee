"""One HTTP connection, with limits on silence, size, number and duration.

Built on uvicorn's own protocol. No timers a request: one sweep a second looks at every connection.
"""

import asyncio
import time
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade
from starlette.types import Scope
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from nonneg_core.errors import NonnegError
from nonneg_server.http import refusals
from nonneg_server.http.connection_limits import ConnectionState, UnreadOutput, unread_bytes
from nonneg_server.http.context import CLIENT_CLOSED, Completed, request_id_of
from nonneg_server.http.origin import client_behind

SMALL = 2**20  # bytes of a refused body that are let pass by, so that the connection can be used again
MOST_HEAD = 2**16  # bytes of a head that is not whole yet, or of what comes behind a body
MOST_HEADERS = 256
GATHERED = 2**20  # bytes of a body that are handed to the application at once
LINGER = 1.0  # seconds in which what a client still sends is thrown away, so that it can read its last answer


class _LastAnswer:
    """The transport of a request's cycle, which closes it behind an answer that is the connection's last."""

    def __init__(self, connection: "Connection") -> None:
        self.write, self.is_closing = connection.transport.write, connection.transport.is_closing
        self.close = connection.hang_up


class Connection(HttpToolsProtocol):
    """One client."""

    _held = 0  # bytes of the body, and of the answer to it
    _reserved = False  # whether an answer's are among them
    _beside = 0  # bytes that came since the last one of a body, or since the last head was whole
    _arriving = False  # between a request's first byte and its last
    _began = 0.0
    _heard = 0.0
    _refused = False
    _running: RequestResponseCycle | None = None  # the one being answered; `cycle` is the one that arrived last
    _passing = False  # the rest of a request that was refused at its headers

    def __init__(self, config: Config, server_state: ServerState, shared: ConnectionState) -> None:
        super().__init__(config, server_state, {})
        self._shared = shared

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arriving, self._began = True, self.loop.time()  # a client that says nothing at all is late, too
        self._heard = self._began
        self._shared.open += 1
        self._unread = UnreadOutput()
        if len(self.connections) > self._shared.limits.connections:
            self.refuse(refusals.too_many_connections(self._shared.limits.connections))

    def connection_lost(self, exc: Exception | None) -> None:
        self._give_up()
        super().connection_lost(exc)
        self._release()
        if self.scope:  # it and the cycle hold this, and this holds them: only a collection would free them
            self.scope["state"].pop("reserve", None)
        if self._running is not None:
            self._running.transport = self.transport
        self._shared.buffered -= self._unread.bytes
        self._shared.open -= 1

    def eof_received(self) -> None:
        """Give up: the client hung up; the transport is closed before connection_lost is called, and takes nothing."""
        super().eof_received()
        self._give_up()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._heard = self.loop.time()
        self._beside += len(data)
        self._unset_keepalive_if_required()
        try:
            self._parse(memoryview(data))
        except HttpParserError:
            self.refuse(refusals.malformed_request())
        if (self._beside > MOST_HEAD or len(self.headers or ()) > MOST_HEADERS) and not self._refused:
            self.refuse(refusals.head_too_large(MOST_HEAD, MOST_HEADERS))
            self.headers.clear()  # as objects they take many times the bytes that came

    def _parse(self, data: memoryview) -> None:
        """Feed the parser, which stops behind each head that asks for another protocol: none is spoken here.

        What follows such a head is its body, as without that wish. Where a parser goes on by itself it takes the body
        for a request.
        """
        while data and not self._refused:
            try:
                self.parser.feed_data(data)
            except HttpParserUpgrade as stopped:
                data = data[stopped.args[0] :]
                if self.scope["method"] == "CONNECT":
                    self.refuse(refusals.not_a_proxy())
                else:
                    head = refusals.without_upgrade(
                        self.scope["method"], self.url, self.scope["http_version"], self.headers
                    )
                    self.parser = refusals.parser_for(self)
                    self.parser.feed_data(head)
            else:
                return

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._arriving:
            self._arriving, self._began = True, self._heard

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            self.scope["method"] = self.parser.get_method().decode("ascii")
            self.scope["http_version"] = self.parser.get_http_version()
            return
        self._beside = 0
        self.scope["state"].update(started=time.perf_counter(), reserve=self.reserve)
        if self._shared.proxies:
            self.scope["client"] = client_behind(self.client, self.headers, self._shared.proxies)
        if len(self.url) >= MOST_HEAD:  # more than uvicorn's parser of addresses takes
            self.refuse(refusals.head_too_large(MOST_HEAD, MOST_HEADERS))
        if self._refused or self._rejected_early():
            return
        super().on_headers_complete()
        if self._shared.draining:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Do as uvicorn does, but wake the application for a megabyte, where uvicorn wakes it for every piece."""
        self._beside = 0
        cycle = self.cycle
        if self._passing or self._refused or cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) >= GATHERED:
            self.flow.pause_reading()
            cycle.message_event.set()
        self._hold(len(body))

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._arriving = False
        if self._refused:
            return
        if self._passing:
            self._passing = False
            super().on_response_complete()
            return
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._release()
        if self._reserved:  # what was not sent yet is counted from now on by itself
            self._reserved = False
            self._count_unread(self.loop.time())
        if not self._refused:
            super().on_response_complete()

    @property
    def unheard(self) -> bool:
        """Whether a request is on its way of which not even the head is here: nothing at all of a new client's."""
        cycle: Any = self.cycle
        return self._arriving and not self._refused and (cycle is None or cycle.response_complete)

    def sweep(self, now: float) -> None:
        """End it if its request does not arrive, or its answer is not taken."""
        limits = self._shared.limits
        self._count_unread(now)
        if self._unread.too_long(now, read_timeout=limits.read_timeout, receive_timeout=limits.receive_timeout):
            self._shared.turned_away["answer_not_taken"] += 1
            self.transport.abort()
        if not self._arriving or self._refused:
            return
        late = now - self._heard > limits.read_timeout or now - self._began > limits.receive_timeout
        if late and self._answered_early():
            self.transport.close()
        elif now - self._heard > limits.read_timeout:
            self.refuse(
                refusals.request_timed_out(f"nothing arrived for {limits.read_timeout:g} s", limits.read_timeout)
            )
        elif now - self._began > limits.receive_timeout:
            what = f"the request took longer than {limits.receive_timeout:g} s to arrive"
            self.refuse(refusals.request_timed_out(what, limits.receive_timeout))

    def _answered_early(self) -> bool:
        """Return whether the arriving request is answered; another answer would be read as the next request's."""
        cycle: Any = self.cycle
        return cycle is not None and cycle.scope is self.scope and bool(cycle.response_complete)

    def refuse(self, error: NonnegError) -> None:
        """Send an error, cancel the request's work and close the connection."""
        self._refused = True
        self._shared.turned_away[error.type] += 1
        running, status = self._running, CLIENT_CLOSED
        if not self._passing and (running is None or not running.response_started or running.response_complete):
            scope, seconds = self._asked()
            status = error.status
            self.transport.write(refusals.refusal(error, scope, seconds))
            if not self._in_work():  # else the application counts and logs it
                self._shared.report(Completed(scope, status, time.time() - seconds, seconds))
        self._give_up(status)
        self._release()
        self.hang_up()

    def _in_work(self) -> bool:
        return self._running is not None and not self._running.response_complete

    def _asked(self) -> tuple[Scope, float]:
        """Return the request, as far as its head has arrived, with its id; and its age in seconds."""
        if self._running is not None and self._in_work():
            scope: Any = self._running.scope
            seconds = time.perf_counter() - scope["state"]["started"]
        else:
            headers = self.headers or () if self._arriving else ()
            scope = {"method": "-", "headers": headers, "client": self.client, "state": {}}
            seconds = self.loop.time() - self._began if self._arriving else 0.0
        scope["state"].setdefault("request_id", request_id_of(scope))
        return scope, seconds

    def cut_off(self, error: NonnegError) -> None:
        """Close the connection at any stage; a client that waits for an answer gets the error."""
        if unread_bytes(self.transport):
            self.transport.abort()
        elif not self._refused:
            self.refuse(error)

    def _rejected_early(self) -> bool:
        """Refuse the request if the queue is full, before its body is read; return whether it was refused."""
        early = self._shared.early
        answering = self.cycle is not None and not self.cycle.response_complete
        if early is None or answering or not early.full:
            return False
        scope: Any = self.scope
        scope["method"] = self.parser.get_method().decode("ascii")
        scope["path"] = self.url.partition(b"?")[0].decode("latin-1")
        keep_alive = self._can_pass()
        answer = early.answer(scope, keep_alive=keep_alive)
        if answer is None:
            return False
        self.transport.write(answer)
        self._passing = True
        if not keep_alive:
            self.hang_up()
        return True

    def _can_pass(self) -> bool:
        """Return whether the request body is small enough to read and discard."""
        length = next((value for name, value in self.headers if name == b"content-length"), b"")
        small = length.isdigit() and len(length) < 9 and int(length) <= SMALL
        persistent = self.parser.should_keep_alive() and self.parser.get_http_version() == "1.1"
        return small and persistent and not self.expect_100_continue and not self._shared.draining

    def hang_up(self) -> None:
        """End the answers, and close the connection once the client has closed it, or has had time to read.

        Bytes that were not read reset a connection that is closed at once, and the client loses its answer.
        """
        self._refused = True
        if self.flow is not None:
            self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        elif not self._arriving:  # TLS has no half: a client that reads to the end waits for the whole
            self.transport.close()
        self.loop.call_later(LINGER, self.transport.close)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        cycle.transport = _LastAnswer(self)  # type: ignore[assignment]
        super()._start_asgi_task(cycle, app)

    def _give_up(self, status: int = CLIENT_CLOSED) -> None:
        """Drop the work for the request that is being answered, and for those sent right behind it."""
        for cycle in (self._running, self.cycle, *(queued for queued, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
                abandon(cycle.scope, status)

    def _hold(self, size: int) -> None:
        self._held += size
        self._shared.buffered += size
        if self._shared.buffered > self._shared.limits.bytes:
            self.refuse(refusals.too_many_bytes(self._shared.buffered, self._shared.limits.bytes))

    def reserve(self, size: int) -> None:
        """Take memory for an answer until it is sent, or raise Overloaded. One answer alone may take any size."""
        others, most = self._shared.buffered - self._held, self._shared.limits.bytes
        if others and self._shared.buffered + size > most:
            raise refusals.too_many_bytes(self._shared.buffered + size, most)
        self._held += size
        self._shared.buffered += size
        self._reserved = True

    def _count_unread(self, now: float) -> None:
        self._shared.buffered -= self._unread.bytes
        self._unread.look(self.transport, now)
        self._shared.buffered += self._unread.bytes

    def _release(self) -> None:
        self._shared.buffered -= self._held
        self._held = 0


def abandon(scope: Any, status: int = CLIENT_CLOSED) -> None:
    """Cancel the task of a request whose client has gone, or was answered here; one that has not begun never will."""
    state = scope["state"]
    task = state.get("task")
    if task is None or not task.done():
        state.setdefault("abandoned", status)
    if task is not None:
        task.cancel()
