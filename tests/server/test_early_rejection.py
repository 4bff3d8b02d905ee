"""A full queue: requests that would wait in it are refused at the headers, and no others."""

import inspect
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from nonneg_runtime.bundle.bundle_folder import Bundle

pytestmark = pytest.mark.slow
Png = Callable[[int], bytes]
ORIGIN = "https://page.example"
SECRET = "a-secret-of-enough-length"
AUTHORIZED = {"authorization": f"Bearer {SECRET}"}

SCRIPT = Path(__file__).with_name("held_decoding.py")


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """While this file is there, the server decodes nothing."""
    return tmp_path_factory.mktemp("held") / "held"


@pytest.fixture(scope="module")
def narrow(start: Callable, bundle: Bundle, held: Path) -> Iterator[str]:
    flags = ("--queue", "2", "--threads", "1", "--drain", "0", "--api-key", SECRET, "--cors-origin", ORIGIN)
    with start("--model", str(bundle.path), *flags, command=(str(SCRIPT), str(held))) as (address, _):
        yield address


@pytest.fixture
def full(narrow: str, held: Path, png: Png) -> Iterator[None]:
    """Two images in flight, all that the queue takes, for as long as the test goes on."""
    files = [("images", png(0)) for _ in range(2)]
    found: list[int] = []

    def ask() -> None:
        found.append(httpx.post(f"{narrow}/embed", files=files, headers=AUTHORIZED, timeout=100).status_code)

    held.touch()
    asking = threading.Thread(target=ask)
    asking.start()
    try:
        until = time.monotonic() + 60
        while "nonneg_images_in_flight 2.0" not in httpx.get(f"{narrow}/metrics", headers=AUTHORIZED).text:
            assert time.monotonic() < until
        yield
    finally:
        held.unlink()
        asking.join(60)
    assert found == [200]


def connected(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname, parts.port), timeout=60)


def head(path: str, length: int, *more: str) -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {SECRET}",
        f"Content-Length: {length}",
        *more,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def answer(connection: socket.socket) -> tuple[int, dict[str, str], dict]:
    """One whole answer."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    top, _, body = received.partition(b"\r\n\r\n")
    first, *lines = top.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    while len(body) < int(headers["content-length"]):
        body += connection.recv(65536)
    return int(first.split()[1]), headers, json.loads(body)


@pytest.mark.usefixtures("full")
def test_a_full_queue_refuses_before_the_body_and_the_connection_goes_on(narrow: str, png: Png) -> None:
    body = png(0)
    with connected(narrow) as connection:
        for name in ("first", "second"):
            connection.sendall(head("/embed?dimensions=8", len(body), f"X-Request-ID: {name}"))
            status, headers, said = answer(connection)  # not a byte of the body was sent
            assert (status, said["error"]["type"], said["error"]["field"]) == (429, "overloaded", "queue_images")
            assert headers["x-request-id"] == said["request_id"] == name
            assert int(headers["retry-after"]) >= 1
            assert int(headers["retry-after-ms"]) > 0
            connection.sendall(body)


def test_a_queue_with_places_takes_the_next(narrow: str, png: Png) -> None:
    with connected(narrow) as connection:
        connection.sendall(head("/embed", len(png(0))) + png(0))
        assert answer(connection)[0] == 200


@pytest.mark.usefixtures("full")
def test_two_refusals_have_ids_of_their_own_in_the_dialect_of_their_path(narrow: str) -> None:
    body = json.dumps({"input": "x"}).encode()
    with connected(narrow) as connection:
        seen = []
        for _ in range(2):
            connection.sendall(head("/v1/embeddings", len(body), "Content-Type: application/json") + body)
            status, headers, said = answer(connection)
            assert (status, said["error"]["code"]) == (429, "overloaded")
            seen.append(headers["x-request-id"])
        assert len(set(seen)) == 2
        metrics = httpx.get(f"{narrow}/metrics", headers=AUTHORIZED).text
        assert 'nonneg_requests_total{method="POST",route="/v1/embeddings",status="429"} 2.0' in metrics


@pytest.mark.usefixtures("full")
def test_a_page_of_an_allowed_origin_can_read_the_refusal_and_no_other(narrow: str) -> None:
    for _ in range(2):
        for origin in (ORIGIN, "https://other.example", None):
            with connected(narrow) as connection:
                connection.sendall(head("/embed", 1000, *(() if origin is None else (f"Origin: {origin}",))))
                status, headers, _ = answer(connection)  # not a byte of the body was sent
            assert status == 429
            assert headers.get("access-control-allow-origin") == (ORIGIN if origin == ORIGIN else None)
            assert ("retry-after" in headers.get("access-control-expose-headers", "")) == (origin == ORIGIN)


def routes(address: str) -> list[str]:
    """All paths that take POST, each with a model's name in its place."""
    document = httpx.get(f"{address}/openapi.json", headers=AUTHORIZED).json()
    paths = [path for path, operations in document["paths"].items() if "post" in operations]
    return [path.replace("{model}", "tiny").replace("{version}", "1") for path in paths]


