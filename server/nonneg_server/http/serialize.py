"""A whole answer as bytes, the same as the long way would write, for those that are given without an application."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE


class Written(NamedTuple):
    """An answer before it is known when, and on which connection, it is given."""

    status: int
    headers: Iterable[tuple[bytes, bytes]]
    body: bytes


def written(response: Response) -> Written:
    """What a response of the application would send."""
    return Written(response.status_code, response.raw_headers, bytes(response.body))


def head_of(answer: Written, request_id: str, seconds: float) -> bytes:
    """The head, but for the empty line that ends it."""
    lines = [STATUS_LINE[answer.status]]
    lines += [b"%s: %s\r\n" % header for header in answer.headers]
    lines.append(b"x-request-id: %s\r\nx-total-time: %.3f\r\n" % (request_id.encode(), seconds * 1e3))
    return b"".join(lines)


def whole(answer: Written, request_id: str, seconds: float, *, keep_alive: bool) -> bytes:
    """Head and body in one."""
    return head_of(answer, request_id, seconds) + ending(keep_alive=keep_alive) + answer.body


def ending(*, keep_alive: bool) -> bytes:
    """What ends a head."""
    return b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
