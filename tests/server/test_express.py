"""Plain requests, which go without the application: the same answers, and nothing lost on the way."""

import asyncio
import gc
import io
import json
import random
import resource
import socket
import ssl
import subprocess
import sys
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

from nonneg_runtime.bundle import Bundle
from nonneg_server.app import create_app
from nonneg_server.entrance.connections import House
from nonneg_server.entrance.direct import entrance
from nonneg_server.entrance.heads import head_of
from nonneg_server.entrance.regular import bound_to
from nonneg_server.registry import Registry
from nonneg_server.settings import Settings

Png = Callable[[int], bytes]
TIMED = {"x-queue-time", "x-decode-time", "x-inference-time", "x-total-time", "x-request-id"}


PATHS = ["/embed", "/embed", "/embed?dimensions=8", "/embed?dimensions=900", "/v2/embed", "/embed?errors=item"]


@pytest.fixture(scope="module")
def house(start: Callable, bundle: Bundle) -> Iterator[str]:
    with start("--model", str(bundle.path), "--drain", "0", "--silence", "1", "--keep-alive", "1") as (address, _):
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
    lines = [f"POST {path} HTTP/1.1", "Host: t", "Content-Type: image/png", *more, f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


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


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/embed", ()),
        ("/embed?dimensions=16,8&top_k=4&format=both", ()),
        ("/embed?encoding=int8&normalize=false", ()),
        ("/embed?model=tiny", ("Accept: application/vnd.apache.arrow.stream",)),
        ("/embed", ("Accept: application/msgpack", "X-Request-Id: mine")),
        ("/embed?errors=item", ()),
        ("/embed?errors=fail&format=dense", ("Accept: application/x-npy, */*;q=0.1",)),
    ],
)
def test_both_ways_answer_the_same_byte_for_byte(house: str, png: Png, path: str, more: tuple[str, ...]) -> None:
    bodies = [png(1), png(2), b"no image at all", png(1)[:60]]
    with Caller(house) as caller:
        caller.ask(png(0), path, *more)
        caller.hear()
        before = metric(house, "nonneg_express_requests_total")
        short = []
        for body in bodies:
            caller.ask(body, path, *more)
            short.append(caller.hear())
        assert metric(house, "nonneg_express_requests_total") - before == len(bodies)
    for body, (status, headers, content) in zip(bodies, short, strict=True):
        with Caller(house) as caller:
            caller.ask(body, path, *more)  # the first request of a connection goes the long way
            long_status, long_headers, long_content = caller.hear()
        assert status == long_status
        assert list(headers) == list(long_headers)
        assert {k: v for k, v in headers.items() if k not in TIMED} == {
            k: v for k, v in long_headers.items() if k not in TIMED
        }
        if "x-request-id" in headers and status >= 400:
            content = content.replace(headers["x-request-id"].encode(), b"")
            long_content = long_content.replace(long_headers["x-request-id"].encode(), b"")
        assert content == long_content
    assert metric(house, "nonneg_express_requests_total") - before == len(bodies)


def test_it_is_counted_like_any_other(house: str, png: Png) -> None:
    names = [
        'nonneg_requests_total{method="POST",route="/embed",status="200"}', "nonneg_images_total", "nonneg_nnz_count",
        'nonneg_request_seconds_count{route="/embed"}', "nonneg_request_images_count", "nonneg_express_requests_total",
        'nonneg_image_errors_total{model="tiny",type="image_unsupported"}',
        'nonneg_requests_total{method="POST",route="/embed",status="415"}',
    ]  # fmt: skip
    before = [metric(house, name) for name in names]
    with Caller(house) as caller:
        for _ in range(5):
            caller.ask(png(3))
            caller.hear()
        caller.ask(b"no image")
        caller.hear()
    grown = [metric(house, name) - was for name, was in zip(names, before, strict=True)]
    assert grown == [5, 5, 5, 6, 6, 5, 1, 1]
    assert metric(house, "nonneg_images_in_flight") == metric(house, "nonneg_bytes_in_flight") == 0


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/embed", ("X-Request-Timeout: 20",)),
        ("/embed", ("Content-Encoding: gzip",)),
        ("/embed?dimensions=900", ()),
        ("/embed?nonsense=1", ()),
        ("/v2/embed", ()),
        ("/embed", ("Accept: image/png",)),
    ],
)
def test_what_is_not_plain_goes_the_long_way(house: str, png: Png, path: str, more: tuple[str, ...]) -> None:
    before = metric(house, "nonneg_express_requests_total")
    with Caller(house) as caller:
        caller.ask(png(1), path, *more)
        first = caller.hear()
        caller.ask(png(1), path, *more)
        second = caller.hear()
    assert first[0] == second[0]
    assert metric(house, "nonneg_express_requests_total") == before


