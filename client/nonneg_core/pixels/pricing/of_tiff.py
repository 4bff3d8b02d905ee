"""The price of a TIFF's first page, read from its directory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from nonneg_core.errors import ImageTooLarge, ImageUnsupported
from nonneg_core.pixels.pricing.of_jpeg import PER_VISIT, check_visits, components_of_scans
from nonneg_core.pixels.pricing.price import (
    CONVERTED,
    CONVERTED_INKS,
    PER_EXIF_BYTE,
    PER_PART,
    Price,
    broken,
    check_exif,
    check_parts,
    resident,
)

MAX_PIECES = 65_536  # strips or tiles: a list of each of them is kept, in Python
PER_PIECE = 8e-6  # seconds
PER_BYTE = 5e-9  # seconds a byte of pixels, once it is unpacked
PER_BYTE_OF_LZMA = 40e-9
PER_PIXEL = 8e-9  # seconds
_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC, _SAMPLES = 256, 257, 258, 259, 262, 277
_STRIPS, _ROWS, _SIZES, _PLANES, _TILE_WIDTH, _TILE_HEIGHT, _TILES, _TILE_SIZES = 273, 278, 279, 284, 322, 323, 324, 325
_PROFILE, _EXIFS = 34675, (34665, 34853, 40965)
MAX_DEPTH = 3  # directories of EXIF below one another: Interop lies in EXIF, and nothing in that
_NUMBERS = {1: "u1", 3: "u2", 4: "u4", 6: "i1", 8: "i2", 9: "i4", 13: "u4", 16: "u8", 17: "i8", 18: "u8"}
_BYTES = {2: 1, 5: 8, 7: 1, 10: 8, 11: 4, 12: 8} | {kind: int(name[1]) for kind, name in _NUMBERS.items()}
_OLD_JPEG, _JPEG, _LZMA = 6, 7, 34925
_CMYK, _YCBCR, _LAB = 5, 6, 8


class Field(NamedTuple):
    """A directory's entry: a tag, and where its values lie."""

    tag: int
    kind: int
    values: int
    at: int
    size: int


class TiffDirectory:
    """The first page's directory, its values unread but for those that are asked for."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._order = "<" if data[:2] == b"II" else ">"
        self._big = data[2:4] in (b"+\0", b"\0+")
        start = self._number(8, 8) if self._big else self._number(4, 4)
        self.fields: dict[int, Field] = {}
        for field in self.entries(start):
            if field.tag in self.fields:
                raise broken("TIFF", len(data))  # decoders do not agree on which of two counts
            self.fields[field.tag] = field

    def entries(self, at: int) -> Iterator[Field]:
        """Yield the fields of the directory that lies there."""
        wide, whole = (8, 20) if self._big else (2, 12)
        if at < 8:
            raise broken("TIFF", len(self._data))
        count = self._number(at, wide)
        check_parts(count, "TIFF", "tags")
        for entry in range(at + wide, at + wide + count * whole, whole):
            tag, kind = self._number(entry, 2), self._number(entry + 2, 2)
            values = self._number(entry + 4, 8 if self._big else 4)
            inline, place = (8, entry + 12) if self._big else (4, entry + 8)
            size = values * _BYTES.get(kind, 0)
            yield Field(tag, kind, values, place if size <= inline else self._number(place, inline), size)

    def numbers(self, tag: int, default: int | None = None) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return all values of a tag."""
        field = self.fields.get(tag)
        if field is None and default is not None:
            return np.array([default], np.int64)
        return self._stored(field).astype(np.int64)

    def number(self, tag: int, default: int | None = None) -> int:
        """Return the first value of a tag; there may be millions behind it."""
        field = self.fields.get(tag)
        return default if field is None and default is not None else int(self._stored(field)[0])

    def pointers(self, fields: Iterable[Field]) -> list[int]:
        """Return where these fields say that directories of EXIF lie."""
        return [int(self._stored(field)[0]) for field in fields if field.tag in _EXIFS and field.kind in _NUMBERS]

    def _stored(self, field: Field | None) -> np.ndarray[tuple[int], np.dtype[np.integer[Any]]]:
        """Return a field's values where they lie in the file."""
        if field is None or field.kind not in _NUMBERS or not field.values or field.at + field.size > len(self._data):
            raise broken("TIFF", len(self._data))
        return np.frombuffer(self._data, np.dtype(self._order + _NUMBERS[field.kind]), field.values, field.at)

    def _number(self, at: int, size: int) -> int:
        chunk = self._data[at : at + size]
        if len(chunk) < size:
            raise broken("TIFF", len(self._data))
        return int.from_bytes(chunk, "little" if self._order == "<" else "big")


