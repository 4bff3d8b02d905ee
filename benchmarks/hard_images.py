"""Files of every format that are hard to decode, as large as the limits let in: what `worst_image.py` measures."""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from hard_profiles import PROFILES
from PIL import Image, ImageCms

from nonneg_core.errors import NonnegError
from nonneg_core.pixels.identify import identify
from nonneg_core.pixels.pricing.of_jpeg import MAX_VISITS
from nonneg_core.pixels.pricing.price import MAX_PARTS

Make = Callable[[int], bytes]  # about so many pixels
MOST_NOISE = 10_000_000  # pixels; much more of it has too many bytes in any format


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def square(pixels: int) -> tuple[int, int]:
    return (max(8, math.isqrt(pixels)),) * 2


def flat(mode: str, kind: str, **options: Any) -> Make:
    colour: Any = tuple(range(1, len(Image.new(mode, (1, 1)).getbands()) + 1))
    return lambda pixels: saved(Image.new(mode, square(pixels), colour if len(colour) > 1 else 1), kind, **options)


def noisy(mode: str, kind: str, spread: int = 256, **options: Any) -> Make:
    def make(pixels: int) -> bytes:
        width, height = square(min(pixels, MOST_NOISE))
        shape = (height, width, len(Image.new(mode, (1, 1)).getbands()))
        noise = np.random.default_rng(0).integers(0, spread, shape, np.uint8)
        return saved(Image.fromarray(noise.squeeze(), mode), kind, **options)

    return make


def turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def segment(marker: int, body: bytes) -> bytes:
    return b"\xff" + bytes([marker]) + struct.pack(">H", len(body) + 2) + body


def refined(pixels: int) -> bytes:
    """Return a grey progressive JPEG with as many scans that change nothing as are let in."""
    side = math.isqrt(pixels) // 8 * 8
    blocks = (side // 8) ** 2
    left, bits = blocks, ""
    while left:
        run = min(left, 32767) if left >= 16384 else 1
        left, bits = left - run, bits + ("01" if run == 1 else "00" + format(run - 16384, "014b"))
    bits += "1" * (-len(bits) % 8)
    nothing = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
    head = b"\xff\xd8" + segment(0xDB, b"\0" + b"\1" * 64)
    head += segment(0xC2, struct.pack(">BHHB", 8, side, side, 1) + b"\1\x11\0")
    head += segment(0xC4, b"\0\1" + b"\0" * 15 + b"\0") + segment(0xC4, b"\x10\0\2" + b"\0" * 14 + b"\xe0\0")
    head += segment(0xDA, b"\1\1\0\0\0\0") + b"\0" * (blocks // 8) + segment(0xDA, b"\1\1\0\1\x3f\1") + nothing
    return head + (segment(0xDA, b"\1\1\0\1\x3f\x10") + nothing) * (MAX_VISITS * 9 // 10 // blocks - 2) + b"\xff\xd9"


def jpeg_with(between: Callable[[], bytes]) -> Make:
    def make(_: int) -> bytes:
        data = saved(Image.new("RGB", (64, 64)), "JPEG")
        behind = data.index(b"\xff\xdb")
        return data[:behind] + between() + data[behind:]

    return make


def exif_of_fractions() -> bytes:
    """Return as much EXIF as is let in, in segments, all of it one tag of fractions."""
    count = 2**20 // 8 - 200
    tag = struct.pack(">HHIIHHII", 0x9000, 5, count, 26, 0, 0, 0, 0)[:12]
    whole = b"MM\0*\0\0\0\x08" + struct.pack(">H", 1) + tag + bytes(4) + b"\0\0\0\3\0\0\0\7" * count
    pieces = [whole[at : at + 65_000] for at in range(0, len(whole), 65_000)][:16]
    return b"".join(segment(0xE1, b"Exif\0\0" + piece) for piece in pieces)


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(size: tuple[int, int], depth: int, colour: int, raw: bytes, *, before: bytes = b"", laced: int = 0) -> bytes:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, depth, colour, 0, 0, laced))
    return b"\x89PNG\r\n\x1a\n" + header + before + chunk(b"IDAT", zlib.compress(raw, 1)) + chunk(b"IEND", b"")


def png_of_rows(depth: int, colour: int, channels: int, way: int, spread: int) -> Make:
    def make(pixels: int) -> bytes:
        width, height = square(pixels)
        size = width * channels * depth // 8
        rows = np.zeros((height, 1 + size), np.uint8)
        rows[:, 0] = way
        if spread > 1:
            rows[:, 1:] = np.random.default_rng(0).integers(0, spread, (height, size), np.uint8)
        return png((width, height), depth, colour, rows.tobytes())

    return make


def interlaced_png(pixels: int) -> bytes:
    width, height = square(pixels)
    return png((width, height), 8, 6, bytes(height * 2 * (4 * width + 16)), laced=1)


def texts(_: int) -> bytes:
    text = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(2**20 - 1)))
    return png((8, 8), 8, 0, bytes(72), before=text * 15)


