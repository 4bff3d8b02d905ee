"""Which requests are admitted: bounds on images, bytes and work in flight, and how long the others should wait.

All of it is called from the event loop, so that nothing here needs a lock.
"""

from __future__ import annotations

import math

from nonneg_core.errors import Overloaded

SMOOTHING = 0.1  # weight of the newest service time in the moving average
FIRST_GUESS = 0.02  # seconds an image takes, before any was measured
MAX_WORK = 60.0  # seconds of a core, the price of all large images in flight, which are decoded one by one


class Admission:
    """Counts what is in flight and refuses what is too much; it knows the rate at which work is done."""

    def __init__(self, *, max_images: int, max_bytes: int, workers: int) -> None:
        self.max_images = max_images
        self.max_bytes = max_bytes
        self.images = 0
        self.bytes = 0
        self.work = 0.0
        self.entered = 0  # images that were let in so far
        self.refused = 0
        self._workers = workers
        self._seconds: float | None = None  # an image's mean service time by one worker

    def enter(self, images: int, size: int, work: float = 0.0) -> None:
        """Take places for a whole request, or raise Overloaded. An empty server takes any one request.

        `work` is the price of its large images, of which others may have taken all there is: small ones still come in.
        """
        if not self._fits(images, size):
            if self.images + images > self.max_images:
                raise self._refused("images", images, self.images, self.max_images)
            raise self._refused("bytes", size, self.bytes, self.max_bytes)
        if work and self.work and self.work + work > MAX_WORK:
            raise self._refused("seconds", math.ceil(work), math.ceil(self.work), round(MAX_WORK))
        self.images += images
        self.bytes += size
        self.work += work
        self.entered += images

    def leave(self, images: int, size: int, work: float = 0.0) -> None:
        """Give the places back."""
        self.images -= images
        self.bytes -= size
        self.work = self.work - work if self.images else 0.0

    def served(self, seconds: float) -> None:
        """Take note that one image took this long, from leaving the queue to its vector."""
        known = self._seconds
        self._seconds = seconds if known is None else known + SMOOTHING * (seconds - known)

    @property
    def rate(self) -> float:
        """Images a second when every worker is busy."""
        return self._workers / max(self._seconds or FIRST_GUESS, 1e-6)

    @property
    def backlog_seconds(self) -> float:
        """How long all that is in flight will take."""
        return self.images / self.rate

    @property
    def full(self) -> bool:
        """Whether not even one image more is let in."""
        return not self._fits(1, 1)

    def refusal(self) -> Overloaded:
        """Return the error of a request that comes while it is full."""
        if self.images >= self.max_images:
            return self._overloaded("images", 1, self.images, self.max_images)
        return self._overloaded("bytes", 1, self.bytes, self.max_bytes)

    def _fits(self, images: int, size: int) -> bool:
        return not self.images or (self.images + images <= self.max_images and self.bytes + size <= self.max_bytes)

    def _refused(self, field: str, value: int, held: int, limit: int) -> Overloaded:
        self.refused += 1
        return self._overloaded(field, value, held, limit)

    def _overloaded(self, field: str, value: int, held: int, limit: int) -> Overloaded:
        wait = max(self.backlog_seconds, 1 / self.rate)
        return Overloaded(
            f"the queue is full: {held} {field} in flight, {value} more would exceed {limit}",
            fix=f"try again in {math.ceil(wait * 1000)} ms, with fewer requests at once",
            field=f"queue_{field}",
            value=value,
            limit=limit,
            retry_after=wait,
        )
