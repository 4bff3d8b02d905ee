"""Which dimensions tell a class of the classifier: its own column, or those that together follow its logit.

A class without a column of its own gets weights, none below zero, whose sum of columns is nearest to its logit over the
covariance that the head was computed from: no photo is needed, only what the bundle holds and the classifier.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.heads.head import Head
from nonneg_core.heads.spread import Spread

MOST = 256  # dimensions of a class
RIDGE = 0.02  # of the mean variance
STEPS = 300
FINEST = 255  # weights are whole numbers up to this
ClassRow = tuple[list[int], list[int]]  # dimensions, rising, and their weights


def class_rows(head: Head, spread: Spread, classifier: NDArray[Any], own: Mapping[int, int]) -> list[ClassRow]:
    """Return the dimensions of every class and what they are worth; `own`: the column of those that have one."""
    without = [c for c in range(len(classifier)) if c not in own]
    fitted = dict(zip(without, _fitted(head, spread, classifier[without] - classifier.mean(axis=0)).T, strict=True))
    return [([own[c]], [1]) if c in own else _row(fitted[c]) for c in range(len(classifier))]


def _fitted(head: Head, spread: Spread, gradients: NDArray[Any]) -> NDArray[np.float64]:
    """Fit weights of columns, (D, classes): non-negative least squares, of which the strongest are fitted again."""
    logits = gradients * (2 * spread.mean)  # (classes, features): the change with a feature's root
    weight = head.weight.astype(np.float64)
    gram = weight.T @ spread.covariance @ weight  # (D, D)
    gram[np.diag_indices_from(gram)] += RIDGE * np.trace(gram) / len(gram)
    scale = 1 / np.sqrt(np.diag(gram))
    gram = gram * scale[:, None] * scale
    spreads = np.sqrt(np.einsum("cf,fg,cg->c", logits, spread.covariance, logits))
    aim = (weight.T @ spread.covariance @ logits.T) * scale[:, None] / spreads  # (D, classes)
    found = nonnegative(gram, aim)
    weakest = np.argsort(-found, axis=0)[MOST:]
    allowed = np.ones_like(found)
    np.put_along_axis(allowed, weakest, 0, axis=0)
    return nonnegative(gram, aim, allowed) * scale[:, None]


def nonnegative(gram: NDArray[Any], aim: NDArray[Any], allowed: NDArray[Any] | float = 1.0) -> NDArray[np.float64]:
    """Return the b >= 0 that minimise b' gram b - 2 b' aim, a column each; zero where they are not allowed (FISTA)."""
    step = 1 / np.linalg.eigvalsh(gram)[-1]
    x = y = np.zeros_like(aim)
    t = 1.0
    for _ in range(STEPS):
        following = np.maximum(y - step * (gram @ y - aim), 0) * allowed
        after = (1 + np.sqrt(1 + 4 * t * t)) / 2
        y = following + (t - 1) / after * (following - x)
        x, t = following, after
    return np.asarray(x, dtype=np.float64)


def _row(weights: NDArray[np.float64]) -> ClassRow:
    whole = np.rint(weights / weights.max() * FINEST).astype(int)
    dimensions = np.flatnonzero(whole)
    return dimensions.tolist(), whole[dimensions].tolist()
