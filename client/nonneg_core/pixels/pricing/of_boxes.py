"""The price of an AVIF or HEIC, read from the boxes of its container.

What a coded picture takes beyond its announced size cannot be seen from outside: one may refer to others, or decode to
another size. This price is for one that is what it says; a server decodes both formats in a process that it can end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from nonneg_core.pixels.pricing.price import CONVERTED, PER_PART, Price, broken, check_parts, resident

PER_PIXEL = 20e-9  # seconds
PER_BYTE = 60e-9  # seconds
DECODING = 10  # bytes a pixel
_FOLDERS = {b"meta": 4, b"iprp": 0, b"ipco": 0}  # boxes of boxes, and what stands before these
_BOX = struct.Struct(">I4s")
_AVIF = (b"avif", b"avis")


def price(data: bytes) -> Price:
    kind = "AVIF" if any(brand in data[8:256] for brand in _AVIF) else "HEIF"
    sizes: list[tuple[int, int]] = []
    parts, profile = 0, False
    for name, start, end in _boxes(data, 0, len(data)):
        parts += 1
        check_parts(parts, kind, "boxes")
        if name == b"ispe" and end - start >= 12:
            sizes.append(struct.unpack_from(">II", data, start + 4))
        elif name == b"colr" and data[start : start + 4] in (b"prof", b"rICC"):
            profile = True
        elif name == b"iinf":
            parts += int.from_bytes(data[start + 4 : start + 6], "big")
    if not sizes:
        raise broken(kind, len(data))
    width, height = max(size[0] for size in sizes), max(size[1] for size in sizes)
    seconds = width * height * (PER_PIXEL + (CONVERTED if profile else 0)) + len(data) * PER_BYTE + parts * PER_PART
    return Price(kind, width, height, seconds, resident(width, height, decoding=DECODING, stored=4))


def _boxes(data: bytes, at: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Name, begin and end of every box's content, those inside of boxes of boxes, too."""
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
            yield from _boxes(data, start + _FOLDERS[name], close)
        at = close