@pytest.mark.usefixtures("full")
def test_every_route_that_embeds_refuses_before_the_body(narrow: str) -> None:
    may_hold_no_image = {"/shorten", "/query", "/v2/repository/index"} | {
        f"/v2/repository/models/tiny/{verb}" for verb in ("load", "unload")
    }
    embedding = set(routes(narrow)) - may_hold_no_image
    assert {"/embed", "/v1/embeddings", "/v2/embed", "/v2/models/tiny/infer"} <= embedding
    for path in sorted(embedding):
        with connected(narrow) as connection:
            connection.sendall(head(path, 1000))
            assert answer(connection)[0] == 429, path
    metrics = httpx.get(f"{narrow}/metrics", headers=AUTHORIZED).text
    assert 'route="/v2/models/{model}/infer",status="429"} 1.0' in metrics


@pytest.mark.parametrize("more", [("Content-Length: 5000000",), ("Expect: 100-continue", "Content-Length: 9"), ()])
@pytest.mark.usefixtures("full")
def test_who_cannot_be_let_pass_is_refused_and_hung_up_on(narrow: str, more: tuple[str, ...]) -> None:
    request = head("/embed", 0, *(more or ("Transfer-Encoding: chunked",))).replace(b"Content-Length: 0\r\n", b"")
    with connected(narrow) as connection:
        connection.sendall(request)
        status, headers, _ = answer(connection)
        assert (status, headers["connection"]) == (429, "close")
        assert connection.recv(1) == b""


@pytest.mark.usefixtures("full")
def test_only_who_may_ask_for_images_hears_that_the_queue_is_full(narrow: str, png: Png) -> None:
    assert httpx.post(f"{narrow}/embed", content=png(0)).status_code == 401
    assert httpx.get(f"{narrow}/models", headers=AUTHORIZED).status_code == 200
    vectors = {"vectors": [[1.0, 2.0]], "dimensions": 1}
    assert httpx.post(f"{narrow}/shorten", json=vectors, headers=AUTHORIZED).status_code == 200
    assert httpx.post(f"{narrow}/embed", content=png(0), headers=AUTHORIZED).status_code == 429


def test_uvicorn_still_has_what_our_connections_stand_on() -> None:
    used = {
        HttpToolsProtocol.__init__: ("self.connections", "self.cycle", "self.flow", "self.parser", "self.loop"),
        HttpToolsProtocol.on_message_begin: ("self.url", "self.headers", "self.scope", "self.expect_100_continue"),
        HttpToolsProtocol.on_headers_complete: ("self.cycle = RequestResponseCycle(", "self._start_asgi_task("),
        HttpToolsProtocol.on_response_complete: ("self.flow.resume_reading()", "self.timeout_keep_alive"),
        RequestResponseCycle.__init__: ("self.keep_alive", "self.response_started", "self.response_complete"),
        RequestResponseCycle.receive: ("self.message_event", "self.disconnected", "bytes(self.body)"),
        HttpToolsProtocol.on_body: ("self.cycle.body += body", "pause_reading()", "message_event.set()"),
    }
    for method, parts in used.items():
        source = inspect.getsource(method)
        for part in parts:
            assert part in source, f"uvicorn changed: {method.__qualname__} has no {part}; see http/connection.py"
