"""No request holds the event loop for long: the longest turn of the loop, by its thread's own processor time."""

from __future__ import annotations

import asyncio
import io
import json
import struct
import time
import zipfile
from collections.abc import Callable

import httpx
import pytest
from PIL import Image

from nonneg_core.errors import DeadlineExceeded, ImageUnreadable, NonnegError
from nonneg_core.pixels.pricing.price import Price
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.seeing.preprocess import PhotoInput, Preprocessor
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.engine.jobs import Encoded, all_priced

pytestmark = pytest.mark.anyio
Request = tuple[str, bytes, str]
HELD = 0.2  # seconds; `/livez` answers within 250 ms


def jpeg(**options: bool) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (64, 64), (200, 30, 30)).save(buffer, "JPEG", **options)
    return buffer.getvalue()


def in_segments(count: int) -> bytes:
    """A JPEG of nothing but segments: its header is read to the end, and no decoder is asked."""
    return b"\xff\xd8" + b"\xff\xe5\0\2" * count


def form(image: bytes, count: int) -> Request:
    head = b'--y\r\nContent-Disposition: form-data; name="images"; filename="a"\r\n\r\n'
    return "/embed", (head + image + b"\r\n") * count + b"--y--\r\n", "multipart/form-data; boundary=y"


def tiff_of_pointers() -> bytes:
    tags = [(256, 4, 1, 1), (257, 4, 1, 1), (258, 3, 1, 8), (262, 3, 1, 1), (273, 4, 1, 8), (279, 4, 1, 1)]
    tags += [(34665, 4, 1, 200)]
    first = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", *tag) for tag in tags) + bytes(4)
    pointers = struct.pack("<HHII", 34665, 4, 1, 200) * 9_999
    return (b"II*\0\x10\0\0\0" + bytes(8) + first).ljust(200, b"\0") + struct.pack("<H", 9_999) + pointers + bytes(20)


def keys(count: int) -> bytes:
    return json.dumps({f"k{i:06x}": 1 for i in range(count)}, separators=(",", ":")).encode()


def archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for i in range(20_000):
            file.writestr(f"{i}", b"")
    return buffer.getvalue()


REQUESTS: dict[str, Callable[[], Request]] = {
    "100 JPEGs of 9,900 segments": lambda: form(in_segments(9_900), 100),
    "a JPEG of 8 million marks of scans": lambda: (
        "/embed", jpeg(progressive=True)[:-2] + b"\xff\xda" * 8_000_000, "image/jpeg"
    ),
    "a JPEG of 3 million scans": lambda: (
        "/embed", jpeg(progressive=True)[:-2] + b"\xff\xda\0\x08\1" * 3_200_000, "image/jpeg"
    ),
    "10 TIFFs of pointers": lambda: form(tiff_of_pointers(), 10),
    "JSON of nothing but keys": lambda: ("/embed", keys(80_000), "application/json"),
    "JSON of empty objects": lambda: (
        "/shorten", b'{"vectors":[' + b"{}," * 330_000 + b"{}]}", "application/json"
    ),
    "an archive": lambda: ("/shorten", archive(), "application/x-npy"),
}  # fmt: skip


async def longest_hold(work: Callable[[], object]) -> float:
    """Seconds of the processor that the loop's thread took, at most, between two looks at it."""
    longest, ended = 0.0, False

    async def tick() -> None:
        nonlocal longest
        while not ended:
            before = time.thread_time()
            await asyncio.sleep(0.002)  # turns without an end would take the interpreter from the threads
            longest = max(longest, time.thread_time() - before)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)  # it begins
    await work()  # type: ignore[misc]
    ended = True
    await ticking
    return longest


@pytest.mark.parametrize("name", REQUESTS)
async def test_no_request_holds_the_event_loop_for_long(client: httpx.AsyncClient, name: str) -> None:
    path, body, kind = REQUESTS[name]()
    statuses: list[int] = []

    async def ask() -> None:
        statuses.append((await client.post(path, content=body, headers={"content-type": kind})).status_code)

    await ask()  # what is imported and started by a first request
    assert await longest_hold(ask) < HELD
    assert all(status < 500 for status in statuses)


async def test_headers_beyond_the_first_few_milliseconds_are_read_on_a_thread() -> None:
    """In their order, and no longer than until the deadline."""

    def slow(image: int) -> Price:
        until = time.perf_counter() + 0.002
        while time.perf_counter() < until:
            pass
        return Price("PNG", image, 1, 0.0, 0)

    async def read() -> None:
        found = await all_priced(range(60), slow)
        assert [price.width for price in found if isinstance(price, Price)] == list(range(60))

    assert await longest_hold(read) < 0.05
    with pytest.raises(DeadlineExceeded):
        await all_priced(range(60), slow, deadline=asyncio.get_running_loop().time() + 0.01)


async def test_an_image_whose_header_breaks_the_code_fails_alone(
    bundle: Bundle, png: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    price = Preprocessor.price

    def breaking(self: Preprocessor, image: PhotoInput) -> Price:
        if image == b"bad":
            raise RecursionError("a fault of the code that reads headers")
        return price(self, image)

    monkeypatch.setattr(Preprocessor, "price", breaking)
    engine = InferenceEngine(bundle, threads=1)
    try:
        found = await engine.encode_all([png(0), b"bad", png(1)])
    finally:
        engine.close()
    assert [type(one) for one in found] == [Encoded, ImageUnreadable, Encoded]
    assert isinstance(found[1], NonnegError)
    assert "fault of the code" not in f"{found[1].message} {found[1].fix}"
    assert "fault of the code" in caplog.text
