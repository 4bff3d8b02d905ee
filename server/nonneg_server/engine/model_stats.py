"""What a model did since it was loaded: plain counts, kept on the event loop, read when metrics are asked for."""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Doubles

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
TOGETHER = 32  # images that are counted in one go
FORGET = 20_000  # images after which half of the activation counts' weight is gone


class Histogram:
    """Counts by bucket, a sum: what a Prometheus histogram needs, at half a microsecond an observation."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def cumulative(self) -> list[tuple[str, float]]:
        """Return Prometheus's form: how many were at most each bound."""
        total, rows = 0, []
        for bound, count in zip((*map(str, map(float, self.bounds)), "+Inf"), self.counts, strict=True):
            total += count
            rows.append((bound, float(total)))
        return rows


class Timed(Protocol):
    """What the counts need of an image."""

    @property
    def vector(self) -> NDArray[Any]: ...  # (D,), raw

    @property
    def queue_seconds(self) -> float: ...

    @property
    def decode_seconds(self) -> float: ...

    @property
    def run_seconds(self) -> float: ...


class ModelStats:
    """One model's counts."""

    def __init__(self, dimensions: int) -> None:
        self.since = time.time()
        self.images = 0
        self.texts = 0  # that a text tower embedded
        self.errors: Counter[str] = Counter()
        self.zero_vectors = 0
        self.queue = Histogram(SECONDS)
        self.decode = Histogram(SECONDS)
        self.run = Histogram(SECONDS)
        self.nnz = Histogram(COUNTS)
        self.request_images = Histogram(COUNTS)
        self.batches = Histogram(COUNTS)  # of images that the device was given at once
        self._active = np.zeros(dimensions)  # how often each dimension was > 0, recent images weighing more
        self._seen = 0.0
        self._fresh: list[Timed] = []

    def record(self, image: Timed) -> None:
        """Note one image's raw vector and its times, counted when there are some, or when metrics are asked for."""
        self._fresh.append(image)
        if len(self._fresh) >= TOGETHER:
            self.flush()

    def flush(self) -> "ModelStats":
        """Count what was noted: for many images numpy's calls cost little more than for one."""
        if not self._fresh:
            return self
        fresh, self._fresh = self._fresh, []
        active = np.stack([image.vector for image in fresh]) > 0  # (images, D)
        self.images += len(fresh)
        for count in np.count_nonzero(active, axis=1).tolist():
            self.nnz.observe(count)
        for image in fresh:
            self.queue.observe(image.queue_seconds)
            self.decode.observe(image.decode_seconds)
            self.run.observe(image.run_seconds)
        self._active += active.sum(axis=0)
        self._seen += len(fresh)
        if self._seen >= 2 * FORGET:
            self._active /= 2
            self._seen /= 2
        return self

    @property
    def weight(self) -> float:
        """The weight of the images that `frequencies` rest on."""
        return self._seen

    def frequencies(self) -> Doubles:
        """Return the share of recent images on which each dimension was active."""
        return self._active / max(self._seen, 1.0)
