"""A client of the real server, and a server that fails on demand."""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from nonneg_client import Client


@pytest.fixture(scope="session")
def client(server: str) -> Iterator[Client]:
    with Client(server) as client:
        yield client


class Faulty(ThreadingHTTPServer):
    """A server of the native wire form that takes the next fault from `plan` for each request, and then none.

    An image of text "n" gets the vector {n: 1}; an image "bad" is refused.
    """

    daemon_threads = True
    request_queue_size = 64  # with the usual 5 a ninth connection waits a second

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.plan: list[str | tuple[str, Any]] = []
        self.seen: list[int] = []  # images of each request
        self.at_once = 0
        self.most_at_once = 0
        self.fingerprint = "f" * 32
        self.seconds = 0.0  # each request takes
        self.most_images = 1000
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: object) -> None:
        """A client that hung up is what some tests want."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # head and body in one packet
    server: Faulty

    def do_GET(self) -> None:
        """Whatever is asked, the one model."""
        self.answer(200, {"models": [{"name": "fake", "fingerprint": self.server.fingerprint, "dimensions": 1000}]})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        with server.lock:
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
            fault = server.plan.pop(0) if server.plan else "none"
        kind, detail = fault if isinstance(fault, tuple) else (fault, None)
        images = self.images(body)
        server.seen.append(len(images))
        time.sleep(server.seconds)
        with server.lock:
            server.at_once -= 1
        getattr(self, kind)(images, detail)

    def images(self, body: bytes) -> list[bytes]:
        kind = self.headers["Content-Type"]
        if not kind.startswith("multipart"):
            return [body]
        parts = body.split(b"--" + kind.partition("boundary=")[2].encode())[1:-1]
        return [part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n") for part in parts]

    def none(self, images: list[bytes], _: Any, **changes: Any) -> None:
        if len(images) > self.server.most_images:
            limit = {"type": "too_many_images", "message": "too many", "limit": self.server.most_images}
            return self.answer(413, {"error": limit, "request_id": "r"})
        if int(parse_qs(urlsplit(self.path).query).get("dimensions", ["1"])[0]) > 1000:
            return self.answer(422, {"error": {"type": "parameter_invalid", "message": "too long"}})
        rows = [self.row(i, image) for i, image in enumerate(images)]
        described = {"model": "fake", "fingerprint": self.server.fingerprint, "dimensions": 1000}
        return self.answer(200, {**described, "top_k": None, "normalized": True, "data": rows, **changes})

    def row(self, index: int, image: bytes) -> dict[str, Any]:
        if image == b"bad":
            return {"index": index, "error": {"type": "image_unreadable", "message": "broken", "fix": "mend it"}}
        found = int(image) if image.isdigit() else zlib.crc32(image) % 1000
        return {"index": index, "indices": [found], "values": [1.0], "nnz": 1, "zero": False}

    def answer(self, status: int, content: Any, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def error(self, _: list[bytes], detail: tuple[int, str]) -> None:
        status, kind = detail
        self.answer(status, {"error": {"type": kind, "message": "injected", "fix": "wait"}, "request_id": "r1"})

    def overloaded(self, _: list[bytes], seconds: float) -> None:
        self.answer(429, {"error": {"type": "overloaded", "message": "full"}}, Retry_After=str(seconds))

    def drop(self, *_: Any) -> None:
        self.close_connection = True
        self.connection.close()

    def half(self, images: list[bytes], _: Any) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5000")
        self.end_headers()
        self.wfile.write(b'{"model": "fa')
        self.close_connection = True

    def garbage(self, images: list[bytes], detail: Any) -> None:
        self.answer(200, detail)

    def changed(self, images: list[bytes], changes: dict[str, Any]) -> None:
        self.none(images, None, **changes)

    def slow(self, images: list[bytes], seconds: float) -> None:
        time.sleep(seconds)
        self.none(images, None)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def faulty() -> Iterator[Faulty]:
    with Faulty() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
