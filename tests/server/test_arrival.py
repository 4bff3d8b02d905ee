"""Whatever clients send, and however it arrives: the answers are those that a fresh connection gets."""

import asyncio
import gc
import io
import json
import random
import socket
import ssl
import subprocess
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from PIL import Image
from uvicorn.server import ServerState

from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_server.http.connection import Connection
from nonneg_server.http.connection_limits import ConnectionState
from nonneg_server.models.served_models import Registry
from nonneg_server.startup.app import create_app
from nonneg_server.startup.server_settings import Settings

pytestmark = pytest.mark.slow
Png = Callable[[int], bytes]


PATHS = ["/embed", "/embed", "/embed?dimensions=8", "/embed?dimensions=900", "/v2/embed", "/embed?errors=item"]


@pytest.fixture(scope="module")
def server(start: Callable, bundle: Bundle) -> Iterator[str]:
    with start("--model", str(bundle.path), "--drain", "0", "--read-timeout", "1", "--keep-alive", "1") as (address, _):
        yield address


class Caller:
    """A client on one connection, byte by byte."""

    def __init__(self, address: str, *, small_window: bool = False) -> None:
        parts = urlsplit(address)
        self.socket = socket.socket()
        if small_window:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(20)
        self.socket.connect((parts.hostname, parts.port))
        self._received = b""

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, body: bytes, path: str = "/embed", *more: str) -> None:
        self.socket.sendall(request(body, path, *more))

    def hear(self) -> tuple[int, dict[str, str], bytes]:
        while b"\r\n\r\n" not in self._received:
            self._more()
        top, _, self._received = self._received.partition(b"\r\n\r\n")
        first, *lines = top.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        length = int(headers["content-length"])
        while len(self._received) < length:
            self._more()
        body, self._received = self._received[:length], self._received[length:]
        return int(first.split()[1]), headers, body

    def _more(self) -> None:
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionResetError
        self._received += data


@contextmanager
def crowd(address: str, count: int) -> Iterator[list[Caller]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Caller(address)) for _ in range(count)]


def request(body: bytes, path: str = "/embed", *more: str) -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: image/png",
        *more,
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def listens(address: str) -> bool:
    parts = urlsplit(address)
    try:
        socket.create_connection((parts.hostname, parts.port), timeout=20).close()
    except (ConnectionRefusedError, ConnectionResetError):  # reset: made as the listener was closing
        return False
    return True


def metric(address: str, name: str) -> float:
    lines = httpx.get(f"{address}/metrics").text.splitlines()
    found = [line.rpartition(" ") for line in lines if line.startswith((f"{name} ", f"{name}{{"))]
    return sum(float(value) for _, _, value in found)


@cache
def slow_png(side: int = 4500) -> bytes:
    """A small file that takes some tenths of a second to decode."""
    buffer = io.BytesIO()
    Image.new("RGB", (side, side), "teal").save(buffer, "PNG")
    return buffer.getvalue()


def test_each_request_is_counted_once(server: str, png: Png) -> None:
    names = [
        'nonneg_requests_total{method="POST",route="/embed",status="200"}', "nonneg_images_total", "nonneg_nnz_count",
        'nonneg_request_seconds_count{images="one",route="/embed",status="2xx"}', "nonneg_request_images_count",
        'nonneg_image_errors_total{model="tiny",type="image_unsupported"}',
        'nonneg_requests_total{method="POST",route="/embed",status="415"}',
    ]  # fmt: skip
    before = [metric(server, name) for name in names]
    with Caller(server) as caller:
        for _ in range(5):
            caller.ask(png(3))
            caller.hear()
        caller.ask(b"no image")
        caller.hear()
    grown = [metric(server, name) - was for name, was in zip(names, before, strict=True)]
    assert grown == [5, 5, 5, 5, 5, 1, 1]
    assert metric(server, "nonneg_images_in_flight") == metric(server, "nonneg_bytes_in_flight") == 0


def test_another_head_on_the_same_connection_means_something_else(server: str, png: Png) -> None:
    with Caller(server) as caller:
        lengths = []
        for k in (8, 8, 16, 16, 8, 8):
            caller.ask(png(1), f"/embed?dimensions={k}")
            lengths.append(json.loads(caller.hear()[2])["dimensions"])
    assert lengths == [8, 8, 16, 16, 8, 8]


