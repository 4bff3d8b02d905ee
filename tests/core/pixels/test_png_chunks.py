"""Every chunk that Pillow reads in a PNG, as often as the limits let in: the price covers it, or it is refused."""

from __future__ import annotations

import io
import struct
import time
import zlib
from collections.abc import Callable
from contextlib import suppress

import pytest
from PIL import Image, PngImagePlugin

from nonneg_core.errors import ImageTooLarge, NonnegError
from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.identify import identify
from nonneg_core.pixels.pricing.price import MAX_PARTS, Price

MOST = 2**25  # bytes of a file
SLACK = 0.1  # seconds
MUCH = zlib.compress(bytes(2**20 - 1), 9)
EXIF = b"MM\0*\0\0\0\x08"
LONG = 3_000  # bytes: ten thousand such chunks fit into a file
BODIES: dict[str, list[Callable[[int], bytes]]] = {  # contents of the chunk of that number
    "IHDR": [lambda _: struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)],
    "PLTE": [lambda _: bytes(768)],
    "IDAT": [lambda _: b"", lambda _: MUCH],
    "IEND": [lambda _: b""],
    "tRNS": [lambda _: bytes(6), lambda _: bytes(LONG)],
    "gAMA": [lambda _: bytes(4)],
    "cHRM": [lambda _: bytes(32), lambda _: bytes(LONG)],
    "sRGB": [lambda _: b"\0"],
    "pHYs": [lambda _: bytes(9)],
    "iCCP": [lambda _: b"a\0\0" + MUCH, lambda _: b"a\0\0" + zlib.compress(b"x")],
    "tEXt": [lambda n: b"%d\0a" % n, lambda n: b"%d\0" % n + bytes(LONG)],
    "zTXt": [lambda n: b"%d\0\0" % n + MUCH, lambda n: b"%d\0\0" % n + zlib.compress(b"x")],
    "iTXt": [lambda n: b"%d\0\1\0\0\0" % n + MUCH, lambda n: b"%d\0\0\0\0\0" % n + bytes(LONG)],
    "eXIf": [lambda _: EXIF + b"\0\0", lambda _: EXIF + b"\0\xf0" + struct.pack(">HHII", 270, 2, 1, 0) * 240],
    "acTL": [lambda _: struct.pack(">II", 2**31 - 1, 0), lambda _: struct.pack(">II", 2, 0)],
    "fcTL": [lambda n: struct.pack(">IIIIIHHBB", n, 8, 8, 0, 0, 1, 1, 0, 0)],
    "fdAT": [lambda n: struct.pack(">I", n) + zlib.compress(bytes(200)), lambda n: struct.pack(">I", n) + MUCH],
    "abCd": [lambda _: bytes(LONG)],
}  # fmt: skip
CASES = [(name, which) for name, bodies in BODIES.items() for which in range(len(bodies))]


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def test_no_chunk_that_pillow_knows_is_forgotten() -> None:
    known = {name.removeprefix("chunk_") for name in dir(PngImagePlugin.PngStream) if name.startswith("chunk_")}
    assert known <= set(BODIES)


def plain() -> tuple[bytes, bytes]:
    """A PNG of 8 x 8, cut behind its header."""
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "PNG")
    return buffer.getvalue()[:33], buffer.getvalue()[33:]


def repeated(name: str, which: int, count: int, *, behind: bool) -> bytes:
    """A PNG with so many of these chunks before its pixels, or behind them."""
    head, tail = plain()
    body = BODIES[name][which]
    many = b"".join(chunk(name.encode(), body(n)) for n in range(count))
    return head + tail[:-12] + many + tail[-12:] if behind else head + many + tail


def most_accepted(name: str, which: int, *, behind: bool) -> tuple[bytes, Price]:
    count = MAX_PARTS - 10
    while True:
        data = repeated(name, which, count, behind=behind)
        with suppress(ImageTooLarge):
            if len(data) <= MOST:
                return data, identify(data)
        count = count * 3 // 5


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("behind", [False, True], ids=["before the pixels", "behind the pixels"])
@pytest.mark.parametrize(("name", "which"), CASES)
def test_a_chunk_repeated_as_often_as_may_be_takes_no_longer_than_its_price(
    name: str, which: int, behind: bool
) -> None:
    data, price = most_accepted(name, which, behind=behind)
    before = time.process_time()
    with suppress(NonnegError):
        decode(data)
    assert time.process_time() - before < 2 * price.seconds + SLACK


def test_profiles_count_as_texts_do() -> None:
    profile = chunk(b"iCCP", b"a\0\0" + MUCH)
    head, tail = plain()
    assert decode(head + profile * 10 + tail).size == (8, 8)
    with pytest.raises(ImageTooLarge, match="profiles") as refused:
        identify(head + profile * 60 + tail)
    assert (refused.value.field, refused.value.status) == ("text", 413)
