"""The evaluation view: from an upright RGB image to the pixels an encoder sees, resized with SIMD or by Pillow.

SIMD instructions take a quarter of Pillow's time. Most of their pixels are Pillow's, nearly all others are one level
away: sums are rounded elsewhere, and what lies outside the crop has no part in its outermost columns. Where an image is
enlarged these would be many, and it is small: that is left to Pillow.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field

Pixels = NDArray[np.uint8]
Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos"]
Box = tuple[float, float, float, float]  # left, top, right, bottom
Resize = Callable[[Image.Image, tuple[int, int], Interpolation, Box], Pixels]

MOST = 2**22  # pixels; larger images are not copied for it
_PILLOW = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
_SIMD = {"bilinear": "bilinear", "bicubic": "catmull_rom", "lanczos": "lanczos3"}
_own = threading.local()  # a resizer keeps its buffers, and is one thread's


def resize_pillow(image: Image.Image, size: tuple[int, int], interpolation: Interpolation, box: Box) -> Pixels:
    """Return what lies in the box of an RGB image, as uint8 (height, width, 3), by Pillow."""
    # Cropping inside resize reads only the pixels that are needed: a third faster than resize, then crop.
    return np.asarray(image.resize(size, _PILLOW[interpolation], box=box), dtype=np.uint8)


def has_simd() -> bool:
    """Return whether the resizer with SIMD instructions is installed: there are builds for x86-64, and for macOS."""
    return find_spec("cykooz_resizer") is not None


def fast_resize(most: int = MOST) -> Resize:
    """Return the default: nearly as `resize_pillow`, with SIMD instructions; Pillow itself where they are not built.

    Images of more than `most` pixels are Pillow's: the other needs a copy of them.
    """
    return _simd_resize(most) if has_simd() else resize_pillow


def _simd_resize(most: int) -> Resize:
    import cykooz_resizer

    def resized(image: Image.Image, size: tuple[int, int], interpolation: Interpolation, box: Box) -> Pixels:
        width, height = box[2] - box[0], box[3] - box[1]
        enlarged = width < size[0] or height < size[1]
        if interpolation not in _SIMD or enlarged or image.width * image.height > most:
            return resize_pillow(image, size, interpolation, box)
        left, top, right, bottom = math.floor(box[0]), math.floor(box[1]), math.ceil(box[2]), math.ceil(box[3])
        if (left, top, right, bottom) != (0, 0, *image.size):
            image = image.crop((left, top, right, bottom))
        rgb = cykooz_resizer.PixelType.U8x3
        # As bytes: Pillow's own memory could be read without this copy, but its layout is not guaranteed.
        source = cykooz_resizer.ImageData(*image.size, rgb, image.tobytes())
        target = cykooz_resizer.ImageData(*size, rgb)
        options = _options(interpolation, (box[0] - left, box[1] - top, width, height))
        _resizer().resize(source, target, options)
        return np.frombuffer(target.get_buffer(), np.uint8).reshape(size[1], size[0], 3)

    return resized


def _resizer() -> Any:
    """Return this thread's own."""
    instance = getattr(_own, "resizer", None)
    if instance is None:
        from cykooz_resizer import Resizer

        instance = _own.resizer = Resizer()
    return instance


@lru_cache(maxsize=256)
def _options(interpolation: Interpolation, crop: tuple[float, float, float, float]) -> Any:
    from cykooz_resizer import FilterType, ResizeAlg, ResizeOptions
    from cykooz_resizer.structs import CropBox

    algorithm = ResizeAlg.convolution(FilterType[_SIMD[interpolation]])
    return ResizeOptions(resize_alg=algorithm, use_alpha=False, crop_box=CropBox(*crop))


# One function for training's evaluation, for calibration, for serving and for local use, because two resize
# implementations in one system give two different vectors for one photo. Scaling and normalisation of the pixel
# values are not here: they live inside the ONNX graph.

__all__ = ["Pixels", "View"]


class View(BaseModel):
    """How an image becomes `size` x `size` pixels; stored in the manifest, repeated by the server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int = Field(ge=1, le=4096, description="height and width of the encoder's input")
    fit: Literal["cover", "squash", "contain"] = Field(
        default="cover",
        description="cover: the central square, the rest cut away; squash: the whole image, aspect ratio lost; "
        "contain: the whole image, padded with the background",
    )
    crop: float = Field(
        default=1.0, gt=0, le=1, description="share of the short side that the square covers; 224 of 256 is 0.875"
    )
    interpolation: Interpolation = "bicubic"
    background: tuple[int, int, int] = Field(default=(255, 255, 255), description="what shows through transparency")

    @property
    def decode_side(self) -> int:
        """A side at which an image has twice the pixels the view takes: nothing is lost by decoding it no larger."""
        return math.ceil(2 * self.size / self.crop)

    def apply(self, image: Image.Image, resize: Resize = resize_pillow) -> Pixels:
        """Return the view of one RGB image, uint8 (size, size, 3)."""
        if self.fit == "contain":
            return self._contain(image, resize)
        box = _central(image.size, self.crop, square=self.fit == "cover")
        return resize(image, (self.size, self.size), self.interpolation, box)

    def seen_of(self, size: tuple[int, int]) -> tuple[float, float, float, float]:
        """Return what of a picture of this size the pixels show: left, top, width, height as shares of its sides.

        With `contain` that is more than the picture.
        """
        width, height = size
        if self.fit == "contain":
            side = max(size)
            return (width - side) / 2 / width, (height - side) / 2 / height, side / width, side / height
        left, top, right, bottom = _central(size, self.crop, square=self.fit == "cover")
        return left / width, top / height, (right - left) / width, (bottom - top) / height

    def place_of(self, size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Return where a picture of this size lies in the pixels with `contain`: left, top, width, height."""
        scale = self.size / max(size)
        width, height = (max(1, round(side * scale)) for side in size)
        return (self.size - width) // 2, (self.size - height) // 2, width, height

    def _contain(self, image: Image.Image, resize: Resize) -> Pixels:
        left, top, width, height = self.place_of(image.size)
        canvas = np.full((self.size, self.size, 3), self.background, np.uint8)
        whole = (0, 0, *image.size)
        canvas[top : top + height, left : left + width] = resize(image, (width, height), self.interpolation, whole)
        return canvas


def _central(size: tuple[int, int], share: float, *, square: bool) -> Box:
    width, height = size
    w, h = (min(size) * share,) * 2 if square else (width * share, height * share)
    return (width - w) / 2, (height - h) / 2, (width + w) / 2, (height + h) / 2