def test_requests_in_pieces_and_behind_each_other_are_answered_in_their_order(server: str, png: Png) -> None:
    images = [png(seed) for seed in range(8)]
    wanted = [httpx.post(f"{server}/embed", content=image).json()["data"] for image in images]
    stream = b"".join(map(request, images))
    for size in (1, 7, 100, 1000, len(stream)):
        with Caller(server) as caller:
            pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
            sending = threading.Thread(target=lambda: [caller.socket.sendall(piece) for piece in pieces])  # noqa: B023
            sending.start()
            found = [json.loads(caller.hear()[2])["data"] for _ in images]
            sending.join(60)
        assert found == wanted, size


HEADERS = [
    "Accept: application/msgpack", "X-Forwarded-For: 10.0.0.1", "X-Request-Timeout: 19", "TE: trailers",
    "Connection: keep-alive, Upgrade\r\nUpgrade: h2c", "X-Request-Id: mine", "Content-Encoding: identity",
]  # fmt: skip


def varied(rng: random.Random, png: Png) -> bytes:
    """A request of any kind, whole."""
    more = rng.sample(HEADERS, rng.randrange(3))
    if rng.random() < 0.15:
        lines = [f"GET {rng.choice(['/readyz', '/models', '/nowhere'])} HTTP/1.1", "Host: localhost", *more, "", ""]
        return "\r\n".join(lines).encode()
    body, path = rng.choice([png(1), png(2), b"junk" * rng.randrange(1, 9000)]), rng.choice(PATHS)
    if rng.random() < 0.75:
        return request(body, path, *more)
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: image/png",
        *more,
        "Transfer-Encoding: chunked",
        "",
        "",
    ]
    size = rng.randrange(1, len(body) + 1)
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    if len(chunks) > 50:
        chunks = [body]
    return "\r\n".join(lines).encode() + b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in [*chunks, b""])


@pytest.mark.parametrize("seed", range(6))
def test_whatever_clients_send_and_however_it_arrives_the_answers_are_those_of_a_fresh_connection(
    server: str, png: Png, seed: int
) -> None:
    rng = random.Random(seed)
    asked = [varied(rng, png) for _ in range(60)]
    wanted = []
    for whole in asked:
        with Caller(server) as fresh:
            fresh.socket.sendall(whole)
            wanted.append(fresh.hear())
    stream = memoryview(b"".join(asked))

    def send(caller: Caller) -> None:
        at = 0
        while at < len(stream):
            step = rng.choice([1, 30, 200, 5000, 50000])
            caller.socket.sendall(stream[at : at + step])
            at += step
            if rng.random() < 0.2:
                time.sleep(0.002)

    with Caller(server) as caller:
        sending = threading.Thread(target=send, args=(caller,))
        sending.start()
        for whole, (status, headers, content) in zip(asked, wanted, strict=True):
            found, found_headers, given = caller.hear()
            assert found == status, whole[:200]
            assert list(found_headers) == list(headers)
            assert given.replace(found_headers["x-request-id"].encode(), b"") == content.replace(
                headers["x-request-id"].encode(), b""
            )
        sending.join(60)


def test_a_client_that_asks_much_and_reads_late_gets_all_its_answers_in_their_order(server: str, png: Png) -> None:
    images = [png(seed) for seed in range(5)]
    wanted = [httpx.post(f"{server}/embed?format=both", content=image).json()["data"] for image in images]
    count = 3000
    with Caller(server, small_window=True) as caller:
        asks = [request(image, "/embed?format=both") for image in images]
        sending = threading.Thread(target=lambda: [caller.socket.sendall(asks[i % 5]) for i in range(count)])
        sending.start()
        until = time.monotonic() + 60
        while not metric(server, "nonneg_upload_bytes"):  # an answer waits for this client, which has read none yet
            assert time.monotonic() < until
        for i in range(count):
            assert json.loads(caller.hear()[2])["data"] == wanted[i % 5]
        sending.join(60)


