"""The price of a BMP, read from its header."""

from __future__ import annotations

import struct

from nonneg_core.pixels.pricing.price import Price, broken, resident

PER_PIXEL = 10e-9  # seconds
PER_PIXEL_OF_RUNS = 150e-9  # seconds: Pillow reads runs in Python
PER_BYTE_OF_RUNS = 100e-9  # seconds
_RUNS = (1, 2)  # RLE8, RLE4


def price(data: bytes) -> Price:
    """Read what decoding a BMP takes from its header."""
    if len(data) < 34:
        raise broken("BMP", len(data))
    width, height, bits, compression = _header(data)
    if compression in _RUNS:
        seconds = width * height * PER_PIXEL_OF_RUNS + len(data) * PER_BYTE_OF_RUNS
        return Price("BMP", width, height, seconds, resident(width, height, decoding=4, stored=1))
    stored = 1 if bits <= 8 else 4
    return Price(
        "BMP", width, height, width * height * PER_PIXEL, resident(width, height, decoding=stored, stored=stored)
    )


def _header(data: bytes) -> tuple[int, int, int, int]:
    """Return width, height, bits a pixel and the kind of compression."""
    if int.from_bytes(data[14:18], "little") == 12:
        width, height, _, bits = struct.unpack_from("<HHHH", data, 18)
        return width, height, bits, 0
    width, height, _, bits, compression = struct.unpack_from("<IIHHI", data, 18)
    return width, 2**32 - height if data[25] == 0xFF else height, bits, compression
