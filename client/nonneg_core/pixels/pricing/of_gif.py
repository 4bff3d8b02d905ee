"""The price of a GIF's first frame, read from the blocks before it."""

from __future__ import annotations

import struct

from nonneg_core.pixels.pricing.price import PER_PART, Price, broken, check_parts, resident

PER_PIXEL = 15e-9  # seconds
PER_BYTE = 10e-9  # seconds
_EXTENSION, _PICTURE = 0x21, 0x2C


def price(data: bytes) -> Price:
    """Read what decoding a GIF's first frame takes from the blocks before it."""
    if len(data) < 13:
        raise broken("GIF", len(data))
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    left, top, across, down, parts = _picture(data, 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0))
    width, height = max(width, left + across), max(height, top + down)
    seconds = width * height * PER_PIXEL + len(data) * PER_BYTE + parts * PER_PART
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
