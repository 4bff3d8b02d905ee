"""What decoding a JPEG will take, read from its markers before any decoder sees it.

A JPEG may show its picture in passes ("scans") that each visit every block of it, and may repeat them without end, at a
hundred bytes of file for each. A progressive photo has about ten.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from nonneg_core.errors import ImageTooLarge

MAX_VISITS = 100_000_000  # blocks x components x scans; a progressive photo of 48 megapixels has eleven million
MAX_PARTS = 10_000  # segments, and bytes between them, before the first scan
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SEQUENTIAL = frozenset((0xC0, 0xC1, 0xC9))
_ALONE = frozenset((0x00, 0x01, *range(0xD0, 0xDA), *range(0xF0, 0xFE)))  # what decoders take for no segment
_START_OF_SCAN = 0xDA
_SCANS = re.compile(rb"\xff\xda..(.)", re.DOTALL)  # not within a scan's own bytes: there 0x00 follows 0xff


class Frame(NamedTuple):
    """A JPEG's header up to its first scan."""

    width: int
    height: int
    components: int
    sequential: bool
    blocks: int  # of 8 x 8 pixels, in a component that is not subsampled
    scans_at: int

    def visits(self, data: bytes) -> int:
        """How often all scans together visit a block of a component, at most."""
        if self.sequential and data[self.scans_at + 4 : self.scans_at + 5] == bytes([self.components]):
            return self.blocks * self.components  # a second scan is refused by decoders then
        return self.blocks * sum(found[1][0] for found in _SCANS.finditer(data, self.scans_at))


def check_scans(data: bytes) -> None:
    """Refuse a JPEG that takes many times a photo's work; one without a header is left to the decoder."""
    found = frame(data)
    if found is None:
        return
    visits = found.visits(data)
    if visits > MAX_VISITS:
        raise ImageTooLarge(
            f"the scans of this JPEG visit {visits} blocks, more than the limit of {MAX_VISITS}",
            fix="save it again, as a JPEG that is not progressive",
            field="scans",
            value=visits,
            limit=MAX_VISITS,
        )


def frame(data: bytes) -> Frame | None:
    """The header as decoders find it, the last where there are several; None where the first scan is not reached."""
    at, found = 2, None
    for parts in range(MAX_PARTS):
        start = data.find(b"\xff", at)
        marker_at = start + 1
        while data[marker_at : marker_at + 1] == b"\xff" and marker_at - start < MAX_PARTS:
            marker_at += 1
        if start < 0 or marker_at >= len(data):
            return None
        if start - at + parts > MAX_PARTS or marker_at - start >= MAX_PARTS:
            raise _too_many()
        marker, length = data[marker_at], int.from_bytes(data[marker_at + 1 : marker_at + 3], "big")
        if marker == _START_OF_SCAN:
            return None if found is None else found._replace(scans_at=marker_at - 1)
        if marker in _FRAMES:
            found = _frame(marker, data[marker_at + 3 : marker_at + 1 + length])
        at = marker_at + 1 + (0 if marker in _ALONE else length)
    raise _too_many()


def _frame(marker: int, body: bytes) -> Frame | None:
    if len(body) < 9:
        return None
    height, width = int.from_bytes(body[1:3], "big"), int.from_bytes(body[3:5], "big")
    sampling = body[7::3]
    across, down = 8 * max(1, *(pair >> 4 for pair in sampling)), 8 * max(1, *(pair & 15 for pair in sampling))
    blocks = math.ceil(width / across) * math.ceil(height / down) * (across // 8) * (down // 8)
    return Frame(width, height, body[5], marker in _SEQUENTIAL, blocks, 0)


def _too_many() -> ImageTooLarge:
    return ImageTooLarge(
        f"this JPEG has more than {MAX_PARTS} segments before its picture",
        fix="save it again without what is not the picture",
        field="segments",
        limit=MAX_PARTS,
    )
