"""Does it grow? The median of the slopes between any two measurements, and how sure that is.

Theil and Sen's estimate (Sen 1968, doi:10.1080/01621459.1968.10480934): single peaks hardly move it, nor does a step
that stays; steady growth moves every slope.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import median
from typing import NamedTuple

SURE = 1.96  # standard deviations: 95 %


class Trend(NamedTuple):
    """Growth from one measurement to the next."""

    slope: float
    least: float
    most: float


def trend(values: Sequence[float]) -> Trend:
    """Return the trend of equally spaced measurements; the bounds hold the true slope in 95 of 100 cases."""
    slopes = sorted((b - a) / (j - i) for (i, a), (j, b) in combinations(enumerate(values), 2))
    if not slopes:
        return Trend(0.0, -math.inf, math.inf)
    n, many = len(values), len(slopes)
    half = SURE * math.sqrt(n * (n - 1) * (2 * n + 5) / 18) / 2  # ranks: half of what lies between the bounds
    low, high = round(many / 2 - half), round(many / 2 + half)
    return Trend(
        median(slopes),
        slopes[low] if low >= 0 else -math.inf,
        slopes[high] if high < many else math.inf,
    )
