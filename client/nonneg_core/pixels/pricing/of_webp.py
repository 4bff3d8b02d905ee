"""The price of a WebP's first frame, read from its chunks."""

from __future__ import annotations

import struct

from nonneg_core.pixels.pricing.price import (
    CONVERTED,
    PER_EXIF_BYTE,
    PER_PART,
    Price,
    broken,
    check_exif,
    check_parts,
    resident,
)

PER_PIXEL = 25e-9  # seconds
PER_BYTE = 50e-9  # seconds
_CHUNK = struct.Struct("<4sI")


def price(data: bytes) -> Price:
    """Read what decoding a WebP's first frame takes from its chunks."""
    width, height = _canvas(data)
    parts, exif, profile = _chunks(data)
    seconds = width * height * (PER_PIXEL + (CONVERTED if profile else 0)) + len(data) * PER_BYTE + parts * PER_PART
    memory = resident(width, height, decoding=12, stored=4)
    return Price("WEBP", width, height, seconds + exif * PER_EXIF_BYTE, memory)


def _canvas(data: bytes) -> tuple[int, int]:
    """Return width and height; every frame lies within it."""
    name = data[12:16]
    if len(data) < 30:
        raise broken("WEBP", len(data))
    if name == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if name == b"VP8L" and data[20] == 0x2F:
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if name == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    raise broken("WEBP", len(data))


def _chunks(data: bytes) -> tuple[int, int, bool]:
    at, parts, exif, profile = 12, 0, 0, False
    end = min(len(data), 8 + int.from_bytes(data[4:8], "little"))
    while at <= end - 8:
        name, length = _CHUNK.unpack_from(data, at)
        parts += 1
        if name == b"EXIF":
            exif += length
        elif name == b"ICCP":
            profile = True
        at += 8 + length + (length & 1)
        if parts % 1000 == 0:
            check_parts(parts, "WEBP", "chunks")
    check_parts(parts, "WEBP", "chunks")
    check_exif(exif, "WEBP")
    return parts, exif, profile
