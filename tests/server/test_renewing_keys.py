"""Keys that are added and withdrawn while the server serves, as those see it who are connected then."""

import hashlib
import io
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from PIL import Image

from nonneg_runtime.bundle.bundle_folder import Bundle

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals of POSIX")
Png = Callable[[int], bytes]
Popen = subprocess.Popen[str]
LEAVING, STAYING, COMING = (f"the-secret-of-who-is-{what}" for what in ("leaving", "staying", "coming"))
DONE, KEPT = "read the API keys again", "the API keys stay as they were"


def line(secret: str, name: str = "") -> str:
    return f"{name} sha256:{hashlib.sha256(secret.encode()).hexdigest()}\n"


def hangup(process: Popen, expected: str, seconds: float = 20.0) -> str:
    """Send SIGHUP; what the log says until it says what is expected."""
    process.send_signal(signal.SIGHUP)
    assert process.stderr is not None
    said, until = "", time.monotonic() + seconds
    while expected not in said or not said.endswith("\n"):
        assert time.monotonic() < until, said
        if select.select([process.stderr], [], [], 0.1)[0]:
            said += os.read(process.stderr.fileno(), 65536).decode()
    return said


def rewrite(file: Path, text: str) -> None:
    beside = file.with_suffix(".new")
    beside.write_text(text)
    beside.replace(file)


def head(secret: str, length: int) -> bytes:
    lines = ["POST /embed HTTP/1.1", "Host: localhost", "Content-Type: image/png", f"X-API-Key: {secret}"]
    return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()


def connected(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname, parts.port), timeout=20)


