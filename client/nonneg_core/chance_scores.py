"""What a random photo shares with a query: the score below which a hit may be chance.

A score is a sum over dimensions, weight times value. With ordinary photos its mean is the sum of weight times each
dimension's mean over them. Its spread follows from the dimensions' variances, taken as independent; since a vector's
length is one, what it has along the mean of all photos cannot vary, and does not count (the derivative of a cosine).
The line lies some deviations above that mean, the fewer the more of a vector's length all photos have in common. So a
query of frequent dimensions, which many photos share by chance, has a higher line than a query of rare ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from nonneg_core.expressions.resolve import SparseRow
from nonneg_core.shortening import Vectors, shorten

DEVIATIONS = 7.5  # benchmarks/matches.py says what this loses and lets through
HIGHEST = 0.99  # of all lines: a copy is a match at any length
DRAWN = 256  # vectors that say what `top_k` leaves
Doubles = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Chance:
    """Mean and variance of every dimension over ordinary photos, whose vectors have length one."""

    mean: Doubles  # (k,)
    variance: Doubles  # (k,)

    def line(self, parts: Sequence[SparseRow]) -> float:
        """Return the score that few random photos reach with a query of these parts.

        Of several parts the worst counts: what is rare for one of them is rare for all, so the lowest line holds.
        """
        return min(self._of(indices, values) for indices, values in parts)

    def _of(self, indices: NDArray[np.int32], values: Vectors) -> float:
        weights = np.zeros(len(self.mean))
        weights[indices] = values
        usual = float(weights @ self.mean)
        weights -= usual * self.mean
        own = max(0.0, 1 - float(self.mean @ self.mean))  # of the squared length, what photos have not in common
        spread = float(np.sqrt(own * (weights**2 @ self.variance)))
        return min(HIGHEST, usual + DEVIATIONS * spread)


@dataclass(frozen=True, eq=False)
class ColumnStatistics:
    """What a manifest says of every column, over photos whose vectors have length one."""

    mean: Doubles  # (D,)
    variance: Doubles  # (D,)
    frequency: Doubles  # (D,): the share of photos in which it is above zero

    def at(self, dimensions: int, top_k: int | None = None) -> Chance:
        """Return the same of vectors that are shortened so, and have length one again."""
        mean, variance = self.mean[:dimensions], self.variance[:dimensions]
        left = float((mean**2 + variance).sum()) or 1.0  # of the squared length, on average
        found = Chance(mean / left**0.5, variance / left)
        if top_k is None or top_k >= dimensions:
            return found
        whole, cut = (shorten(self._drawn, dimensions, m).astype(np.float64) for m in (None, top_k))
        change = [_ratio((cut**n).mean(axis=0), (whole**n).mean(axis=0)) for n in (1, 2)]
        return Chance(found.mean * change[0], found.variance * change[1])

    @cached_property
    def _drawn(self) -> Vectors:
        """Vectors whose columns are active as often and as strong, each drawn from a gamma distribution by itself."""
        often = np.maximum(self.frequency, 1e-9)
        active = np.maximum(self.mean / often, 1e-9)
        spread = np.maximum((self.variance + self.mean**2) / often - active**2, 1e-4 * active**2)
        rng = np.random.default_rng(0)
        z = rng.gamma(active**2 / spread, spread / active, (DRAWN, len(often)))
        return np.where(rng.random(z.shape) < self.frequency, z, 0).astype(np.float32)


def _ratio(after: Doubles, before: Doubles) -> Doubles:
    return np.divide(after, before, out=np.ones_like(after), where=before > 0)
