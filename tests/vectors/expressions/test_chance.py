"""The score that random photos reach, against random vectors."""

from __future__ import annotations

from dataclasses import replace

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


def test_a_name_is_shown_from_the_level_of_its_dimension_on_at_every_length() -> None:
    levels = np.full(len(STATISTICS.mean), np.nan)
    levels[:2] = 9, 3
    statistics = replace(STATISTICS, levels=levels)
    names = {0: "otter", 1: "boat", 2: "mine"}
    for size in ((len(levels), None), (len(levels) // 2, None), (len(levels), 5)):
        lines = statistics.at(*size).lines
        for above in (True, False):
            values = lines[:3] + (1e-6 if above else -1e-6)
            assert statistics.at(*size).shown(names, range(3), values) == (names if above else {2: "mine"})
    whole, short, cut = (
        statistics.at(*size) for size in ((len(levels), None), (len(levels) // 2, None), (len(levels), 5))
    )
    np.testing.assert_allclose(whole.lines[1], whole.mean[1] + 3 * whole.deviations[1])
    assert (short.lines[:2] > whole.lines[:2]).all()  # what is left of a vector is longer
    assert (cut.lines[:2] > whole.lines[:2]).all()


def test_the_deviation_of_a_dimension_is_that_of_a_query_of_it_alone() -> None:
    chance = STATISTICS.at(len(STATISTICS.mean))
    for j in (0, 3):
        row = (np.array([j], np.int32), np.ones(1, np.float32))
        assert chance.line([row], 1.5) == pytest.approx(
            min(0.99, chance.mean[j] + 1.5 * chance.deviations[j]), abs=1e-6
        )
