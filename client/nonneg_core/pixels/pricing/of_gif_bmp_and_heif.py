"""The prices of a GIF's first frame, a BMP, and an AVIF or HEIC, read from their headers."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from nonneg_core.pixels.pricing.price import CONVERTED, PER_PART, Price, broken, check_parts, resident

GIF_PER_PIXEL = 15e-9  # seconds
GIF_PER_BYTE = 10e-9  # seconds
_EXTENSION, _PICTURE = 0x21, 0x2C


def price_of_gif(data: bytes) -> Price:
    """Read what decoding a GIF's first frame takes from the blocks before it."""
    if len(data) < 13:
        raise broken("GIF", len(data))
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    left, top, across, down, parts = _picture(data, 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0))
    width, height = max(width, left + across), max(height, top + down)
    seconds = width * height * GIF_PER_PIXEL + len(data) * GIF_PER_BYTE + parts * PER_PART
    return Price("GIF", width, height, seconds, resident(width, height, decoding=1, stored=1))


def _picture(data: bytes, at: int) -> tuple[int, int, int, int, int]:
    """Return the first picture's box, and how many blocks come before it."""
    parts = 0
    while at + 10 <= len(data):
        parts += 1
        if data[at] == _PICTURE:
            check_parts(parts, "GIF", "blocks")
            return *struct.unpack_from("<HHHH", data, at + 1), parts
        if data[at] != _EXTENSION:
            at += 1  # as Pillow does
        else:
            at += 2
            while at < len(data) and data[at]:
                at, parts = at + 1 + data[at], parts + 1
                if parts % 1000 == 0:
                    check_parts(parts, "GIF", "blocks")
            at += 1
        if parts % 1000 == 0:
            check_parts(parts, "GIF", "blocks")
    raise broken("GIF", len(data))


# The price of a BMP, read from its header.

BMP_PER_PIXEL = 10e-9  # seconds
PER_PIXEL_OF_RUNS = 150e-9  # seconds: Pillow reads runs in Python
PER_BYTE_OF_RUNS = 100e-9  # seconds
_RUNS = (1, 2)  # RLE8, RLE4


def price_of_bmp(data: bytes) -> Price:
    """Read what decoding a BMP takes from its header."""
    if len(data) < 34:
        raise broken("BMP", len(data))
    width, height, bits, compression = _header(data)
    if compression in _RUNS:
        seconds = width * height * PER_PIXEL_OF_RUNS + len(data) * PER_BYTE_OF_RUNS
        return Price("BMP", width, height, seconds, resident(width, height, decoding=4, stored=1))
    stored = 1 if bits <= 8 else 4
    return Price(
        "BMP", width, height, width * height * BMP_PER_PIXEL, resident(width, height, decoding=stored, stored=stored)
    )


def _header(data: bytes) -> tuple[int, int, int, int]:
    """Return width, height, bits a pixel and the kind of compression."""
    if int.from_bytes(data[14:18], "little") == 12:
        width, height, _, bits = struct.unpack_from("<HHHH", data, 18)
        return width, height, bits, 0
    width, height, _, bits, compression = struct.unpack_from("<IIHHI", data, 18)
    return width, 2**32 - height if data[25] == 0xFF else height, bits, compression


# The price of an AVIF or HEIC, read from the boxes of its container.
#
# What a coded picture takes beyond its announced size cannot be seen from outside: one may refer to others, or decode
# to another size. This price is for one that is what it says; a server decodes both formats in a process that it can
# end.

HEIF_PER_PIXEL = 20e-9  # seconds
HEIF_PER_BYTE = 60e-9  # seconds
DECODING, DECODING_DEEP = 8, 12  # bytes a pixel; of pictures with more than 8 bits, or colours at full resolution
_FOLDERS = {b"meta": 4, b"iprp": 0, b"ipco": 0}  # boxes of boxes, and what stands before these
MAX_DEPTH = 8  # boxes within one another; those that are read lie three deep
_BOX = struct.Struct(">I4s")
_AVIF = (b"avif", b"avis")


def price_of_heif(data: bytes) -> Price:
    """Read what decoding an AVIF or HEIC takes from its boxes."""
    kind = _kind(data)
    sizes: list[tuple[int, int]] = []
    parts, profile, deep = 0, False, False
    for name, start, end in _boxes(data, 0, len(data)):
        parts += 1
        check_parts(parts, kind, "boxes")
        if name == b"ispe" and end - start >= 12:
            sizes.append(struct.unpack_from(">II", data, start + 4))
        elif name == b"colr" and data[start : start + 4] in (b"prof", b"rICC"):
            profile = True
        elif name in (b"av1C", b"hvcC"):
            deep = deep or _is_deep(name, data[start : start + 20])
        elif name == b"iinf":
            parts += int.from_bytes(data[start + 4 : start + 6], "big")
    if not sizes:
        raise broken(kind, len(data))
    width, height = max(size[0] for size in sizes), max(size[1] for size in sizes)
    memory = resident(width, height, decoding=DECODING_DEEP if deep else DECODING, stored=4)
    seconds = (
        width * height * (HEIF_PER_PIXEL + (CONVERTED if profile else 0)) + len(data) * HEIF_PER_BYTE + parts * PER_PART
    )
    return Price(kind, width, height, seconds, memory)


def _kind(data: bytes) -> str:
    return "AVIF" if any(brand in data[8:256] for brand in _AVIF) else "HEIF"


def _is_deep(name: bytes, settings: bytes) -> bool:
    """Return whether a picture has more than 8 bits a channel, or colours at more than a quarter of its resolution."""
    if name == b"av1C":
        flags = settings[2] if len(settings) > 2 else 0
        return bool(flags & 0x40) or (not flags & 0x10 and flags & 0x0C != 0x0C)
    return len(settings) > 17 and (settings[16] & 3 > 1 or settings[17] & 7 > 0)


def _boxes(data: bytes, at: int, end: int, depth: int = 1) -> Iterator[tuple[bytes, int, int]]:
    """Yield name, begin and end of every box's content, those inside of boxes of boxes, too."""
    while at + 8 <= end:
        size, name = _BOX.unpack_from(data, at)
        start = at + 8
        if size == 1:
            size, start = int.from_bytes(data[at + 8 : at + 16], "big"), at + 16
        close = end if size == 0 else min(end, at + size)
        if close < start:
            return
        yield name, start, close
        if name in _FOLDERS:
            if depth == MAX_DEPTH:
                raise broken(_kind(data), len(data))
            yield from _boxes(data, start + _FOLDERS[name], close, depth + 1)
        at = close
