"""The evaluation view: from an upright RGB image to the pixels an encoder sees.

One function for training's evaluation, for calibration, for serving and for local use, because two resize
implementations in one system give two different vectors for one photo. Scaling and normalisation of the pixel
values are not here: they live inside the ONNX graph.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field

from nonneg_core.pixels.resizing import Box, Interpolation, Pixels, Resize, resize_pillow

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
