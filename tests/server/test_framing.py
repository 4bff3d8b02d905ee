"""What a body holds is never taken for a request, whatever its head says and however the two arrive."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

Png = Callable[[int], bytes]
HIDDEN = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
LENGTH = f"Content-Length: {len(HIDDEN)}"


def connected(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname, parts.port), timeout=20)


def head(*lines: str) -> bytes:
    return "\r\n".join([lines[0], "Host: localhost", *lines[1:], "", ""]).encode()


def answers(connection: socket.socket) -> list[bytes]:
    """All answers up to the end of the connection."""
    received = b""
    while piece := connection.recv(65536):
        received += piece
    return re.split(rb"(?=HTTP/1\.1 [1-5]\d\d )", received)[1:]


def final(found: list[bytes]) -> list[bytes]:
    return [answer for answer in found if not answer.startswith(b"HTTP/1.1 100 ")]


HEADS = {
    "upgrade": head("POST /embed HTTP/1.1", "Connection: Upgrade", "Upgrade: h2c", LENGTH),
    "http2": head("POST /embed HTTP/1.1", "Connection: Upgrade, X", "Upgrade: h2c", "HTTP2-Settings: A", LENGTH),
    "websocket": head("POST /embed HTTP/1.1", "Connection: upgrade", "Upgrade: websocket", LENGTH),
    "upgrade, chunked": head("POST /embed HTTP/1.1", "Connection: Upgrade", "Upgrade: x", "Transfer-Encoding: chunked"),
    "upgrade, 1.0": head("POST /embed HTTP/1.0", "Connection: Upgrade", "Upgrade: h2c", LENGTH),
    "expect": head("POST /embed HTTP/1.1", "Expect: 100-continue", LENGTH),
    "other expectation": head("POST /embed HTTP/1.1", "Expect: 200-ok", LENGTH),
    "connect": head("CONNECT /embed HTTP/1.1", LENGTH),
    "connect, authority": head("CONNECT t:80 HTTP/1.1", LENGTH),
    "te": head("POST /embed HTTP/1.1", "TE: trailers", LENGTH),
    "chunked": head("POST /embed HTTP/1.1", "Transfer-Encoding: chunked"),
    "chunked and a length": head("POST /embed HTTP/1.1", "Transfer-Encoding: chunked", LENGTH),
    "unknown coding": head("POST /embed HTTP/1.1", "Transfer-Encoding: gzip", LENGTH),
    "two lengths": head("POST /embed HTTP/1.1", "Content-Length: 0", LENGTH),
    "1.0": head("POST /embed HTTP/1.0", LENGTH),
    "1.0, kept": head("POST /embed HTTP/1.0", "Connection: keep-alive", LENGTH),
    "1.0, chunked": head("POST /embed HTTP/1.0", "Transfer-Encoding: chunked"),
    "get": head("GET /livez HTTP/1.1", LENGTH),
    "plain": head("POST /embed HTTP/1.1", LENGTH),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("pieces", [1, 2])
def test_a_request_in_a_body_is_not_answered(served: str, name: str, pieces: int) -> None:
    top, body = HEADS[name], HIDDEN
    if b"chunked" in top:
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN)
    body += head("GET /readyz HTTP/1.1", "Connection: close")  # if the connection goes on, it ends here
    with connected(served) as connection:
        if pieces == 1:
            connection.sendall(top + body)
        else:
            connection.sendall(top)
            with connected(served) as other:  # when this one is answered, the head above has been read
                other.sendall(head("GET /livez HTTP/1.1", "Connection: close"))
                assert answers(other)
            connection.sendall(body)
        first, *after = final(answers(connection))
    assert b"nonneg_requests" not in first
    assert [b'"ready"' in answer for answer in after] in ([], [True])


@pytest.mark.parametrize("upgrade", ["h2c", "websocket", "TLS/1.0"])
def test_the_wish_for_another_protocol_is_ignored_and_the_body_read(served: str, png: Png, upgrade: str) -> None:
    body = png(0)
    plain = [f"Content-Length: {len(body)}", "Content-Type: image/png"]
    wish = ["Connection: keep-alive, Upgrade", f"Upgrade: {upgrade}"]
    with connected(served) as connection:
        for more in (wish, []):
            connection.sendall(head("POST /embed HTTP/1.1", *plain, *more) + body)
        connection.sendall(head("GET /livez HTTP/1.1", *wish) + head("GET /readyz HTTP/1.1", "Connection: close"))
        first, second, third, fourth = answers(connection)
    assert first.startswith(b"HTTP/1.1 200 ")
    assert first.partition(b"\r\n\r\n")[2] == second.partition(b"\r\n\r\n")[2]
    assert b"alive" in third
    assert b"ready" in fourth


def test_connect_is_refused_by_name_and_the_connection_ends(served: str) -> None:
    with connected(served) as connection:
        connection.sendall(b"CONNECT /embed HTTP/1.1\r\nHost: localhost\r\n\r\n" + HIDDEN)
        (found,) = answers(connection)
    assert found.startswith(b"HTTP/1.1 405 ")
    assert b"not a proxy" in found


@pytest.mark.parametrize("line", ["POST /embed HTTP/1.0", "POST /embed HTTP/1.1\r\nConnection: close"])
def test_a_client_that_sends_too_much_reads_why_on_a_connection_that_ends(served: str, line: str) -> None:
    with connected(served) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**21)  # it all leaves, however slow this process is
        connection.sendall(head(line, f"Content-Length: {10**10}") + bytes(2**20))
        (answer,) = answers(connection)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"max_body" in answer


def test_a_client_that_waits_for_a_go_ahead_sends_its_body_then_and_is_answered(served: str, png: Png) -> None:
    image = png(0)
    with connected(served) as connection:
        lines = (
            "Content-Type: image/png",
            f"Content-Length: {len(image)}",
            "Expect: 100-continue",
            "Connection: close",
        )
        connection.sendall(head("POST /embed HTTP/1.1", *lines))
        assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")
        connection.sendall(image)
        (answer,) = answers(connection)
    assert answer.startswith(b"HTTP/1.1 200 ")
