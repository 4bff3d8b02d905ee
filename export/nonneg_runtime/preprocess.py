"""From a photo, as a file's bytes or as pixels, to what the encoder sees of it.

Calibration, export, evaluation, local use and the server all come through here, so that they see the same pixels.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Literal

from PIL import Image

from nonneg_core.pixels.decode import seen, upright_rgb
from nonneg_core.pixels.identify import MAX_PIXELS
from nonneg_core.pixels.resizing import fast_resize, resize_pillow
from nonneg_core.pixels.view import Pixels, View

Photo = bytes | Image.Image
Decoding = Literal["fast", "exact"]


class Viewer:
    """One model's view of photos.

    `fast` decodes a large JPEG at the least scale that keeps twice the pixels the view takes, and resizes with SIMD
    instructions where there is a build of them; `exact` decodes it whole and resizes by Pillow, equal in every bit.
    """

    def __init__(self, view: View, *, max_pixels: int = MAX_PIXELS, decode: Decoding = "fast") -> None:
        self._view = view
        self._max_pixels = max_pixels
        self._at_least = None if decode == "exact" else view.ample
        self._see = partial(view.apply, resize=resize_pillow if decode == "exact" else fast_resize())

    def timed(self, image: Photo) -> tuple[Pixels, float, float]:
        """The pixels (size, size, 3), when the work began and when it was done."""
        started = time.perf_counter()
        pixels = self.pixels(image)
        return pixels, started, time.perf_counter()

    def pixels(self, image: Photo) -> Pixels:
        """What the encoder sees, uint8 (size, size, 3)."""
        view = self._view
        if isinstance(image, bytes):
            return seen(
                image,
                self._see,
                max_pixels=self._max_pixels,
                background=view.background,
                at_least=self._at_least,
            )
        return self._see(upright_rgb(image, background=view.background))


def weight_of(image: Photo) -> int:
    """Bytes that it holds while it waits."""
    return len(image) if isinstance(image, bytes) else image.width * image.height * 4
