"""What is known of each column, and the ranking that follows from it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Doubles, Floats, Numbers
from nonneg_core.errors import CheckFailed
from nonneg_core.shortening import unit
from nonneg_runtime.bundle.manifest import Columns

Rule = Literal["expected-activation", "frequency", "variance", "nested"]
RULES: tuple[Rule, ...] = get_args(Rule)
CHUNK = 1024
DIGITS = 6  # significant digits of what the manifest records


@dataclass(frozen=True, eq=False)
class Statistics:
    """Per column, over the row-normalised, non-negative features of many images."""

    expected_activation: Doubles  # (D,) mean
    frequency: Doubles  # (D,) share of images on which it is > 0
    variance: Doubles  # (D,)

    def columns(self, order: Numbers) -> Columns:
        """Return these numbers in the order in which the encoder emits the columns, at recorded precision."""
        return Columns(
            original=tuple(order.tolist()),
            expected_activation=rounded(self.expected_activation[order]),
            frequency=rounded(self.frequency[order]),
            variance=rounded(self.variance[order]),
        )


def measure(rows: Floats) -> Statistics:
    """Measure raw activations (images, D) in one pass, in pieces that fit in memory."""
    total, squares, active = (np.zeros(rows.shape[1]) for _ in range(3))
    for chunk in chunks(rows):
        if chunk.min(initial=0) < 0:
            raise negative(float(chunk.min()))
        normalised = unit(chunk).astype(np.float64)
        total += normalised.sum(axis=0)
        squares += (normalised**2).sum(axis=0)
        active += (chunk > 0).sum(axis=0)
    if not active.any():
        raise CheckFailed(
            f"every dimension is zero on all {len(rows)} images: this encoder is dead, or answers all images alike",
            fix="check its weights, the pixels' scaling and which output is taken",
            value=0,
        )
    mean = total / len(rows)
    return Statistics(mean, active / len(rows), np.maximum(squares / len(rows) - mean**2, 0))


def ranking(statistics: Statistics, rule: Rule) -> Numbers:
    """Return the columns, best first; among equals the lower index, and `nested` keeps the order of training."""
    if rule == "nested":
        return np.arange(len(statistics.frequency))
    keys = {
        "expected-activation": statistics.expected_activation,
        "frequency": statistics.frequency,
        "variance": statistics.variance,
    }
    return np.argsort(-np.array(rounded(keys[rule])), kind="stable")


def chunks(rows: Floats, size: int = CHUNK) -> Iterable[Floats]:
    """Return rows in pieces, each in memory."""
    return (np.array(rows[i : i + size]) for i in range(0, len(rows), size))


def rounded(values: NDArray[Any], digits: int = DIGITS) -> tuple[float, ...]:
    """Return numbers at a precision that a rebuild repeats."""
    return tuple(float(f"{value:.{digits}g}") for value in values.tolist())


def negative(least: float) -> CheckFailed:
    """Return the error for an encoder that is not non-negative."""
    return CheckFailed(
        f"the encoder's output goes below zero (to {least:.3g}): it is not non-negative",
        fix="wrap it with --head analytic, the default, or add a missing ReLU with --relu",
        value=least,
    )