def hear(connection: socket.socket) -> int:
    """The status of one whole answer."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    top, _, body = received.partition(b"\r\n\r\n")
    length = next(int(text[16:]) for text in top.lower().split(b"\r\n") if text.startswith(b"content-length: "))
    while len(body) < length:
        body += connection.recv(65536)
    return int(top.split()[1])


def ask(connection: socket.socket, secret: str, body: bytes) -> int:
    connection.sendall(head(secret, len(body)) + body)
    return hear(connection)


def test_a_key_that_is_withdrawn_is_refused_also_on_connections_that_are_known(
    start: Callable, bundle: Bundle, tmp_path: Path, png: Png
) -> None:
    keys, body = tmp_path / "keys", png(1)
    keys.write_text(line(LEAVING, "leaving") + line(STAYING, "staying"))
    flags = ("--model", str(bundle.path), "--drain", "0", "--api-key-file", str(keys))
    with (
        start(*flags) as (address, process),
        connected(address) as leaving,
        connected(address) as staying,
        connected(address) as halfway,
        httpx.Client(base_url=address, headers={"x-api-key": LEAVING}) as elsewhere,
    ):
        for _ in range(3):
            assert ask(leaving, LEAVING, body) == ask(halfway, LEAVING, body) == ask(staying, STAYING, body) == 200
        assert elsewhere.get("/models").status_code == 200
        halfway.sendall(head(LEAVING, len(body)) + body[:50])
        rewrite(keys, line(STAYING, "staying") + line(COMING, "coming"))
        said = hangup(process, DONE)
        assert "2 keys, new: coming; withdrawn: leaving" in said
        halfway.sendall(body[50:])
        assert hear(halfway) == 200, "the key was known when the headers came"
        assert [ask(leaving, LEAVING, body) for _ in range(3)] == [401] * 3
        assert elsewhere.get("/models").status_code == 401
        assert ask(leaving, COMING, body) == 200, "the connection is as good as before"
        assert [ask(staying, STAYING, body) for _ in range(3)] == [200] * 3


def slow_png() -> bytes:
    """A small file that takes some tenths of a second to decode."""
    buffer = io.BytesIO()
    Image.new("RGB", (4500, 4500), "teal").save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.slow
def test_while_the_queue_is_full_too_a_key_that_is_withdrawn_is_unknown(
    start: Callable, bundle: Bundle, tmp_path: Path, png: Png
) -> None:
    keys, slow = tmp_path / "keys", slow_png()
    keys.write_text(line(LEAVING, "leaving") + line(STAYING, "staying"))
    flags = ("--model", str(bundle.path), "--drain", "0", "--api-key-file", str(keys), "--threads", "1", "--queue", "1")
    with (
        start(*flags) as (address, process),
        connected(address) as known,
        connected(address) as new,
        connected(address) as busy,
    ):
        assert ask(known, LEAVING, png(1)) == ask(busy, STAYING, png(1)) == 200
        rewrite(keys, line(STAYING, "staying"))
        busy.sendall(head(STAYING, len(slow)) + slow)
        until = time.monotonic() + 60
        while ask(known, LEAVING, png(1)) != 429:
            assert time.monotonic() < until
        hangup(process, DONE)
        assert ask(known, LEAVING, png(1)) == ask(new, LEAVING, png(1)) == 401
        assert hear(busy) == 200


@pytest.mark.slow
def test_a_key_that_stays_has_used_up_what_it_has_used_up(start: Callable, bundle: Bundle, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(line(LEAVING) + line(STAYING))  # without names: they are numbered
    flags = ("--drain", "0", "--api-key-file", str(keys), "--rate", "0.001", "--burst", "2")
    with start("--model", str(bundle.path), *flags) as (address, process):

        def status(secret: str) -> int:
            return httpx.get(f"{address}/models", headers={"x-api-key": secret}).status_code

        assert [status(STAYING) for _ in range(3)] == [200, 200, 429]
        rewrite(keys, line(STAYING) + line(COMING))
        hangup(process, DONE)
        assert status(STAYING) == 429
        assert [status(COMING) for _ in range(3)] == [200, 200, 429]
        assert status(LEAVING) == 401


@pytest.mark.slow
def test_an_invalid_file_keeps_the_keys_that_were_there(start: Callable, bundle: Bundle, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(line(STAYING, "staying"))

    def make_folder() -> None:
        keys.unlink()
        keys.mkdir()

    mishaps: dict[str, tuple[Callable[[], object], str]] = {
        "empty": (partial(rewrite, keys, ""), "holds no key: add what `nonneg key` prints"),
        "comments": (partial(rewrite, keys, "# " + line(STAYING, "staying")), "holds no key"),
        "the key itself": (partial(rewrite, keys, line(COMING, "coming") + f"mine {STAYING}"), "line 2 is not a key"),
        "cut off": (partial(rewrite, keys, line(STAYING, "staying")[:40]), "line 1 is not a SHA-256"),
        "twice the name": (partial(rewrite, keys, line(STAYING, "a") + line(COMING, "a")), "a name used before"),
        "no text": (partial(keys.write_bytes, b"\xff\xfe\0\0"), "cannot be read"),
        "gone": (keys.unlink, "cannot be read"),
        "a folder": (make_folder, "check --api-key-file and its permissions"),
    }
    flags = ("--model", str(bundle.path), "--drain", "0", "--api-key-file", str(keys))
    with start(*flags) as (address, process), httpx.Client(base_url=address) as client:

        def statuses() -> list[int]:
            asking = ({"x-api-key": STAYING}, {"x-api-key": COMING}, {})
            return [client.get("/models", headers=headers).status_code for headers in asking]

        for what, (happen, told) in mishaps.items():
            if what == "a folder":
                rewrite(keys, line(STAYING, "staying"))
            happen()
            (said,) = [text for text in hangup(process, KEPT).splitlines() if KEPT in text]
            assert told in said, what
            assert str(keys) in said
            assert "send SIGHUP again" in said
            assert STAYING not in said
            assert statuses() == [200, 401, 401], what
        keys.rmdir()
        rewrite(keys, line(COMING, "coming"))
        hangup(process, DONE)
        assert statuses() == [401, 200, 401]
