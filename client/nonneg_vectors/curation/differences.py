"""Which dimensions distinguish two collections: effect sizes with intervals, and a bound on false discoveries.

A dimension's expected activation is its mean over the photos, zeros included. Two collections are compared by Welch's
test of these means. The effect is their difference in standard deviations (Cohen's d), and how many times as strong
the dimension is in B as in A. Streams of which only counts are kept are compared by the test of two proportions.
Benjamini and Hochberg's step-up over all dimensions keeps the expected part of false ones among those that are named
at `discoveries` (for independent or positively dependent tests).
"""

import math
from dataclasses import dataclass

import numpy as np

from nonneg_core.arrays import Doubles, Places
from nonneg_core.errors import DataInvalid
from nonneg_vectors.curation.row_blocks import SparseRows, count, summed

LEAST = 10  # photos a side
Z95 = 1.959964


@dataclass(frozen=True)
class Usual:
    """What is usual in a collection: of every dimension its mean, variance and share of photos, (D,) each."""

    photos: int
    mean: Doubles
    variance: Doubles
    share: Doubles


@dataclass(frozen=True)
class Differences:
    """Of every dimension, (D,) each."""

    effect: Doubles  # of B against A, in standard deviations
    low: Doubles  # 95 % interval
    high: Doubles
    times: Doubles  # as strong in B as in A; infinite where A has none, 1 where neither has
    times_low: Doubles  # 95 % interval
    times_high: Doubles
    share_a: Doubles  # of the photos in which it is active
    share_b: Doubles
    p: Doubles
    q: Doubles  # the least bound on false discoveries at which it is named

    def named(self, discoveries: float = 0.05) -> Places:
        """Return the dimensions whose q-value is at most `discoveries`, the largest effect first."""
        dimensions = np.flatnonzero(self.q <= discoveries)
        return dimensions[np.argsort(-np.abs(self.effect[dimensions]), kind="stable")]


def differences(a: SparseRows, b: SparseRows) -> Differences:
    """Compare every dimension of two collections: what B has more or less of than A."""
    for side, rows in (("first", a), ("second", b)):
        if count(rows) < LEAST:
            raise DataInvalid(
                f"the {side} collection has {count(rows)} photos, too few to say what is usual in it",
                fix=f"give at least {LEAST} a side",
                value=count(rows),
                limit=LEAST,
            )
    return compared(usual(a), usual(b))


def usual(rows: SparseRows) -> Usual:
    """Return every dimension's mean, variance and share of photos in a collection of vectors."""
    n = count(rows)
    sums = summed(rows, lambda values: values)
    squares = summed(rows, lambda values: values.astype(np.float64) ** 2)
    mean = sums / n
    variance = np.maximum(squares - n * mean**2, 0) / (n - 1)
    return Usual(n, mean, variance, summed(rows, np.ones_like) / n)


def compared(a: Usual, b: Usual) -> Differences:
    """Compare two collections by the means, variances and shares of their dimensions."""
    error_a, error_b = a.variance / a.photos, b.variance / b.photos  # squared, of the means
    error = np.sqrt(error_a + error_b)
    t = _quotient(b.mean - a.mean, error)
    freedom = _quotient((error_a + error_b) ** 2, error_a**2 / (a.photos - 1) + error_b**2 / (b.photos - 1))
    spread = np.sqrt((a.variance + b.variance) / 2)
    effect, margin = _quotient(b.mean - a.mean, spread), Z95 * _quotient(error, spread)
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where((a.mean == 0) & (b.mean == 0), 1, b.mean / a.mean)
        around = np.exp(Z95 * np.sqrt(error_a / a.mean**2 + error_b / b.mean**2))  # of the logarithm, by its derivative
        low, high = (np.where((a.mean > 0) & (b.mean > 0), x, times) for x in (times / around, times * around))
    p = two_sided(normal_of(t, np.maximum(freedom, 1)))
    return Differences(
        effect, effect - margin, effect + margin, times, low, high, a.share, b.share, p, benjamini_hochberg(p)
    )


def shares_differ(then: Doubles, images_then: float, now: Doubles, images_now: float) -> Doubles:
    """Return the q-values of the shifts between two shares of images in which dimensions are active."""
    pooled = (then * images_then + now * images_now) / (images_then + images_now)
    error = np.sqrt(pooled * (1 - pooled) * (1 / images_then + 1 / images_now))
    return benjamini_hochberg(two_sided(_quotient(now - then, error)))


def in_words(name: str, before: float, now: float, change: str) -> str:
    """Return what differs, by the shares of photos: `snow: 3.1x as often, in 12.4% of the photos instead of 4.0%`.

    change: what is said of a dimension that both have.
    """
    if before == 0:
        return f"{name}: new, in {now:.1%} of the photos"
    if now == 0:
        return f"{name}: gone, before in {before:.1%} of the photos"
    return f"{name}: {change}, in {now:.1%} of the photos instead of {before:.1%}"


def benjamini_hochberg(p: Doubles) -> Doubles:
    """Return the q-values: the least bound on false discoveries at which each hypothesis is rejected."""
    order = np.argsort(p, kind="stable")
    scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
    q = np.empty_like(p)
    q[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1)
    return q


def normal_of(t: Doubles, freedom: Doubles) -> Doubles:
    """Turn Student's t into the normal deviate of nearly the same tail (Wallace 1959)."""
    shrunk = np.sqrt(freedom * np.log1p(t**2 / freedom)) * (8 * freedom + 1) / (8 * freedom + 3)
    return np.asarray(np.sign(t) * shrunk)


def two_sided(z: Doubles) -> Doubles:
    """Return the two-sided p-values of normal deviates."""
    return np.array([math.erfc(abs(x) / math.sqrt(2)) for x in z.tolist()])


def _quotient(a: Doubles, b: Doubles) -> Doubles:
    """Return a / b, and 0 where b is 0: a dimension without any spread tells nothing apart."""
    return np.asarray(np.divide(a, b, out=np.zeros_like(a), where=b > 0))
