"""From a file's bytes to an upright, opaque sRGB image: the one decoder of training, serving and local use.

What the file is, is decided by its content, never by its name. The size is read from the header and checked before
any pixel is decoded, so that a decompression bomb costs nothing. Only the formats named here are tried: a general
opener would hand PostScript to an interpreter.
"""

from __future__ import annotations

import io
import struct
import threading
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from importlib import import_module
from typing import TypeVar

from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from nonneg_core.cores import granted
from nonneg_core.errors import ImageTooLarge, ImageUnreadable, ImageUnsupported
from nonneg_core.pixels.colour import WHITE, Colour, opaque_srgb
from nonneg_core.pixels.jpeg import check_scans
from nonneg_core.pixels.tiff import check_layout, has_header, unsupported

Seen = TypeVar("Seen")
MAX_PIXELS = 100_000_000
MOST_PIXELS = 178_956_970  # Pillow refuses more, whatever the limit
LARGE = 2**24  # pixels from which images are decoded one at a time,
FOR_ONE = 8  # or one for so many cores: each takes up to eight bytes a pixel, and every thread might have one
_room = threading.Semaphore(max(1, granted() // FOR_ONE))
_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_BROKEN = (
    OSError, ValueError, SyntaxError, EOFError, IndexError, KeyError, TypeError, OverflowError, MemoryError,
    RuntimeError, struct.error, Warning,
)  # fmt: skip

# Our own limit stands above the size at which Pillow starts to warn; what it warns of in broken files would fill a
# server's log and, each text being new, the interpreter's memory of warnings shown.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
warnings.filterwarnings("ignore", module=r"PIL\.")


def decode(
    data: bytes, *, max_pixels: int = MAX_PIXELS, background: Colour = WHITE, at_least: int | None = None
) -> Image.Image:
    """The image in `data`: first frame, turned upright by its EXIF, colours in sRGB, transparency over `background`.

    A JPEG can be decoded at a half, a quarter or an eighth of its size, at a fraction of the cost: with `at_least`,
    the smallest of these at which no side is shorter.
    """
    return seen(data, lambda image: image, max_pixels=max_pixels, background=background, at_least=at_least)


def seen(
    data: bytes,
    see: Callable[[Image.Image], Seen],
    *,
    max_pixels: int = MAX_PIXELS,
    background: Colour = WHITE,
    at_least: int | None = None,
) -> Seen:
    """What `see` makes of the decoded image; a large one has its place among those in memory until then."""
    image = identify(data, max_pixels=max_pixels)
    try:
        size = image.width * image.height
        if at_least is not None:
            image.draft(None, (at_least, at_least))  # formats that cannot do it stay as they are
        if not image.info.get("progressive"):  # all coefficients of such a JPEG are held, at whatever scale
            size = image.width * image.height
        with _room if size > LARGE else nullcontext():
            image.load()
            return see(upright_rgb(image, background=background))
    except ImageUnsupported:
        raise
    except _BROKEN as error:
        raise _unreadable(f"a {image.format} of {len(data)} bytes that breaks off or is damaged ({error})") from error


def identify(data: bytes, *, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """The image with only its header read: format and size are known, and the size is within the limit."""
    known = signature(data)
    if known is None:
        raise ImageUnsupported(
            f"these {len(data)} bytes are no image of a known format" if data else "the image is empty (0 bytes)",
            fix="send JPEG, PNG, WebP, AVIF, HEIC, BMP, TIFF or GIF",
            value=len(data),
        )
    if known == "HEIF" and not can_heif():
        raise ImageUnsupported(
            "this is a HEIC and there is no decoder for it",
            fix="install the extra heic where the image is decoded (nonneg doctor says how), or send a JPEG",
            value=known,
        )
    if known == "TIFF":
        check_layout(data)
    if known == "JPEG":
        check_scans(data)
    try:
        image = Image.open(io.BytesIO(data), formats=(known,))
    except UnidentifiedImageError as error:
        if known == "TIFF" and has_header(data):
            raise unsupported("this layout of numbers") from error
        raise _unreadable(f"a {known} of {len(data)} bytes with a broken header") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large(str(error), None, max_pixels) from error
    except _BROKEN as error:
        raise _unreadable(f"a {known} with a broken header ({error})") from error
    pixels = image.width * image.height
    if pixels > max_pixels:
        raise _too_large(f"{image.width} x {image.height} pixels", pixels, max_pixels)
    return image


def upright_rgb(image: Image.Image, *, background: Colour = WHITE) -> Image.Image:
    """Any PIL image as an upright, opaque RGB one in sRGB."""
    return opaque_srgb(upright(image), background)


def signature(data: bytes) -> str | None:
    """The format that the first bytes announce."""
    head = data[:16]
    for name, start in (("JPEG", b"\xff\xd8\xff"), ("PNG", b"\x89PNG\r\n\x1a\n"), ("GIF", b"GIF8"), ("BMP", b"BM")):
        if head.startswith(start):
            return name
    if head.startswith((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")):
        return "TIFF"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WEBP"
    if head[4:8] == b"ftyp":
        return _brand(data)
    return None


@cache
def can_heif() -> bool:
    """Whether a HEIC decoder is installed; it is registered with Pillow when one is first needed."""
    for module in ("pi_heif", "pillow_heif"):
        try:
            import_module(module).register_heif_opener()
        except ImportError:
            continue
        return True
    return False


def _brand(data: bytes) -> str | None:
    """AVIF and HEIC are one container: its brands tell them apart."""
    brands = data[8 : min(int.from_bytes(data[:4], "big"), 256)]
    if b"avif" in brands or b"avis" in brands:
        return "AVIF"
    return "HEIF" if any(brand in brands for brand in _HEIC_BRANDS) else None


def upright(image: Image.Image) -> Image.Image:
    """The image turned as its EXIF says; the image itself where there is nothing to turn."""
    try:
        image.load()
        turned = image.getexif().get(ExifTags.Base.Orientation, 1) != 1
        return ImageOps.exif_transpose(image) if turned else image
    except _BROKEN:
        return image  # EXIF that cannot be read turns nothing


def _unreadable(message: str) -> ImageUnreadable:
    return ImageUnreadable(message, fix="send the whole file; re-save it if other programs cannot open it either")


def _too_large(what: str, pixels: int | None, limit: int) -> ImageTooLarge:
    return ImageTooLarge(
        f"the image has {what}, more than the limit of {limit} pixels",
        fix=f"send at most {limit} pixels, or raise the limit (max_pixels)",
        field="max_pixels",
        value=pixels,
        limit=limit,
    )
