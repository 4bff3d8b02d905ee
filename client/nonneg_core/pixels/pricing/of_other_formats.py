"""The price of a GIF, BMP, TIFF, AVIF or HEIC: its size as the header says, at one rate for a pixel.

What such a file takes beyond its size no header tells: pictures refer to one another, strips to one place. So it is
decoded in a process, which is ended where it takes more.
"""

import re
import struct
from itertools import islice

from nonneg_core.pixels.pricing.price import MAX_PARTS, MAX_SECONDS, Price, broken, resident

PER_PIXEL = 25e-9  # seconds
BYTES = 9  # a pixel
_SIZE = re.compile(rb"ispe....(.{8})", re.DOTALL)
_EXTENSION, _PICTURE = 0x21, 0x2C  # of a GIF
_WIDTH, _HEIGHT = 256, 257  # tags of a TIFF
_NUMBERS = {1: 1, 3: 2, 4: 4, 13: 4, 16: 8, 18: 8}  # bytes of a TIFF's kinds of whole numbers


def price_of(data: bytes, known: str) -> Price:
    """Return the price by the width and height in the header of a file of this format."""
    width, height = {"GIF": _of_gif, "BMP": _of_bmp, "TIFF": _of_tiff}.get(known, _of_heif)(data)
    if min(width, height) < 1:
        raise broken(known, len(data))
    seconds = min(MAX_SECONDS, width * height * PER_PIXEL)  # its process is ended then
    return Price(known, width, height, seconds, resident(width, height, decoding=BYTES, stored=4))


def _of_gif(data: bytes) -> tuple[int, int]:
    """Return the screen's size, or that of the first picture's box where it lies outside."""
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at, inside = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0), False
    for _ in range(MAX_PARTS):
        if inside:  # an extension's blocks, the last of which is empty
            inside, at = data[at] != 0, at + 1 + data[at]
        elif data[at] == _PICTURE:
            left, top, across, down = struct.unpack_from("<HHHH", data, at + 1)
            return max(width, left + across), max(height, top + down)
        else:
            inside, at = data[at] == _EXTENSION, at + (2 if data[at] == _EXTENSION else 1)
    return width, height


def _of_bmp(data: bytes) -> tuple[int, int]:
    if data[14:18] == b"\x0c\0\0\0":
        width, height = struct.unpack_from("<HH", data, 18)
        return width, height
    width, height = struct.unpack_from("<ii", data, 18)
    return width, abs(height)


def _of_tiff(data: bytes) -> tuple[int, int]:
    """Return what the first page's directory says."""
    order = "<" if data[:2] == b"II" else ">"
    count, start, entry = ("Q", "8xQ", "HHQ8s") if 43 in data[2:4] else ("H", "4xI", "HHI4s")
    (at,) = struct.unpack_from(order + start, data)
    (entries,) = struct.unpack_from(order + count, data, at)
    form, first = struct.Struct(order + entry), at + struct.calcsize(count)
    size = {}
    for tag, kind, _, value in form.iter_unpack(data[first : first + form.size * min(entries, MAX_PARTS)]):
        if tag in (_WIDTH, _HEIGHT):
            size[tag] = int.from_bytes(value[: _NUMBERS[kind]], "little" if order == "<" else "big")
    return size[_WIDTH], size[_HEIGHT]


def _of_heif(data: bytes) -> tuple[int, int]:
    """Return the largest size that is named in the box of what is known of the pictures."""
    at, end = 0, 0
    for _ in range(MAX_PARTS):
        length, name = struct.unpack_from(">I4s", data, at)
        if length == 1:
            length = int.from_bytes(data[at + 8 : at + 16], "big")
        end = at + max(8, length) if length else len(data)
        if name == b"meta":
            break
        at = end
    sizes = [struct.unpack(">II", match[1]) for match in islice(_SIZE.finditer(data, at, end), MAX_PARTS)]
    return max(width for width, _ in sizes), max(height for _, height in sizes)
