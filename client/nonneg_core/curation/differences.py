"""Which dimensions distinguish two collections: effect sizes with intervals, and a bound on false discoveries.

Of a dimension, Cliff's delta is the chance that a photo of B has more of it than one of A, less the chance of the
reverse: 0 where nothing differs, 1 where every photo of B has more. Its test is Wilcoxon's rank sum with ties (most
values are zero), its interval DeLong's (variances of the placements). Of shares, the test is the one of two
proportions. Benjamini and Hochberg's step-up over all dimensions keeps the expected part of false ones among those
that are named at `discoveries` (for independent or positively dependent tests).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nonneg_core.curation.sparse_rows import SparseRows, count
from nonneg_core.errors import DataInvalid

Numbers = NDArray[np.float64]

LEAST = 10  # photos a side
Z95 = 1.959964


@dataclass(frozen=True)
class Differences:
    """Of every dimension, (D,) each."""

    delta: Numbers  # Cliff's, of B against A
    low: Numbers  # 95 % interval
    high: Numbers
    share_a: Numbers  # of the photos in which it is active
    share_b: Numbers
    p: Numbers
    q: Numbers  # the least bound on false discoveries at which it is named

    def named(self, discoveries: float = 0.05) -> NDArray[np.intp]:
        """The dimensions that differ, the largest effect first."""
        found = np.flatnonzero(self.q <= discoveries)
        return found[np.argsort(-np.abs(self.delta[found]), kind="stable")]


def differences(a: SparseRows, b: SparseRows) -> Differences:
    """What B has more or less of than A."""
    n, m = count(a), count(b)
    for side, size in (("first", n), ("second", m)):
        if size < LEAST:
            raise DataInvalid(
                f"the {side} collection has {size} photos, too few to say what is usual in it",
                fix=f"give at least {LEAST} a side",
                value=size,
                limit=LEAST,
            )
    dimensions, of_b, below, equal = _sorted_entries(a, b)
    active_a, active_b = (np.bincount(s.indices, minlength=s.dimensions).astype(float) for s in (a, b))
    zero_a, zero_b = n - active_a, m - active_b  # (D,)

    # Placements of entries above zero: for one of B the part of A below it, ties half; for one of A, B's.
    others = np.where(of_b, zero_a[dimensions] + below[0] + equal[0] / 2, zero_b[dimensions] + below[1] + equal[1] / 2)
    placed = others / np.where(of_b, n, m)
    sums, squares = (_by_side(dimensions, of_b, weights, a.dimensions) for weights in (placed, placed**2))
    of_zero_b, of_zero_a = zero_a / (2 * n), zero_b / (2 * m)  # placements of zeros: half of the others' zeros
    mean_b = (sums[1] + zero_b * of_zero_b) / m  # P(B > A) + P(tie) / 2
    mean_a = (sums[0] + zero_a * of_zero_a) / n
    spread_b = (squares[1] + zero_b * of_zero_b**2) / m - mean_b**2
    spread_a = (squares[0] + zero_a * of_zero_a**2) / n - mean_a**2
    delta = 2 * mean_b - 1
    error = 2 * np.sqrt(np.maximum(spread_b, 0) / (m - 1) + np.maximum(spread_a, 0) / (n - 1))

    ties = _ties(dimensions, equal[0] + equal[1], zero_a + zero_b)
    total = n + m
    null = np.sqrt(np.maximum((total + 1 - ties / (total * (total - 1))) / (3 * n * m), 0))  # of delta, if none differs
    p = _two_sided(np.divide(delta, null, out=np.zeros_like(delta), where=null > 0))
    low, high = np.maximum(delta - Z95 * error, -1), np.minimum(delta + Z95 * error, 1)
    return Differences(delta, low, high, active_a / n, active_b / m, p, benjamini_hochberg(p))


def shares_differ(then: Numbers, images_then: float, now: Numbers, images_now: float) -> tuple[Numbers, Numbers]:
    """Of shares of images in which dimensions were active, then and now: p-values and the q-values of the shift."""
    pooled = (then * images_then + now * images_now) / (images_then + images_now)
    error = np.sqrt(pooled * (1 - pooled) * (1 / images_then + 1 / images_now))
    p = _two_sided(np.divide(now - then, error, out=np.zeros_like(error), where=error > 0))
    return p, benjamini_hochberg(p)


def benjamini_hochberg(p: Numbers) -> Numbers:
    """q-values: the least bound on false discoveries at which each hypothesis is rejected."""
    order = np.argsort(p, kind="stable")
    scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
    q = np.empty_like(p)
    q[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1)
    return q


def times_as_often(share_a: float, share_b: float, a: float, b: float) -> tuple[float, float, float]:
    """The ratio of two shares (of `a` and `b` photos) and its 95 % interval; half a photo is added to each count."""
    in_a, in_b = share_a * a + 0.5, share_b * b + 0.5
    ratio = (in_b / (b + 0.5)) / (in_a / (a + 0.5))
    error = math.sqrt(max(0.0, 1 / in_b - 1 / (b + 0.5) + 1 / in_a - 1 / (a + 0.5)))
    return ratio, ratio * math.exp(-Z95 * error), ratio * math.exp(Z95 * error)


def _sorted_entries(
    a: SparseRows, b: SparseRows
) -> tuple[NDArray[np.int64], NDArray[np.bool_], tuple[Numbers, Numbers], tuple[Numbers, Numbers]]:
    """All entries by dimension and value; how many of A and of B in the dimension are below and equal to each."""
    dimensions = np.concatenate([a.indices, b.indices]).astype(np.int64)
    values = np.concatenate([a.values, b.values])
    of_b = np.arange(len(values)) >= len(a.values)
    keys = (dimensions << 32) | values.view(np.uint32)  # values are above 0: their bits are in their order
    order = np.argsort(keys, kind="stable")
    keys, dimensions, of_b = keys[order], dimensions[order], of_b[order]
    first, last = np.searchsorted(keys, keys, "left"), np.searchsorted(keys, keys, "right")
    begin = np.searchsorted(dimensions, dimensions, "left")
    seen_b = np.concatenate([[0], np.cumsum(of_b)]).astype(float)
    seen_a = np.arange(len(keys) + 1) - seen_b
    below = (seen_a[first] - seen_a[begin], seen_b[first] - seen_b[begin])
    equal = (seen_a[last] - seen_a[first], seen_b[last] - seen_b[first])
    return dimensions, of_b, below, equal


def _by_side(dimensions: NDArray[np.int64], of_b: NDArray[np.bool_], weights: Numbers, size: int) -> list[Numbers]:
    return [np.bincount(dimensions[side], weights[side], minlength=size).astype(float) for side in (~of_b, of_b)]


def _ties(dimensions: NDArray[np.int64], equal: Numbers, zeros: Numbers) -> Numbers:
    """The sum of t^3 - t over the groups of t equal values of each dimension, (D,); an entry brings t^2 - 1 of it."""
    return np.bincount(dimensions, equal**2 - 1, minlength=len(zeros)) + zeros**3 - zeros


def _two_sided(z: Numbers) -> Numbers:
    return np.array([math.erfc(abs(x) / math.sqrt(2)) for x in z.tolist()])
