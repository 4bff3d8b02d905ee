"""Every failure as the answer its dialect expects: one body shape, the status, the request's id."""

from __future__ import annotations

import difflib
import logging
import math

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from nonneg_core.errors import MethodNotAllowed, NonnegError, NotFound, RequestInvalid
from nonneg_server.api import dialect_of
from nonneg_server.api.dialect import Dialect
from nonneg_server.api.route import Route

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
    found = [route.methods or () for route in routes if route.path_regex.match(request.scope["path"])]
    methods = sorted({method for listed in found for method in listed})
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
