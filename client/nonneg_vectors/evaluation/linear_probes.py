"""Linear probes: how well a ridge regression on the vectors, or the k best dimensions of a class, name the labels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Doubles, Flags, Numbers, Places
from nonneg_core.errors import DataInvalid
from nonneg_core.shortening import unit

PENALTY = 1.0


def probe(
    train: NDArray[Any],
    train_labels: Sequence[Any] | NDArray[Any],
    test: NDArray[Any],
    test_labels: Sequence[Any] | NDArray[Any],
    *,
    penalty: float = PENALTY,
) -> float:
    """Measure on `test` a ridge regression from unit vectors to one-hot labels of `train`, with intercept."""
    if len(train) != len(train_labels) or len(test) != len(test_labels):
        raise DataInvalid("labels are not as many as vectors", fix="give one label a vector")
    if not len(train) or not len(test):
        raise DataInvalid("a probe needs vectors to learn from and others to test on", fix="give more images")
    names, codes = np.unique(np.asarray(train_labels), return_inverse=True)
    x = unit(np.asarray(train, dtype=np.float32)).astype(np.float64)  # (n, D)
    y = np.eye(len(names))[codes]  # (n, C)
    centre = x.mean(axis=0)
    gram = (x - centre).T @ (x - centre)
    gram[np.diag_indices_from(gram)] += penalty
    weights = np.linalg.solve(gram, (x - centre).T @ (y - y.mean(axis=0)))  # (D, C)
    scores = (unit(np.asarray(test, dtype=np.float32)) - centre) @ weights + y.mean(axis=0)
    return float((names[scores.argmax(axis=1)] == np.asarray(test_labels)).mean())


def halves(labels: Sequence[Any], *, seed: int = 0) -> tuple[Places, Places]:
    """Return two halves with every label in both, as far as it has two images."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    sorted_by_label = order[np.argsort(np.asarray(labels)[order], kind="stable")]
    return np.sort(sorted_by_label[::2]), np.sort(sorted_by_label[1::2])


# k-sparse probing: how well a class is found by the k dimensions that tell it best from all others.
#
# The dimensions are chosen on some images, and asked on others; a class's score is the average precision of its
# images among all. arXiv 2605.18229 found it the most reliable of the figures that are in use.

CLASS_PENALTY = 1.0


def telling_columns(z: NDArray[Any], classes: Numbers, k: int) -> Numbers:
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
    of_teach: Numbers,
    ask: NDArray[Any],
    of_ask: Numbers,
    columns: Numbers,
) -> Doubles:
    """Return the average precision of each class on the images that are asked, by its own columns: (classes,)."""
    return np.array(
        [
            area_under_precision(_scores(teach[:, own], of_teach == c, ask[:, own]), of_ask == c)
            for c, own in enumerate(columns)
        ]
    )


def area_under_precision(scores: NDArray[Any], relevant: Flags) -> float:
    """Return the area under precision by recall; images with equal scores come at once, so that ties gain nothing."""
    order = np.argsort(-scores, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))  # the last place of each score
    hits = np.cumsum(relevant[order])[ends]
    gained = np.diff(hits, prepend=0) / max(int(relevant.sum()), 1)
    return float((gained * hits / (ends + 1)).sum())


def _scores(x: NDArray[Any], inside: Flags, queries: NDArray[Any]) -> Doubles:
    """Return one column as it is; of several their weighted sum, by a ridge regression."""
    if x.shape[1] == 1:
        return np.asarray(queries[:, 0], dtype=np.float64)
    x, queries = np.asarray(x, dtype=np.float64), np.asarray(queries, dtype=np.float64)
    centre, spread = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-12)
    x = (x - centre) / spread
    gram = x.T @ x + CLASS_PENALTY * np.eye(x.shape[1])
    return np.asarray((queries - centre) / spread @ np.linalg.solve(gram, x.T @ (inside - inside.mean())))
