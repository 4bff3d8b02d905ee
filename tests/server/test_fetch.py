"""Images by URL: a real web server on this machine, which the guard is told to permit only where a test means it."""

from __future__ import annotations

import asyncio
import base64
import http.server
import socket
import threading
import time
from collections.abc import Callable, Iterator
from ipaddress import IPv4Network, IPv6Network
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from nonneg_core.errors import ImageTooLarge, LinkFailed, NonnegError, Overloaded, ParameterInvalid
from nonneg_server.http.connection_limits import ConnectionLimits, ConnectionState
from nonneg_server.models.served_models import Registry
from nonneg_server.requests.fetch import OF_ONE_REQUEST, SPECIAL_IPV4, SPECIAL_IPV6, Fetcher, addresses, routable
from nonneg_server.requests.inputs import Link, ReadyImage
from nonneg_server.startup.app import create_app
from nonneg_server.startup.server_settings import Settings
from nonneg_server.startup.setting_sources import read_settings

pytestmark = pytest.mark.anyio


class Site(http.server.BaseHTTPRequestHandler):
    """A few pages, each with its trick."""

    seen: list[dict[str, str]]
    image: bytes
    released: threading.Event

    def do_GET(self) -> None:
        self.seen.append({"path": self.path, **{name.lower(): value for name, value in self.headers.items()}})
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to/"))
            self.send_header("Set-Cookie", "a=b; path=/")
            self.end_headers()
            return
        if self.path == "/held":
            self.released.wait(60)
        if self.path == "/slow":
            time.sleep(1.5)
        if self.path == "/gone":
            self.send_error(404)
            return
        self.send_response(200)
        if self.path == "/gzip":
            self.send_header("Content-Encoding", "gzip")
        if self.path != "/unannounced":
            self.send_header("Content-Length", str(len(self.image)))
        self.end_headers()
        self.wfile.write(self.image)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def site(png: Callable[[int], bytes]) -> Iterator[Any]:
    handler = type("Here", (Site,), {"seen": [], "image": png(0), "released": threading.Event()})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.handler = handler  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        handler.released.set()
        server.shutdown()


async def here(_host: str, _port: int) -> list[str]:
    return ["127.0.0.1"]


def fetcher(site: Any, **options: Any) -> Fetcher:
    options = {"resolve": here, "permitted": lambda _: True, "timeout": 5.0, **options}
    return Fetcher([f"photos.example:{site.server_port}", f"other.example:{site.server_port}"], **options)


async def fetch_all(by: Fetcher, links: list[Link], budget: int = 10**7) -> list[ReadyImage]:
    async with by.fetched(links, budget=budget) as found:
        return found


async def fetch(by: Fetcher, site: Any, path: str, budget: int = 10**7) -> bytes | NonnegError:
    url = path if path.startswith("http") else f"http://photos.example:{site.server_port}{path}"
    (found,) = await fetch_all(by, [Link(url, "images[0]")], budget)
    assert isinstance(found, (bytes, NonnegError))
    return found


