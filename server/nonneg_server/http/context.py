"""What every request has in common: an id, a clock, a deadline, and failures in the form its dialect expects."""

import asyncio
import difflib
import logging
import math
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nonneg_core.errors import MethodNotAllowed, NonnegError, NotFound, ParameterInvalid, RequestInvalid
from nonneg_server.api import dialect_of
from nonneg_server.api.route import Dialect, Route, RouteTable
from nonneg_server.http.origin import OriginCheck
from nonneg_server.models.served_models import still_loading

if TYPE_CHECKING:
    from nonneg_server.http.connection_limits import ConnectionState

logger = logging.getLogger("nonneg")
MOST_CHARACTERS = 1_000  # of each part of an error


def respond(error: NonnegError, request_id: str, path: str = "", dialect: Dialect | None = None) -> Response:
    """Return the error answer in the dialect of the request, which is its path's unless its body said otherwise."""
    body = (dialect or dialect_of(path)).error_body(_cut(error), request_id)
    headers = {} if error.retry_after is None else retry_headers(error.retry_after)
    return Response(orjson.dumps(body), error.status, headers, "application/json")


def _cut(error: NonnegError) -> NonnegError:
    """Shorten what the error quotes of a request: a name may be as long as a body."""
    for name in ("message", "fix", "field", "value"):
        text = getattr(error, name)
        if isinstance(text, str) and len(text) > MOST_CHARACTERS:
            setattr(error, name, text[:MOST_CHARACTERS] + "…")
    return error


def retry_headers(seconds: float) -> dict[str, str]:
    """Return the wait in whole seconds, as the standard requires, and in milliseconds, as some SDKs expect."""
    return {"retry-after": str(max(1, math.ceil(seconds))), "retry-after-ms": str(math.ceil(seconds * 1000))}


def logged(error: NonnegError, request_id: str, path: str, dialect: Dialect | None = None) -> Response:
    """Return the error's answer; where the server itself failed, the answer does not tell why, the log does."""
    if error.status == NonnegError.status:
        logger.error("request %s failed", request_id, exc_info=error)
    return respond(error, request_id, path, dialect)


async def on_error(request: Request, error: Exception) -> Response:
    """Answer one of our own errors."""
    assert isinstance(error, NonnegError)
    state = request.scope["state"]
    return logged(error, state["request_id"], request.scope["path"], state.get("dialect"))


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Answer an error of the router: no such path, no such method."""
    assert isinstance(error, HTTPException)
    response = respond(_translated(request, error), request.scope["state"]["request_id"], request.scope["path"])
    for name, value in (error.headers or {}).items():
        response.headers[name] = _allowed(request) if name.lower() == "allow" else value
    return response


def _allowed(request: Request) -> str:
    """Return the methods of all routes at the request's path; HEAD is answered wherever GET is."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    method_sets = [route.methods or () for route in routes if route.path_regex.match(request.scope["path"])]
    methods = sorted({method for listed in method_sets for method in listed})
    return ", ".join([*methods, "HEAD"] if "GET" in methods and "HEAD" not in methods else methods)


def _translated(request: Request, error: HTTPException) -> NonnegError:
    path, method = request.scope["path"], request.scope["method"]
    if error.status_code == 405:
        fix = f"use {_allowed(request)}"
        return MethodNotAllowed(f"{path} does not answer {method}", fix=fix, field="method", value=method)
    if error.status_code == 404:
        known = sorted({getattr(route, "path", "") for route in request.app.routes} - {""})
        close = difflib.get_close_matches(path[:200], known, n=1, cutoff=0.7)
        hint = f"did you mean {close[0]}? " if close else ""
        return NotFound(f"{path} does not exist here", fix=f"{hint}see /docs", field="path", value=path)
    return RequestInvalid(str(error.detail))


# What every answer has in common: a request id, the total time, and an error body even where the code failed.

_draw = random.Random().getrandbits  # seeded by the system
SINGLE = frozenset(  # headers that mean one thing: one value, however often they are given
    (b"host", b"content-type", b"authorization", b"x-api-key", b"x-request-id", b"x-request-timeout",
     b"origin", b"inference-header-content-length")
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


class Deadline:
    """When a request has to be answered, in the event loop's time; its body, which the server awaits, is not counted.

    It is set when it is first read, by the server's timeout or the client's, and stays.
    """

    def __init__(self, scope: Scope, timeout: float) -> None:
        self._headers = scope["headers"]  # not the scope, which holds this: a cycle would keep both
        self._timeout = timeout
        self._at: float | None = None

    def __call__(self) -> float:
        """Return it; ParameterInvalid where the client's timeout is not a positive number."""
        if self._at is None:
            given = next((value for name, value in self._headers if name == b"x-request-timeout"), None)
            seconds = self._timeout if given is None else min(_seconds(given.decode("latin-1")), self._timeout)
            self._at = asyncio.get_running_loop().time() + seconds
        return self._at


def _seconds(given: str) -> float:
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ParameterInvalid(
            f"x-request-timeout: {given!r} is not a positive number",
            fix="give seconds, as in 2.5, or omit it",
            field="x-request-timeout",
            value=given[:40],
        )
    return seconds


class RequestContext:
    """Outermost middleware: request id, clock and deadline, unexpected errors, and observers.

    The clock runs from the request's headers on: the connection notes when they were complete.
    """

    def __init__(
        self, app: ASGIApp, shared: "ConnectionState", routes: RouteTable, timeout: float, origins: OriginCheck
    ) -> None:
        self._app = app
        self._origins = origins
        self._shared = shared
        self._routes = routes
        self._timeout = timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        started = state.setdefault("started", time.perf_counter())
        request_id = state.setdefault("request_id", request_id_of(scope))
        state["task"] = asyncio.current_task()
        state["deadline"] = Deadline(scope, self._timeout)
        get_scope = scope if scope["method"] != "HEAD" else {**scope, "method": "GET"}
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
            elif get_scope is not scope:  # HEAD is answered as GET, without the body
                message = {**message, "body": b""}
            await send(message)

        try:
            if "abandoned" in state:
                status = state["abandoned"]
            elif self._shared.loading and not self._answers_while_loading(get_scope):
                await respond(still_loading(), request_id, scope["path"])(scope, receive, wrapped)
            elif (name := ambiguous(scope)) is not None:
                await respond(given_twice(name), request_id, scope["path"])(scope, receive, wrapped)
            elif (foreign := self._origins.refusal(scope)) is not None:
                scope["route"] = self._routes.find(scope["method"], scope["path"])  # for the metrics and the log
                await respond(foreign, request_id, scope["path"])(scope, receive, wrapped)
            else:
                await self._app(get_scope, receive, wrapped)
        except asyncio.CancelledError:
            if "abandoned" not in state:  # the connection has gone, or has refused it
                raise
            status = state["abandoned"]
        except Exception:
            logger.exception("request %s to %s failed", request_id, scope["path"])
            if not status:
                await respond(internal(), request_id, scope["path"], state.get("dialect"))(scope, receive, wrapped)
        scope.setdefault("route", get_scope.get("route"))
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
    firsts: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in SINGLE and firsts.setdefault(name, value) != value:
            return str(name.decode("ascii"))
    return None


def given_twice(header: str) -> NonnegError:
    """Return the error for a header with two values."""
    return RequestInvalid(f"the header {header} is given with two values", fix="give it once", field=header)


def internal() -> NonnegError:
    """Return the error of a failure whose cause only the log names."""
    return NonnegError("the server failed", fix="try again; the server's log has the cause under this request_id")
