"""The monosemanticity score: whether the images that activate a dimension are alike, in the eyes of another encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.shortening import unit

Doubles = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PairSums:
    """What the score of every dimension is computed from: sums over images, so that images can be taken out again."""

    directions: Doubles  # (width, D): sum of a e
    own: Doubles  # (D,): sum of a^2 |e|^2
    activations: Doubles  # (D,): sum of a
    squares: Doubles  # (D,): sum of a^2
    active: Doubles  # (D,): images

    def __sub__(self, other: PairSums) -> PairSums:
        return PairSums(*(getattr(self, name) - getattr(other, name) for name in self.__dataclass_fields__))

    def scores(self) -> Doubles:
        """Compute (|sum a e|^2 - sum a^2 |e|^2) / ((sum a)^2 - sum a^2); NaN where fewer than two images are active."""
        together = (self.directions**2).sum(axis=0) - self.own
        weights = self.activations**2 - self.squares
        found: Doubles = np.divide(together, weights, out=np.full(len(weights), np.nan), where=self.active > 1)
        return found

    def mean(self) -> float:
        """Return the mean over the dimensions that have a score; 0 without any."""
        scores = self.scores()
        known = scores[~np.isnan(scores)]
        return float(known.mean()) if len(known) else 0.0


def pair_sums(activations: NDArray[Any], judge: NDArray[Any]) -> PairSums:
    """Sum activations >= 0, (images, D), and what the judge makes of the same images, (images, width)."""
    a = np.asarray(activations, dtype=np.float64)
    e = unit(np.asarray(judge, dtype=np.float32)).astype(np.float64)
    squares = a**2
    return PairSums(
        e.T @ a, (e**2).sum(axis=1) @ squares, a.sum(axis=0), squares.sum(axis=0), (a > 0).sum(axis=0).astype(float)
    )


def monosemanticity(z: NDArray[Any], judge: NDArray[Any]) -> Doubles:
    """Return the mean cosine of all pairs of images for each dimension, weighted by both activations: (D,).

    judge: what another encoder, or one-hot labels, make of the same images, (images, width).
    The definition (arXiv 2504.02821) takes all pairs; as sums over single images (arXiv 2602.12403) it is one product.
    Columns that go below zero are raised to begin at zero, as the definition has it. A dimension that is active on
    fewer than two images has no score: NaN.
    """
    return pair_sums(_raised(z), judge).scores()


def mean_score(z: NDArray[Any], judge: NDArray[Any]) -> float:
    """Return the mean over the dimensions that have a score; 0 without any."""
    return pair_sums(_raised(z), judge).mean()


def _raised(z: NDArray[Any]) -> NDArray[Any]:
    z = np.asarray(z)
    return np.asarray(z - np.minimum(z.min(axis=0), 0))
