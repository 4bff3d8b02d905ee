"""Batches for GPUs: whatever queued up during the last run is the next batch, never a sleep.

On CPUs this gains nothing and costs latency; it is there for devices that are idle unless they get many images at once.
"""

import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np

from nonneg_core.arrays import Floats
from nonneg_core.pixels.view import Pixels
from nonneg_server.engine.workers import WorkerPool, not_available

Run = Callable[[Pixels], Floats]


class Batcher:
    """One thread that owns the device; `submit` adds an image to the batch that forms while it is busy."""

    def __init__(self, run: Run, *, largest: int, observe: Callable[[int], None] | None = None) -> None:
        self.largest = largest
        self._run = run
        self._observe = observe
        self._forming: deque[tuple[Pixels, Future[Floats]]] = deque()
        self._lock = threading.Lock()
        self._thread = WorkerPool(1)
        weakref.finalize(self, self._thread.close, 0)  # of a model that was replaced: nothing else closes it

    def submit(self, pixels: Pixels) -> Future[Floats]:
        """Return the vector to be of one image, uint8 (size, size, 3)."""
        future: Future[Floats] = Future()
        with self._lock:
            self._forming.append((pixels, future))
        self._thread.submit(self._run_forming)  # finds nothing to do if an earlier call took this image along
        return future

    def failure_reason(self) -> str | None:
        return self._thread.failure_reason()

    def close(self, timeout: float | None = None) -> None:
        self._thread.close(timeout)
        for _, future in self._take(len(self._forming)):
            future.set_exception(not_available("the server is shutting down"))

    def _run_forming(self) -> None:
        batch = self._take(self.largest)
        if not batch:
            return
        try:
            vectors = self._run(_stacked([pixels for pixels, _ in batch]))  # (batch, D)
        except BaseException as error:
            for _, future in batch:
                future.set_exception(error if isinstance(error, Exception) else not_available("the device thread died"))
            if not isinstance(error, Exception):
                raise
            return
        if self._observe is not None:
            self._observe(len(batch))
        for vector, (_, future) in zip(vectors, batch, strict=True):
            future.set_result(vector)

    def _take(self, most: int) -> list[tuple[Pixels, Future[Floats]]]:
        with self._lock:
            taken = [self._forming.popleft() for _ in range(min(most, len(self._forming)))]
        return [(pixels, future) for pixels, future in taken if future.set_running_or_notify_cancel()]


def _stacked(images: list[Any]) -> Pixels:
    return np.stack(images)  # (batch, size, size, 3)
