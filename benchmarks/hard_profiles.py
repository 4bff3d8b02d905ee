"""Colour profiles made by their structure: what may be in one, as much of it as fits, and more than fits."""

from __future__ import annotations

import struct
from collections.abc import Callable

Tags = list[tuple[bytes, bytes]]
ROOM = 2**20 - 2**12  # bytes of contents; with its header a profile is below 1 MiB
_XYZ = {
    b"wtpt": (63190, 65536, 54061),
    b"rXYZ": (28579, 14579, 912),
    b"gXYZ": (25249, 46978, 6362),
    b"bXYZ": (9376, 3976, 46785),
}


def icc(tags: Tags, space: bytes = b"RGB ", pcs: bytes = b"Lab ", kind: bytes = b"mntr", version: int = 4) -> bytes:
    """Return a profile of these tags; contents that are the same are stored once."""
    places: dict[bytes, int] = {}
    table, body, end = bytearray(), bytearray(), 132 + 12 * len(tags)
    for name, content in tags:
        if content not in places:
            places[content] = end
            body += content + bytes(-len(content) % 4)
            end += len(content) + -len(content) % 4
        table += name + struct.pack(">II", places[content], len(content))
    head = struct.pack(">I4xI", end, version << 24) + kind + space + pcs
    head += struct.pack(">6H", 2020, 1, 1, 0, 0, 0) + b"acsp" + bytes(28) + struct.pack(">3i", 0xF6D6, 0x10000, 0xD32D)
    return head.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + body


def steps(count: int) -> bytes:
    """Return a list of so many steps, each the same matrix."""
    matrix = b"matf" + bytes(4) + struct.pack(">HH12f", 3, 3, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0)
    places = struct.pack(">II", 16 + 8 * count, len(matrix)) * count
    return b"mpet" + bytes(4) + struct.pack(">HHI", 3, 3, count) + places + matrix


def curve(count: int, bent: int = 2) -> bytes:
    """Return a curve of so many points."""
    points = [round(65535 * (i / max(1, count - 1)) ** bent) for i in range(count)]
    return b"curv" + bytes(4) + struct.pack(f">I{count}H", count, *points)


def formula(kind: int = 4) -> bytes:
    """Return a curve that is a power."""
    values = (2.4, 0.9, 0.1, 0.08, 0.04, 0.01, 0.01)[: (1, 3, 4, 5, 7)[kind]]
    return b"para" + bytes(4) + struct.pack(f">HH{len(values)}i", kind, 0, *(round(x * 65536) for x in values))


def table8(channels: int, grid: int, *, stored: int | None = None) -> bytes:
    """Return a table of 8 bits for so many channels, of `grid` points each."""
    size = grid**channels * 3 if stored is None else stored
    matrix = struct.pack(">9i", 65536, 0, 0, 0, 65536, 0, 0, 0, 65536)
    curves = bytes(range(256))
    return b"mft1" + struct.pack(">4xBBBx", channels, 3, grid) + matrix + curves * channels + _values(size) + curves * 3


def table16(channels: int, grid: int, points: int, *, stored: int | None = None) -> bytes:
    """Return a table of 16 bits, with curves of so many points before and behind it."""
    size = grid**channels * 3 if stored is None else stored
    matrix = struct.pack(">9i", 65536, 0, 0, 0, 65536, 0, 0, 0, 65536)
    ramp = curve(points)[12:]
    head = struct.pack(">4xBBBx", channels, 3, grid) + matrix + struct.pack(">HH", points, points)
    return b"mft2" + head + ramp * channels + _values(2 * size) + ramp * 3


def stages(channels: int, grid: int, bent: bytes, *, stored: int | None = None) -> bytes:
    """Return curves, a table, curves, a matrix and curves, one behind the other."""
    bent += bytes(-len(bent) % 4)
    size = grid**channels * 3 if stored is None else stored
    matrix = struct.pack(">12i", 65536, 0, 0, 0, 65536, 0, 0, 0, 65536, 0, 0, 0)
    grids = bytes([grid] * channels).ljust(16, b"\0") + b"\1\0\0\0" + _values(size) + bytes(-size % 4)
    b_at = 32
    m_at = b_at + 3 * len(bent)
    matrix_at = m_at + 3 * len(bent)
    grid_at = matrix_at + len(matrix)
    a_at = grid_at + len(grids)
    head = b"mAB " + struct.pack(">4xBB2x5I", channels, 3, b_at, matrix_at, m_at, grid_at, a_at)
    return head + bent * 3 + bent * 3 + matrix + grids + bent * channels


