"""Mutations of containers that may hold themselves: directories of a TIFF, boxes of an AVIF or HEIC."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

POINTERS = (34665, 34853, 40965)  # EXIF, GPS, Interop
DEPTHS = (1, 2, 3, 4, 8, 9, 30, 1_000)


def nested_directories(data: bytes, chance: random.Random) -> bytes:
    """A TIFF with directories of EXIF behind it that lead to one another, to themselves, or anywhere."""
    order = "<" if data[:2] == b"II" else ">"
    if len(data) < 16 or data[2:4] not in (b"*\0", b"\0*"):
        return data
    (first,) = struct.unpack_from(order + "I", data, 4)
    if first + 2 > len(data):
        return data
    (count,) = struct.unpack_from(order + "H", data, first)
    entries = [data[first + 2 + 12 * n : first + 14 + 12 * n] for n in range(count)]
    entries = [entry for entry in entries if len(entry) == 12 and _tag(order, entry) not in POINTERS]
    moved = len(data)
    below = moved + 2 + 12 * (len(entries) + 1) + 4
    entries.append(struct.pack(order + "HHII", POINTERS[0], 4, 1, below))
    entries.sort(key=lambda entry: _tag(order, entry))
    directory = struct.pack(order + "H", len(entries)) + b"".join(entries) + bytes(4)
    chain = _chain(order, below, chance)
    return data[:4] + struct.pack(order + "I", moved) + data[8:] + directory + chain + bytes(16)


def _tag(order: str, entry: bytes) -> int:
    return int(struct.unpack_from(order + "H", entry)[0])


def _chain(order: str, start: int, chance: random.Random) -> bytes:
    """So many directories, one behind the other, of one or several pointers each."""
    levels, pointers = chance.choice(DEPTHS), chance.choice((1, 1, 2, 3, 200))
    size = 2 + 12 * pointers + 4
    found = []
    for level in range(levels if pointers < 200 else 8):
        following = start + size * (level + 1)
        found.append(struct.pack(order + "H", pointers))
        for n in range(pointers):
            to = (
                following
                if chance.random() < 0.9
                else chance.choice((start, 8, 0, 2**31, start + chance.randrange(99)))
            )
            kind, values = chance.choice(((4, 1),) * 6 + ((3, 1), (7, 8), (13, 1), (4, 2), (7, 2**10)))
            found.append(struct.pack(order + "HHII", POINTERS[n % 3], kind, values, to))
        found.append(bytes(4))
    return b"".join(found)


def nested_boxes(data: bytes, chance: random.Random) -> bytes:
    """An AVIF or HEIC with boxes within boxes between two of its own; the innermost may announce another size."""
    inner = b""
    if chance.random() < 0.5:
        inner = struct.pack(">I4sIII", 20, b"ispe", 0, chance.choice((1, 96, 2**16)), chance.choice((1, 64, 2**31)))
    for _ in range(chance.choice(DEPTHS)):
        name = chance.choice((b"iprp", b"ipco", b"meta"))
        body = bytes(4) + inner if name == b"meta" else inner
        inner = struct.pack(">I4s", len(body) + 8, name) + body
    places, at = [len(data)], int.from_bytes(data[:4], "big")
    while 8 <= at < len(data):
        places.append(at)
        at += max(8, int.from_bytes(data[at : at + 4], "big"))
    place = chance.choice(places)
    return data[:place] + inner + data[place:]


NESTED: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "TIFF": nested_directories,
    "AVIF": nested_boxes,
    "HEIF": nested_boxes,
}
