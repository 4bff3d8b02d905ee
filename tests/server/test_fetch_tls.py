"""Images by https: the pinned address must prove to be the host by its name, to an authority made here."""

from __future__ import annotations

import http.server
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nonneg_core.errors import LinkFailed, NonnegError
from nonneg_server.requests.fetch import Fetcher
from nonneg_server.requests.inputs import Link

pytestmark = pytest.mark.anyio
EC = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1"


def openssl(folder: Path, command: str) -> None:
    try:
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl here")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority and certificates: for photos.example, and one of an unknown authority."""
    folder = tmp_path_factory.mktemp("tls")
    openssl(folder, f"req -x509 {EC} -subj /CN=authority -keyout ca.key -out ca.pem")
    openssl(folder, f"req {EC} -subj /CN=photos.example -keyout host.key -out host.csr")
    (folder / "names").write_text("subjectAltName=DNS:photos.example,DNS:*.more.example\n")
    openssl(folder, "x509 -req -in host.csr -CA ca.pem -CAkey ca.key -days 1 -extfile names -out host.pem")
    alone = "-addext subjectAltName=DNS:photos.example"
    openssl(folder, f"req -x509 {EC} -subj /CN=photos.example {alone} -keyout own.key -out own.pem")
    return folder


class Site(http.server.BaseHTTPRequestHandler):
    """An image, a way back to plain http, and a way to another host."""

    def do_GET(self) -> None:
        where = {"/down": "http://photos.example:{}/a.png", "/other": "https://other.example:{}/a.png"}.get(self.path)
        port = self.server.server_port  # type: ignore[attr-defined]
        self.server.hosts.append(self.headers["host"])  # type: ignore[attr-defined]
        self.send_response(302 if where else 200)
        if where:
            self.send_header("Location", where.format(port))
        image = b"" if where else b"the image"
        self.send_header("Content-Length", str(len(image)))
        self.end_headers()
        self.wfile.write(image)

    def log_message(self, *_: Any) -> None:
        pass


class Quiet(http.server.ThreadingHTTPServer):
    """Notes the names that clients ask for; failed handshakes are what some tests want."""

    def handle_error(self, *_: Any) -> None:
        pass


@pytest.fixture
def site(authority: Path) -> Iterator[Callable[[str], Any]]:
    """site("host") serves with that certificate."""
    servers = []

    def start(name: str) -> Any:
        server: Any = Quiet(("127.0.0.1", 0), Site)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority / f"{name}.pem", authority / f"{name}.key")
        server.names, server.hosts = [], []
        context.sni_callback = lambda _socket, asked, _context: server.names.append(asked)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


async def here(_host: str, _port: int) -> list[str]:
    return ["127.0.0.1"]


@pytest.fixture
def trusting(authority: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an operator does it for an authority of his own."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority / "ca.pem"))


async def fetch(server: Any, host: str = "photos.example", path: str = "/a.png") -> bytes | NonnegError:
    by = Fetcher([f"*:{server.server_port}"], resolve=here, permitted=lambda _: True, timeout=5.0)
    link = Link(f"https://{host}:{server.server_port}{path}", "images[0]")
    async with by.fetched([link], budget=10**6) as (found,):
        pass
    assert isinstance(found, (bytes, NonnegError))
    return found


@pytest.mark.usefixtures("trusting")
@pytest.mark.parametrize("host", ["photos.example", "PHOTOS.example", "a.more.example"])
async def test_the_pinned_address_is_asked_for_the_hosts_certificate(site: Any, host: str) -> None:
    server = site("host")
    assert await fetch(server, host) == b"the image"
    assert server.names == [host.lower()]
    assert server.hosts == [f"{host.lower()}:{server.server_port}"]


@pytest.mark.usefixtures("trusting")
@pytest.mark.parametrize("host", ["other.example", "a.b.more.example", "127.0.0.1"])
async def test_a_certificate_of_another_name_is_not_trusted(site: Any, host: str) -> None:
    server = site("host")
    found = await fetch(server, host)
    assert isinstance(found, LinkFailed)
    assert "certificate" in found.message
    assert server.hosts == []


@pytest.mark.usefixtures("trusting")
async def test_a_certificate_that_signed_itself_is_not_trusted(site: Any) -> None:
    found = await fetch(site("own"))
    assert isinstance(found, LinkFailed)
    assert "certificate" in found.message


async def test_an_unknown_authority_is_not_trusted(site: Any) -> None:
    found = await fetch(site("host"))
    assert isinstance(found, LinkFailed)
    assert "certificate" in found.message


@pytest.mark.usefixtures("trusting")
async def test_a_redirect_is_checked_against_the_name_it_leads_to(site: Any) -> None:
    server = site("host")
    other = await fetch(server, path="/other")
    assert isinstance(other, LinkFailed)
    assert "certificate" in other.message
    assert server.names == ["photos.example", "other.example"]
    down = await fetch(server, path="/down")
    assert isinstance(down, LinkFailed)
    assert "from https to http" in down.message
