"""Splits photos into those for fitting and for testing, and chooses the pairs that edited pictures are made of."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nonneg_core.evaluation.probe import halves

ENOUGH = 4  # photos of a class: two teach, two are asked
Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Teaching:
    """Photos by which dimensions are chosen, and others on which they are asked, with their classes from 0."""

    teach: Numbers
    of_teach: Numbers
    ask: Numbers
    of_ask: Numbers

    @property
    def classes(self) -> int:
        """How many classes have photos enough."""
        return int(self.of_teach.max(initial=-1)) + 1

    @property
    def possible(self) -> bool:
        """Whether there are two classes to tell from each other."""
        return self.classes > 1

    def shuffled(self, seed: int) -> Teaching:
        """Return the same photos, those that teach under labels that mean nothing."""
        return replace(self, of_teach=np.random.default_rng(seed).permutation(self.of_teach))


@dataclass(frozen=True, eq=False)
class PastedPairs:
    """Photos that are pasted into photos of another class; of every pair the photos and their classes."""

    donor: Numbers
    host: Numbers
    shown: Numbers  # the donor's class
    beside: Numbers  # the host's

    @property
    def possible(self) -> bool:
        """Whether there is any."""
        return len(self.donor) > 0


def teaching(classes: Numbers) -> Teaching:
    """Split the photos of every class that has enough: one half teaches, the other is asked."""
    enough = np.flatnonzero(np.bincount(classes) >= ENOUGH)
    place = np.full(classes.max() + 1, -1)
    place[enough] = np.arange(len(enough))
    kept = np.flatnonzero(place[classes] >= 0)
    if not len(kept):
        nothing = np.zeros(0, dtype=np.int64)
        return Teaching(nothing, nothing, nothing, nothing)
    teach, ask = (kept[half] for half in halves(classes[kept].tolist()))
    return Teaching(teach, place[classes[teach]], ask, place[classes[ask]])


def pairs(by: Teaching, count: int, *, seed: int = 0) -> PastedPairs:
    """Pair photos that are asked, every class in turn, each with one of another class; none of fewer than three."""
    nothing = np.zeros(0, dtype=np.int64)
    if by.classes < 3 or not count:
        return PastedPairs(nothing, nothing, nothing, nothing)
    rng = np.random.default_rng(seed)
    turns = np.concatenate([rng.permutation(by.classes) for _ in range(-(-count // by.classes))])[:count]
    donors = np.array([rng.choice(np.flatnonzero(by.of_ask == c)) for c in turns])
    hosts = np.array([rng.choice(np.flatnonzero(by.of_ask != c)) for c in turns])
    return PastedPairs(by.ask[donors], by.ask[hosts], by.of_ask[donors], by.of_ask[hosts])
