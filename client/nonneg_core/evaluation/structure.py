"""What the dimensions of non-negative vectors are like: sparse, uncorrelated, consistent, informative each by itself.

All take raw or normalised vectors (images, D) and normalise the rows themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import DataInvalid
from nonneg_core.shortening import unit

ZERO = 1e-5  # entries of row-normalised vectors below it count as zero
Floats = NDArray[np.float64]


def live_dimensions(z: NDArray[Any]) -> int:
    """How many columns are above zero for any image."""
    return int((z > 0).any(axis=0).sum())


def sparsity(z: NDArray[Any]) -> float:
    """The share of entries of the row-normalised vectors that are below 1e-5."""
    return float((np.abs(unit(z)) < ZERO).mean())


def correlation(z: NDArray[Any]) -> float:
    """The mean absolute cosine between two different columns; dead columns have no direction and are left out."""
    rows = unit(z)
    lengths = np.linalg.norm(rows, axis=0)
    columns = rows[:, lengths > 0] / lengths[lengths > 0]  # (images, live)
    live = columns.shape[1]
    if live < 2:
        return 0.0
    cosines = np.abs(columns.T @ columns)
    return float((cosines.sum(dtype=np.float64) - np.trace(cosines)) / (live * (live - 1)))


@dataclass(frozen=True)
class Consistency:
    """The share of the most frequent class among the images that activate a dimension."""

    weighted: float  # by how many images activate it
    unweighted: float  # flatters rare dimensions: one image is always of one class
    weighted_floor: float  # the same for shuffled labels
    unweighted_floor: float


def consistency(
    z: NDArray[Any], labels: Sequence[Any] | NDArray[Any], *, shuffles: int = 3, seed: int = 0
) -> Consistency:
    """How much each dimension belongs to one class, beside the floor that chance gives."""
    active = (np.asarray(z) > 0).astype(np.float32)  # (images, D)
    _, classes = np.unique(np.asarray(labels), return_inverse=True)
    if len(classes) != len(active):
        raise DataInvalid(f"{len(classes)} labels for {len(active)} vectors", fix="give one label a vector")
    rng = np.random.default_rng(seed)
    weighted, unweighted = _shares(active, classes)
    floors = np.array([_shares(active, rng.permutation(classes)) for _ in range(shuffles)])
    return Consistency(weighted, unweighted, float(floors[:, 0].mean()), float(floors[:, 1].mean()))


def _shares(active: NDArray[np.float32], classes: NDArray[np.int64]) -> tuple[float, float]:
    one_hot = np.eye(classes.max() + 1, dtype=np.float32)[classes]  # (images, classes)
    counts = one_hot.T @ active  # (classes, D)
    most, total = counts.max(axis=0), counts.sum(axis=0)
    live = total > 0
    if not live.any():
        return 0.0, 0.0
    return float(most.sum() / total.sum()), float((most[live] / total[live]).mean())


def separate_information(first: NDArray[Any], second: NDArray[Any], *, temperature: float = 0.2) -> Floats:
    """I(x; z_i | z without i) in nats for every dimension i, by the InfoNCE bound: L(f without i) - L(f).

    Row j of `first` and of `second` are two views of image j; the negatives of an image are the other images' second
    views. Cosine similarity; the vectors are normalised anew without i. SEPIN@k is the mean over the first k.
    """
    u, v = (np.asarray(z, dtype=np.float64) for z in (first, second))  # (n, D) each
    products = u @ v.T  # (n, n)
    u2, v2 = u**2, v**2
    of_u, of_v = u2.sum(axis=1), v2.sum(axis=1)  # (n,): squared lengths
    whole = _info_nce(products, of_u, of_v, temperature)
    lost = np.zeros(u.shape[1])
    for i in np.flatnonzero(u2.any(axis=0) | v2.any(axis=0)):
        without = products - np.outer(u[:, i], v[:, i])
        lost[i] = _info_nce(without, of_u - u2[:, i], of_v - v2[:, i], temperature) - whole
    return lost


def sepin(information: Floats, ks: Sequence[int] = (1, 10, 100)) -> dict[str, float]:
    """SEPIN@k for several k, and for all dimensions: means over the first k in the order of the columns."""
    found = {str(k): float(information[:k].mean()) for k in ks if k <= len(information)}
    return {**found, "all": float(information.mean())}


def _info_nce(products: Floats, first: Floats, second: Floats, temperature: float) -> float:
    """The mean of -log softmax of the pairs, from dot products and squared lengths."""
    # A vector of which nothing is left is as far from all as can be; what rounding leaves of it counts as nothing.
    u, v = (np.where(squares > 1e-12, 1 / np.sqrt(np.maximum(squares, 1e-12)), 0) for squares in (first, second))
    scores = products * u[:, None] * v / temperature  # (n, n), at most 1 / temperature
    return float((np.log(np.exp(scores).sum(axis=1)) - np.diag(scores)).mean())
