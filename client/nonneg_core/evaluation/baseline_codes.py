"""What the figures of structure are held against: codes that mean nothing, as sparse as those that are measured."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.evaluation.structure import sparsity

Codes = NDArray[np.float32]


def rotation(dimensions: int, seed: int = 0) -> Codes:
    """Return a random rotation, uniformly distributed: (dimensions, dimensions)."""
    normal = np.random.default_rng(seed).normal(size=(dimensions, dimensions))
    q, r = np.linalg.qr(normal)
    return np.asarray(q * np.sign(np.diag(r)), dtype=np.float32)


def sparsity_to_keep(z: NDArray[Any]) -> float | None:
    """Return how sparse the floors of these codes have to be; None of signed codes, whose floors are signed as well."""
    return None if (np.asarray(z) < 0).any() else sparsity(z)


def as_sparse(z: NDArray[Any], share: float | None) -> Codes:
    """Return what lies above a threshold, less the threshold, so that `share` of it is zero; None: as it is."""
    z = np.asarray(z, dtype=np.float32)
    if share is None:
        return z
    cut: Codes = np.maximum(z - np.float32(np.quantile(z, min(share, 1.0))), 0)
    return cut


def rotated(z: NDArray[Any], other: NDArray[Any] | None = None, *, seed: int = 0) -> tuple[Codes, Codes | None]:
    """Turn the codes by one random rotation and cut them to the sparsity they had: all that is lost is the axes.

    other: a second view of some of the images, turned and cut in the same way.
    """
    z = np.asarray(z, dtype=np.float32)
    q, share = rotation(z.shape[1], seed), sparsity_to_keep(z)
    turned = z @ q
    if other is None:
        return as_sparse(turned, share), None
    both = as_sparse(np.concatenate([turned, np.asarray(other, dtype=np.float32) @ q]), share)
    return both[: len(z)], both[len(z) :]
