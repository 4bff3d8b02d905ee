"""What an image's bytes are and what decoding them will take: one look at the header, before anything is decoded."""

import struct
from functools import cache
from importlib import import_module

from nonneg_core.errors import ImageTooLarge, ImageUnsupported
from nonneg_core.pixels.pricing import of_jpeg, of_other_formats, of_png_and_webp
from nonneg_core.pixels.pricing.price import MAX_SECONDS, MAX_SIDE, Price, broken

MAX_PIXELS = 100_000_000
_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")


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
        price = _price(data, known, at_least)
    except (LookupError, ValueError, ArithmeticError, struct.error) as error:  # a number that leads out of the file
        raise broken(known, len(data)) from error
    _check(price, max_pixels)
    return price


def _price(data: bytes, known: str, at_least: int | None) -> Price:
    if known == "JPEG":
        return of_jpeg.price_of_jpeg(data, at_least)
    if known == "PNG":
        return of_png_and_webp.price_of_png(data)
    if known == "WEBP":
        return of_png_and_webp.price_of_webp(data)
    return of_other_formats.price_of(data, known)


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
