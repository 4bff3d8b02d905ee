"""Ways to choose k of D dimensions: the bundle's own order, chance, variance, and PCA as the dense yardstick.

A choice is an order of the columns, of which the first k are kept; PCA turns the vectors and does not choose columns:
its vectors are dense and signed, so it shows what sparse, non-negative prefixes are up against.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.shortening import Vectors, unit

Order = NDArray[np.int64]


def as_emitted(dimensions: int) -> Order:
    """Return the columns as the encoder emits them: by expected activation, or by what the bundle was ranked by."""
    return np.arange(dimensions)


def by_chance(dimensions: int, seed: int) -> Order:
    """Return a random order, the same for the same seed."""
    return np.random.default_rng(seed).permutation(dimensions)


def falling(values: NDArray[Any] | tuple[float, ...]) -> Order:
    """Return the columns with the largest value first (a variance, a frequency); among equals the lower index."""
    return np.argsort(-np.asarray(values, dtype=np.float64), kind="stable")


def choose(z: NDArray[Any], order: Order, k: int) -> Vectors:
    """Return the first k columns of an order."""
    return np.ascontiguousarray(np.asarray(z, dtype=np.float32)[:, order[:k]])


@dataclass(frozen=True, eq=False)
class PCA:
    """Principal components of the row-normalised vectors of other images."""

    mean: Vectors  # (D,)
    components: Vectors  # (D, r), largest variance first

    def apply(self, z: NDArray[Any], k: int) -> Vectors:
        """Return the first k components of each vector."""
        return np.asarray((unit(np.asarray(z, dtype=np.float32)) - self.mean) @ self.components[:, :k], np.float32)


def fit_pca(z: NDArray[Any]) -> PCA:
    """Return the principal components of `z` (images, D), by its covariance."""
    rows: NDArray[Any] = unit(np.asarray(z, dtype=np.float32))
    mean = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    centred = rows - mean
    vectors: NDArray[Any] = np.linalg.eigh(centred.T @ centred)[1]  # (D, D), smallest variance first
    return PCA(mean, np.ascontiguousarray(vectors[:, ::-1]))
