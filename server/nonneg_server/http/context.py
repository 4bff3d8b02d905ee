"""What every answer has in common: a request id, the total time, and an error body even where the code failed."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nonneg_core.errors import NonnegError, RequestInvalid
from nonneg_server.health import still_loading
from nonneg_server.http.error_responses import respond

if TYPE_CHECKING:
    from nonneg_server.api.route import RouteTable
    from nonneg_server.http.connection_limits import ConnectionState

logger = logging.getLogger("nonneg")
_draw = random.Random().getrandbits  # seeded by the system
SINGLE = frozenset(  # headers that mean one thing: one value, however often they are given
    (b"host", b"content-type", b"authorization", b"x-api-key", b"x-request-id", b"x-request-timeout",
     b"inference-header-content-length")
)  # fmt: skip
CLIENT_CLOSED = 499  # what nginx made customary for a client that left before its answer


class Completed(NamedTuple):
    """A request that was answered, for whatever counts, logs or traces."""

    scope: Scope
    status: int
    began: float  # seconds since the epoch
    seconds: float

    @property
    def method(self) -> str:
        return str(self.scope["method"])

    @property
    def route(self) -> str:
        """The route's template: never the path as the client wrote it, which could be anything."""
        known = self.scope["state"].get("route") or getattr(self.scope.get("route"), "path", None)
        return str(known or "other")


Observer = Callable[[Completed], None]


class RequestContext:
    """Outermost middleware: request id, timing, unexpected errors, and observers.

    The clock runs from the request's headers on: the connection notes when they were complete.
    """

    def __init__(self, app: ASGIApp, shared: ConnectionState, routes: RouteTable) -> None:
        self._app = app
        self._shared = shared
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        started = state.setdefault("started", time.perf_counter())
        request_id = state.setdefault("request_id", request_id_of(scope))
        state["task"] = asyncio.current_task()
        asked = scope if scope["method"] != "HEAD" else {**scope, "method": "GET"}
        status = 0

        async def wrapped(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                total = b"%.3f" % ((time.perf_counter() - started) * 1e3)
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode()),
                    (b"x-total-time", total),
                ]
            elif asked is not scope:  # HEAD is answered as GET, without the body
                message = {**message, "body": b""}
            await send(message)

        try:
            if "abandoned" in state:
                status = state["abandoned"]
            elif self._shared.loading and not self._answers_while_loading(asked):
                await respond(still_loading(), request_id, scope["path"])(scope, receive, wrapped)
            elif (name := ambiguous(scope)) is not None:
                await respond(given_twice(name), request_id, scope["path"])(scope, receive, wrapped)
            else:
                await self._app(asked, receive, wrapped)
        except asyncio.CancelledError:
            if "abandoned" not in state:  # the connection has gone, or has refused it
                raise
            status = state["abandoned"]
        except Exception:
            logger.exception("request %s to %s failed", request_id, scope["path"])
            if not status:
                await respond(internal(), request_id, scope["path"], state.get("dialect"))(scope, receive, wrapped)
        scope.setdefault("route", asked.get("route"))
        seconds = time.perf_counter() - started
        completed = Completed(scope, status, time.time() - seconds, seconds)
        for observe in self._shared.observers:
            observe(completed)

    def _answers_while_loading(self, scope: Scope) -> bool:
        route = self._routes.find(scope["method"], scope["path"])
        scope["route"] = route
        return route is not None and route.tells_health


def request_id_of(scope: Scope) -> str:
    """Return the client's X-Request-Id where it is short and printable, else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and 0 < len(value) <= 128 and all(33 <= byte <= 126 for byte in value):
            return str(value.decode("ascii"))
    return f"{_draw(128):032x}"  # unlike all others, which is all that is asked of it: no secret


def ambiguous(scope: Scope) -> str | None:
    """Return the header that is given with two values, if any: one layer might read the first and another the last."""
    headers = scope["headers"]
    if len({name for name, _ in headers}) == len(headers):
        return None
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in SINGLE and found.setdefault(name, value) != value:
            return str(name.decode("ascii"))
    return None


def given_twice(header: str) -> NonnegError:
    """Return the error for a header with two values."""
    return RequestInvalid(f"the header {header} is given with two values", fix="give it once", field=header)


def internal() -> NonnegError:
    """Return the error of a failure whose cause only the log names."""
    return NonnegError("the server failed", fix="try again; the server's log has the cause under this request_id")