def tiff(width: int, height: int, strips: int, *, bits: int = 8, samples: int = 1, photometric: int = 1) -> bytes:
    """Return one deflated strip that all refer to."""
    rows = math.ceil(height / strips)
    strip = zlib.compress(bytes(rows * width * samples * bits // 8), 9)
    count = math.ceil(height / rows)
    at = 8 + 2 + 10 * 12 + 4
    bits_at, starts_at = at, at + 2 * samples
    sizes_at, strip_at = starts_at + 4 * count, starts_at + 8 * count
    tags = [
        (256, 4, 1, width), (257, 4, 1, height), (258, 3, samples, bits_at if samples > 2 else bits), (259, 3, 1, 8),
        (262, 3, 1, photometric), (273, 4, count, starts_at if count > 1 else strip_at), (277, 3, 1, samples),
        (278, 4, 1, rows), (279, 4, count, sizes_at if count > 1 else len(strip)), (284, 3, 1, 1),
    ]  # fmt: skip
    head = b"II*\0\x08\0\0\0" + struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", *tag) for tag in tags)
    arrays = struct.pack("<H", bits) * samples
    arrays += struct.pack("<I", strip_at) * count + struct.pack("<I", len(strip)) * count
    return head + bytes(4) + arrays + strip


def runs(pixels: int) -> bytes:
    """Return a BMP of runs of one pixel."""
    width, height = square(pixels)
    body = (b"\1\5" * width + b"\0\0") * height
    palette = bytes(range(256)) * 4
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 8, 1, len(body), 0, 0, 256, 0)
    return b"BM" + struct.pack("<IHHI", 54 + 1024 + len(body), 0, 0, 54 + 1024) + head + palette + body


def lab(pixels: int) -> bytes:
    return saved(Image.new("LAB", square(pixels), (90, 20, 30)), "TIFF", compression="tiff_lzw")


def profiled(kind: str, **options: Any) -> Make:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("XYZ")).tobytes()
    return flat("RGB", kind, icc_profile=profile, **options)


def profile_chunk(profile: bytes) -> bytes:
    return chunk(b"iCCP", b"a\0\0" + zlib.compress(profile, 9))


def patterned(name: str) -> Make:
    """Return PNGs of few bytes and many colours, so that a profile's table is looked up for each pixel."""
    pattern = np.random.default_rng(0).integers(0, 256, 2**14, np.uint8)

    def make(pixels: int) -> bytes:
        width, height = square(pixels)
        row = b"\0" + np.resize(pattern, 4 * width).tobytes()
        return png((width, height), 8, 6, row * height, before=profile_chunk(PROFILES[name][1]()))

    return make


