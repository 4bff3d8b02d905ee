"""What a connection refuses before, or instead of, the application: the errors, and any answer as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from nonneg_core.errors import (
    HeadTooLarge,
    MethodNotAllowed,
    NonnegError,
    NotReady,
    Overloaded,
    RequestInvalid,
    RequestTimeout,
)
from nonneg_server.http.error_responses import respond

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Scope


def refusal(error: NonnegError, scope: Scope, seconds: float) -> bytes:
    """Return the whole answer, in the dialect of the path if that is known, after which the connection ends."""
    request_id: str = scope["state"]["request_id"]
    return serialized(respond(error, request_id, scope.get("path", "")), request_id, seconds, keep_alive=False)


def serialized(response: Response, request_id: str, seconds: float, *, keep_alive: bool) -> bytes:
    """Return a response as uvicorn would send it."""
    lines = [STATUS_LINE[response.status_code], *(b"%s: %s\r\n" % header for header in response.raw_headers)]
    lines.append(b"x-request-id: %s\r\nx-total-time: %.3f\r\n" % (request_id.encode(), seconds * 1e3))
    lines.append(b"\r\n" if keep_alive else b"connection: close\r\n\r\n")
    return b"".join([*lines, bytes(response.body)])


def malformed_request() -> RequestInvalid:
    """Return the error for bytes that are not an HTTP/1.1 request."""
    return RequestInvalid("this is not an HTTP/1.1 request", fix="check what writes it", field="request")


def not_a_proxy() -> MethodNotAllowed:
    """Return the error for CONNECT, which asks for a proxy."""
    return MethodNotAllowed(
        "this server does not answer CONNECT: it is not a proxy",
        fix="send requests to it directly",
        field="method",
        value="CONNECT",
    )


def request_timed_out(what: str, limit: float) -> RequestTimeout:
    """Return the error for a request that took too long to arrive."""
    return RequestTimeout(what, fix="send the request at once and whole", field="body", limit=limit)


def head_too_large(size: int, headers: int) -> HeadTooLarge:
    """Return the error for a request line or headers beyond their limits."""
    return HeadTooLarge(
        f"the URL and headers exceed {size:,} bytes or {headers} headers",
        fix="put less into them",
        field="head",
        limit=size,
    )


def too_many_connections(limit: int) -> NotReady:
    """Return the error for a connection beyond the limit."""
    return NotReady(
        f"{limit} connections are open already",
        fix="retry, or raise --max-connections",
        field="max_connections",
        limit=limit,
        retry_after=1,
    )


def too_many_bytes(held: int, limit: int) -> Overloaded:
    """Return the error for a body that the memory for unread requests has no place for."""
    return Overloaded(
        f"{held} bytes of requests are arriving at once, the limit is {limit}",
        fix="send fewer requests at once, or raise --upload-bytes",
        field="upload_bytes",
        value=held,
        limit=limit,
        retry_after=1,
    )
