"""A smaller copy of a photo, upright, without anything beside its pixels: made by the threads that encode."""

from __future__ import annotations

import io

from PIL import Image

from nonneg_core.pixels.pricing.price import Price
from nonneg_core.pixels.view import View
from nonneg_runtime.preprocess import Preprocessor, Seen
from nonneg_server.engine.image_work import done_by_worker
from nonneg_server.engine.workers import Workers

THUMBNAIL, LARGE = 320, 1280  # pixels of the longer side


class SmallerCopies:
    """What makes them within the limits of one server."""

    def __init__(self, workers: Workers, *, max_pixels: int) -> None:
        self._workers = workers
        self._max_pixels = max_pixels

    async def make(self, photo: bytes, side: int, *, deadline: float | None = None) -> bytes:
        """Return a photo within so many pixels a side, as a JPEG; it waits in the queue for its turn."""

        def made(price: Price) -> bytes:
            view = _view(min(side, max(price.width, price.height)))  # never enlarged
            return _jpeg(view, self._preprocessor(view).seen(photo, price))

        return await done_by_worker(self._workers, self._preprocessor(_view(side)), photo, made, deadline=deadline)

    def _preprocessor(self, view: View) -> Preprocessor:
        return Preprocessor(view, max_pixels=self._max_pixels, apart=True)


def _view(side: int) -> View:
    return View(size=side, fit="contain", interpolation="lanczos")


def _jpeg(view: View, seen: Seen) -> bytes:
    left, top, width, height = view.place_of(seen.size)
    buffer = io.BytesIO()
    Image.fromarray(seen.pixels[top : top + height, left : left + width]).save(buffer, "JPEG", quality=82)
    return buffer.getvalue()
