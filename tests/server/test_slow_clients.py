"""Clients who stall elsewhere than in their bodies: heads without end, answers not taken, handshakes not made."""

import json
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_server.http.connection_limits import unread_bytes
from nonneg_server.http.refusals import SPARE

pytestmark = [pytest.mark.slow, pytest.mark.waits]
HEAD = b"POST /embed HTTP/1.1\r\nHost: localhost\r\n"
PIECE = 20_000


def connected(address: str, *, receive: int | None = None) -> socket.socket:
    parts = urlsplit(address)
    connection = socket.socket()
    connection.settimeout(20)
    if receive is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    connection.connect((parts.hostname, parts.port))
    return connection


def metric(address: str, line: str) -> float:
    found = (text for text in httpx.get(f"{address}/metrics").text.splitlines() if text.startswith(f"{line} "))
    return float(next(found, "- 0").rpartition(" ")[2])


def awaited(condition: Callable[[], bool], seconds: float = 15.0) -> bool:
    until = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < until:
        time.sleep(0.1)
    return found


ENDLESS = {
    "an address": (b"GET /", b"a" * PIECE),
    "a header": (HEAD + b"X: ", b"a" * PIECE),
    "headers": (HEAD, b"X: a\r\n" * (PIECE // 6)),
    "the size of a chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"a" * PIECE),
    "what comes behind the body": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n",
        b"X: a\r\n" * (PIECE // 6),
    ),
}


@pytest.mark.parametrize("endless", ENDLESS)
def test_a_head_without_end_is_refused_with_431(served: str, endless: str) -> None:
    first, piece = ENDLESS[endless]
    before = metric(served, 'nonneg_turned_away_total{type="head_too_large"}')
    with connected(served) as connection:
        connection.sendall(first)
        for _ in range(60):
            try:
                connection.sendall(piece)
            except OSError:  # hung up on
                break
            time.sleep(0.02)
        else:
            raise AssertionError("it was heard to the end")
    assert metric(served, 'nonneg_turned_away_total{type="head_too_large"}') == before + 1


def test_too_many_headers_are_refused_as_they_come(served: str) -> None:
    for end in (b"", b"\r\n"):
        with connected(served) as connection:
            connection.sendall(b"GET /livez HTTP/1.1\r\n" + b"a:1\r\n" * 300 + end)
            assert connection.recv(100).startswith(b"HTTP/1.1 431 ")
    assert httpx.get(f"{served}/livez", headers={f"x{number}": "1" for number in range(200)}).status_code == 200


def test_an_address_that_is_too_long_is_refused_with_431(served: str) -> None:
    for length in (66_000, 70_000, 200_000):
        with connected(served) as connection:
            connection.sendall(b"POST /embed?model=" + b"a" * length + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 431 ")


def test_a_body_that_was_refused_by_its_length_and_never_comes_gets_no_second_answer(
    start: Callable, bundle: Bundle
) -> None:
    flags = ("--model", str(bundle.path), "--read-timeout", "1", "--drain", "0", "--max-body", "2000")
    with start(*flags) as (address, _), connected(address) as connection:
        connection.sendall(b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000\r\n\r\n")
        received = b""
        while piece := connection.recv(65536):
            received += piece
        assert received.startswith(b"HTTP/1.1 413 ")
        assert received.count(b"HTTP/1.1 ") == 1


def test_large_bodies_do_not_count_as_heads(served: str) -> None:
    pieces = [bytes(30_000)] * 30
    assert httpx.post(f"{served}/embed", content=b"".join(pieces)).status_code == 415
    assert httpx.post(f"{served}/embed", content=iter(pieces)).status_code == 415  # chunked


def large_answer() -> bytes:
    """A request of a MB or so whose answer has some twenty."""
    vectors = np.random.default_rng(0).random((8000, 48)).round(2).tolist()
    body = json.dumps({"vectors": vectors, "dimensions": [48, 47, 46, 45], "format": "dense"}).encode()
    head = b"POST /shorten HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


def test_an_answer_that_is_not_read_is_counted_and_dropped(start: Callable, bundle: Bundle) -> None:
    with (
        start("--model", str(bundle.path), "--read-timeout", "2", "--drain", "0") as (address, _),
        connected(address, receive=4096) as deaf,
    ):
        deaf.sendall(large_answer())
        assert awaited(lambda: metric(address, "nonneg_upload_bytes") > 2_000_000)
        assert awaited(lambda: metric(address, 'nonneg_turned_away_total{type="answer_not_taken"}') == 1)
        assert awaited(lambda: metric(address, "nonneg_connections") == 1)  # this one's
        assert metric(address, "nonneg_upload_bytes") == 0


def test_an_answer_that_is_taken_by_the_byte_is_cut_off(start: Callable, bundle: Bundle) -> None:
    with start("--model", str(bundle.path), "--receive-timeout", "2", "--drain", "0") as (address, _):
        with connected(address, receive=4096) as slow:
            slow.sendall(large_answer())

            def cut_off() -> bool:
                slow.recv(100)
                return metric(address, 'nonneg_turned_away_total{type="answer_not_taken"}') == 1

            assert awaited(cut_off)
        assert metric(address, "nonneg_upload_bytes") == 0
        assert awaited(lambda: metric(address, "nonneg_connections") == 1)  # this one's


def secured(folder: Path) -> tuple[str, ...]:
    """Flags for https."""
    cert, secret = folder / "cert.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost"
    try:
        subprocess.run([*command.split(), "-out", cert, "-keyout", secret], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl here")
    return "--tls-cert", str(cert), "--tls-key", str(secret)


class Gone:
    """A transport under TLS that is being closed."""

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> object:
        return object() if name == "sslcontext" else None


def test_a_connection_that_is_being_closed_holds_nothing() -> None:
    assert unread_bytes(Gone()) == 0


def test_under_tls_too_an_answer_that_is_not_read_is_dropped(start: Callable, bundle: Bundle, tmp_path: Path) -> None:
    flags = ("--model", str(bundle.path), "--read-timeout", "2", "--drain", "0", *secured(tmp_path))
    with start(*flags) as (address, process), httpx.Client(verify=False) as client:
        with ssl._create_unverified_context().wrap_socket(connected(address)) as deaf:
            deaf.sendall(large_answer())
            dropped = 'nonneg_turned_away_total{type="answer_not_taken"} 1.0'
            assert awaited(lambda: dropped in client.get(f"{address}/metrics").text)
        process.terminate()
        assert process.wait(20) == 0


def test_connections_that_come_and_go_under_tls_do_no_harm(start: Callable, bundle: Bundle, tmp_path: Path) -> None:
    with start("--model", str(bundle.path), "--drain", "0", *secured(tmp_path)) as (address, process):
        until = time.monotonic() + 2.5  # two looks at all connections
        while time.monotonic() < until:
            with ssl._create_unverified_context().wrap_socket(connected(address)) as going:
                going.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert httpx.get(f"{address}/livez", verify=False).status_code == 200
        process.terminate()
        assert process.wait(20) == 0
        assert process.stderr.read() == ""


def test_who_makes_no_handshake_is_closed_before_who_made_one_and_is_silent(
    start: Callable, bundle: Bundle, tmp_path: Path
) -> None:
    """The latter counts among the connections, of which there are only so many."""
    with (
        start("--model", str(bundle.path), "--drain", "0", *secured(tmp_path)) as (address, _),
        ssl._create_unverified_context().wrap_socket(connected(address)) as counted,
        connected(address) as silent,
    ):
        assert silent.recv(1) == b""
        counted.setblocking(False)
        with pytest.raises(ssl.SSLWantReadError):
            counted.recv(1)


def test_a_handshake_that_is_not_made_ends(start: Callable, bundle: Bundle, tmp_path: Path) -> None:
    with (
        start("--model", str(bundle.path), "--drain", "0", "--read-timeout", "1", *secured(tmp_path)) as (address, _),
        connected(address) as silent,
    ):
        assert silent.recv(1) == b""


def test_handshakes_that_are_not_made_count_among_the_connections(
    start: Callable, bundle: Bundle, tmp_path: Path
) -> None:
    flags = (
        "--model",
        str(bundle.path),
        "--drain",
        "0",
        "--keep-alive",
        "60",
        "--max-connections",
        "4",
        *secured(tmp_path),
    )
    with start(*flags) as (address, _), httpx.Client(verify=False) as client, ExitStack() as held:

        def said() -> str:
            text = client.get(f"{address}/metrics").text
            counts.append(float(re.findall(r"^nonneg_connections (.+)$", text, re.MULTILINE)[0]))
            return text

        def one_is_turned_away() -> bool:
            held.enter_context(connected(address))
            return 'nonneg_turned_away_total{type="not_ready"}' in said()

        counts: list[float] = []
        assert awaited(one_is_turned_away, 30)
        assert 4 < max(counts) <= 4 + SPARE
        held.close()
        assert awaited(lambda: bool(said()) and counts[-1] == 1, 30)
        assert httpx.get(f"{address}/livez", verify=False).status_code == 200


def test_who_makes_a_handshake_while_all_connections_are_taken_is_told_so(
    start: Callable, bundle: Bundle, tmp_path: Path
) -> None:
    flags = ("--model", str(bundle.path), "--drain", "0", "--max-connections", "4", *secured(tmp_path))
    with start(*flags) as (address, _), ExitStack() as held:
        for _ in range(4):
            one = held.enter_context(ssl._create_unverified_context().wrap_socket(connected(address)))
            one.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert one.recv(100).startswith(b"HTTP/1.1 200 ")
        answer = httpx.get(f"{address}/livez", verify=False)
        assert (answer.status_code, answer.json()["error"]["field"]) == (503, "max_connections")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_request_in_one_packet_with_the_end_of_its_handshake_is_answered(
    start: Callable, bundle: Bundle, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    context = ssl._create_unverified_context()
    context.maximum_version = version
    with start("--model", str(bundle.path), "--drain", "0", *secured(tmp_path)) as (address, _):
        for _ in range(10):
            with connected(address) as connection:
                assert asked_with_the_handshake(context, connection).startswith(b"HTTP/1.1 200 ")


def asked_with_the_handshake(context: ssl.SSLContext, connection: socket.socket) -> bytes:
    """The first bytes of the answer to a request whose first bytes go with the handshake's last."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(received, sent)
    while True:
        try:
            client.do_handshake()
            break
        except ssl.SSLWantReadError:
            connection.sendall(sent.read())
            received.write(connection.recv(65536))
    client.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
    connection.sendall(sent.read())
    while True:
        try:
            return client.read(100)
        except ssl.SSLWantReadError:
            received.write(connection.recv(65536))