def _values(size: int) -> bytes:
    return (bytes(range(7, 250, 3)) * (size // 80 + 1))[:size]


def primaries(bent: bytes) -> Tags:
    """Return three primaries, and a curve for each."""
    found = [(name, b"XYZ " + bytes(4) + struct.pack(">3i", *values)) for name, values in _XYZ.items()]
    return [*found, *((name, bent) for name in (b"rTRC", b"gTRC", b"bTRC"))]


def of_inks(table: bytes, *more: tuple[bytes, bytes]) -> bytes:
    """Return a printer's profile with this table."""
    return icc([(b"A2B0", table), *more], space=b"CMYK", kind=b"prtr")


def words(count: int) -> bytes:
    """Return a text that says it is in so many languages."""
    return b"mluc" + bytes(4) + struct.pack(">II", count, 12)


def names(count: int) -> bytes:
    """Return so many named colours."""
    one = b"blue".ljust(32, b"\0") + struct.pack(">6H", 1, 2, 3, 4, 5, 6)
    return b"ncl2" + bytes(8) + struct.pack(">II", count, 3) + bytes(64) + one * min(count, ROOM // len(one))


PROFILES: dict[str, tuple[str, Callable[[], bytes]]] = {  # mode of the picture, and the profile
    "steps": ("RGB", lambda: icc([(b"D2B0", steps(20_000))], pcs=b"XYZ ")),
    "few steps": ("RGB", lambda: icc([(b"D2B0", steps(1_000)), *primaries(curve(1024))], pcs=b"XYZ ")),
    "steps of inks": ("CMYK", lambda: of_inks(table8(4, 9), (b"D2B1", steps(1_000)))),
    "steps by another name": ("RGB", lambda: icc([(b"A2B0", steps(20_000)), *primaries(curve(2))], pcs=b"XYZ ")),
    "tags": ("RGB", lambda: icc([(b"%04d" % n, b"text" + bytes(20)) for n in range(87_000)])),
    "points": ("RGB", lambda: icc(primaries(curve(32_767)), pcs=b"XYZ ")),
    "points, see-through": ("RGBA", lambda: icc(primaries(curve(32_767)), pcs=b"XYZ ")),
    "points, too many": ("RGB", lambda: icc(primaries(curve(2**18)), pcs=b"XYZ ")),
    "points, grey": ("L", lambda: icc([(b"kTRC", curve(32_767)), (b"wtpt", primaries(b"")[0][1])], space=b"GRAY")),
    "formulas": ("RGB", lambda: icc(primaries(formula()), pcs=b"XYZ ")),
    "table, 8 bits": ("RGB", lambda: icc([(b"A2B0", table8(3, 69))])),
    "table, 8 bits, inks": ("CMYK", lambda: of_inks(table8(4, 24))),
    "table, 16 bits": ("RGB", lambda: icc([(b"A2B0", table16(3, 50, 4096))])),
    "table, 16 bits, inks": ("CMYK", lambda: of_inks(table16(4, 19, 4096))),
    "table, 16 bits, Lab": ("LAB", lambda: icc([(b"A2B0", table16(3, 50, 4096))], space=b"Lab ", kind=b"spac")),
    "table, old": ("RGB", lambda: icc([(b"A2B0", table16(3, 50, 4096))], version=2)),
    "table, long curves": ("CMYK", lambda: of_inks(table16(4, 11, 32_767))),
    "table of nothing": ("CMYK", lambda: of_inks(table8(4, 95, stored=0))),
    "table of nothing, 16 bits": ("CMYK", lambda: of_inks(table16(4, 95, 2, stored=0))),
    "stages": ("RGB", lambda: icc([(b"A2B0", stages(3, 60, formula()))])),
    "stages of points": ("RGB", lambda: icc([(b"A2B0", stages(3, 40, curve(32_767)))])),
    "stages of inks": ("CMYK", lambda: of_inks(stages(4, 23, formula()))),
    "stages of points and inks": ("CMYK", lambda: of_inks(stages(4, 14, curve(32_767)))),
    "stages of Lab": ("LAB", lambda: icc([(b"A2B0", stages(3, 40, curve(32_767)))], space=b"Lab ", kind=b"spac")),
    "stages of grey": ("L", lambda: icc([(b"A2B0", stages(1, 255, curve(32_767)))], space=b"GRAY")),
    "stages of nothing": ("CMYK", lambda: of_inks(stages(4, 95, formula(), stored=0))),
    "languages": ("RGB", lambda: icc([*primaries(curve(2)), (b"desc", words(2**25))], pcs=b"XYZ ")),
    "names": ("RGB", lambda: icc([(b"ncl2", names(22_000))], kind=b"nmcl")),
    "names without end": ("RGB", lambda: icc([(b"ncl2", names(100_000))], kind=b"nmcl")),
    "a link": ("RGB", lambda: icc([(b"A2B0", table16(3, 50, 4096))], kind=b"link")),
    "an abstract one": ("LAB", lambda: icc([(b"A2B0", table16(3, 50, 4096))], space=b"Lab ", kind=b"abst")),
}  # fmt: skip
