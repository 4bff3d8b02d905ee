"""Which images a step gets: a new order each epoch, cut into batches, and each rank's share of each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from nonneg_training.distributed import ProcessGroup
from nonneg_training.seeds import permutation


@lru_cache(maxsize=2)  # this epoch's and, when the next batch is drawn ahead, the next one's
def _order(images: int, seed: int, epoch: int) -> NDArray[np.int64]:
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
