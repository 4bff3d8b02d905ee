"""What an analytic head is computed from: mean and covariance of many feature rows, kept small enough to travel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import DataInvalid

Floats = NDArray[np.float64]
Rows = NDArray[np.float32]
CHUNK = 4096


@dataclass(frozen=True, eq=False)
class Spread:
    """Mean and covariance of `count` rows."""

    mean: Floats  # (features,)
    covariance: Floats  # (features, features)
    count: int

    def blended(self, other: Spread, mean: float, covariance: float) -> Spread:
        """This one with a share of the other's mean and of its covariance."""
        return Spread(
            (1 - mean) * self.mean + mean * other.mean,
            (1 - covariance) * self.covariance + covariance * other.covariance,
            other.count if mean or covariance else self.count,
        )

    def packed(self) -> dict[str, NDArray[Any]]:
        """The arrays of a file: the covariance as its diagonal and the float16 correlations above it."""
        deviation = np.sqrt(np.diag(self.covariance))
        correlation = self.covariance / np.maximum(np.outer(deviation, deviation), np.finfo(np.float64).tiny)
        return {
            "spread.mean": self.mean.astype(np.float32),
            "spread.deviation": deviation.astype(np.float32),
            "spread.correlation": correlation[np.triu_indices(len(self.mean), 1)].astype(np.float16),
            "spread.count": np.array([self.count], dtype=np.int64),
        }


def unpacked(arrays: dict[str, NDArray[Any]]) -> Spread:
    """What `Spread.packed` wrote."""
    mean = arrays["spread.mean"].astype(np.float64)
    deviation = arrays["spread.deviation"].astype(np.float64)
    correlation = np.eye(len(mean))
    above = np.triu_indices(len(mean), 1)
    correlation[above] = arrays["spread.correlation"]
    correlation.T[above] = correlation[above]
    return Spread(mean, correlation * np.outer(deviation, deviation), int(arrays["spread.count"][0]))


def spread(rows: Rows) -> Spread:
    """Mean and covariance, in float64 and in pieces that fit in memory."""
    if len(rows) < 2:
        raise DataInvalid(
            f"{len(rows)} images have no covariance", fix="give at least two, better a thousand", value=len(rows)
        )
    mean = rows.mean(axis=0, dtype=np.float64)
    products = sum((x.T @ x for x in _centred(rows, mean)), start=np.zeros((len(mean), len(mean))))
    return Spread(mean, products / (len(rows) - 1), len(rows))


def _centred(rows: Rows, mean: Floats) -> Iterable[Floats]:
    return (rows[i : i + CHUNK] - mean for i in range(0, len(rows), CHUNK))