def test_another_head_on_the_same_connection_means_something_else(house: str, png: Png) -> None:
    with Caller(house) as caller:
        lengths = []
        for k in (8, 8, 16, 16, 8, 8):
            caller.ask(png(1), f"/embed?dimensions={k}")
            lengths.append(json.loads(caller.hear()[2])["dimensions"])
    assert lengths == [8, 8, 16, 16, 8, 8]


def test_requests_in_pieces_and_behind_each_other_are_answered_in_their_order(house: str, png: Png) -> None:
    images = [png(seed) for seed in range(8)]
    wanted = [httpx.post(f"{house}/embed", content=image).json()["data"] for image in images]
    stream = b"".join(map(request, images))
    for size in (1, 7, 100, 1000, len(stream)):
        with Caller(house) as caller:
            pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
            sending = threading.Thread(target=lambda: [caller.socket.sendall(piece) for piece in pieces])  # noqa: B023
            sending.start()
            found = [json.loads(caller.hear()[2])["data"] for _ in images]
            sending.join(20)
        assert found == wanted, size


@pytest.mark.parametrize("seed", range(4))
def test_whatever_clients_send_and_however_it_arrives_the_answers_are_those_of_the_long_way(
    house: str, png: Png, seed: int
) -> None:
    rng = random.Random(seed)
    asked = [(rng.choice([png(1), png(2), b"junk" * rng.randrange(1, 9000)]), rng.choice(PATHS)) for _ in range(60)]
    with httpx.Client() as client:
        wanted = [client.post(f"{house}{path}", content=body, headers={"connection": "close"}) for body, path in asked]
    stream = memoryview(b"".join(request(body, path) for body, path in asked))

    def send(caller: Caller) -> None:
        at = 0
        while at < len(stream):
            step = rng.choice([1, 30, 200, 5000, 50000])
            caller.socket.sendall(stream[at : at + step])
            at += step
            if rng.random() < 0.2:
                time.sleep(0.002)

    with Caller(house) as caller:
        sending = threading.Thread(target=send, args=(caller,))
        sending.start()
        for (body, path), expected in zip(asked, wanted, strict=True):
            status, headers, content = caller.hear()
            assert status == expected.status_code, (path, len(body))
            given = content.replace(headers["x-request-id"].encode(), b"")
            assert given == expected.content.replace(expected.headers["x-request-id"].encode(), b"")
        sending.join(20)


def test_a_client_that_asks_much_and_reads_late_gets_all_its_answers_in_their_order(house: str, png: Png) -> None:
    images = [png(seed) for seed in range(5)]
    wanted = [httpx.post(f"{house}/embed?format=both", content=image).json()["data"] for image in images]
    count = 3000
    with Caller(house, small_window=True) as caller:
        asks = [request(image, "/embed?format=both") for image in images]
        sending = threading.Thread(target=lambda: [caller.socket.sendall(asks[i % 5]) for i in range(count)])
        sending.start()
        time.sleep(0.5)
        for i in range(count):
            assert json.loads(caller.hear()[2])["data"] == wanted[i % 5]
        sending.join(20)


