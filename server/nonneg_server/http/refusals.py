"""What the protocol refuses before, or instead of, the application: in words, and as bytes like any other answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from nonneg_server.http.serialize import whole, written

if TYPE_CHECKING:
    from starlette.types import Scope


def refusal(error: NonnegError, scope: Scope, seconds: float) -> bytes:
    """The whole answer, in the dialect of the path if that is known."""
    request_id: str = scope["state"]["request_id"]
    answer = written(respond(error, request_id, scope.get("path", "")))
    return whole(answer, request_id, seconds, keep_alive=False)


def no_http() -> RequestInvalid:
    return RequestInvalid("this is no HTTP/1.1 request", fix="check what writes it", field="request")


def no_proxy() -> MethodNotAllowed:
    return MethodNotAllowed(
        "this server does not answer CONNECT: it is not a proxy",
        fix="send requests to it directly",
        field="method",
        value="CONNECT",
    )


def late(what: str, limit: float) -> RequestTimeout:
    return RequestTimeout(what, fix="send the request at once and whole", field="body", limit=limit)


def too_long_a_head(size: int, headers: int) -> HeadTooLarge:
    return HeadTooLarge(
        f"the address and the headers have more than {size} bytes, or are more than {headers}",
        fix="put less into them",
        field="head",
        limit=size,
    )


def crowded(limit: int) -> NotReady:
    return NotReady(
        f"{limit} connections are open already",
        fix="close idle connections, or raise --max-connections",
        field="max_connections",
        limit=limit,
        retry_after=1,
    )


def too_many_bytes(held: int, limit: int) -> Overloaded:
    return Overloaded(
        f"{held} bytes of requests are arriving at once, the limit is {limit}",
        fix="send fewer requests at once, or raise --upload-bytes",
        field="upload_bytes",
        value=held,
        limit=limit,
        retry_after=1,
    )