def price_of_tiff(data: bytes) -> Price:
    """Read what decoding a TIFF's first page takes from its directory."""
    page = TiffDirectory(data)
    exif = _exif(page, len(data))
    width, height, samples = page.number(_WIDTH), page.number(_HEIGHT), page.number(_SAMPLES, 1)
    across, down = _piece(page, width, height)
    if min(width, height, samples, across, down) < 1:
        raise broken("TIFF", len(data))
    planes = samples if page.number(_PLANES, 1) == 2 else 1
    pieces = math.ceil(width / across) * math.ceil(height / down) * planes
    check_pieces(max(pieces, *(page.fields[tag].values for tag in (_STRIPS, _TILES) if tag in page.fields), 0))
    unpacked = pieces * across * down * samples * int(page.numbers(_BITS, 1)[:8].max()) // (8 * planes)
    compression, photometric = page.number(_COMPRESSION, 1), page.number(_PHOTOMETRIC, 0)
    seconds = unpacked * (PER_BYTE_OF_LZMA if compression == _LZMA else PER_BYTE) + pieces * PER_PIECE
    if compression in (_OLD_JPEG, _JPEG):
        seconds += _visits(page, data, pieces, across * down) * PER_VISIT
    inks, profile = photometric in (_CMYK, _LAB), _PROFILE in page.fields
    seconds += width * height * (PER_PIXEL + (CONVERTED_INKS if inks else CONVERTED if profile else 0))
    seconds += len(data) * PER_BYTE + len(page.fields) * 4 * PER_PART
    stored = 1 if samples == 1 else 4
    memory = resident(width, height, decoding=stored, stored=stored)
    buffers = across * down * (unpacked / max(1, pieces * across * down) + (4 if photometric == _YCBCR else 0))
    memory = max(memory, width * height * stored + round(buffers)) + pieces * 600
    return Price("TIFF", max(width, across), max(height, down), seconds + exif * PER_EXIF_BYTE, memory)


def check_pieces(pieces: int) -> None:
    """Refuse a TIFF of more strips or tiles than the limit."""
    if pieces > MAX_PIECES:
        raise ImageTooLarge(
            f"this TIFF has {pieces} strips or tiles, more than the limit of {MAX_PIECES}",
            fix="save it again in larger strips",
            field="strips",
            value=pieces,
            limit=MAX_PIECES,
        )


def _piece(page: TiffDirectory, width: int, height: int) -> tuple[int, int]:
    """Return width and height of a tile or of a strip."""
    if _STRIPS not in page.fields and _TILES in page.fields:
        return page.number(_TILE_WIDTH), page.number(_TILE_HEIGHT)
    if _TILE_WIDTH in page.fields:  # libtiff takes these for tiles, whatever they are called
        return page.number(_TILE_WIDTH), page.number(_TILE_HEIGHT)
    return width, min(height, page.number(_ROWS, height))


def _visits(page: TiffDirectory, data: bytes, pieces: int, area: int) -> int:
    """Return how often the scans of JPEGs inside visit a block; each may be used for one piece only."""
    tags = (_STRIPS, _SIZES) if _STRIPS in page.fields else (_TILES, _TILE_SIZES)
    scans = components_of_scans(data, 0, MAX_PIECES)
    check_pieces(len(scans))
    if page.number(_COMPRESSION, 1) == _OLD_JPEG:
        return check_visits(sum(scans) * pieces * area // 64)
    starts, sizes = (page.numbers(tag) for tag in tags)
    if len(starts) != len(sizes):
        raise broken("TIFF", len(data))
    order = np.argsort(starts, kind="stable")
    starts, sizes = starts[order], sizes[order]
    if (starts[:-1] + sizes[:-1] > starts[1:]).any():
        raise broken("TIFF", len(data))
    if len(scans) > pieces:
        raise ImageUnsupported(
            "a TIFF of JPEGs in several scans is not read here", fix="save it again without compression", value="scans"
        )
    return check_visits(sum(scans) * area // 64)


def _exif(page: TiffDirectory, size: int) -> int:
    """Return bytes of EXIF, all of which Pillow reads, in directories that may lead to one another."""
    total = tags = 0
    waiting = [(at, 1) for at in page.pointers(page.fields.values())]
    while waiting:
        at, depth = waiting.pop()
        if not 0 < at < size - 8:
            continue
        fields = list(page.entries(at))
        tags += len(fields)
        total += sum(field.size for field in fields) + 12 * len(fields)
        check_parts(tags, "TIFF", "tags")
        check_exif(total, "TIFF")
        if depth < MAX_DEPTH:
            waiting += [(below, depth + 1) for below in page.pointers(fields)]
    arrays = sum(field.values for field in page.fields.values() if field.kind not in (1, 2, 7))
    check_pieces(arrays // 4)
    return total
