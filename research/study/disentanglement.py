"""How far single dimensions stand for single factors or classes: the mutual information gap, and classes matched."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Doubles, Numbers
from nonneg_core.errors import DataInvalid

BINS = 20


def information_gap(z: NDArray[Any], factors: NDArray[Any], *, bins: int = BINS) -> Doubles:
    """Return what each factor's best dimension knows of it and the second best does not, as a share of its entropy.

    z (n, D) is cut into `bins` equal steps between each column's extremes; factors (n, F) are numbers of classes.
    arXiv 1802.04942.
    """
    if len(z) != len(factors):
        raise DataInvalid(f"{len(factors)} rows of factors for {len(z)} vectors", fix="give one row a vector")
    steps = [_steps(column, bins) for column in np.asarray(z, dtype=np.float64).T]
    gaps = []
    for factor in np.asarray(factors).T:
        _, classes = np.unique(factor, return_inverse=True)
        known = sorted((mutual_information(column, classes) for column in steps), reverse=True)
        gaps.append((known[0] - known[1]) / max(entropy(np.bincount(classes)), 1e-12))
    return np.array(gaps)


def matched_classes(z: NDArray[Any], labels: NDArray[Any]) -> float:
    """Return how well each class has one dimension of its own: precision, mean over classes, of the best matching.

    A class of n images claims the n images on which its dimension is largest: one share for precision and recall, and
    no threshold, so that signed vectors can be compared. 1: a permutation of the classes.
    """
    from scipy.optimize import linear_sum_assignment

    order = np.argsort(-np.asarray(z), axis=0, kind="stable")  # (n, D)
    table = []
    for name in np.unique(labels):
        own = np.asarray(labels) == name
        table.append(own[order[: own.sum()]].mean(axis=0))  # (D,)
    shares = np.array(table)  # (classes, D)
    return float(shares[linear_sum_assignment(shares, maximize=True)].mean())


def mutual_information(a: Numbers, b: Numbers) -> float:
    """Compute that of two columns of class numbers, in nats."""
    joint = np.bincount(a * (int(b.max()) + 1) + b, minlength=(int(a.max()) + 1) * (int(b.max()) + 1))
    table = joint.reshape(int(a.max()) + 1, -1)
    return entropy(table.sum(axis=1)) + entropy(table.sum(axis=0)) - entropy(joint)


def entropy(counts: Numbers) -> float:
    """Compute it in nats."""
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def _steps(column: Doubles, bins: int) -> Numbers:
    low, high = column.min(), column.max()
    if high <= low:
        return np.zeros(len(column), dtype=np.int64)
    steps: Numbers = np.minimum(((column - low) / (high - low) * bins).astype(np.int64), bins - 1)
    return steps