HARD: dict[str, Make] = {
    "jpeg, flat, 4:4:4": flat("RGB", "JPEG", subsampling=0),
    "jpeg, flat, progressive": flat("RGB", "JPEG", subsampling=0, progressive=True),
    "jpeg, flat, progressive, in inks": flat("CMYK", "JPEG", progressive=True),
    "jpeg, noise": noisy("RGB", "JPEG", quality=95, subsampling=0),
    "jpeg, flat, turned": flat("RGB", "JPEG", exif=turned()),
    "jpeg, profile": profiled("JPEG"),
    "jpeg, in inks, profile of tables": flat("CMYK", "JPEG", icc_profile=PROFILES["stages of inks"][1]()),
    "jpeg, scans": refined,
    "jpeg, segments": jpeg_with(lambda: b"\xff\xe5\0\2" * (MAX_PARTS - 20)),
    "jpeg, exif of fractions": jpeg_with(exif_of_fractions),
    "png, flat": flat("RGB", "PNG", compress_level=1),
    "png, flat, see-through, turned": flat("RGBA", "PNG", compress_level=1, exif=turned()),
    "png, grey": flat("L", "PNG", compress_level=1),
    "png, grey and alpha": flat("LA", "PNG", compress_level=1),
    "png, 16 bits, Paeth": png_of_rows(16, 6, 4, 4, 1),
    "png, noise, Paeth": png_of_rows(8, 2, 3, 4, 4),
    "png, much noise, Paeth": png_of_rows(8, 6, 4, 4, 256),
    "png, grey, 16 bits": png_of_rows(16, 0, 1, 4, 1),
    "png, interlaced": interlaced_png,
    "png, profile": profiled("PNG", compress_level=1),
    "png, profile of tables": patterned("stages"),
    "png, profile of steps": lambda _: png((8, 8), 8, 2, bytes(200), before=profile_chunk(PROFILES["steps"][1]())),
    "png, profiles": lambda _: png((8, 8), 8, 2, bytes(200), before=profile_chunk(bytes(2**20 - 1)) * 16),
    "png, chunks": lambda _: png((8, 8), 8, 0, bytes(72), before=chunk(b"abCd", b"") * (MAX_PARTS - 10)),
    "png, texts": texts,
    "png, one column": lambda _: saved(Image.new("RGBA", (1, 65_535)), "PNG", exif=turned()),
    "gif, flat": flat("P", "GIF"),
    "gif, noise": noisy("L", "GIF"),
    "gif, comment": lambda _: saved(Image.new("P", (8, 8)), "GIF", comment=b"a" * 255 * (MAX_PARTS - 20)),
    "webp, flat": flat("RGBA", "WEBP", lossless=True, method=0, quality=0),
    "webp, flat, turned": flat("RGBA", "WEBP", lossless=True, method=0, quality=0, exif=turned()),
    "webp, noise": noisy("RGB", "WEBP", quality=95, method=0),
    "webp, noise, lossless": noisy("RGBA", "WEBP", lossless=True, method=0, quality=0),
    "bmp, 24 bits": flat("RGB", "BMP"),
    "bmp, 1 bit": flat("1", "BMP"),
    "bmp, runs": runs,
    "tiff, LZW": flat("RGB", "TIFF", compression="tiff_lzw"),
    "tiff, see-through, turned": flat("RGBA", "TIFF", compression="tiff_adobe_deflate", exif=turned()),
    "tiff, 16 bits, inks, one strip": lambda n: tiff(*square(n), 1, bits=16, samples=4, photometric=5),
    "tiff, strips": lambda n: tiff(max(1, n // 65_000), 65_000, 65_000),
    "tiff, JPEG": flat("RGB", "TIFF", compression="jpeg"),
    "tiff, fax": flat("1", "TIFF", compression="group4"),
    "tiff, LZMA": flat("RGB", "TIFF", compression="lzma"),
    "tiff, Lab": lab,
    "avif, flat": flat("RGB", "AVIF", speed=10),
    "avif, noise": noisy("RGB", "AVIF", speed=10, quality=80),
    "heif, flat": flat("RGB", "HEIF", quality=50),
    "heif, noise": noisy("RGB", "HEIF", quality=80),
}


def largest(make: Make, pixels: int, most: int) -> bytes | None:
    """Return the file of at most so many pixels and bytes that is accepted."""
    for _ in range(24):
        data = make(pixels)
        if len(data) <= most and _accepted(data):
            return data
        pixels = round(pixels * (0.5 if len(data) > 2 * most else 0.85))
    return None


def _accepted(data: bytes) -> bool:
    try:
        identify(data)
    except NonnegError:
        return False
    return True