async def test_an_allowed_host_is_fetched_without_luggage(
    site: Any, png: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert await fetch(fetcher(site), site, "/a.png") == png(0)
    (seen,) = site.handler.seen
    assert seen["host"] == f"photos.example:{site.server_port}"
    assert seen["accept-encoding"] == "identity"
    assert not {"cookie", "authorization", "referer"} & set(seen)


async def test_redirects_are_followed_with_the_same_checks_and_no_cookies(
    site: Any, png: Callable[[int], bytes]
) -> None:
    by = fetcher(site)
    assert await fetch(by, site, f"/to/http://other.example:{site.server_port}/b.png") == png(0)
    assert all("cookie" not in seen for seen in site.handler.seen)
    refused = await fetch(by, site, "/to/http://169.254.169.254/latest")
    assert isinstance(refused, ParameterInvalid)
    looped = await fetch(by, site, "/to/" * 6 + "a.png")
    assert isinstance(looped, LinkFailed)
    for scheme in ("file:///etc/passwd", "ftp://photos.example/a"):
        assert isinstance(await fetch(by, site, f"/to/{scheme}"), ParameterInvalid)


async def test_a_redirect_to_a_private_address_is_refused(site: Any) -> None:
    """The first hop is permitted, the second resolves to somewhere private."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if host == "photos.example" else ["10.0.0.1"]

    by = fetcher(site, resolve=resolve, permitted=lambda address: address == "127.0.0.1")
    found = await fetch(by, site, f"/to/http://other.example:{site.server_port}/b.png")
    assert isinstance(found, LinkFailed)
    assert "not public" in found.message
    assert asked == ["photos.example", "other.example"]


async def test_the_name_is_resolved_once_and_the_address_pinned(site: Any) -> None:
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    assert isinstance(await fetch(fetcher(site, resolve=rebinding), site, "/a.png"), bytes)
    assert len(asked) == 1


async def test_one_private_address_among_several_is_enough_to_refuse(site: Any) -> None:
    async def mixed(host: str, port: int) -> list[str]:
        return ["93.184.215.14", "127.0.0.1"]

    found = await fetch(fetcher(site, resolve=mixed, permitted=routable), site, "/a.png")
    assert isinstance(found, LinkFailed)
    assert site.handler.seen == []


@pytest.mark.parametrize(
    ("path", "options", "kind", "what"),
    [
        ("/gone", {}, LinkFailed, "answers 404"),
        ("/gzip", {}, LinkFailed, "compressed"),
        ("/slow", {"timeout": 0.3}, LinkFailed, "0.3 s"),
        ("/a.png", {"max_bytes": 100}, ImageTooLarge, "limit is 100"),
        ("/unannounced", {"max_bytes": 100}, ImageTooLarge, "limit is 100"),
        ("http://evil.example/a.png", {}, ParameterInvalid, "not among the hosts"),
        ("http://photos.example/a.png", {}, ParameterInvalid, "not among the hosts"),
        ("http://user:secret@photos.example/a.png", {}, ParameterInvalid, "user and password"),
        ("http://[::1/a.png", {}, ParameterInvalid, "not a URL"),
        ("http:///a.png", {}, ParameterInvalid, "not a plain"),
        ("http://xn--/a.png", {}, ParameterInvalid, "not a URL"),
        ("http://xn--a/a.png", {}, ParameterInvalid, "not a URL"),
        ("/to/http://xn--/a.png", {}, LinkFailed, "cannot be fetched"),
        ("/to/http://[::1/a.png", {}, LinkFailed, "cannot be fetched"),
    ],
)
async def test_a_failing_link_has_its_own_error(
    site: Any, path: str, options: dict[str, Any], kind: type[NonnegError], what: str
) -> None:
    found = await fetch(fetcher(site, **options), site, path)
    assert isinstance(found, kind)
    assert what in str(found)
    assert "secret" not in str(found.body())


@pytest.mark.parametrize(
    ("sent", "what"),
    [
        (b"", "cannot be fetched: its host"),
        (b"no HTTP\r\n\r\n", "does not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\n", "does not answer in HTTP"),
        (None, "no connection to its host"),
    ],
    ids=["nothing", "no HTTP", "a length of 5,000 digits", "no listener"],
)
async def test_what_a_host_does_wrong_is_said_in_our_own_words(sent: bytes | None, what: str) -> None:
    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(sent or b"")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = SimpleNamespace(server_port=listener.getsockname()[1])
        if sent is None:
            listener.close()
        else:
            threading.Thread(target=answer, daemon=True).start()
        found = await fetch(fetcher(host), host, "/a.png")
    assert isinstance(found, LinkFailed)
    assert what in found.message
    assert "Error" not in f"{found.message} {found.fix}"


async def test_a_link_that_fails_as_nothing_foresaw_fails_alone_and_is_logged(
    site: Any, png: Callable[[int], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(host: str, port: int) -> list[str]:
        if host == "photos.example":
            return ["127.0.0.1"]
        raise LookupError("no such codec")

    links = [Link(f"http://{name}.example:{site.server_port}/a.png", name) for name in ("photos", "other")]
    good, bad = await fetch_all(fetcher(site, resolve=broken), links)
    assert good == png(0)
    assert isinstance(bad, LinkFailed)
    assert "no such codec" in caplog.text


async def test_a_name_that_cannot_be_decoded_fails_its_image_alone(
    client: httpx.AsyncClient, png: Callable[[int], bytes]
) -> None:
    images = [base64.b64encode(png(0)).decode(), "http://xn--/a.png"]
    answer = await client.post("/embed", json={"images": images})
    assert answer.status_code == 200
    assert [row.get("error", {}).get("type") for row in answer.json()["data"]] == [None, "parameter_invalid"]


async def test_the_links_of_a_request_share_a_budget(site: Any, png: Callable[[int], bytes]) -> None:
    size = len(png(0))
    links = [Link(f"http://photos.example:{site.server_port}/{i}.png", f"images[{i}]") for i in range(6)]
    found = await fetch_all(fetcher(site), links, 3 * size)
    assert sum(isinstance(image, bytes) for image in found) <= 3
    assert any(isinstance(image, ImageTooLarge) for image in found)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
     "255.255.255.255", "198.18.0.1", "::1", "::", "fe80::1", "fc00::1", "fd12::1", "ff02::1", "::ffff:127.0.0.1",
     "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:db8::1", "fec0::1", "::127.0.0.1", "::8.8.8.8",
     "::ffff:0:127.0.0.1", "3fff::1", "5f00::1", "100:0:0:1::1", "192.0.0.8", "192.88.99.1", "2001::1", "4000::1"],
)  # fmt: skip
async def test_no_private_address_passes_for_a_public_one(address: str) -> None:
    assert not routable(address)


async def test_public_addresses_pass() -> None:
    assert routable("93.184.215.14")
    assert routable("2606:2800:21f:cb07:6820:80da:af6b:8b2c")


@pytest.mark.parametrize("net", [*SPECIAL_IPV4, *SPECIAL_IPV6], ids=str)
async def test_a_special_block_is_refused_from_its_first_address_to_its_last(net: IPv4Network | IPv6Network) -> None:
    assert not routable(str(net[0]))
    assert not routable(str(net[-1]))


@pytest.mark.parametrize("address", ["1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
    "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.167.255.255", "198.17.255.255", "198.20.0.0", "223.255.255.255",
    "2001:200::", "2003::", "3ffe:ffff::1", "::ffff:8.8.8.8"])  # fmt: skip
async def test_what_borders_on_a_special_block_is_public(address: str) -> None:
    assert routable(address)


@pytest.mark.parametrize("host", ["127.0.0.1", "0x7f.1", "2130706433", "localhost"])
async def test_every_spelling_of_localhost_is_refused(host: str) -> None:
    by = Fetcher(["*"], timeout=5.0)
    (found,) = await fetch_all(by, [Link(f"http://{host}/", "images[0]")], 1000)
    assert isinstance(found, NonnegError)
    assert await addresses("::1%no-such-interface", 80) == []


async def test_a_server_without_hosts_refuses_links_one_by_one(
    client: httpx.AsyncClient, png: Callable[[int], bytes]
) -> None:
    images = [base64.b64encode(png(0)).decode(), "https://photos.example/a.png"]
    answer = (await client.post("/embed", json={"images": images})).json()["data"]
    assert answer[0]["nnz"] > 0
    assert answer[1]["error"]["type"] == "parameter_invalid"
    assert "--url-host" in answer[1]["error"]["fix"]


async def test_many_links_at_once_are_all_answered(site: Any) -> None:
    links = [Link(f"http://photos.example:{site.server_port}/{i}.png", f"images[{i}]") for i in range(40)]
    found = await asyncio.wait_for(fetch_all(fetcher(site), links), 20)
    assert all(isinstance(image, bytes) for image in found)


async def test_a_request_of_many_slow_links_leaves_places_for_anothers(site: Any, png: Callable[[int], bytes]) -> None:
    by = fetcher(site, timeout=60.0)
    links = [Link(f"http://photos.example:{site.server_port}/held", f"images[{i}]") for i in range(20)]
    slow = asyncio.create_task(fetch_all(by, links))
    while len(site.handler.seen) < OF_ONE_REQUEST:
        await asyncio.sleep(0.01)
    assert await asyncio.wait_for(fetch(by, site, "/a.png"), 20) == png(0)
    assert [seen["path"] for seen in site.handler.seen] == ["/held"] * OF_ONE_REQUEST + ["/a.png"]
    site.handler.released.set()
    assert await slow == [png(0)] * 20


async def test_name_servers_that_do_not_answer_keep_nothing_but_links_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()

    def look_up(*_: object, **__: object) -> list[Any]:
        answered.wait(60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    waiting = [asyncio.create_task(addresses(f"{i}.example", 80)) for i in range(64)]
    await asyncio.sleep(0)
    try:
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "other work"), 20) == "other work"
    finally:
        answered.set()
    assert await asyncio.gather(*waiting) == [[]] * 64


async def test_what_links_bring_counts_with_the_bodies_of_all_requests_until_it_is_answered(
    site: Any, png: Callable[[int], bytes]
) -> None:
    size = len(png(0))
    shared = ConnectionState(ConnectionLimits(bytes=5 * size))
    by = fetcher(site, shared=shared)
    links = [Link(f"http://photos.example:{site.server_port}/{i}.png", f"images[{i}]") for i in range(3)]
    async with by.fetched(links[:2], budget=10**7) as found:
        assert (found, shared.buffered) == ([png(0)] * 2, 2 * size)
        with pytest.raises(Overloaded) as refused:  # they may have the half
            await fetch_all(by, links[2:])
        assert (refused.value.field, refused.value.limit, shared.buffered) == ("upload_bytes", 5 * size // 2, 2 * size)
    assert shared.buffered == 0
    with pytest.raises(Overloaded):
        await fetch_all(by, links)
    assert (await fetch_all(by, links[:1]), shared.buffered) == ([png(0)], 0)


async def test_a_request_whose_links_find_no_room_is_answered_429(site: Any, registry: Registry) -> None:
    app = create_app(registry, Settings())
    app.state.fetcher = fetcher(site, shared=ConnectionState(ConnectionLimits(bytes=100)))
    link = f"http://photos.example:{site.server_port}/a.png"
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        for path in ("/embed", "/explain?where=1"):
            found = await client.post(path, json={"images": [link] * 2})
            assert (found.status_code, found.json()["error"]["field"]) == (429, "upload_bytes"), path


@pytest.mark.parametrize(("own", "headers"), [(60.0, {"x-request-timeout": "0.3"}), (0.3, {})])
async def test_links_do_not_outlast_the_deadline(
    site: Any, registry: Registry, own: float, headers: dict[str, str]
) -> None:
    app = create_app(registry, Settings(timeout=own))
    app.state.fetcher = fetcher(site)
    link = f"http://photos.example:{site.server_port}/slow"
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        found = await client.post("/embed", json={"images": [link] * 20}, headers=headers)
        assert (found.status_code, found.json()["error"]["type"]) == (504, "deadline_exceeded")


def test_the_hosts_are_a_flag_and_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_settings(url_host=("a.example",)).url_host == ("a.example",)
    monkeypatch.setenv("NONNEG_URL_HOST", "a.example,*.b.example")
    assert read_settings().url_host == ("a.example", "*.b.example")
