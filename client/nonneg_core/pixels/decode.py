"""From a file's bytes to an upright, opaque sRGB image: the one decoder of training, serving and local use.

What the file is, is decided by its content, never by its name, and what it will take is read from its header before any
decoder sees it, so that a bomb of any kind costs nothing. Only the format it has is tried: a general opener would hand
PostScript to an interpreter.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from nonneg_core.errors import ImageUnreadable, NonnegError
from nonneg_core.pixels.colour import WHITE, Colour, opaque_srgb
from nonneg_core.pixels.identify import MAX_PIXELS, identify
from nonneg_core.pixels.pricing.price import Price
from nonneg_core.pixels.tiff import has_header, unsupported

Seen = TypeVar("Seen")
MOST_PIXELS = 178_956_970  # Pillow refuses more, whatever the limit
_FRAMED = ("WEBP", "AVIF")

# Our own limit stands above the size at which Pillow starts to warn; what it warns of in broken files would fill a
# server's log and, each text being new, the interpreter's memory of warnings shown.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
warnings.filterwarnings("ignore", module=r"PIL\.")


def decode(
    data: bytes, *, max_pixels: int = MAX_PIXELS, background: Colour = WHITE, at_least: int | None = None
) -> Image.Image:
    """Decode the first frame in `data`: turned upright by its EXIF, colours in sRGB, transparency over `background`.

    A JPEG can be decoded at a half, a quarter or an eighth of its size, at a fraction of the cost: with `at_least`,
    the smallest of these at which no side is shorter.
    """
    return decode_then(data, lambda image: image, max_pixels=max_pixels, background=background, at_least=at_least)


def decode_then(
    data: bytes,
    see: Callable[[Image.Image], Seen],
    *,
    max_pixels: int = MAX_PIXELS,
    background: Colour = WHITE,
    at_least: int | None = None,
    price: Price | None = None,
) -> Seen:
    """Return what `see` makes of the decoded image; its `price` may be known from `identify`, asked for the same."""
    price = price or identify(data, max_pixels=max_pixels, at_least=at_least)
    try:
        image = _loaded(data, price, at_least)
        _turn(image)
        picture = opaque_srgb(image, background)
        del image
    except NonnegError:
        raise
    except Exception as error:  # a decoder fails in many ways on what is damaged: asserts and null pointers among them
        raise _unreadable(f"a {price.format} of {len(data)} bytes that breaks off or is damaged") from error
    return see(picture)


def upright_rgb(image: Image.Image, *, background: Colour = WHITE) -> Image.Image:
    """Return any PIL image as an upright, opaque RGB one in sRGB."""
    return opaque_srgb(upright(image), background)


def upright(image: Image.Image) -> Image.Image:
    """Return the image turned as its EXIF says; the image itself where there is nothing to turn."""
    image.load()
    return ImageOps.exif_transpose(image) if _turned(image) else image


def _loaded(data: bytes, price: Price, at_least: int | None) -> Image.Image:
    """Return the decoded image, as it lies in the file; no more of it is held than is announced."""
    image = _opened(data, price)
    if at_least is not None:
        image.draft(None, (at_least, at_least))  # formats that cannot do it stay as they are
    if price.format in _FRAMED:
        return _first_frame(image)
    image.load()
    return image


def _opened(data: bytes, price: Price) -> Image.Image:
    try:
        image = Image.open(io.BytesIO(data), formats=(price.format,))
    except UnidentifiedImageError as error:
        if price.format == "TIFF" and has_header(data):
            raise unsupported("this layout of numbers") from error
        raise _unreadable(f"a {price.format} of {len(data)} bytes with a broken header") from error
    if image.width * image.height > price.pixels:
        raise _unreadable(f"a {price.format} of {len(data)} bytes whose header contradicts itself")
    return image


def _first_frame(image: Any) -> Image.Image:
    """Copy a WebP's or AVIF's picture, after its decoder, which holds two or three more of them, is let go."""
    decoder, image._decoder = image._decoder, None
    frame = decoder.get_next() if image.format == "WEBP" else decoder.get_frame(0)
    if frame is None:
        raise EOFError("no frame")
    del decoder
    rawmode = image.rawmode if image.format == "WEBP" else image.mode
    picture = Image.frombytes(image.mode, image.size, frame[0], "raw", rawmode)
    picture.info = image.info
    return picture


def _turn(image: Image.Image) -> None:
    """Turn it as its EXIF says, in its own place: two of a large one are not held for longer than it takes."""
    if _turned(image):
        ImageOps.exif_transpose(image, in_place=True)


def _turned(image: Image.Image) -> bool:
    try:
        return bool(image.getexif().get(ExifTags.Base.Orientation, 1) != 1)
    except Exception:
        return False  # EXIF that cannot be read turns nothing


def _unreadable(message: str) -> ImageUnreadable:
    return ImageUnreadable(message, fix="send the whole file; re-save it if other programs cannot open it either")
