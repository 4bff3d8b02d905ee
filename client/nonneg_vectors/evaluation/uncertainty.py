"""How sure a figure is: bootstrap intervals, paired tests on the same queries, the jackknife, figures with parts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Doubles, Numbers
from nonneg_core.errors import DataInvalid

DRAWS = 2000
FLIPS = 10_000
BLOCK = 2**22  # numbers drawn at a time
GROUPS = 20  # of images, for the jackknife
STUDENT = 2.093  # 97.5 % quantile of Student's t with GROUPS - 1 degrees of freedom


@dataclass(frozen=True)
class Interval:
    """A mean and where it would lie with other queries of the same kind."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """What B has more than A, query by query."""

    mean: float
    low: float
    high: float
    p: float  # how often signs drawn by chance give a mean at least as far from zero


def interval(
    values: NDArray[Any], *, level: float = 0.95, draws: int = DRAWS, seed: int = 0, block: int = BLOCK
) -> Interval:
    """Return the percentile bootstrap of a mean, over queries; `block` numbers are drawn at a time."""
    values = np.asarray(values, dtype=np.float64)  # (n,)
    means = _resampled(values, draws, seed, block)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(values.mean()), float(low), float(high))


def paired(a: NDArray[Any], b: NDArray[Any], *, level: float = 0.95, seed: int = 0) -> Difference:
    """Compare B with A on the same queries: the mean difference, its bootstrap interval, and a sign-flip test."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.shape != b.shape:
        raise DataInvalid(f"{len(a)} and {len(b)} queries are not the same ones", fix="compare on the same queries")
    estimate = interval(b - a, level=level, seed=seed)
    return Difference(estimate.mean, estimate.low, estimate.high, sign_flip(b - a, seed=seed))


def groups_of(labels: NDArray[Any], *, seed: int = 0) -> Numbers:
    """Return which of GROUPS groups each image belongs to, drawn by chance, every label spread over all of them."""
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[np.argsort(np.asarray(labels)[order], kind="stable")]
    groups = np.empty(len(labels), dtype=np.int64)
    groups[order] = np.arange(len(labels)) % GROUPS
    return groups


def jackknife(whole: float, without: NDArray[Any]) -> Interval:
    """Return a figure of all images, and its 95 % interval for others of the same kind: delete-a-group jackknife.

    without: the figure with each of GROUPS groups of the images left out in turn.
    """
    values = np.asarray(without, dtype=np.float64)
    error = float(np.sqrt((len(values) - 1) / len(values) * ((values - values.mean()) ** 2).sum()))
    return Interval(whole, whole - STUDENT * error, whole + STUDENT * error)


def sign_flip(differences: NDArray[Any], *, flips: int = FLIPS, seed: int = 0) -> float:
    """Return the two-sided p-value of a mean of zero: under it each difference could as well have the other sign."""
    d = np.asarray(differences, dtype=np.float64)
    d = d[d != 0]  # the others stay what they are, whatever the sign
    if not len(d):
        return 1.0
    observed = abs(d.sum())
    rng = np.random.default_rng(seed)
    rows = max(1, BLOCK // len(d))
    extreme = 0
    for start in range(0, flips, rows):
        signs = rng.integers(0, 2, (min(rows, flips - start), len(d)), dtype=np.int8)
        sums = 2 * (signs @ d) - d.sum()
        extreme += int((np.abs(sums) >= observed * (1 - 1e-12)).sum())
    return (extreme + 1) / (flips + 1)  # the observed signs are one of the draws: never exactly zero


def _resampled(values: Doubles, draws: int, seed: int, block: int) -> Doubles:
    """Return means of so many samples of the queries, with replacement."""
    rng = np.random.default_rng(seed)
    n = len(values)
    rows = max(1, block // n)
    parts = [values[rng.integers(0, n, (min(rows, draws - start), n))].mean(axis=1) for start in range(0, draws, rows)]
    return np.concatenate(parts)


# A figure with what its interval is computed from, so that two figures of the same images can be subtracted.


@dataclass(frozen=True, eq=False)
class Estimate:
    """A figure of some images, and the same with groups of them left out, or of single classes or pairs."""

    value: float
    parts: Doubles
    left_out: bool  # parts: the figure with each group of images left out; else what it is the mean of

    @classmethod
    def mean_of(cls, parts: Doubles) -> "Estimate":
        """Return the mean of a value a class, or a pair."""
        return cls(float(parts.mean()), parts, left_out=False)

    def interval(self) -> Interval:
        """Return where it would lie with other images of the same kind (95 %)."""
        return jackknife(self.value, self.parts) if self.left_out else interval(self.parts)

    def __sub__(self, other: "Estimate") -> "Estimate":
        return Estimate(self.value - other.value, self.parts - other.parts, self.left_out)
