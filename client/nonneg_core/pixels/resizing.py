"""How a view's pixels are made of an image's: with SIMD instructions, or by Pillow where every bit is to be Pillow's.

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
    found = getattr(_own, "resizer", None)
    if found is None:
        from cykooz_resizer import Resizer

        found = _own.resizer = Resizer()
    return found


@lru_cache(maxsize=256)
def _options(interpolation: Interpolation, crop: tuple[float, float, float, float]) -> Any:
    from cykooz_resizer import FilterType, ResizeAlg, ResizeOptions
    from cykooz_resizer.structs import CropBox

    algorithm = ResizeAlg.convolution(FilterType[_SIMD[interpolation]])
    return ResizeOptions(resize_alg=algorithm, use_alpha=False, crop_box=CropBox(*crop))
