"""The monosemanticity score: whether the images that activate a dimension are alike, in the eyes of another encoder."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.shortening import unit

Floats = NDArray[np.float64]


def monosemanticity(z: NDArray[Any], judge: NDArray[Any]) -> Floats:
    """The mean cosine of all pairs of images for each dimension, weighted by both activations: (D,).

    judge: what another encoder, or one-hot labels, make of the same images, (images, width).
    The definition (arXiv 2504.02821) takes all pairs; as sums over single images (arXiv 2602.12403) it is one product:
    (|sum a_i e_i|^2 - sum a_i^2 |e_i|^2) / ((sum a_i)^2 - sum a_i^2). Columns that go below zero are raised to begin at
    zero, as the definition has it. A dimension that is active on fewer than two images has no score: NaN.
    """
    a = np.asarray(z, dtype=np.float64)  # (n, D)
    a = a - np.minimum(a.min(axis=0), 0)
    e = unit(np.asarray(judge, dtype=np.float32)).astype(np.float64)  # (n, width)
    squares = a**2
    together = ((e.T @ a) ** 2).sum(axis=0) - (e**2).sum(axis=1) @ squares  # (D,)
    weights = a.sum(axis=0) ** 2 - squares.sum(axis=0)
    several = (a > 0).sum(axis=0) > 1
    scores: Floats = np.divide(together, weights, out=np.full(a.shape[1], np.nan), where=several)
    return scores


def mean_score(z: NDArray[Any], judge: NDArray[Any]) -> float:
    """The mean over the dimensions that have a score; 0 without any."""
    scores = monosemanticity(z, judge)
    known = scores[~np.isnan(scores)]
    return float(known.mean()) if len(known) else 0.0
