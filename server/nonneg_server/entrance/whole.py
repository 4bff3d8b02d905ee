"""A whole answer as bytes, the same as the long way would write, for those that are given without an application."""

from __future__ import annotations

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE


def head_and_body(response: Response, request_id: str, seconds: float) -> tuple[bytes, bytes]:
    """The head, but for the empty line that ends it, and the body."""
    lines = [STATUS_LINE[response.status_code]]
    lines += [b"%s: %s\r\n" % header for header in response.raw_headers]
    lines.append(b"x-request-id: %s\r\nx-total-time: %.3f\r\n" % (request_id.encode(), seconds * 1e3))
    return b"".join(lines), bytes(response.body)


def whole(response: Response, request_id: str, seconds: float, *, keep_alive: bool) -> bytes:
    """Head and body in one."""
    head, body = head_and_body(response, request_id, seconds)
    return head + ending(keep_alive=keep_alive) + body


def ending(*, keep_alive: bool) -> bytes:
    """What ends a head."""
    return b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
