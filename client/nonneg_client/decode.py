"""From a file's bytes to an upright, opaque sRGB image: the one decoder of training, serving and local use.

What the file is, is decided by its content, never by its name. The size is read from the header and checked before
any pixel is decoded, so that a decompression bomb costs nothing.
"""

from __future__ import annotations

import io
import warnings

from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError

from nonneg_client.errors import ImageTooLarge, ImageUnreadable, ImageUnsupported

MAX_PIXELS = 100_000_000
Colour = tuple[int, int, int]
WHITE: Colour = (255, 255, 255)

_SRGB = ImageCms.createProfile("sRGB")
_BROKEN = (OSError, ValueError, SyntaxError, EOFError, IndexError, KeyError, OverflowError, MemoryError)


def decode(data: bytes, *, max_pixels: int = MAX_PIXELS, background: Colour = WHITE) -> Image.Image:
    """The image in `data`: first frame, turned upright by its EXIF, colours in sRGB, transparency over `background`."""
    image = identify(data, max_pixels=max_pixels)
    try:
        image.load()
        return upright_rgb(image, background=background)
    except _BROKEN as error:
        raise ImageUnreadable(
            f"a {image.format} of {len(data)} bytes that breaks off or is damaged ({error})",
            fix="send the whole file; re-save it if other programs cannot open it either",
        ) from error


def identify(data: bytes, *, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """The image with only its header read: format and size are known, and the size is within the limit."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data))
    except UnidentifiedImageError as error:
        raise ImageUnsupported(
            f"these {len(data)} bytes are no image of a known format" if data else "the image is empty (0 bytes)",
            fix="send JPEG, PNG, WebP, AVIF, BMP, TIFF or GIF",
            value=len(data),
        ) from error
    except Image.DecompressionBombError as error:
        raise _too_large(str(error), None, max_pixels) from error
    except _BROKEN as error:
        raise ImageUnreadable(f"an image with a broken header ({error})", fix="send the whole file") from error
    pixels = image.width * image.height
    if pixels > max_pixels:
        raise _too_large(f"{image.width} x {image.height} pixels", pixels, max_pixels)
    return image


def upright_rgb(image: Image.Image, *, background: Colour = WHITE) -> Image.Image:
    """Any PIL image as an upright, opaque RGB one in sRGB."""
    profile = image.info.get("icc_profile")
    image = ImageOps.exif_transpose(image)
    if image.mode in ("I;16", "I;16B", "I;16L", "I;16N", "I"):
        image = _sixteen_to_eight(image)
    if profile and image.mode in ("RGB", "RGBA", "CMYK", "L"):
        image = _to_srgb(image, profile)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        canvas = Image.new("RGBA", image.size, (*background, 255))
        image = Image.alpha_composite(canvas, image)
    return image if image.mode == "RGB" else image.convert("RGB")


def _to_srgb(image: Image.Image, profile: bytes) -> Image.Image:
    mode = "RGBA" if image.mode == "RGBA" else "RGB"
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        converted = ImageCms.profileToProfile(image, source, _SRGB, outputMode=mode)
    except (ImageCms.PyCMSError, OSError, ValueError):
        return image  # a broken profile is no reason to refuse a good picture: every viewer ignores it too
    return image if converted is None else converted


def _sixteen_to_eight(image: Image.Image) -> Image.Image:
    """16-bit grey to 8-bit; Pillow's own conversion clips at 255 instead of scaling."""
    import numpy as np

    values = np.asarray(image).astype(np.int64)
    return Image.fromarray((values.clip(0, 65535) >> 8).astype(np.uint8))


def _too_large(what: str, pixels: int | None, limit: int) -> ImageTooLarge:
    return ImageTooLarge(
        f"the image has {what}, more than the limit of {limit} pixels",
        fix=f"send at most {limit} pixels, or raise the limit (max_pixels)",
        field="max_pixels",
        value=pixels,
        limit=limit,
    )