def test_a_client_that_leaves_gives_its_place_back(house: str, png: Png) -> None:
    gone = 'nonneg_requests_total{method="POST",route="/embed",status="499"}'
    before = metric(house, gone)
    with crowd(house, 8) as callers:
        for caller in callers:
            caller.ask(png(1))
            caller.hear()
        for caller in callers:
            caller.ask(slow_png())
        time.sleep(0.1)
    until = time.monotonic() + 20
    while metric(house, "nonneg_images_in_flight") or metric(house, "nonneg_upload_bytes"):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert metric(house, gone) > before
    assert httpx.post(f"{house}/embed", content=png(1)).status_code == 200


def test_a_body_that_stops_half_way_is_refused_and_a_silent_client_sent_home(house: str, png: Png) -> None:
    with Caller(house) as half, Caller(house) as silent:
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
    flags, slow = ("--threads", "1", "--timeout", "0.5", "--drain", "0"), slow_png(9000)
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


def test_a_full_queue_refuses_plain_requests_too(start: Callable, bundle: Bundle, png: Png) -> None:
    flags, slow = ("--threads", "1", "--queue", "2", "--drain", "0"), slow_png()
    with start("--model", str(bundle.path), *flags) as (address, _), crowd(address, 3) as (late, *callers):
        for caller in (*callers, late):
            caller.ask(png(1))
            assert caller.hear()[0] == 200
        for caller in callers:
            caller.ask(slow)
        until = time.monotonic() + 10
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
        time.sleep(0.1)
        process.terminate()
        time.sleep(0.3)
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


