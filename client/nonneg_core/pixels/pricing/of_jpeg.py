"""The price of a JPEG, read from its markers.

A JPEG may show its picture in passes ("scans") that each visit every block of it, and may repeat them without end, at a
hundred bytes of file for each. A progressive photo has about ten.
"""

import math
import re
from itertools import islice
from typing import NamedTuple

from nonneg_core.errors import ImageTooLarge, ImageUnsupported
from nonneg_core.pixels.pricing import price

MAX_VISITS = 60_000_000  # blocks x components x scans; a progressive photo of 48 megapixels has eleven million
PER_VISIT = 30e-9  # seconds
PER_PIXEL = 10e-9  # seconds, of the size it is decoded at
PER_BYTE = 30e-9  # seconds
COEFFICIENTS = 128  # bytes a block: all are held where there are several scans
WHOLE_SEGMENT = 2**16  # bytes, as which each one of EXIF counts: it is joined to all before it
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SEQUENTIAL, _READ, _ARITHMETIC = frozenset((0xC0, 0xC1)), frozenset((0xC0, 0xC1, 0xC2)), frozenset(range(0xC9, 0xD0))
_ALONE = frozenset((0x00, 0x01, 0xC8, *range(0xD0, 0xDA), *range(0xF0, 0xFE)))  # what decoders take for no segment
_SCAN, _EXIF, _PROFILE = 0xDA, 0xE1, 0xE2
# A scan's head, its length and components as decoders demand them; within a scan's own bytes 0x00 follows 0xff.
_SCANS = re.compile(rb"\xff\xda\x00[\x08\x0a\x0c\x0e]([\x01-\x04])")


class Frame(NamedTuple):
    """A JPEG's header up to its first scan."""

    width: int
    height: int
    components: int
    sequential: bool
    blocks: int  # of 8 x 8 pixels, in a component that is not subsampled
    scans_at: int
    parts: int
    exif: int  # bytes
    profile: bool

    def in_one_scan(self, data: bytes) -> bool:
        """Return whether the first scan shows all components at once: decoders refuse a second one then."""
        return self.sequential and data[self.scans_at + 4 : self.scans_at + 5] == bytes([self.components])

    def visits(self, data: bytes) -> int:
        """Return how often all scans together visit a block of a component, at most."""
        if self.in_one_scan(data):
            return self.blocks * self.components
        scans = components_of_scans(data, self.scans_at, price.MAX_PARTS)
        price.check_parts(len(scans), "JPEG", "scans")
        return self.blocks * sum(scans)


def price_of_jpeg(data: bytes, at_least: int | None = None) -> price.Price:
    """Return what it takes at the least scale at which no side is shorter than `at_least`."""
    header = frame(data)
    visits = check_visits(header.visits(data))
    scale = 1 if at_least is None else _scale(header, at_least)
    width, height = math.ceil(header.width / scale), math.ceil(header.height / scale)
    pixel = PER_PIXEL + (price.CONVERTED_INKS if header.components == 4 else price.CONVERTED if header.profile else 0)
    seconds = visits * PER_VISIT + len(data) * PER_BYTE + width * height * pixel + header.parts * price.PER_PART
    stored = 1 if header.components == 1 else 4
    coefficients = 0 if header.in_one_scan(data) else header.blocks * header.components * COEFFICIENTS
    buffers = coefficients + width * height * stored + header.exif
    memory = max(price.resident(width, height, decoding=stored, stored=stored), buffers)
    return price.Price("JPEG", header.width, header.height, seconds + header.exif * price.PER_EXIF_BYTE, memory)


def components_of_scans(data: bytes, at: int, most: int) -> list[int]:
    """Return how many components each scan from there on shows, of one scan more than `most` at the end."""
    return [scan[1][0] for scan in islice(_SCANS.finditer(data, at), most + 1)]


def check_visits(visits: int) -> int:
    """Refuse scans that take many times a photo's work."""
    if visits > MAX_VISITS:
        raise ImageTooLarge(
            f"the scans of this image visit {visits} blocks, more than the limit of {MAX_VISITS}",
            fix="save it again, as a JPEG that is not progressive",
            field="scans",
            value=visits,
            limit=MAX_VISITS,
        )
    return visits


def frame(data: bytes) -> Frame:
    """Return the header as decoders find it, the last where there are several."""
    at, parts, exif, profile, segment = 2, 0, 0, False, b""
    while True:
        start, marker_at = _marker(data, at)
        parts += 1 + marker_at - 1 - at  # fill bytes, and what lies between segments, are read one by one
        price.check_parts(parts, "JPEG", "segments")
        marker, length = data[marker_at], int.from_bytes(data[marker_at + 1 : marker_at + 3], "big")
        body = marker_at + 3
        if marker == _SCAN:
            return _frame(segment, len(data))._replace(scans_at=start, parts=parts, exif=exif, profile=profile)
        if marker in _FRAMES:
            segment = data[marker_at : marker_at + 1 + length]
        elif marker == _EXIF and data.startswith(b"Exif\0\0", body):
            exif += WHOLE_SEGMENT
            price.check_exif(exif, "JPEG")
        elif marker == _PROFILE and data.startswith(b"ICC_PROFILE\0", body):
            profile = True
        at = marker_at + 1 + (0 if marker in _ALONE else length)


def _marker(data: bytes, at: int) -> tuple[int, int]:
    """Return where the next one's last 0xff is, and its code behind it."""
    start = data.find(b"\xff", at)
    code_at = start + 1
    most = at + price.MAX_PARTS + 2
    while data[code_at : code_at + 1] == b"\xff" and code_at < most:
        code_at += 1
    if start < 0 or code_at >= len(data):
        raise price.broken("JPEG", len(data))
    return code_at - 1, code_at


def _frame(segment: bytes, size: int) -> Frame:
    if len(segment) < 12 or segment[8] == 0:
        raise price.broken("JPEG", size)
    if segment[0] not in _READ:
        coding = "arithmetic" if segment[0] in _ARITHMETIC else "lossless or hierarchical"
        raise ImageUnsupported(
            f"a JPEG with {coding} coding is not read here",
            fix="save it again, as a usual JPEG or as a PNG",
            value=coding,
        )
    height, width = int.from_bytes(segment[4:6], "big"), int.from_bytes(segment[6:8], "big")
    sampling = segment[10::3]
    across, down = max(1, *(pair >> 4 for pair in sampling)), max(1, *(pair & 15 for pair in sampling))
    blocks = math.ceil(width / (8 * across)) * math.ceil(height / (8 * down)) * across * down
    return Frame(width, height, segment[8], segment[0] in _SEQUENTIAL, blocks, 0, 0, 0, False)


def _scale(header: Frame, at_least: int) -> int:
    """Return Pillow's choice: the largest of 8, 4 and 2 that leaves both sides long enough."""
    ratio = min(header.width // at_least, header.height // at_least)
    return next((scale for scale in (8, 4, 2) if ratio >= scale), 1)
