"""Any picture's colours as opaque 8-bit sRGB: palettes, 16 bit, CMYK, embedded profiles, transparency."""

from __future__ import annotations

import io
from collections import OrderedDict
from hashlib import sha256
from threading import Lock

import numpy as np
from PIL import Image, ImageCms

from nonneg_core.errors import ImageUnsupported
from nonneg_core.pixels.profiles import MAX_PROFILE, can_be_used

Colour = tuple[int, int, int]
WHITE: Colour = (255, 255, 255)
STRIP = 2**20  # pixels
KEPT = 32  # transforms

_SRGB = ImageCms.createProfile("sRGB")
_TRANSFORMS: OrderedDict[tuple[bytes, str], ImageCms.ImageCmsTransform | None] = OrderedDict()
_LOCK = Lock()
_OPAQUE = {"1": "L", "P": "RGB", "YCbCr": "RGB", "HSV": "RGB", "RGBX": "RGB"}


def opaque_srgb(image: Image.Image, background: Colour = WHITE, *, strip: int = STRIP) -> Image.Image:
    """Return an RGB image in sRGB, what is transparent filled with `background`.

    Every pixel by itself: a large image is taken in strips of so many pixels, so that no more than it and its result
    are ever held.
    """
    if image.mode == "RGB" and not image.has_transparency_data and not image.info.get("icc_profile"):
        return image
    rows = max(1, strip // image.width)
    if rows >= image.height:
        return _opaque_srgb(image, background)
    canvas = Image.new("RGB", image.size)
    for top in range(0, image.height, rows):
        part = image.crop((0, top, image.width, min(top + rows, image.height)))
        canvas.paste(_opaque_srgb(part, background), (0, top))
    return canvas


def _opaque_srgb(image: Image.Image, background: Colour) -> Image.Image:
    profile = image.info.get("icc_profile")
    if image.mode == "F":
        raise ImageUnsupported(
            "an image of floating-point numbers is not supported: the value of white is not known",
            fix="convert it to 8 or 16 bits",
            value="F",
        )
    if image.mode.startswith("I"):
        image = _sixteen_to_eight(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
    elif image.mode in _OPAQUE:
        image = image.convert(_OPAQUE[image.mode])
    if profile:
        image = _to_srgb(image, profile)
    if image.mode == "RGBA":
        canvas = Image.new("RGBA", image.size, (*background, 255))
        image = Image.alpha_composite(canvas, image)
    return image if image.mode == "RGB" else image.convert("RGB")


def _sixteen_to_eight(image: Image.Image) -> Image.Image:
    """Turn 16-bit grey into 8-bit; Pillow's own conversion clips at 255 instead of scaling."""
    values = np.asarray(image)  # uint16, or int32
    grey = Image.fromarray((values.clip(0, 65535) >> 8).astype(np.uint8))
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):  # one 16-bit value means "nothing here"
        grey.putalpha(Image.fromarray(np.where(values == transparent, 0, 255).astype(np.uint8)))
    return grey.convert("RGBA") if grey.mode == "LA" else grey


def _to_srgb(image: Image.Image, profile: bytes) -> Image.Image:
    if image.mode not in ("L", "RGB", "RGBA", "CMYK", "LAB"):
        return image
    transform = profile_transform(profile, image.mode)
    if transform is None:
        return image
    converted = ImageCms.applyTransform(image, transform)
    return image if converted is None else converted


def profile_transform(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    """Return the way to sRGB, built once a profile: building takes longer than converting a photo.

    None where the profile is broken or too much work, and a good picture is not refused for it (every viewer ignores
    it too), and where it changes nothing: most photos that carry a profile carry sRGB itself.
    """
    if len(profile) > MAX_PROFILE:
        return None
    key = sha256(profile).digest(), mode
    with _LOCK:
        if key in _TRANSFORMS:
            _TRANSFORMS.move_to_end(key)
            return _TRANSFORMS[key]
    transform = _build(profile, mode)
    with _LOCK:
        _TRANSFORMS[key] = transform
        if len(_TRANSFORMS) > KEPT:
            _TRANSFORMS.popitem(last=False)
    return transform


def _build(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    if not can_be_used(profile):
        return None
    target = "RGBA" if mode == "RGBA" else "RGB"
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        transform = ImageCms.buildTransform(source, _SRGB, mode, target)
        return None if mode in ("RGB", "RGBA") and _changes_nothing(transform, mode) else transform
    except (ImageCms.PyCMSError, OSError, ValueError):
        return None


def _changes_nothing(transform: ImageCms.ImageCmsTransform, mode: str) -> bool:
    """Return whether every colour of a grid stays where it is, to within rounding."""
    steps = np.linspace(0, 255, 17).astype(np.uint8)
    grid = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(17, -1, 3)
    probe = Image.fromarray(grid).convert(mode)
    converted = ImageCms.applyTransform(probe, transform)
    return (
        converted is not None and int(np.abs(np.asarray(probe, np.int16) - np.asarray(converted, np.int16)).max()) <= 1
    )
