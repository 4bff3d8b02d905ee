"""k-sparse probing: how well a class is found by the k dimensions that tell it best from all others.

The dimensions are chosen on some images, and asked on others; a class's score is the average precision of its images
among all. arXiv 2605.18229 found it the most reliable of the figures that are in use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
ColumnNumbers = NDArray[np.int64]
PENALTY = 1.0


def telling_columns(z: NDArray[Any], classes: NDArray[np.int64], k: int) -> ColumnNumbers:
    """Find the k columns that tell each class from the rest by the difference of their means, in units of their spread.

    z: (images, D); the result is (classes, k), strongest first.
    """
    z = np.asarray(z, dtype=np.float64)
    one_hot = np.eye(classes.max() + 1)[classes]  # (images, classes)
    counts = one_hot.sum(axis=0)[:, None]
    sums = one_hot.T @ z  # (classes, D)
    inside, outside = sums / counts, (z.sum(axis=0) - sums) / np.maximum(len(z) - counts, 1)
    spread = z.std(axis=0)
    gain = np.divide(inside - outside, spread, out=np.zeros_like(sums), where=spread > 0)
    return np.argsort(-gain, axis=1, kind="stable")[:, :k]


def probe_sparsely(
    teach: NDArray[Any],
    of_teach: NDArray[np.int64],
    ask: NDArray[Any],
    of_ask: NDArray[np.int64],
    columns: ColumnNumbers,
) -> Doubles:
    """Return the average precision of each class on the images that are asked, by its own columns: (classes,)."""
    return np.array(
        [
            area_under_precision(_scores(teach[:, own], of_teach == c, ask[:, own]), of_ask == c)
            for c, own in enumerate(columns)
        ]
    )


def area_under_precision(scores: NDArray[Any], relevant: NDArray[np.bool_]) -> float:
    """Return the area under precision by recall; images with equal scores come at once, so that ties gain nothing."""
    order = np.argsort(-scores, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))  # the last place of each score
    hits = np.cumsum(relevant[order])[ends]
    gained = np.diff(hits, prepend=0) / max(int(relevant.sum()), 1)
    return float((gained * hits / (ends + 1)).sum())


def _scores(x: NDArray[Any], inside: NDArray[np.bool_], asked: NDArray[Any]) -> Doubles:
    """Return one column as it is; of several their weighted sum, by a ridge regression."""
    if x.shape[1] == 1:
        return np.asarray(asked[:, 0], dtype=np.float64)
    x, asked = np.asarray(x, dtype=np.float64), np.asarray(asked, dtype=np.float64)
    centre, spread = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-12)
    x = (x - centre) / spread
    gram = x.T @ x + PENALTY * np.eye(x.shape[1])
    return np.asarray((asked - centre) / spread @ np.linalg.solve(gram, x.T @ (inside - inside.mean())))
