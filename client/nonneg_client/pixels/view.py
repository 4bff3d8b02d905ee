"""The evaluation view: from an upright RGB image to the pixels an encoder sees.

One function for training's evaluation, for calibration, for serving and for local use, because two resize
implementations in one system give two different vectors for one photo. Scaling and normalisation of the pixel
values are not here: they live inside the ONNX graph.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field

Pixels = NDArray[np.uint8]

_RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


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
    interpolation: Literal["nearest", "bilinear", "bicubic", "lanczos"] = "bicubic"
    background: tuple[int, int, int] = Field(default=(255, 255, 255), description="what shows through transparency")

    @property
    def ample(self) -> int:
        """A side at which an image has twice the pixels the view takes: nothing is lost by decoding it no larger."""
        return math.ceil(2 * self.size / self.crop)

    def apply(self, image: Image.Image) -> Pixels:
        """The view of one RGB image, uint8 (size, size, 3)."""
        resampling = _RESAMPLING[self.interpolation]
        if self.fit == "contain":
            return _contain(image, self.size, resampling, self.background)
        # Cropping inside resize reads only the pixels that are needed: a third faster than resize, then crop.
        box = _central(image.size, self.crop, square=self.fit == "cover")
        return np.asarray(image.resize((self.size, self.size), resampling, box=box), dtype=np.uint8)


def _central(size: tuple[int, int], share: float, *, square: bool) -> tuple[float, float, float, float]:
    width, height = size
    w, h = (min(size) * share,) * 2 if square else (width * share, height * share)
    return (width - w) / 2, (height - h) / 2, (width + w) / 2, (height + h) / 2


def _contain(image: Image.Image, size: int, resampling: Image.Resampling, background: tuple[int, int, int]) -> Pixels:
    scale = size / max(image.size)
    width, height = (max(1, round(side * scale)) for side in image.size)
    canvas = Image.new("RGB", (size, size), background)
    canvas.paste(image.resize((width, height), resampling), ((size - width) // 2, (size - height) // 2))
    return np.asarray(canvas, dtype=np.uint8)
