"""How the dimension of a class answers to edited pictures: whether it moves, and those of other classes do not.

Every class has one dimension, chosen on images that no edited picture was made of. A pair holds two pictures of which
one shows something of a class that the other does not; its score is the share of the other classes' dimensions that
move less than the one that should: 1 where it moves most of all, 1/2 where it moves as any other does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Answers:
    """Of every pair: the score, how far the dimension moved that should, and how far the others did."""

    scores: Doubles  # NaN without another class to compare with
    own: Doubles  # in standard deviations of each dimension
    others: Doubles  # the mean of the absolute movements


def answers(movements: NDArray[Any], columns: Numbers, shown: Numbers, beside: Numbers) -> Answers:
    """Score the movements (pairs, D) of one kind of edit; those that should go down are given with the other sign.

    columns: the dimension of each class. shown: the class of each pair whose dimension should move; beside: the other
    class that the pair shows, which does not count.
    """
    of_classes = np.asarray(movements, dtype=np.float64)[:, columns]  # (pairs, classes)
    pairs = np.arange(len(shown))
    own = of_classes[pairs, shown]
    counted = (columns != columns[shown][:, None]) & (columns != columns[beside][:, None])  # (pairs, classes)
    less, equal = of_classes < own[:, None], of_classes == own[:, None]
    return Answers(
        _mean_where(less + 0.5 * equal, counted),
        own,
        _mean_where(np.abs(of_classes), counted),
    )


def _mean_where(values: Doubles, counted: NDArray[np.bool_]) -> Doubles:
    totals = counted.sum(axis=1)
    sums = (values * counted).sum(axis=1)
    found: Doubles = np.divide(sums, totals, out=np.full(len(values), np.nan), where=totals > 0)
    return found