def test_a_client_that_leaves_gives_its_place_back(server: str, png: Png) -> None:
    gone = 'nonneg_requests_total{method="POST",route="/embed",status="499"}'
    before = metric(server, gone)
    body = slow_png()  # made first: the server closes a connection on which nothing comes for a second
    with crowd(server, 8) as callers:
        for caller in callers:
            caller.ask(png(1))
            caller.hear()
        for caller in callers:
            caller.ask(body)
        until = time.monotonic() + 60
        while not metric(server, "nonneg_images_in_flight"):  # the server has read what it will work on
            assert time.monotonic() < until
    until = time.monotonic() + 60
    while metric(server, "nonneg_images_in_flight") or metric(server, "nonneg_upload_bytes"):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert metric(server, gone) > before
    assert httpx.post(f"{server}/embed", content=png(1)).status_code == 200


def test_a_body_that_stops_half_way_is_refused_and_a_silent_connection_is_closed(server: str, png: Png) -> None:
    with Caller(server) as half, Caller(server) as silent:
        for caller in (half, silent):
            for _ in range(2):
                caller.ask(png(1))
                caller.hear()
        half.socket.sendall(request(png(1))[:-20])
        status, headers, content = half.hear()
        assert (status, headers["connection"]) == (408, "close")
        assert json.loads(content)["error"]["type"] == "request_timeout"
        assert silent.socket.recv(1) == b""


def test_a_deadline_that_passes_is_said_and_the_work_dropped(start: Callable, bundle: Bundle, png: Png) -> None:
    flags, slow = ("--threads", "1", "--timeout", "0.5", "--drain", "0"), slow_png(6000)
    with start("--model", str(bundle.path), *flags) as (address, _), crowd(address, 6) as callers:
        for caller in callers:
            caller.ask(png(1))
            assert caller.hear()[0] == 200
        for caller in callers:
            caller.ask(slow)
        found = [caller.hear() for caller in callers]
        assert {status for status, _, _ in found[3:]} == {504}
        assert json.loads(found[-1][2])["error"]["type"] == "deadline_exceeded"
        began = metric(address, "nonneg_images_total")
        callers[0].ask(png(1))
        assert callers[0].hear()[0] in (200, 504)  # one that had begun may still run
        assert metric(address, "nonneg_images_total") - began <= 1  # of those that had not, none did
        assert metric(address, "nonneg_images_in_flight") == 0


def test_a_full_queue_refuses_on_known_and_new_connections_alike(
    start: Callable, bundle: Bundle, png: Png, tmp_path: Path
) -> None:
    held, flags = tmp_path / "held", ("--threads", "1", "--queue", "2", "--drain", "0")
    command = (str(Path(__file__).with_name("held_decoding.py")), str(held))
    with (
        start("--model", str(bundle.path), *flags, command=command) as (address, _),
        crowd(address, 3) as (late, *callers),
    ):
        for caller in (*callers, late):
            caller.ask(png(1))
            assert caller.hear()[0] == 200
        held.touch()
        for caller in callers:
            caller.ask(png(2))
        until = time.monotonic() + 60
        while metric(address, "nonneg_images_in_flight") < 2:
            assert time.monotonic() < until
        for _ in range(2):
            late.ask(png(1))
            status, headers, content = late.hear()
            assert status == 429
            assert int(headers["retry-after"]) >= 1
        with Caller(address) as stranger:
            stranger.ask(png(1))
            long_status, long_headers, long_content = stranger.hear()
        assert (long_status, list(long_headers)) == (status, list(headers))
        assert json.loads(long_content)["error"]["field"] == json.loads(content)["error"]["field"] == "queue_images"
        assert metric(address, "nonneg_refused_total") == 3
        assert metric(address, 'nonneg_requests_total{method="POST",route="/embed",status="429"}') == 3
        held.unlink()
        assert [caller.hear()[0] for caller in callers] == [200, 200]
        late.ask(png(1))
        assert late.hear()[0] == 200


