"""A linear probe: how well a ridge regression on the vectors names the labels, solved exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def halves(labels: Sequence[Any], *, seed: int = 0) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return two halves with every label in both, as far as it has two images."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    sorted_by_label = order[np.argsort(np.asarray(labels)[order], kind="stable")]
    return np.sort(sorted_by_label[::2]), np.sort(sorted_by_label[1::2])
