"""A bucket on loopback that speaks as much of S3 as reading needs, and refuses when it is told to."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Bucket(BaseHTTPRequestHandler):
    """Holds what was put into it until it refuses."""

    protocol_version = "HTTP/1.1"
    files: dict[str, bytes]
    refusal: tuple[int, str] | None  # status and S3's name of the error
    allowed: int  # requests before it is refused

    def do_GET(self) -> None:
        if self.refused():
            return
        path, _, query = self.path.partition("?")
        if path.count("/") == 1 or path.endswith("/") or "list-type" in query:
            self.list_all(query)
        elif path in self.files:
            data = self.files[path]
            first, last = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "bytes=0-")).groups()  # type: ignore[union-attr]
            part = data[int(first) : int(last) + 1 if last else None]
            self.answer(206 if "Range" in self.headers else 200, part)
        else:
            self.answer(404, b"<Error><Code>NoSuchKey</Code><Message>gone</Message></Error>")

    do_HEAD = do_GET  # noqa: N815

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if not self.refused():
            self.answer(200, b"")

    do_POST = do_PUT  # noqa: N815

    def list_all(self, query: str) -> None:
        """Answer ListObjectsV2."""
        prefix = re.search(r"prefix=([^&]*)", query)
        root = f"/{self.path.partition('?')[0].strip('/')}/"
        names = [name.removeprefix(root) for name in self.files if name.startswith(root)]
        start = prefix[1].replace("%2F", "/") if prefix else ""
        rows = [
            f"<Contents><Key>{name}</Key><Size>{len(self.files[root + name])}</Size></Contents>"
            for name in names
            if name.startswith(start)
        ]
        head = f"<KeyCount>{len(rows)}</KeyCount><IsTruncated>false</IsTruncated>"
        self.answer(200, f"<ListBucketResult>{head}{''.join(rows)}</ListBucketResult>".encode())

    def refused(self) -> bool:
        type(self).allowed -= 1
        if self.refusal is None or self.allowed >= 0:
            return False
        status, code = self.refusal
        self.answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())
        return True

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", "Thu, 19 Nov 2026 12:00:00 GMT")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def loopback_bucket(files: dict[str, bytes], environment: pytest.MonkeyPatch) -> Iterator[type[Bucket]]:
    """Hold files by /BUCKET/KEY, and have the environment point to them."""
    kind = type("Holding", (Bucket,), {"files": files, "refusal": None, "allowed": 0})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        environment.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
        environment.setenv("AWS_ACCESS_KEY_ID", "key")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "key")
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield kind
        server.shutdown()
