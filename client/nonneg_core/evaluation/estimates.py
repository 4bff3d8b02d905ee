"""A figure with what its interval is computed from, so that two figures of the same images can be subtracted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nonneg_core.evaluation.uncertainty import Interval, interval, jackknife

Doubles = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimate:
    """A figure of some images, and the same with groups of them left out, or of single classes or pairs."""

    value: float
    parts: Doubles
    left_out: bool  # parts: the figure with each group of images left out; else what it is the mean of

    @classmethod
    def mean_of(cls, parts: Doubles) -> Estimate:
        """Return the mean of a value a class, or a pair."""
        return cls(float(parts.mean()), parts, left_out=False)

    def interval(self) -> Interval:
        """Return where it would lie with other images of the same kind (95 %)."""
        return jackknife(self.value, self.parts) if self.left_out else interval(self.parts)

    def __sub__(self, other: Estimate) -> Estimate:
        return Estimate(self.value - other.value, self.parts - other.parts, self.left_out)
