"""What an analytic head is computed from: mean and covariance of many feature rows, kept small enough to travel."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Doubles, Numbers, Rows
from nonneg_core.errors import DataInvalid

CHUNK = 4096


@dataclass(frozen=True, eq=False)
class Spread:
    """Mean and covariance of `count` rows."""

    mean: Doubles  # (features,)
    covariance: Doubles  # (features, features)
    count: int

    def blended(self, other: "Spread", mean: float, covariance: float) -> "Spread":
        """Return this one with a share of the other's mean and of its covariance."""
        return Spread(
            (1 - mean) * self.mean + mean * other.mean,
            (1 - covariance) * self.covariance + covariance * other.covariance,
            other.count if mean or covariance else self.count,
        )

    def packed(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a file: the covariance as its diagonal and the float16 correlations above it."""
        deviation = np.sqrt(np.diag(self.covariance))
        correlation = self.covariance / np.maximum(np.outer(deviation, deviation), np.finfo(np.float64).tiny)
        return {
            "spread.mean": self.mean.astype(np.float32),
            "spread.deviation": deviation.astype(np.float32),
            "spread.correlation": correlation[np.triu_indices(len(self.mean), 1)].astype(np.float16),
            "spread.count": np.array([self.count], dtype=np.int64),
        }


def isotropic(like: Spread) -> Spread:
    """Return the spread with the same mean and the same variance in every direction."""
    features = len(like.mean)
    return Spread(like.mean, np.eye(features) * (np.trace(like.covariance) / features), like.count)


def unpacked(arrays: dict[str, NDArray[Any]]) -> Spread:
    """Return what `Spread.packed` wrote."""
    mean = arrays["spread.mean"].astype(np.float64)
    deviation = arrays["spread.deviation"].astype(np.float64)
    correlation = np.eye(len(mean))
    above = np.triu_indices(len(mean), 1)
    correlation[above] = arrays["spread.correlation"]
    correlation.T[above] = correlation[above]
    return Spread(mean, correlation * np.outer(deviation, deviation), int(arrays["spread.count"][0]))


def spread(rows: Rows) -> Spread:
    """Return mean and covariance, in float64 and in pieces that fit in memory."""
    return streamed(lambda: pieces(rows))


def pieces(rows: Rows) -> Iterator[Rows]:
    """Return the rows in pieces that fit in memory."""
    return (rows[i : i + CHUNK] for i in range(0, len(rows), CHUNK))


def streamed(read: Callable[[], Iterable[Rows]]) -> Spread:
    """Return mean and covariance of rows that are read twice, piece by piece."""
    count, total = 0, np.zeros(())
    for x in read():
        count, total = count + len(x), total + x.sum(axis=0, dtype=np.float64)
    if count < 2:
        raise DataInvalid(
            f"{count} images are too few for a covariance", fix="give at least 2, better 1,000", value=count, limit=2
        )
    mean = total / count
    return Spread(mean, _products(x - mean for x in read()) / (count - 1), count)


def within_classes(read: Callable[[], Iterable[tuple[Rows, Numbers]]], classes: int) -> Spread | None:
    """Measure how rows differ from their class's mean; `read` gives rows and their classes, below 0 for none.

    None where no class has two rows.
    """
    counts = np.zeros(classes, dtype=np.int64)
    totals: Doubles | None = None
    for x, which in read():
        known = which >= 0
        counts += np.bincount(which[known], minlength=classes)
        if totals is None:
            totals = np.zeros((classes, x.shape[1]))
        np.add.at(totals, which[known], x[known])
    if totals is None or counts.max(initial=0) < 2:
        return None
    means = totals / np.maximum(counts, 1)[:, None]
    free = int(np.maximum(counts - 1, 0).sum())
    products = _products(x[which >= 0] - means[which[which >= 0]] for x, which in read())
    return Spread(totals.sum(axis=0) / counts.sum(), products / free, int(counts.sum()))


def _products(centred: Iterable[NDArray[Any]]) -> Doubles:
    """Return the sum of x' x over the pieces."""
    total: Doubles = sum(
        (x.T @ x for x in (each.astype(np.float64, copy=False) for each in centred)), start=np.zeros(())
    )
    return total
