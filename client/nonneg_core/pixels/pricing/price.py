"""The price of an image: what decoding it takes at most, known before it is begun.

The rates of the formats' files are bounds for the worst that is accepted, measured by `benchmarks/worst_image.py`.
"""

from typing import NamedTuple

from nonneg_core.errors import ImageTooLarge, ImageUnreadable

MAX_SECONDS = 3.0  # of one core, as fast as the one the rates were measured on
MAX_SIDE = 65_535  # pixels; every row is a block of memory of its own
MAX_PARTS = 10_000  # segments, chunks, blocks of a header, each of which Pillow handles in Python
MAX_EXIF = 2**20  # bytes; cameras write up to 64 kB
PER_PART = 6e-6  # seconds
PER_EXIF_BYTE = 0.4e-6  # seconds: every tag is read in Python
CONVERTED = 25e-9  # seconds a pixel of a picture with a colour profile, be it one of tables
CONVERTED_INKS = 70e-9  # seconds a pixel of one in four inks, with a profile or without
OVERHEAD = 2 * 2**20  # bytes that an image takes, however small it is
PER_ROW = 64  # bytes
PILLOWS_BLOCK = 2**24  # bytes: pictures are kept in such blocks, the last of which is cut when it is full


class Price(NamedTuple):
    """What decoding takes at most: seconds of one core, and bytes of memory beside the file's own."""

    format: str
    width: int
    height: int
    seconds: float
    bytes: int

    @property
    def pixels(self) -> int:
        return self.width * self.height


def resident(width: int, height: int, *, decoding: float, stored: int) -> int:
    """Return the most bytes that a picture takes: decoded, at so many bytes a pixel, or turned and made opaque."""
    bitmap = round(width * height * max(decoding, 2 * stored, stored + 4))
    return OVERHEAD + height * PER_ROW + bitmap + min(bitmap // 4, PILLOWS_BLOCK)


def check_parts(parts: int, kind: str, what: str) -> None:
    """Refuse a file that is cut into pieces without end."""
    if parts > MAX_PARTS:
        raise ImageTooLarge(
            f"this {kind} has more than {MAX_PARTS} {what} in its header",
            fix="save it again without what is not the picture",
            field=what,
            limit=MAX_PARTS,
        )


def check_exif(size: int, kind: str) -> None:
    """Refuse more EXIF than any camera writes."""
    if size > MAX_EXIF:
        raise ImageTooLarge(
            f"this {kind} has {size} bytes of EXIF, more than the limit of {MAX_EXIF}",
            fix="save it again without what is not the picture",
            field="exif",
            value=size,
            limit=MAX_EXIF,
        )


def broken(kind: str, size: int) -> ImageUnreadable:
    """Return the error for a header that breaks off or contradicts itself."""
    return ImageUnreadable(
        f"a {kind} of {size} bytes with a broken header",
        fix="send the whole file; re-save it if other programs cannot open it either",
    )