def test_what_is_under_way_is_answered_after_sigterm_and_the_connection_then_closed(
    start: Callable, bundle: Bundle, png: Png
) -> None:
    whole = request(slow_png())
    with start("--model", str(bundle.path), "--drain", "0") as (address, process), Caller(address) as caller:
        caller.ask(png(1))
        caller.hear()
        caller.socket.sendall(whole[:-10])
        until = time.monotonic() + 30
        while metric(address, "nonneg_upload_bytes") < len(slow_png()) - 10:
            assert time.monotonic() < until
        process.terminate()
        while listens(address):
            assert time.monotonic() < until
        caller.socket.sendall(whole[-10:])
        status, headers, _ = caller.hear()
        assert (status, headers["connection"]) == (200, "close")
        assert caller.socket.recv(1) == b""
        assert process.wait(20) == 0


def test_the_last_requests_are_logged_too(start: Callable, bundle: Bundle, png: Png) -> None:
    flags = ("--drain", "0", "--access-log", "--log-format", "json")
    with start("--model", str(bundle.path), *flags) as (address, process), crowd(address, 3) as callers:
        for _ in range(4):
            for caller in callers:
                caller.ask(png(1))
            for caller in callers:
                assert caller.hear()[0] == 200
        process.terminate()
        log = process.communicate(timeout=20)[1]
    lines = [json.loads(line) for line in log.splitlines() if '"/embed"' in line]
    assert len(lines) == 12
    assert len({line["request_id"] for line in lines}) == 12
    assert {(line["status"], line["images"], line["model"]) for line in lines} == {(200, 1, "tiny")}


def test_many_requests_on_one_connection_over_tls_and_with_a_key(
    start: Callable, bundle: Bundle, png: Png, tmp_path: Path
) -> None:
    secret, certificate = "a-secret-of-enough-length", tmp_path / "cert.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=t -addext subjectAltName=IP:127.0.0.1 "
    command += f"-keyout {tmp_path}/key.pem -out {certificate}"
    try:
        subprocess.run(command.split(), check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl here")
    tls = ("--tls-cert", str(certificate), "--tls-key", str(tmp_path / "key.pem"))
    with start("--model", str(bundle.path), "--drain", "0", "--api-key", secret, *tls) as (address, _):
        trust = ssl.create_default_context(cafile=certificate)
        with httpx.Client(base_url=address, verify=trust, headers={"x-api-key": secret}) as client:
            found = [client.post("/embed", content=png(n % 2)).json()["data"] for n in range(6)]
            assert found[0] == found[2] == found[4] != found[1] == found[3] == found[5]
            assert client.post("/embed", content=png(1), headers={"x-api-key": "another"}).status_code == 401


def test_the_log_has_each_request_under_its_own_id(start: Callable, bundle: Bundle, png: Png) -> None:
    flags = ("--drain", "0", "--access-log", "--log-format", "json")
    with start("--model", str(bundle.path), *flags) as (address, process), Caller(address) as caller:
        for number in range(5):
            caller.ask(png(1), "/embed", f"X-Request-Id: id-{number}")
            caller.hear()
        process.terminate()
        log = process.communicate(timeout=20)[1]
    assert [json.loads(line)["request_id"] for line in log.splitlines() if '"/embed"' in line] == [
        f"id-{number}" for number in range(5)
    ]


@pytest.mark.parametrize("requests", [1, 3])
def test_a_connection_that_is_over_is_freed_at_once(registry: Registry, png: Png, requests: int) -> None:
    shared, state = ConnectionState(), ServerState()
    config = uvicorn.Config(create_app(registry, Settings(), shared), lifespan="off", log_config=None)
    config.load()

    async def serve_one() -> weakref.ref[object]:
        server = await asyncio.get_running_loop().create_server(
            lambda: Connection(config, state, shared), "127.0.0.1", 0
        )
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

        def ask() -> None:
            with Caller(address) as caller:
                for _ in range(requests):
                    caller.ask(png(1))
                    assert caller.hear()[0] == 200
                seen.append(weakref.ref(next(iter(state.connections))))

        seen: list[weakref.ref[object]] = []
        await asyncio.to_thread(ask)
        while state.connections:
            await asyncio.sleep(0.01)
        server.close()
        await asyncio.sleep(0.05)
        return seen[0]

    gc.disable()
    try:
        assert asyncio.run(serve_one())() is None
        assert shared.open == shared.buffered == 0
    finally:
        gc.enable()
