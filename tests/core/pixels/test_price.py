"""The price of an image: known from its header, never less than what it takes; and the limits it is held against."""

from __future__ import annotations

import contextlib
import io
import json
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import skimage
from PIL import Image

from nonneg_core.errors import ImageTooLarge, ImageUnreadable, ImageUnsupported
from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.decoder_process import ROOM
from nonneg_core.pixels.formats import FORMATS
from nonneg_core.pixels.identify import identify
from nonneg_core.pixels.pricing.price import MAX_PARTS, MAX_SECONDS, MAX_SIDE
from nonneg_server.engine.admission import Turns

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
PHOTO = Path(skimage.__file__).parent / "data" / "chelsea.png"
MEGAPIXELS, SLACK = 9, 6 * 2**20  # bytes: what the allocator, and threads of decoders, take beside the pictures


@pytest.fixture(scope="module")
def photo() -> Image.Image:
    with Image.open(PHOTO) as image:
        return image.convert("RGB")


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    if kind == "HEIF":
        pytest.importorskip("pillow_heif").register_heif_opener()
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def within(png: bytes, more: bytes) -> bytes:
    return png[:33] + more + png[33:]  # behind the header


@pytest.mark.parametrize("kind", FORMATS)
def test_an_ordinary_photo_is_identified_without_a_decoder(
    photo: Image.Image, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = saved(photo, kind)
    monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("a decoder was opened"))
    price = identify(data)
    assert (price.format, price.width, price.height) == (kind, *photo.size) or kind == "HEIF"
    assert price.seconds < 0.1
    assert photo.width * photo.height * 4 < price.bytes < 5_000_000


@pytest.mark.parametrize(
    "names",
    [
        ("jpeg, flat", "jpeg, noise", "jpeg, exif"),
        ("png, flat", "png, grey", "png, 16 bits", "png, interlaced", "png, one column"),
        ("webp, flat",),
        *(
            pytest.param(names, marks=pytest.mark.nightly)
            for names in (
                ("gif, flat", "bmp"),
                ("tiff, LZW", "tiff, see-through", "tiff, 16 bits", "tiff, strips", "tiff, JPEG", "tiff, fax"),
                ("avif, flat", "heif, flat"),
            )
        ),
    ],
    ids=lambda names: names[0].partition(",")[0],
)
def test_no_accepted_image_takes_more_memory_than_its_price_or_twelve_bytes_a_pixel(names: tuple[str, ...]) -> None:
    pytest.importorskip("pillow_heif")
    command = [sys.executable, ROOT / "benchmarks/worst_image.py", "--megapixels", str(MEGAPIXELS), "--only", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout.splitlines()[-1])["rows"]
    assert len(rows) >= len(names)
    for row in rows:
        assert row["outcome"] == "seen", row
        peak, file, price = (1e6 * row[key] for key in ("peak_mb", "megabytes", "price_mb"))
        if row["apart"]:
            assert peak <= price + file + ROOM, row
            continue
        assert peak <= price + file + SLACK, row
        width, height = map(int, row["pixels"].split(" x "))
        assert peak <= 12 * width * height + file + SLACK, row
    for row in rows:
        assert row["cpu_s"] <= MAX_SECONDS, row  # of the processor, whatever else the machine does


def riff(count: int) -> bytes:
    plain = saved(Image.new("RGB", (8, 8)), "WEBP", exif=Image.Exif(), icc_profile=b"")
    return plain[:4] + struct.pack("<I", len(plain) - 8 + 8 * count) + plain[8:] + b"abcd\0\0\0\0" * count


PIECES: dict[str, tuple[Callable[[int], bytes], str]] = {
    "PNG": (lambda n: within(saved(Image.new("L", (8, 8)), "PNG"), chunk(b"abCd", b"") * n), "chunks"),
    "WEBP": (riff, "chunks"),
}


@pytest.mark.parametrize("kind", PIECES)
def test_a_header_in_countless_pieces_is_refused_and_one_of_many_is_not(kind: str) -> None:
    make, field = PIECES[kind]
    with pytest.raises(ImageTooLarge) as refused:
        identify(make(MAX_PARTS + 10))
    assert (refused.value.field, refused.value.limit, refused.value.status) == (field, MAX_PARTS, 413)
    assert decode(make(MAX_PARTS // 10)).size == (8, 8)


def test_texts_that_inflate_are_counted_before_they_do() -> None:
    text = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(2**20 - 1)))
    plain = saved(Image.new("L", (8, 8)), "PNG")
    assert decode(within(plain, text * 10)).size == (8, 8)
    with pytest.raises(ImageTooLarge, match="texts"):
        identify(within(plain, text * 60))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_more_exif_than_any_camera_writes_is_refused(kind: str) -> None:
    exif = b"Exif\0\0MM\0*" + bytes(60_000)
    image = Image.new("RGB", (8, 8))
    if kind == "JPEG":
        plain = saved(image, kind)
        at = plain.index(b"\xff\xdb")
        one = b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif
        several = [plain[:at] + one * count + plain[at:] for count in (3, 17)]
    else:
        several = [saved(image, kind, exif=exif * count) for count in (3, 20)]
    assert identify(several[0]).pixels == 64
    with pytest.raises(ImageTooLarge) as refused:
        identify(several[1])
    assert refused.value.field == "exif"


