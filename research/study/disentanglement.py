"""How far single dimensions stand for single factors: the mutual information gap."""

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
