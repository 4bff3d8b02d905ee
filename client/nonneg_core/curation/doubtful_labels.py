"""Labels that the other photos contradict: what a linear classifier says of each photo that has not learnt from it.

Ridge regression from unit vectors to one-hot labels, with intercept. Without photo i its prediction for i would be

    (y_hat_i - h_i y_i) / (1 - h_i),     h_i = 1 / n + (x_i - mean)' (G + penalty I)^-1 (x_i - mean),

which costs one inverse for all photos (the hat matrix; leaving out one photo, solved exactly).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.curation.sparse_rows import Floats, Places, SparseRows, column_means, count, dense
from nonneg_core.errors import DataInvalid

SHRINKING = 0.4  # of the penalty: so many photos of an average label
DOUBTFUL = 0.12  # the margin from which a label is doubted
BLOCK = 2048
LEAST = 5  # photos of a label: fewer say nothing of it


@dataclass(frozen=True)
class Doubts:
    """What the others say of each photo's label: `margin` is how far another label is above its own."""

    names: tuple[Any, ...]  # the labels, sorted
    own: Places  # (n,) each photo's label, a place in `names`
    other: Places  # (n,) the label that the others say
    margin: Floats  # (n,) above 0: another label fits better

    def photos(self, least: float = DOUBTFUL) -> Places:
        """Return the photos whose margin is above `least`, the most doubtful first."""
        found = np.flatnonzero(self.margin > least)
        return found[np.argsort(-self.margin[found], kind="stable")]


def doubts(rows: SparseRows, labels: Sequence[Any]) -> Doubts:
    """Return every photo's best other label and its margin, which is -inf where a label has fewer than five photos."""
    names, own, sizes = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise DataInvalid(f"all photos have the label {names[0]}" if len(names) else "there are no labels",
                          fix="give photos of at least two labels")  # fmt: skip
    mean, penalty = column_means(rows), SHRINKING * count(rows) / len(names)
    inverse = np.linalg.inv(_gram(rows, mean) + penalty * np.eye(rows.dimensions))
    weights = inverse @ _toward(rows, mean, own, len(names))  # (D, C)
    shares = sizes / count(rows)
    margin, other = np.zeros(count(rows), np.float32), np.zeros(count(rows), np.intp)
    for start in range(0, count(rows), BLOCK):
        x = dense(rows, start, start + BLOCK).astype(np.float64) - mean
        span = slice(start, start + len(x))
        leverage = 1 / count(rows) + np.einsum("ij,ij->i", x @ inverse, x)
        scores = x @ weights + shares  # (rows, C)
        scores[np.arange(len(x)), own[span]] -= leverage
        scores /= np.maximum(1 - leverage, 1e-9)[:, None]
        mine = scores[np.arange(len(x)), own[span]].copy()
        scores[np.arange(len(x)), own[span]] = -np.inf
        other[span], margin[span] = scores.argmax(axis=1), scores.max(axis=1) - mine
    margin[sizes[own] < LEAST] = -np.inf
    return Doubts(tuple(names.tolist()), own, other, margin)


def _gram(rows: SparseRows, mean: Floats) -> NDArray[np.float64]:
    """Return the scatter matrix of the centred rows, (D, D)."""
    total = np.zeros((rows.dimensions, rows.dimensions), np.float64)
    for start in range(0, count(rows), BLOCK):
        x = dense(rows, start, start + BLOCK) - mean
        total += x.T @ x
    return total


def _toward(rows: SparseRows, mean: Floats, own: Places, labels: int) -> NDArray[np.float64]:
    """Return the sums of the centred rows of each label, (D, C): X'Y."""
    sums = np.zeros((labels, rows.dimensions))
    for start in range(0, count(rows), BLOCK):
        sums += np.eye(labels)[:, own[start : start + BLOCK]] @ (dense(rows, start, start + BLOCK) - mean)
    return sums.T
