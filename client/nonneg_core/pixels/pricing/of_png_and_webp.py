"""The prices of a PNG and of a WebP's first frame, read from their chunks."""

import struct

from nonneg_core.errors import ImageTooLarge
from nonneg_core.pixels.pricing import price

MAX_TEXT = 16 * 2**20  # bytes of texts and profiles, once they are inflated
PNG_PER_BYTE = 4e-9  # seconds a byte of pixels that comes out of the inflating and the row filters
PER_BYTE_OF_FILE = 20e-9
PNG_PER_PIXEL = 9e-9  # seconds
SEE_THROUGH = 18e-9  # seconds a pixel more for a profile where some are transparent
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_PNG_CHUNK = struct.Struct(">I4s")
_INFLATES = 1032  # bytes out of one, at most
_MOST_INFLATED = 2**20  # bytes of one text or profile; Pillow's own limit


def price_of_png(data: bytes) -> price.Price:
    """Read what decoding a PNG takes from its chunks."""
    if data[12:16] != b"IHDR" or len(data) < 33:
        raise price.broken("PNG", len(data))
    width, height, depth, colour = struct.unpack_from(">IIBB", data, 16)
    interlaced = data[28] != 0
    channels = _CHANNELS.get(colour)
    if channels is None or depth not in (1, 2, 4, 8, 16):
        raise price.broken("PNG", len(data))
    spent, profile, see_through = _png_chunks(data)
    converted = price.CONVERTED + (SEE_THROUGH if see_through or channels in (2, 4) else 0)
    inflated = height * ((width * channels * depth + 7) // 8 + 1) * (2 if interlaced else 1)
    seconds = (
        inflated * PNG_PER_BYTE
        + len(data) * PER_BYTE_OF_FILE
        + spent
        + width * height * (PNG_PER_PIXEL + (converted if profile else 0))
    )
    stored = 1 if channels == 1 and depth <= 8 else 4
    memory = price.resident(width, height, decoding=stored, stored=stored)
    return price.Price("PNG", width, height, seconds, memory)


def _png_chunks(data: bytes) -> tuple[float, bool, bool]:
    """Return the seconds of all but the pixels, whether there are a profile and a colour to see through; or refuse."""
    at, parts, exif, text, profile, see_through, end = 8, 0, 0, 0, False, False, len(data) - 8
    while at <= end:
        length, name = _PNG_CHUNK.unpack_from(data, at)
        parts += 1
        if name == b"eXIf":
            exif += length
        elif name in (b"zTXt", b"iTXt", b"iCCP"):
            text += min(_MOST_INFLATED, length * _INFLATES)
            profile = profile or name == b"iCCP"
        elif name == b"tRNS":
            see_through = True
        elif name == b"IEND":
            break
        at += 12 + length
        if parts % 1000 == 0:
            price.check_parts(parts, "PNG", "chunks")
    price.check_parts(parts, "PNG", "chunks")
    price.check_exif(exif, "PNG")
    if text > MAX_TEXT:
        raise ImageTooLarge(
            f"the texts and profiles in this PNG may be {text} bytes, more than the limit of {MAX_TEXT}",
            fix="save it again without what is not the picture",
            field="text",
            value=text,
            limit=MAX_TEXT,
        )
    return parts * price.PER_PART + exif * price.PER_EXIF_BYTE + text * PNG_PER_BYTE, profile, see_through


# The price of a WebP's first frame, read from its chunks.

WEBP_PER_PIXEL = 25e-9  # seconds
WEBP_PER_BYTE = 50e-9  # seconds
_WEBP_CHUNK = struct.Struct("<4sI")


def price_of_webp(data: bytes) -> price.Price:
    """Read what decoding a WebP's first frame takes from its chunks."""
    width, height = _canvas(data)
    parts, exif, profile = _webp_chunks(data)
    seconds = (
        width * height * (WEBP_PER_PIXEL + (price.CONVERTED if profile else 0))
        + len(data) * WEBP_PER_BYTE
        + parts * price.PER_PART
    )
    memory = price.resident(width, height, decoding=12, stored=4)
    return price.Price("WEBP", width, height, seconds + exif * price.PER_EXIF_BYTE, memory)


def _canvas(data: bytes) -> tuple[int, int]:
    """Return width and height; every frame lies within it."""
    name = data[12:16]
    if len(data) < 30:
        raise price.broken("WEBP", len(data))
    if name == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if name == b"VP8L" and data[20] == 0x2F:
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if name == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    raise price.broken("WEBP", len(data))


def _webp_chunks(data: bytes) -> tuple[int, int, bool]:
    at, parts, exif, profile = 12, 0, 0, False
    end = min(len(data), 8 + int.from_bytes(data[4:8], "little"))
    while at <= end - 8:
        name, length = _WEBP_CHUNK.unpack_from(data, at)
        parts += 1
        if name == b"EXIF":
            exif += length
        elif name == b"ICCP":
            profile = True
        at += 8 + length + (length & 1)
        if parts % 1000 == 0:
            price.check_parts(parts, "WEBP", "chunks")
    price.check_parts(parts, "WEBP", "chunks")
    price.check_exif(exif, "WEBP")
    return parts, exif, profile
