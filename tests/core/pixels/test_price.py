"""The price of an image: known from its header, never less than what it takes; and the limits it is held against."""

from __future__ import annotations

import contextlib
import io
import json
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage
from PIL import Image

from nonneg_core.errors import ImageTooLarge, ImageUnreadable, ImageUnsupported
from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.formats import FORMATS
from nonneg_core.pixels.identify import identify
from nonneg_core.pixels.pricing.of_tiff import MAX_PIECES
from nonneg_core.pixels.pricing.price import MAX_PARTS, MAX_SECONDS, MAX_SIDE

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
        assert peak <= price + file + SLACK, row
        width, height = map(int, row["pixels"].split(" x "))
        assert peak <= 12 * width * height + file + SLACK, row
        assert row["cpu_s"] <= MAX_SECONDS, row  # of the processor, whatever else the machine does


def comments(count: int) -> bytes:
    plain = saved(Image.new("P", (8, 8)), "GIF")
    picture = plain.index(b",\0\0\0\0")
    return plain[:picture] + b"!\xfe" + b"\1a" * count + b"\0" + plain[picture:]


def riff(count: int) -> bytes:
    plain = saved(Image.new("RGB", (8, 8)), "WEBP", exif=Image.Exif(), icc_profile=b"")
    return plain[:4] + struct.pack("<I", len(plain) - 8 + 8 * count) + plain[8:] + b"abcd\0\0\0\0" * count


def strips(count: int) -> bytes:
    """A column of so many strips of one byte, all of which lie at the same place."""
    tags = [(256, 4, 1, 1), (257, 4, 1, count), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 3, count, 110)]
    tags += [(277, 3, 1, 1), (278, 4, 1, 1)]
    head = b"II*\0\x08\0\0\0\x08\0" + b"".join(struct.pack("<HHII", *tag) for tag in tags)
    return head + bytes(4) + b"\x08\0" * count


PIECES: dict[str, tuple[Callable[[int], bytes], str]] = {
    "PNG": (lambda n: within(saved(Image.new("L", (8, 8)), "PNG"), chunk(b"abCd", b"") * n), "chunks"),
    "GIF": (comments, "blocks"),
    "WEBP": (riff, "chunks"),
}


@pytest.mark.parametrize("kind", PIECES)
def test_a_header_in_countless_pieces_is_refused_and_one_of_many_is_not(kind: str) -> None:
    make, field = PIECES[kind]
    with pytest.raises(ImageTooLarge) as refused:
        identify(make(MAX_PARTS + 10))
    assert (refused.value.field, refused.value.limit, refused.value.status) == (field, MAX_PARTS, 413)
    assert decode(make(MAX_PARTS // 10)).size == (8, 8)


def test_a_tiff_of_countless_strips_is_refused_before_they_are_read() -> None:
    with pytest.raises(ImageTooLarge) as refused:
        identify(strips(16_000_000))
    assert (refused.value.field, refused.value.limit) == ("strips", MAX_PIECES)
    assert decode(strips(1000)).size == (1, 1000)


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
    """Runs of a BMP are read in Python, pixel by pixel."""
    side = 9000
    palette = bytes(range(256)) * 4
    head = struct.pack("<IiiHHIIiiII", 40, side, side, 1, 8, 1, 0, 0, 0, 256, 0)
    data = b"BM" + struct.pack("<IHHI", 1078, 0, 0, 1078) + head + palette
    with pytest.raises(ImageTooLarge, match="s of a core") as refused:
        identify(data)
    assert (refused.value.field, refused.value.limit) == ("seconds", MAX_SECONDS)


def test_a_tile_larger_than_the_picture_counts_in_full() -> None:
    tifffile = pytest.importorskip("tifffile")
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, np.zeros((20, 20), np.uint8), tile=(16, 16), compression="zlib")
    whole = buffer.getvalue()
    assert decode(whole).size == (20, 20)
    for tag in (322, 323):
        at = next(whole.index(entry) for kind in (3, 4) if (entry := struct.pack("<HHI", tag, kind, 1)) in whole)
        whole = whole[: at + 8] + struct.pack("<HH", 60_000, 0) + whole[at + 12 :]
    with pytest.raises(ImageTooLarge):
        identify(whole)


def test_jpegs_in_a_tiff_may_not_repeat_their_scans() -> None:
    image = Image.new("RGB", (640, 640), (200, 30, 30))
    data = saved(image, "TIFF", compression="jpeg")
    assert decode(data).size == (640, 640)
    with pytest.raises(ImageUnsupported, match="several scans"):
        identify(data + b"\xff\xda\0\x08\1\1\0\0\x3f\0" * 500)


def test_a_tiff_that_says_its_size_twice_is_broken() -> None:
    data = saved(Image.new("L", (8, 8)), "TIFF")
    at = int.from_bytes(data[4:8], "little")
    count = int.from_bytes(data[at : at + 2], "little")
    entries = data[at + 2 : at + 2 + 12 * count]
    doubled = struct.pack("<H", count + 1) + entries[:12] + entries + bytes(4)
    with pytest.raises(ImageUnreadable):
        identify(data[:4] + struct.pack("<I", len(data)) + data[8:] + doubled)


def directory(*entries: tuple[int, int, int, int]) -> bytes:
    """A TIFF's directory of entries of (tag, kind, values, value or place)."""
    return struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", *entry) for entry in entries) + bytes(4)


def tiff_with_exif(at: int, exif: bytes) -> bytes:
    """A grey TIFF of one pixel, whose EXIF lies in a directory at that place."""
    tags = [(256, 4, 1, 1), (257, 4, 1, 1), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 8)]
    first = directory(*tags, (277, 3, 1, 1), (278, 4, 1, 1), (279, 4, 1, 1), (34665, 4, 1, at))
    return (b"II*\0\x10\0\0\0" + bytes(8) + first).ljust(at, b"\0") + exif + bytes(16)


