"""What an image's bytes are and what decoding them will take: one look at the header, before anything is decoded."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from PIL.TiffImagePlugin import (
    BITSPERSAMPLE,
    IMAGEWIDTH,
    PHOTOMETRIC_INTERPRETATION,
    PLANAR_CONFIGURATION,
    SAMPLEFORMAT,
    ImageFileDirectory_v2,
)

from nonneg_core.errors import ImageTooLarge, ImageUnsupported
from nonneg_core.pixels.pricing import (
    of_gif_bmp_and_heif as of_avif_and_heic,
)
from nonneg_core.pixels.pricing import (
    of_gif_bmp_and_heif as of_bmp,
)
from nonneg_core.pixels.pricing import (
    of_gif_bmp_and_heif as of_gif,
)
from nonneg_core.pixels.pricing import (
    of_jpeg,
    of_tiff,
)
from nonneg_core.pixels.pricing import (
    of_png_and_webp as of_png,
)
from nonneg_core.pixels.pricing import (
    of_png_and_webp as of_webp,
)
from nonneg_core.pixels.pricing.price import MAX_SECONDS, MAX_SIDE, Price, broken

_UNSIGNED, _SIGNED, _FLOAT, _VOID = 1, 2, 3, 4
_FORMATS = {_SIGNED: "signed numbers", _FLOAT: "floating-point numbers", 5: "complex numbers", 6: "complex numbers"}
_WHITE_IS_ZERO, _PLANES = 0, 2


def check_layout(data: bytes) -> None:
    """Refuse a TIFF whose value of white is unknown, or that would be read wrongly; the rest the decoder refuses."""
    tags = _tags(data)
    if tags is not None and (odd := _oddity(tags)) is not None:
        raise unsupported(odd)


def unsupported(what: str) -> ImageUnsupported:
    """Return the error for a TIFF whose numbers have no defined white."""
    return ImageUnsupported(
        f"a TIFF of {what} is not read here", fix="convert it to 8 bits a channel, or send a PNG or JPEG", value=what
    )


def has_header(data: bytes) -> bool:
    """Return whether the bytes hold the header of a picture, readable or not."""
    tags = _tags(data)
    return tags is not None and IMAGEWIDTH in tags


def _oddity(tags: dict[int, Any]) -> str | None:
    formats, bits = _numbers(tags, SAMPLEFORMAT, _UNSIGNED), _numbers(tags, BITSPERSAMPLE, 1)
    known = next((_FORMATS[kind] for kind in formats if kind in _FORMATS), None)
    if known is not None:
        return known
    if max(bits) > 16:
        return f"{max(bits)} bits a channel"
    if max(bits) == 16 and _numbers(tags, PLANAR_CONFIGURATION, 1)[0] == _PLANES and len(bits) > 1:
        return "16 bits a channel in separate planes"
    if max(bits) == 16 and _numbers(tags, PHOTOMETRIC_INTERPRETATION, 1)[0] == _WHITE_IS_ZERO:
        return "16 bits in which zero is white"
    return None


def _tags(data: bytes) -> dict[int, Any] | None:
    """Return the first page's header; None where it is broken."""
    file = io.BytesIO(data)
    try:
        big = data[2:3] == b"+" or data[3:4] == b"+"
        directory = ImageFileDirectory_v2(file.read(16 if big else 8))
        file.seek(directory.next)
        directory.load(file)
        numbers = (IMAGEWIDTH, BITSPERSAMPLE, SAMPLEFORMAT, PLANAR_CONFIGURATION, PHOTOMETRIC_INTERPRETATION)
        return {tag: directory[tag] for tag in numbers if tag in directory}
    except (OSError, ValueError, SyntaxError, LookupError, TypeError, OverflowError, struct.error, Warning):
        return None


def _numbers(tags: dict[int, Any], tag: int, default: int) -> tuple[int, ...]:
    entry = tags.get(tag, default)
    numbers = entry if isinstance(entry, tuple) else (entry,)
    return tuple(number for number in numbers if isinstance(number, int)) or (default,)