def test_more_clients_than_files_to_answer_them_directly(bundle: Bundle, png: Png) -> None:
    command = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300)); import runpy; "
    command += "runpy.run_module('nonneg_cli', run_name='__main__')"
    line = [sys.executable, "-c", command, "serve", "--port", "0", "--model", str(bundle.path), "--drain", "0"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().rpartition(" on ")[2].split()[0]
            with crowd(address, 150) as callers:  # each needs two files to be answered directly
                for _ in range(3):
                    for caller in callers:
                        caller.ask(png(1))
                    assert {caller.hear()[0] for caller in callers} == {200}
                assert metric(address, "nonneg_express_requests_total") == 300
        finally:
            process.terminate()
            process.wait(20)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 300


def test_plain_requests_over_tls_and_with_a_key(start: Callable, bundle: Bundle, png: Png, tmp_path: Path) -> None:
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
            assert "nonneg_express_requests_total 5.0" in client.get("/metrics").text
            assert client.post("/embed", content=png(1), headers={"x-api-key": "another"}).status_code == 401


def test_what_proxies_and_tracers_write_anew_each_time_changes_nothing(house: str, png: Png) -> None:
    before = metric(house, "nonneg_express_requests_total")
    with Caller(house) as caller:
        for number in range(6):
            names = ("X-Request-Id", "x-forwarded-for", "TraceParent")[: 1 + number % 3]
            caller.ask(png(number), "/embed?dimensions=8", *(f"{name}: {name}-{number}" for name in names))
            status, headers, content = caller.hear()
            assert (status, headers["x-request-id"]) == (200, f"X-Request-Id-{number}")
            wanted = httpx.post(f"{house}/embed?dimensions=8", content=png(number)).json()["data"]
            assert json.loads(content)["data"] == wanted
        caller.ask(b"no image", "/embed?dimensions=8", "Via: 1.1 proxy", "X-Request-Id: bad")
        status, headers, content = caller.hear()
        assert (status, headers["x-request-id"], json.loads(content)["request_id"]) == (415, "bad", "bad")
        caller.ask(png(1), "/embed?dimensions=8")
        assert len(caller.hear()[1]["x-request-id"]) == 32
    assert metric(house, "nonneg_express_requests_total") - before == 7


def test_what_has_a_meaning_is_no_passing_remark(house: str, png: Png) -> None:
    before = metric(house, "nonneg_express_requests_total")
    meaning = ["Accept: application/x-npy", "X-Request-Timeout: 9", "Expect: 100-continue", "Authorization: Bearer x"]
    for line in (*meaning, "Content-Encoding: gzip", "X-API-Key: x", "Connection: close", "Unheard-Of: 1"):
        with Caller(house) as caller:
            caller.ask(png(1))
            caller.hear()
            caller.ask(png(1), "/embed", "X-Request-Id: a", line)
            if line.startswith("Expect"):
                assert caller.socket.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
            caller.hear()
    assert metric(house, "nonneg_express_requests_total") == before


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


def test_heads_are_alike_but_for_what_only_tells_of_the_request() -> None:
    def data(*lines: str) -> bytes:
        return "\r\n".join(["POST /embed HTTP/1.1", "Host: t", *lines, "Content-Length: 4", "", "body"]).encode()

    head = head_of(data("A: b", "User-Agent: one"))
    assert head is not None
    for lines in (
        ["A: b"],
        ["User-Agent: other", "A: b"],
        ["A: b", "X-B3-SpanId: 7", "via:", "X-FORWARDED-PROTO:\thttps"],
    ):
        given = data(*lines)
        start, length, headers = head.read_core(given) or (0, 0, [])
        assert (given[start:], length) == (b"body", 4)
        wanted = [(b"host", b"t")]
        wanted += [(n.lower().encode(), v.strip().encode()) for n, _, v in (line.partition(":") for line in lines)]
        assert headers == [*wanted, (b"content-length", b"4")]
    apart = [[], ["A: c"], ["a: b"], ["A: b", "C: d"], ["A: b", "X-Request-Id: 1", "\tX: folded"], ["A: b", "Via : x"]]
    for lines in (
        *apart,
        ["A: b", "Via: \x01"],
        ["A: b", "Via: x\ny"],
        ["A: b", "Content-Length: 4"],
        ["A: b", "Viaa: x"],
    ):
        assert head.read_core(data(*lines)) is None, lines
    assert head.read_core(data("A: b")[:40]) is None


def test_a_head_is_known_by_all_but_its_length() -> None:
    data = b"POST /embed HTTP/1.1\r\nHost: t\r\ncontent-LENGTH:  12\r\nA: b\r\n\r\nbody"
    head = head_of(data)
    assert head is not None
    start, length = head.read(data.replace(b"12", b"3456")) or (0, 0)
    assert (data[start - 2 :], length) == (b"body", 3456)
    for other in (data.replace(b"A: b", b"A: c"), data.replace(b"12", b"1x"), data.replace(b"12", b""), data[:50]):
        assert head.read(other) is None


@pytest.mark.parametrize(
    "text",
    [
        "POST / HTTP/1.1\r\nHost: t\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "POST / HTTP/1.1\r\nX-Content-Length: 1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nX: content-length: 2\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nX: " + "y" * 5000 + "\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\n",
    ],
)
def test_a_head_in_doubt_is_not_remembered(text: str) -> None:
    assert head_of(text.encode()) is None


@pytest.mark.parametrize("requests", [1, 3])
def test_a_connection_that_is_over_is_freed_at_once(registry: Registry, png: Png, requests: int) -> None:
    settings, house = Settings(), House(handles=8)
    config = uvicorn.Config(entrance(create_app(registry, settings, house)), lifespan="off", log_config=None)
    config.load()
    state = ServerState()

    async def serve_one() -> weakref.ref[object]:
        loop, kind = asyncio.get_running_loop(), bound_to(house)
        server = await loop.create_server(lambda: kind(config, state, {}), "127.0.0.1", 0)
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
        house.express.tick()
        server.close()
        await asyncio.sleep(0.05)
        return seen[0]

    gc.disable()
    try:
        assert asyncio.run(serve_one())() is None
        assert house.handles == 8
    finally:
        gc.enable()
