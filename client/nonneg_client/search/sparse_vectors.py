"""A weighting of dimensions: what a query is, and what a stored vector is to it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

SparseWeights = tuple[NDArray[np.int32], NDArray[np.float32]]  # indices, sorted and unique, and what each is worth


def score(query: SparseWeights, stored: SparseWeights) -> float:
    """Return the inner product."""
    _, i, j = np.intersect1d(query[0], stored[0], assume_unique=True, return_indices=True)
    return float(query[1][i].astype(np.float64) @ stored[1][j])


def ascending(indices: ArrayLike, values: ArrayLike) -> SparseWeights:
    """Return a sparse vector's entries in the order of their indices."""
    i, v = np.asarray(indices, np.int32), np.asarray(values, np.float32)
    if (i[1:] > i[:-1]).all():
        return i, v
    order = np.argsort(i)
    return i[order], v[order]


def largest(query: SparseWeights, cut: int | None) -> SparseWeights:
    """Return its `cut` largest entries, in the order of their indices."""
    if cut is None or cut >= len(query[0]):
        return query
    kept = np.sort(np.argsort(-query[1], kind="stable")[:cut])
    return query[0][kept], query[1][kept]
