"""Mutations that know a format's structure: parts are dropped, doubled, exchanged and changed, and lengths set right.

What is only bits and bytes is mostly refused at the first check; what is well formed but odd gets to the decoders.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable

from nesting import NESTED

NUMBERS = (0, 1, 2, 7, 8, 127, 128, 255, 256, 4095, 65_535, 65_536, 2**24, 2**31 - 1, 2**31, 2**32 - 1)
Parts = list[bytes]


def mutated(kind: str, files: list[bytes], chance: random.Random) -> bytes:
    """One of the files, changed in one to four ways; seldom with its lengths left wrong, or cut."""
    split, join = STRUCTURES.get(kind, (halves, b"".join))
    parts = split(chance.choice(files))
    others = split(chance.choice(files))
    for _ in range(chance.randint(1, 4)):
        chance.choice((drop, double, exchange, splice, change, change, change, renumber, renumber))(
            parts, others, chance
        )
    data = join(parts) if chance.random() < 0.9 else b"".join(parts)
    if kind in NESTED and chance.random() < 0.15:
        data = NESTED[kind](data, chance)
    return data[: chance.randrange(len(data) + 1)] if chance.random() < 0.1 else data


def drop(parts: Parts, _: Parts, chance: random.Random) -> None:
    if len(parts) > 1:
        del parts[chance.randrange(1, len(parts))]


def double(parts: Parts, _: Parts, chance: random.Random) -> None:
    at = chance.randrange(len(parts))
    parts[at:at] = [parts[at]] * chance.choice((1, 1, 1, 2, 10, 300))


def exchange(parts: Parts, _: Parts, chance: random.Random) -> None:
    a, b = chance.randrange(len(parts)), chance.randrange(len(parts))
    parts[a], parts[b] = parts[b], parts[a]


def splice(parts: Parts, others: Parts, chance: random.Random) -> None:
    parts.insert(chance.randrange(len(parts) + 1), chance.choice(others))


def change(parts: Parts, _: Parts, chance: random.Random) -> None:
    """Some bytes of a part: flipped, replaced, taken out, put in."""
    at = chance.randrange(len(parts))
    part = bytearray(parts[at])
    for _ in range(chance.choice((1, 1, 2, 8, 40))):
        if not part:
            break
        place = chance.randrange(len(part))
        way = chance.randrange(4)
        if way == 0:
            part[place] ^= 1 << chance.randrange(8)
        elif way == 1:
            part[place] = chance.randrange(256)
        elif way == 2:
            del part[place : place + chance.randint(1, 8)]
        else:
            part[place:place] = chance.randbytes(chance.randint(1, 8))
    parts[at] = bytes(part)


def renumber(parts: Parts, _: Parts, chance: random.Random) -> None:
    """A number of one, two or four bytes within a part's first sixty: an extreme one in its place."""
    at = chance.randrange(len(parts))
    part = bytearray(parts[at])
    size = chance.choice((1, 2, 4))
    if len(part) < size:
        return
    place = chance.randrange(min(60, len(part) - size + 1))
    number = chance.choice(NUMBERS) % 256**size
    part[place : place + size] = number.to_bytes(size, chance.choice(("big", "little")))
    parts[at] = bytes(part)


def halves(data: bytes) -> Parts:
    """A header of sixty bytes and the rest."""
    return [data[:60], data[60:]]


def segments(data: bytes) -> Parts:
    """Of a JPEG: every segment; a scan's bytes belong to its header."""
    parts, at = [data[:2]], 2
    while at + 4 <= len(data) and data[at + 1] != 0xD9:  # what follows the end is left as it is
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if data[at + 1] == 0xDA:
            while end < len(data) and not (data[end] == 0xFF and data[end + 1 : end + 2] not in STUFFING):
                end += 1
        parts.append(data[at:end])
        at = end
    return [*parts, data[at:]]


STUFFING = tuple(bytes([code]) for code in (0, *range(0xD0, 0xD8)))


def join_segments(parts: Parts) -> bytes:
    """With every length as its segment needs it, but for scans, which have none."""
    found = [parts[0]]
    for part in parts[1:]:
        fits = len(part) >= 4 and part[:1] == b"\xff" and part[1] not in (0xDA, 0xD9) and len(part) < 65_535
        found.append(part[:2] + struct.pack(">H", len(part) - 2) + part[4:] if fits else part)
    return b"".join(found)


def chunks(data: bytes) -> Parts:
    """Of a PNG: names and contents, without lengths and checksums."""
    parts, at = [data[:8]], 8
    while at + 8 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        parts.append(data[at + 4 : at + 8 + length])
        at += 12 + length
    return parts


def join_chunks(parts: Parts) -> bytes:
    return parts[0] + b"".join(
        struct.pack(">I", max(0, len(part) - 4)) + part + struct.pack(">I", zlib.crc32(part)) for part in parts[1:]
    )


def riff(data: bytes) -> Parts:
    """Of a WebP: names and contents, without lengths."""
    parts, at = [data[:12]], 12
    while at + 8 <= len(data):
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        parts.append(data[at : at + 4] + data[at + 8 : at + 8 + length])
        at += 8 + length + (length & 1)
    return parts


def join_riff(parts: Parts) -> bytes:
    body = b"".join(
        part[:4] + struct.pack("<I", max(0, len(part) - 4)) + part[4:] + bytes(len(part) & 1) for part in parts[1:]
    )
    return b"RIFF" + struct.pack("<I", len(body) + 4) + parts[0][8:12] + body


def boxes(data: bytes) -> Parts:
    """Of an AVIF or HEIC: its boxes, and those within `meta`, each with its name; lengths are left out."""
    parts, at = [], 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big") or len(data) - at
        name, body = data[at + 4 : at + 8], data[at + 8 : at + size]
        if name == b"meta":
            parts.append(b"meta" + body[:4])
            parts.extend(b"\0in\0" + inner for inner in boxes(body[4:]))
        else:
            parts.append(name + body)
        at += max(8, size)
    return parts


def join_boxes(parts: Parts) -> bytes:
    found, at = [], 0
    while at < len(parts):
        part, inside = parts[at], b""
        at += 1
        while part[:4] == b"meta" and at < len(parts) and parts[at][:4] == b"\0in\0":
            inner = parts[at][4:]
            inside += struct.pack(">I", len(inner) + 4) + inner
            at += 1
        found.append(struct.pack(">I", len(part) + len(inside) + 4) + part + inside)
    return b"".join(found)


def entries(data: bytes) -> Parts:
    """Of a TIFF: what lies before its directory, each entry, and what lies behind; places stay as they are."""
    order = "little" if data[:2] == b"II" else "big"
    at = int.from_bytes(data[4:8], order)  # type: ignore[arg-type]
    count = int.from_bytes(data[at : at + 2], order)  # type: ignore[arg-type]
    found = [data[at + 2 + 12 * n : at + 14 + 12 * n] for n in range(count)]
    return [data[: at + 2], *found, data[at + 2 + 12 * count :]]


STRUCTURES: dict[str, tuple[Callable[[bytes], Parts], Callable[[Parts], bytes]]] = {
    "JPEG": (segments, join_segments),
    "MPO": (segments, join_segments),
    "PNG": (chunks, join_chunks),
    "WEBP": (riff, join_riff),
    "AVIF": (boxes, join_boxes),
    "HEIF": (boxes, join_boxes),
    "TIFF": (entries, b"".join),
}
