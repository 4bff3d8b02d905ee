"""Too much for too long: refusals are polite, what is accepted is answered, memory stays where it is."""

import io
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from PIL import Image

from nonneg_runtime.bundle.bundle_folder import Bundle

pytestmark = [pytest.mark.slow, pytest.mark.waits]
Png = Callable[[int], bytes]


def heavy() -> bytes:
    """A PNG that takes some tens of milliseconds to decode."""
    pixels = np.random.default_rng(0).integers(0, 256, (900, 900, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def resident_mb(pid: int) -> float:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def peak_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024


def flood(address: str, body: bytes, *, clients: int, seconds: float) -> tuple[Counter[int], list[float]]:
    """Statuses of a closed loop of so many clients, and the Retry-After values seen."""
    statuses: Counter[int] = Counter()
    waits: list[float] = []
    until = time.monotonic() + seconds

    def ask() -> None:
        with httpx.Client(timeout=30) as client:
            while True:  # once at least, however slow this process is
                found = client.post(f"{address}/embed", content=body)
                statuses[found.status_code] += 1
                if found.status_code == 429:
                    waits.append(int(found.headers["retry-after-ms"]) / 1000)
                    assert found.json()["error"]["type"] == "overloaded"
                    time.sleep(0.02)
                if time.monotonic() >= until:
                    return

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return statuses, waits


def test_a_full_queue_answers_429_and_nothing_worse(start: Callable, bundle: Bundle, png: Png) -> None:
    flags = ("--model", str(bundle.path), "--queue", "4", "--threads", "1", "--drain", "0")
    with start(*flags) as (address, process):
        body, _ = slow(1)  # sent in less time than it is worked on, where other work has the cores, too
        statuses, waits = flood(address, body, clients=12, seconds=1.5)
        assert set(statuses) == {200, 429}
        assert all(0 < wait < 10 for wait in waits)
        assert httpx.post(f"{address}/embed", content=png(0)).status_code == 200
        several = httpx.post(f"{address}/embed", files=[("images", png(i)) for i in range(4)])
        assert len(several.json()["data"]) == 4
        metrics = httpx.get(f"{address}/metrics").text
        assert f"nonneg_refused_total {float(statuses[429])}" in metrics
        assert "nonneg_images_in_flight 0.0" in metrics
        process.terminate()
        assert process.wait(20) == 0
        assert process.stderr.read() == ""


def test_requests_whose_clients_leave_do_not_fill_the_queue(start: Callable, bundle: Bundle, png: Png) -> None:
    body = heavy()
    flags = ("--model", str(bundle.path), "--queue", "6", "--threads", "1", "--drain", "0")
    with start(*flags) as (address, _):
        for _ in range(15):
            with suppress(httpx.ReadTimeout), httpx.Client(timeout=httpx.Timeout(10, read=0.001)) as client:
                status = client.post(f"{address}/embed", content=body).status_code
                assert status == 429  # at once, where it was not noticed yet that the others left
        until = time.monotonic() + 60
        while "nonneg_images_in_flight 0.0" not in httpx.get(f"{address}/metrics").text and time.monotonic() < until:
            time.sleep(0.05)
        assert httpx.post(f"{address}/embed", content=png(0)).status_code == 200
        assert "nonneg_images_in_flight 0.0" in httpx.get(f"{address}/metrics").text


def slow(count: int) -> tuple[bytes, str]:
    """A body of so many images that take some tenths of a second each, and its type."""
    buffer = io.BytesIO()
    Image.new("RGB", (4000, 4000), "teal").save(buffer, "PNG")
    if count == 1:
        return buffer.getvalue(), "image/png"
    request = httpx.Request("POST", "http://x", files=[("images", buffer.getvalue())] * count)
    return request.read(), request.headers["content-type"]


@pytest.mark.parametrize(("requests", "images"), [(24, 1), (3, 8)])
def test_what_was_asked_by_clients_who_left_is_never_begun(
    start: Callable, bundle: Bundle, requests: int, images: int
) -> None:
    body, kind = slow(images)
    head = f"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    with start("--model", str(bundle.path), "--threads", "1", "--drain", "0") as (address, _):
        place = urlsplit(address)

        def shows(line: str) -> bool:
            return line in httpx.get(f"{address}/metrics").text

        gone = [socket.create_connection((place.hostname, place.port)) for _ in range(requests)]
        for connection in gone:
            connection.sendall(head.encode() + body)
        until = time.monotonic() + 60
        while not shows("nonneg_images_in_flight 24.0") and time.monotonic() < until:
            time.sleep(0.01)
        for connection in gone:
            connection.close()
        until = time.monotonic() + 60
        while not shows("nonneg_images_in_flight 0.0") and time.monotonic() < until:
            time.sleep(0.01)
        assert shows(f'nonneg_requests_total{{method="POST",route="/embed",status="499"}} {float(requests)}')
        assert httpx.post(f"{address}/embed", content=heavy()).status_code == 200
        ran = float(httpx.get(f"{address}/metrics").text.partition("\nnonneg_images_total{")[2].split()[1])
        assert ran < 24, "of those whose clients had gone, few had begun"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_large_json_is_taken_one_by_one_and_never_held_many_times(start: Callable, bundle: Bundle) -> None:
    row = b"[" + b",".join([b"0.5"] * 48) + b"]"
    body = b'{"dimensions": 1, "vectors": [' + b",".join([row] * 40_000) + b"]}"  # 2 million numbers
    with start("--model", str(bundle.path), "--drain", "0") as (address, process):
        before, place = resident_mb(process.pid), urlsplit(address)
        head = "POST /shorten HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
        whole = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

        def ask(times: int) -> None:
            with ExitStack() as stack:
                connect = partial(socket.create_connection, (place.hostname, place.port), timeout=60)
                several = [stack.enter_context(connect()) for _ in range(times)]
                for piece in (whole[:-1], whole[-1:]):  # their last bytes come at the same time
                    for connection in several:
                        connection.sendall(piece)
                for connection in several:
                    assert connection.makefile("rb").read().startswith(b"HTTP/1.1 200 ")

        ask(1)
        of_one = peak_mb(process.pid) - before
        ask(10)
        assert peak_mb(process.pid) - before < 2 * of_one + 10 * len(body) / 2**20, "several were held at once"


def large(mode: str) -> bytes:
    """A small file of 25 million pixels."""
    buffer = io.BytesIO()
    Image.new(mode, (5000, 5000)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
@pytest.mark.parametrize("mode", ["RGBA", pytest.param("I;16", marks=pytest.mark.nightly)])
def test_large_images_are_decoded_one_by_one_and_never_held_many_times(
    start: Callable, bundle: Bundle, mode: str
) -> None:
    with start("--model", str(bundle.path), "--threads", "4", "--drain", "0") as (address, process):
        before, body = resident_mb(process.pid), large(mode)
        httpx.post(f"{address}/embed", files=[("images", body)] * 8, timeout=60).raise_for_status()
        of_one = 8 * 25  # the image, and what is made of it
        assert peak_mb(process.pid) - before < 2.5 * of_one, "four threads held one each"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
@pytest.mark.parametrize("minutes", [0.15, pytest.param(1.5, marks=pytest.mark.nightly)])
def test_memory_is_flat_under_mixed_load(start: Callable, bundle: Bundle, png: Png, minutes: float) -> None:
    bodies = [png(0), heavy(), b"nonsense", heavy()[:5000], b""]
    flags = ("--model", str(bundle.path), "--queue", "8", "--threads", "2", "--drain", "0", "--cache", "200000")
    with start(*flags) as (address, process):

        def spell(seconds: float) -> float:
            for body in bodies:
                flood(address, body, clients=6, seconds=seconds / len(bodies))
            return resident_mb(process.pid)

        before = spell(minutes * 20)
        after = [spell(minutes * 20) for _ in range(2)]
        assert max(after) < before + 15, (before, after)


def photo() -> bytes:
    """A JPEG of 12 megapixels and some megabytes."""
    noise = np.random.default_rng(0).integers(0, 256, (750, 1000, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).resize((4000, 3000), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=98)
    return buffer.getvalue()


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_what_a_burst_of_large_photos_took_is_given_back_once_requests_end(start: Callable, bundle: Bundle) -> None:
    body = photo()

    def ask(address: str) -> None:
        with httpx.Client(timeout=60) as client:
            for _ in range(3):
                client.post(f"{address}/embed", content=body, headers={"content-type": "image/jpeg"})

    with start("--model", str(bundle.path), "--drain", "0") as (address, process):
        ask(address)
        before = resident_mb(process.pid)
        threads = [threading.Thread(target=ask, args=(address,)) for _ in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert peak_mb(process.pid) - before > 10 * len(body) / 2**20, "this is not a burst"
        until = time.monotonic() + 60
        while (left := resident_mb(process.pid) - before) > 18 and time.monotonic() < until:
            time.sleep(0.2)
        assert left <= 18, "a server that keeps what it had then holds 28 MB more"
