"""Which images a step gets, by draws that depend only on seed and step, and their fetching one step ahead."""

import hashlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Generic, Self, TypeVar

import numpy as np
import torch

from nonneg_core.arrays import Numbers
from nonneg_training.setup.process_group import ProcessGroup


def derive(seed: int, *where: int | str) -> int:
    """Return a 63-bit seed for one place of one run, the same on every machine."""
    text = "/".join(map(str, (seed, *where)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(seed: int, *where: int | str) -> torch.Generator:
    """Return torch's generator for that place."""
    return torch.Generator().manual_seed(derive(seed, *where))


def permutation(n: int, seed: int, *where: int | str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return 0..n-1 in the order of that place."""
    return np.random.default_rng(derive(seed, *where)).permutation(n)


# Which images a step gets: a new order each epoch, cut into batches, and each rank's share of each.


@lru_cache(maxsize=2)  # this epoch's and, when the next batch is drawn ahead, the next one's
def _order(images: int, seed: int, epoch: int) -> Numbers:
    return permutation(images, seed, "order", epoch)


@dataclass(frozen=True)
class BatchPlan:
    """Where in the run a batch stands, and the images it gets where images can be chosen."""

    epoch: int
    before: int  # images this rank has had of this epoch
    indices: list[int]


@dataclass(frozen=True)
class Steps:
    """The plan of a run: everything about step number `s` follows from `s`."""

    images: int
    batch: int  # of all ranks together
    accumulate: int
    epochs: int
    seed: int
    world: ProcessGroup
    steps: int = 0  # of the run; 0: as many as the epochs have

    @property
    def per_epoch(self) -> int:
        """Images that do not fill a last step are left out, others each epoch."""
        return self.images // (self.batch * self.accumulate)

    @property
    def total(self) -> int:
        return self.steps or self.per_epoch * self.epochs

    @property
    def warning(self) -> str:
        """What an epoch of a single step means for its images."""
        step = self.batch * self.accumulate
        left = f", and leaves {self.images - step:,} of {self.images:,} images out" if step < self.images else ""
        return f"an epoch is one step of {step:,} images{left}: {self.total} steps in all; a smaller --batch has more"

    def place(self, number: int) -> BatchPlan:
        """Return what batch `number` of the run is made of."""
        step, part = divmod(number, self.accumulate)
        before = (step % self.per_epoch) * self.accumulate + part
        return BatchPlan(step // self.per_epoch, before * (self.batch // self.world.size), self.indices(step, part))

    def indices(self, step: int, part: int = 0) -> list[int]:
        """Return this rank's images of the step's batch number `part` < accumulate."""
        epoch, place = divmod(step, self.per_epoch)
        share = self.batch // self.world.size
        start = (place * self.accumulate + part) * self.batch + self.world.rank * share
        order = _order(self.images, self.seed, epoch)
        return [int(i) for i in order[start : start + share]]


# The next batch is fetched while this one is learnt from; it depends on its number only, so nothing gets mixed up.

PrefetchedBatch = TypeVar("PrefetchedBatch")
FinishedBatch = TypeVar("FinishedBatch")


class Prefetcher(Generic[PrefetchedBatch, FinishedBatch]):
    """`take(i)` answers finish(fetch(i)), and has fetch(i + 1) begun in the background while i + 1 < end."""

    def __init__(
        self, fetch: Callable[[int], PrefetchedBatch], finish: Callable[[PrefetchedBatch], FinishedBatch], end: int
    ) -> None:
        self._fetch, self._finish, self._end = fetch, finish, end
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._next: tuple[int, Future[PrefetchedBatch]] | None = None

    def __enter__(self) -> Self:
        return self

    def take(self, i: int) -> FinishedBatch:
        """Return batch number i, or the error it raised."""
        begun = self._next
        fetched = begun[1].result() if begun and begun[0] == i else self._fetch(i)
        self._next = (i + 1, self._pool.submit(self._fetch, i + 1)) if i + 1 < self._end else None
        return self._finish(fetched)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
