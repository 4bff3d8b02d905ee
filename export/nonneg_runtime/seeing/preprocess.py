"""From a photo, as a file's bytes or as pixels, to what the encoder sees of it.

Calibration, export, evaluation, local use and the server all come through here, so that they see the same pixels.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

from PIL import Image

from nonneg_core.pixels.decode import decode_then, upright_rgb
from nonneg_core.pixels.decoder_process import Order, belongs_apart, decoded_apart
from nonneg_core.pixels.identify import MAX_PIXELS, identify
from nonneg_core.pixels.pricing.price import Price
from nonneg_core.pixels.view import Pixels, View, fast_resize, resize_pillow

PhotoInput = bytes | Image.Image
Inspect = Callable[[Image.Image], object]
Decoding = Literal["fast", "exact"]
PER_RAW_PIXEL = 20e-9  # seconds


class Seen(NamedTuple):
    """What an encoder sees of a picture, and the size that the picture was decoded to, upright."""

    pixels: Pixels  # uint8 (size, size, 3)
    size: tuple[int, int]  # width, height


class Preprocessor:
    """One model's view of photos.

    `fast` decodes a large JPEG at the least scale that keeps twice the pixels the view takes, and resizes with SIMD
    instructions where there is a build of them. `exact` decodes it whole and resizes by Pillow, equal in every bit.
    Images whose headers do not bound them are seen in a process of their own.
    """

    def __init__(self, view: View, *, max_pixels: int = MAX_PIXELS, decode: Decoding = "fast") -> None:
        self._view = view
        self._max_pixels = max_pixels
        self._at_least = None if decode == "exact" else view.decode_side
        self._see = partial(view.apply, resize=resize_pillow if decode == "exact" else fast_resize())
        self._order = Order(view.background, self._at_least, view.model_dump(), exact=decode == "exact")

    def price(self, image: PhotoInput) -> Price:
        """Return what its pixels will take, from a look at its header; a typed error where that is over a limit."""
        if isinstance(image, bytes):
            return identify(image, max_pixels=self._max_pixels, at_least=self._at_least)
        pixels = image.width * image.height
        return Price("RAW", image.width, image.height, pixels * PER_RAW_PIXEL, pixels * 8)

    def timed(self, image: PhotoInput, price: Price | None = None) -> tuple[Pixels, float, float]:
        """Return the pixels (size, size, 3), when the work began and when it was done."""
        started = time.perf_counter()
        pixels = self.pixels(image, price)
        return pixels, started, time.perf_counter()

    def pixels(self, image: PhotoInput, price: Price | None = None, *, inspect: Inspect | None = None) -> Pixels:
        """Return what the encoder sees, uint8 (size, size, 3).

        price: what the method of that name found. inspect: shown the decoded image first.
        """
        return self.view_with_size(image, price, inspect=inspect).pixels

    def view_with_size(self, image: PhotoInput, price: Price | None = None, *, inspect: Inspect | None = None) -> Seen:
        """Return the same with the picture's size; without `inspect` a process of its own hands over no more."""

        def see(picture: Image.Image) -> Seen:
            if inspect is not None:
                inspect(picture)
            return Seen(self._see(picture), picture.size)

        background = self._view.background
        if not isinstance(image, bytes):
            return see(upright_rgb(image, background=background))
        price = price or self.price(image)
        if inspect is None and belongs_apart(price):
            return Seen(*decoded_apart(image, price, self._order))
        return decode_then(image, see, background=background, at_least=self._at_least, price=price)


def weight_of(image: PhotoInput) -> int:
    """Return bytes that it holds while it waits."""
    return len(image) if isinstance(image, bytes) else image.width * image.height * 4