MAX_PIXELS = 100_000_000
_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_PRICES: dict[str, Callable[[bytes], Price]] = {
    "PNG": of_png.price_of_png,
    "GIF": of_gif.price_of_gif,
    "BMP": of_bmp.price_of_bmp,
    "WEBP": of_webp.price_of_webp,
    "TIFF": of_tiff.price_of_tiff,
    "AVIF": of_avif_and_heic.price_of_heif,
    "HEIF": of_avif_and_heic.price_of_heif,
}


def identify(data: bytes, *, max_pixels: int = MAX_PIXELS, at_least: int | None = None) -> Price:
    """Read the image's format, size and price; raise a typed error that names the limit which one of them exceeds.

    Nothing is decoded, and no decoder sees the bytes. `at_least` is the side from which a JPEG may be decoded smaller.
    """
    known = signature(data)
    if known is None:
        raise ImageUnsupported(
            f"these {len(data)} bytes are not an image of a known format" if data else "the image is empty (0 bytes)",
            fix="send JPEG, PNG, WebP, AVIF, HEIC, BMP, TIFF or GIF",
            value=len(data),
        )
    if known == "HEIF" and not can_heif():
        raise ImageUnsupported(
            "this is a HEIC, and its decoder is not installed",
            fix="install the extra heic where the image is decoded (nonneg doctor says how), or send a JPEG",
            value=known,
        )
    try:
        price = of_jpeg.price_of_jpeg(data, at_least) if known == "JPEG" else _PRICES[known](data)
    except (LookupError, ValueError, ArithmeticError, struct.error) as error:  # a number that leads out of the file
        raise broken(known, len(data)) from error
    if known == "TIFF":
        check_layout(data)  # reads all that the directory refers to, which is known not to be much
    _check(price, max_pixels)
    return price


def too_many_pixels(width: int, height: int, limit: int) -> ImageTooLarge:
    """Return the error for an image of more pixels than the limit."""
    return ImageTooLarge(
        f"the image has {width} x {height} pixels, more than the limit of {limit} pixels",
        fix=f"send at most {limit} pixels, or raise the limit (max_pixels)",
        field="max_pixels",
        value=width * height,
        limit=limit,
    )


def _check(price: Price, max_pixels: int) -> None:
    if price.pixels > max_pixels:
        raise too_many_pixels(price.width, price.height, max_pixels)
    if max(price.width, price.height) > MAX_SIDE:
        raise ImageTooLarge(
            f"the image has {price.width} x {price.height} pixels, a side longer than the limit of {MAX_SIDE}",
            fix="scale it down",
            field="side",
            value=max(price.width, price.height),
            limit=MAX_SIDE,
        )
    if price.seconds > MAX_SECONDS:
        raise ImageTooLarge(
            f"decoding this {price.format} of {price.width} x {price.height} pixels takes up to "
            f"{price.seconds:.1f} s of a core, more than the limit of {MAX_SECONDS:g} s",
            fix="scale it down, or save it as a JPEG",
            field="seconds",
            value=round(price.seconds, 1),
            limit=MAX_SECONDS,
        )


def signature(data: bytes) -> str | None:
    """Return the format that the first bytes announce."""
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
    """Return whether a HEIC decoder is installed; it is registered with Pillow when one is first needed."""
    for module in ("pi_heif", "pillow_heif"):
        try:
            import_module(module).register_heif_opener()
        except ImportError:
            continue
        return True
    return False


def _brand(data: bytes) -> str | None:
    """Tell AVIF and HEIC apart by their brands: they are one container."""
    brands = data[8 : min(int.from_bytes(data[:4], "big"), 256)]
    if b"avif" in brands or b"avis" in brands:
        return "AVIF"
    return "HEIF" if any(brand in brands for brand in _HEIC_BRANDS) else None
