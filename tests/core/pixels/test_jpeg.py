"""JPEGs whose work is out of all proportion to their bytes: refused by their markers, before they are decoded."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import pytest
import skimage
from PIL import Image

from nonneg_core.errors import ImageTooLarge, ImageUnreadable
from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.pricing.of_jpeg import MAX_VISITS, frame
from nonneg_core.pixels.pricing.price import MAX_PARTS

PHOTO = Path(skimage.__file__).parent / "data" / "chelsea.png"


def saved(image: Image.Image, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", **options)
    return buffer.getvalue()


def segment(marker: int, body: bytes) -> bytes:
    return b"\xff" + bytes([marker]) + struct.pack(">H", len(body) + 2) + body


def refined(side: int, times: int) -> bytes:
    """A grey progressive JPEG with so many refinement scans, none of which changes anything."""
    blocks = (side // 8) ** 2
    left, bits = blocks, ""
    while left:  # runs of blocks without a bit for them
        run = min(left, 32767) if left >= 16384 else 1
        left, bits = left - run, bits + ("01" if run == 1 else "00" + format(run - 16384, "014b"))
    bits += "1" * (-len(bits) % 8)
    nothing = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
    head = (
        b"\xff\xd8"
        + segment(0xDB, b"\0" + b"\1" * 64)
        + segment(0xC2, struct.pack(">BHHB", 8, side, side, 1) + b"\1\x11\0")
    )
    head += segment(0xC4, b"\0\1" + b"\0" * 15 + b"\0") + segment(0xC4, b"\x10\0\2" + b"\0" * 14 + b"\xe0\0")
    head += segment(0xDA, b"\1\1\0\0\0\0") + b"\0" * (blocks // 8) + segment(0xDA, b"\1\1\0\1\x3f\1") + nothing
    return head + (segment(0xDA, b"\1\1\0\1\x3f\x10") + nothing) * times + b"\xff\xd9"


def test_a_jpeg_of_countless_scans_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(ImageTooLarge, match="scans") as refused:
        decode(refined(9984, 4600))
    assert (refused.value.status, refused.value.limit) == (413, MAX_VISITS)


def test_a_jpeg_of_a_few_scans_too_many_for_its_size_is_read() -> None:
    assert decode(refined(64, 40)).size == (64, 64)


def test_scans_in_disguise_are_counted() -> None:
    """Behind fill bytes, and in what may be read as a segment's content or as a scan, as it gets in step again."""
    whole = refined(9984, 4600)
    for old, new in ((b"\xff\xda", b"\xff\xff\xff\xda"), (b"\xff\xda", b"\xff\xe5\xff\xff\xff\xda")):
        first = whole.index(old)
        with pytest.raises(ImageTooLarge, match="scans"):
            decode(whole[: first + 2] + whole[first + 2 :].replace(old, new))


@pytest.mark.parametrize(
    "options", [{}, {"progressive": True}, {"subsampling": 0}, {"subsampling": 2, "progressive": True}]
)
@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_photos_count_as_few_visits(mode: str, options: dict[str, Any]) -> None:
    with Image.open(PHOTO) as photo:
        data = saved(photo.convert(mode), **options)
    found = frame(data)
    assert found is not None
    assert (found.width, found.height, found.components) == (451, 300, len(mode) if mode != "L" else 1)
    least = found.blocks * found.components
    assert least <= found.visits(data) <= 10 * least


def test_a_progressive_photo_of_a_telephone_may_have_48_megapixels() -> None:
    with Image.open(PHOTO) as photo:
        data = saved(photo.convert("RGB").resize((8064, 6048), Image.Resampling.NEAREST), progressive=True, quality=50)
    assert decode(data, at_least=448).size == (1008, 756)


@pytest.mark.parametrize("filler", [b"\xff\xe5\0\2", b"\xff", b"\0", b"\xff\0"])
def test_what_is_not_a_picture_is_bounded_before_the_first_scan(filler: bytes) -> None:
    data = saved(Image.new("RGB", (16, 16)))
    behind = data.index(b"\xff\xdb")  # the first segment: a file begins with two markers
    with pytest.raises(ImageTooLarge) as refused:
        decode(data[:behind] + filler * (MAX_PARTS + 10) + data[behind:])
    assert refused.value.limit == MAX_PARTS
    assert decode(data[:behind] + filler * 100 + data[behind:]).size == (16, 16)


def test_a_jpeg_that_ends_before_its_first_scan_is_unreadable() -> None:
    data = saved(Image.new("RGB", (16, 16)))
    scan = data.index(b"\xff\xda")
    for end in range(4, scan + 2, 7):
        with pytest.raises(ImageUnreadable):
            decode(data[:end])
