"""deploy/nginx.conf in a real nginx: who is not there is passed over, refusals and limits come through as they are."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

CONFIGURATION = Path(__file__).parent.parent / "deploy" / "nginx.conf"
Proxied = Callable[[str, str], str]


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[Proxied]:
    """Start nginx before two servers; its address."""
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not installed")
    started = []

    def start(first: str, second: str) -> str:
        port = free_port()
        text = CONFIGURATION.read_text().replace("listen LISTEN;", f"listen 127.0.0.1:{port};")
        text = text.replace("SERVER_1", first).replace("SERVER_2", second)
        user = "user root;\n" if os.getuid() == 0 else ""  # else its workers could not write here
        own = f"{user}pid {tmp_path}/pid;\nerror_log {tmp_path}/error.log;\ndaemon off;\n"
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        paths = "".join(f"{kind}_temp_path {tmp_path}/{kind};\n" for kind in kinds)
        (tmp_path / "nginx.conf").write_text(own + text.replace("http {", f"http {{\naccess_log off;\n{paths}", 1))
        process = subprocess.Popen(["nginx", "-c", str(tmp_path / "nginx.conf"), "-p", str(tmp_path)])
        started.append(process)
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return f"http://127.0.0.1:{port}"
            time.sleep(0.05)
        raise AssertionError((tmp_path / "error.log").read_text())

    yield start
    for process in started:
        process.terminate()
        process.wait(10)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


class Refusing(BaseHTTPRequestHandler):
    """Answers every POST with 429, and remembers connections and requests."""

    protocol_version = "HTTP/1.1"
    ports: set[int]
    asked: list[str]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.ports.add(self.client_address[1])
        self.asked.append(self.path)
        self.send_response(429)
        self.send_header("Retry-After", "7")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def refusing() -> Iterator[type[Refusing]]:
    kind = type("Remembering", (Refusing,), {"ports": set(), "asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        kind.address = f"127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield kind
        server.shutdown()


def test_a_server_that_is_not_there_costs_no_request(proxied: Proxied, server: str, photos: Path) -> None:
    url = proxied(f"127.0.0.1:{free_port()}", server.removeprefix("http://"))
    photo = (photos / "cat" / "cat-0.jpg").read_bytes()
    with httpx.Client(base_url=url) as http:
        answers = [http.post("/embed", content=photo, headers={"Content-Type": "image/jpeg"}) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [200] * 6
    assert all(len(answer.headers["x-request-id"]) == 32 for answer in answers)  # nginx's, which the server keeps


def test_a_refusal_reaches_the_client_once_with_its_retry_after_and_connections_stay_open(
    proxied: Proxied, refusing: type[Refusing]
) -> None:
    address: str = refusing.address  # type: ignore[attr-defined]
    with httpx.Client(base_url=proxied(address, address)) as http:
        answers = [http.post("/embed", content=b"a photo") for _ in range(5)]
    assert {(answer.status_code, answer.headers["retry-after"]) for answer in answers} == {(429, "7")}
    assert len(refusing.asked) == 5  # none was sent again
    assert len(refusing.ports) < 5


def test_a_body_beyond_the_servers_limit_is_refused_by_both(proxied: Proxied, server: str) -> None:
    address = server.removeprefix("http://")
    large = b"x" * (64 * 2**20 + 1)
    for url in (server, proxied(address, address)):
        assert httpx.post(f"{url}/embed", content=large, timeout=60).status_code == 413