def chained(levels: int, pointers: int, values: int = 1, start: int = 300) -> bytes:
    """EXIF directories that each point to the next one, several times over."""
    tags = (34665, 34853, 40965)[:pointers]
    places = range(start, start + levels * (6 + 12 * pointers), 6 + 12 * pointers)
    below = (directory(*((tag, 4, values, place + 6 + 12 * pointers) for tag in tags)) for place in places)
    return tiff_with_exif(start, b"".join(below))


@pytest.mark.parametrize(("levels", "pointers", "values"), [(40, 2, 1), (40, 3, 1), (9_000, 1, 1), (20, 2, 2)])
def test_exif_directories_that_lead_to_one_another_are_read_three_deep(levels: int, pointers: int, values: int) -> None:
    data = chained(levels, pointers, values)
    before = time.process_time()
    assert identify(data).pixels == 1
    assert time.process_time() - before < 1  # each level doubled the work
    assert decode(data).size == (1, 1)


def test_an_exif_directory_of_pointers_to_itself_is_refused_by_their_number() -> None:
    itself = directory(*[(34665, 4, 1, 300)] * 3_000)
    with pytest.raises(ImageTooLarge) as refused:
        identify(tiff_with_exif(300, itself))
    assert (refused.value.field, refused.value.limit) == ("tags", MAX_PARTS)


@pytest.mark.parametrize("place", [1_000, 9_000, 15_000])
@pytest.mark.parametrize("tag", [34853, 40965])
def test_a_tiff_whose_exif_points_further_on_is_read(tag: int, place: int) -> None:
    inner = directory((1, 2, 4, int.from_bytes(b"R98\0", "little")))
    data = tiff_with_exif(300, directory((36864, 7, 4, 0x30333230), (tag, 4, 1, place))).ljust(place, b"\0") + inner
    data += bytes(16)
    assert identify(data).pixels == 1
    assert decode(data).size == (1, 1)


def test_all_bytes_of_exif_below_exif_are_counted() -> None:
    inner = directory((37500, 7, 2**20, 8))
    data = tiff_with_exif(300, directory((40965, 4, 1, 1_000))).ljust(1_000, b"\0") + inner + bytes(2**20)
    with pytest.raises(ImageTooLarge) as refused:
        identify(data)
    assert refused.value.field == "exif"


@pytest.mark.parametrize("kind", ["AVIF", "HEIF"])
@pytest.mark.parametrize("name", [b"iprp", b"meta"])
def test_boxes_within_boxes_without_end_are_unreadable(photo: Image.Image, kind: str, name: bytes) -> None:
    plain = saved(photo, kind)
    at = int.from_bytes(plain[:4], "big")  # behind the box that names the format
    for depth in (10, 3_000):
        nested = b""
        for _ in range(depth):
            nested = (
                struct.pack(">I4s", len(nested) + (12 if name == b"meta" else 8), name)
                + (bytes(4) if name == b"meta" else b"")
                + nested
            )
        with pytest.raises(ImageUnreadable, match=f"a {kind} of"):
            identify(plain[:at] + nested + plain[at:])


def test_a_jpeg_with_arithmetic_coding_is_refused_by_name() -> None:
    data = saved(Image.new("RGB", (16, 16)), "JPEG").replace(b"\xff\xc0", b"\xff\xc9", 1)
    with pytest.raises(ImageUnsupported, match="arithmetic"):
        identify(data)


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
    assert identify(large).pixels == 8064 * 6048


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


def test_a_tiff_of_jpegs_with_fewer_lengths_than_places_is_unreadable() -> None:
    data = saved(Image.new("RGB", (64, 2000)), "TIFF", compression="jpeg")
    at = data.index(struct.pack("<HH", 279, 4)) + 4
    assert int.from_bytes(data[at : at + 4], "little") > 1
    with pytest.raises(ImageUnreadable):
        identify(data[:at] + struct.pack("<I", 1) + data[at + 4 :])
