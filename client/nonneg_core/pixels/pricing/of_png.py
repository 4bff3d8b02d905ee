"""The price of a PNG, read from its chunks."""

from __future__ import annotations

import struct

from nonneg_core.errors import ImageTooLarge
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

MAX_TEXT = 16 * 2**20  # bytes of texts and profiles, once they are inflated
PER_BYTE = 4e-9  # seconds a byte of pixels that comes out of the inflating and the row filters
PER_BYTE_OF_FILE = 20e-9
PER_PIXEL = 9e-9  # seconds
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_CHUNK = struct.Struct(">I4s")
_INFLATES = 1032  # bytes out of one, at most
_MOST_INFLATED = 2**20  # bytes of one text or profile; Pillow's own limit


def price(data: bytes) -> Price:
    """Read what decoding a PNG takes from its chunks."""
    if data[12:16] != b"IHDR" or len(data) < 33:
        raise broken("PNG", len(data))
    width, height, depth, colour = struct.unpack_from(">IIBB", data, 16)
    interlaced = data[28] != 0
    channels = _CHANNELS.get(colour)
    if channels is None or depth not in (1, 2, 4, 8, 16):
        raise broken("PNG", len(data))
    spent, profile = _chunks(data)
    inflated = height * ((width * channels * depth + 7) // 8 + 1) * (2 if interlaced else 1)
    seconds = (
        inflated * PER_BYTE
        + len(data) * PER_BYTE_OF_FILE
        + spent
        + width * height * (PER_PIXEL + (CONVERTED if profile else 0))
    )
    stored = 1 if channels == 1 and depth <= 8 else 4
    memory = resident(width, height, decoding=stored, stored=stored)
    return Price("PNG", width, height, seconds, memory)


def _chunks(data: bytes) -> tuple[float, bool]:
    """Return the seconds that all but the pixels take, and whether there is a profile; refuse what is too much."""
    at, parts, exif, text, profile, end = 8, 0, 0, 0, False, len(data) - 8
    while at <= end:
        length, name = _CHUNK.unpack_from(data, at)
        parts += 1
        if name == b"eXIf":
            exif += length
        elif name in (b"zTXt", b"iTXt", b"iCCP"):
            text += min(_MOST_INFLATED, length * _INFLATES)
            profile = profile or name == b"iCCP"
        elif name == b"IEND":
            break
        at += 12 + length
        if parts % 1000 == 0:
            check_parts(parts, "PNG", "chunks")
    check_parts(parts, "PNG", "chunks")
    check_exif(exif, "PNG")
    if text > MAX_TEXT:
        raise ImageTooLarge(
            f"the texts and profiles in this PNG may be {text} bytes, more than the limit of {MAX_TEXT}",
            fix="save it again without what is not the picture",
            field="text",
            value=text,
            limit=MAX_TEXT,
        )
    return parts * PER_PART + exif * PER_EXIF_BYTE + text * PER_BYTE, profile
