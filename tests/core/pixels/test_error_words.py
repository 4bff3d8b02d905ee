"""What is said of a bad image is ours: never an address in memory, a path, or a library's own words."""

from __future__ import annotations

import io
import random
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import skimage
from PIL import Image

from nonneg_core.errors import ImageTooLarge, ImageUnreadable, ImageUnsupported
from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.formats import FORMATS

PHOTO = Path(skimage.__file__).parent / "data" / "chelsea.png"
LEAKS = re.compile(
    r"0x[0-9a-f]{6,}|/(usr|home|work|tmp|lib|opt)/|site-packages|\.py\b|\.so\b|BytesIO|object at|PIL|"
    r"libtiff|libjpeg|libpng|libwebp|libheif|Errno|decoder error|stream|Traceback",
    re.IGNORECASE,
)
PER_FORMAT = 150


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    if kind == "HEIF":
        pytest.importorskip("pillow_heif").register_heif_opener()
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def poisoned() -> Iterator[bytes]:
    """EXIF that Pillow stumbles over only when it is read: wrong types, counts and places for the orientation."""
    for order in ("<", ">"):
        mark = b"II*\0" if order == "<" else b"MM\0*"
        for kind in (0, 1, 2, 3, 5, 7, 12, 13, 99):
            for count, value in ((0, 0), (1, 6), (1, 0xFFFFFFFF), (2, 8), (0xFFFFFFFF, 8), (70_000, 8)):
                tag = struct.pack(order + "HHII", 0x0112, kind, count, value)
                yield b"Exif\0\0" + mark + struct.pack(order + "IH", 8, 1) + tag + bytes(4)
        yield b"Exif\0\0" + mark + struct.pack(order + "IH", 0xFFFFFFF0, 1)
    yield b"Exif\0\0"
    yield b"Exif\0\0" + bytes(20)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Cut, with bytes changed, doubled or taken away, mostly in its header."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = min(int(rng.expovariate(1 / 150)), len(changed) - 1)
        way = rng.randrange(5)
        if way == 0:
            changed[at] ^= 1 << rng.randrange(8)
        elif way == 1:
            changed[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\x80\0\0\0"))
        elif way == 2:
            changed[at:at] = changed[at : at + rng.randrange(1, 64)]
        elif way == 3:
            del changed[at : at + rng.randrange(1, 16)]
        else:
            del changed[rng.randrange(16, max(17, len(changed))) :]
    return bytes(changed)


def told(data: bytes) -> str:
    try:
        decode(data, max_pixels=4_000_000)
    except (ImageUnreadable, ImageUnsupported, ImageTooLarge) as error:
        return f"{error.message} {error.fix} {error.value} {error.field}"
    return ""


@pytest.mark.filterwarnings("ignore::UserWarning")  # decode ignores what Pillow says; pytest undoes that
@pytest.mark.parametrize("kind", FORMATS)
def test_no_error_carries_a_librarys_words(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    with Image.open(PHOTO) as photo:
        whole = saved(photo.convert("RGB").resize((60, 40)), kind)
    rng, refused = random.Random(kind), 0
    for _ in range(PER_FORMAT):
        said = told(mutated(whole, rng))
        refused += bool(said)
        assert not LEAKS.search(said), said
    assert refused > PER_FORMAT / 5
    capfd.readouterr()  # what libraries write themselves is the server's to catch


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
def test_poisoned_exif_turns_nothing_and_is_not_quoted(kind: str) -> None:
    """Each file is opened again: Pillow raises at the first reading only."""
    image = Image.new("RGB", (32, 16), (200, 30, 30))
    for exif in poisoned():
        try:
            data = saved(image, kind, exif=exif)
        except Exception:  # Pillow reads it before it writes it
            if kind in ("JPEG", "PNG", "WEBP"):
                raise
            continue
        for _ in range(2):
            said = told(data)
            assert not LEAKS.search(said), said
            assert said or decode(data).size in ((32, 16), (16, 32))
