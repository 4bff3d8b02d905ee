"""The score that random photos reach, against random vectors."""

from __future__ import annotations

import numpy as np
import pytest

from nonneg_core.shortening import shorten
from nonneg_vectors.expressions.weightings import DEVIATIONS, HIGHEST, ColumnStatistics

D = 96
RAW = np.random.default_rng(0).gamma(0.3, 1.0, (20_000, D)) * np.linspace(2, 0.5, D)
Z = shorten(np.where(RAW > 0.2, RAW, 0).astype(np.float32))
STATISTICS = ColumnStatistics(
    Z.mean(axis=0, dtype=np.float64), Z.var(axis=0, dtype=np.float64), (Z > 0).mean(axis=0, dtype=np.float64)
)


@pytest.mark.parametrize(("dimensions", "top_k"), [(D, None), (48, None), (D, 10), (48, 5)])
def test_the_line_lies_some_deviations_above_what_random_vectors_share(dimensions, top_k):
    chance, z = STATISTICS.at(dimensions, top_k), shorten(Z, dimensions, top_k)
    for i in range(5):
        there = np.flatnonzero(z[i]).astype(np.int32)
        scores = np.delete(z @ z[i], i)
        own = 1 - (z.mean(axis=0) ** 2).sum()
        expected = scores.mean() + DEVIATIONS * own**0.5 * scores.std()
        assert chance.line([(there, z[i, there])]) == pytest.approx(min(HIGHEST, expected), rel=0.15)


def test_the_line_of_several_parts_is_the_lowest_of_theirs():
    chance = STATISTICS.at(D)
    parts = [(np.flatnonzero(z).astype(np.int32), z[z > 0]) for z in Z[:2]]
    assert chance.line(parts) == min(chance.line(parts[:1]), chance.line(parts[1:]))


def test_a_query_of_a_rare_dimension_has_a_lower_line_than_one_of_a_frequent_dimension():
    chance = STATISTICS.at(D)
    rare, frequent = (chance.line([(np.int32([j]), np.float32([1]))]) for j in (D - 1, 0))
    assert rare < frequent