def test_a_side_may_have_65535_pixels_and_no_more() -> None:
    assert decode(saved(Image.new("L", (1, MAX_SIDE)), "PNG")).size == (1, MAX_SIDE)
    with pytest.raises(ImageTooLarge) as refused:
        identify(saved(Image.new("L", (1, MAX_SIDE + 1)), "PNG"))
    assert (refused.value.field, refused.value.limit) == ("side", MAX_SIDE)


def test_work_beyond_the_limit_is_refused_by_its_seconds() -> None:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 9_000, 9_000, 16, 6, 0, 0, 1))
    with pytest.raises(ImageTooLarge, match="s of a core") as refused:
        identify(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", b""))
    assert (refused.value.field, refused.value.limit) == ("seconds", MAX_SECONDS)


@pytest.mark.parametrize("at_least", [None, 8])
@pytest.mark.parametrize(("marker", "coding"), [(0xC9, "arithmetic"), (0xC3, "lossless"), (0xC5, "hierarchical")])
def test_a_jpeg_of_a_coding_that_is_not_read_is_refused_by_name(marker: int, coding: str, at_least: int | None) -> None:
    data = saved(Image.new("RGB", (16, 16)), "JPEG").replace(b"\xff\xc0", bytes((0xFF, marker)), 1)
    with pytest.raises(ImageUnsupported, match=coding) as refused:
        decode(data, at_least=at_least)
    assert refused.value.status == 415


@pytest.mark.parametrize(
    ("kind", "options"), [("JPEG", {"quality": 70}), ("JPEG", {"progressive": True}), ("PNG", {"compress_level": 1})]
)
def test_a_photo_of_48_megapixels_is_accepted(photo: Image.Image, kind: str, options: dict[str, Any]) -> None:
    large = photo.resize((8064, 6048), Image.Resampling.NEAREST)
    assert identify(saved(large, kind, **options), at_least=448).pixels == 8064 * 6048


def test_a_heic_of_48_megapixels_and_12_megabytes_is_accepted(photo: Image.Image) -> None:
    data = saved(photo, "HEIF")
    at = data.index(b"ispe") + 8
    large = data[:at] + struct.pack(">II", 8064, 6048) + data[at + 8 :] + bytes(12_000_000)
    price = identify(large)
    assert price.pixels == 8064 * 6048
    assert price.bytes < Turns().most


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (7, 1), (1, 300), (300, 1), (8, 8), (9, 7), (1, 65535), (65500, 1)])
@pytest.mark.parametrize("kind", FORMATS)
def test_the_least_and_the_narrowest_are_read(kind: str, size: tuple[int, int]) -> None:
    if max(size) > 16_000 and kind in ("WEBP", "AVIF", "HEIF", "JPEG"):
        pytest.skip("no such side in this format")
    data = saved(Image.new("RGB", size, (10, 200, 30)), kind)
    price = identify(data)
    assert (price.width, price.height) == size or kind == "HEIF"  # coded in blocks of 64 and cut to size
    for at_least in (None, 448):
        assert decode(data, at_least=at_least).size == size


def test_every_header_cut_anywhere_gives_a_typed_error(photo: Image.Image) -> None:
    small = photo.resize((24, 16))
    for kind in FORMATS:
        data = saved(small, kind)
        for end in range(min(len(data) - 1, 700)):
            with contextlib.suppress(ImageUnreadable, ImageUnsupported, ImageTooLarge):
                identify(data[:end])


def test_a_png_that_says_another_size_later_is_unreadable() -> None:
    plain = saved(Image.new("L", (8, 8)), "PNG")
    for size in ((64, 64), (2**20, 2**20)):
        other = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, 0, 0, 0, 0))
        assert identify(within(plain, other)).pixels == 64
        with pytest.raises(ImageUnreadable):
            decode(within(plain, other))


def test_a_palette_that_is_missing_is_unreadable() -> None:
    plain = saved(Image.new("P", (8, 8)), "PNG")
    at = plain.index(b"PLTE") - 4
    with pytest.raises(ImageUnreadable):
        decode(plain[:at] + plain[at + 12 + int.from_bytes(plain[at : at + 4], "big") :])
