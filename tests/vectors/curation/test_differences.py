"""Differences of two collections against scipy and plain means, and their error rates where nothing differs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sparse_photos import sparse, unit

from nonneg_core.errors import DataInvalid
from nonneg_vectors.curation.differences import benjamini_hochberg, differences, normal_of, shares_differ, two_sided


def some(n: int, d: int = 12, seed: int = 0) -> np.ndarray:
    return np.maximum(np.random.default_rng(seed).normal(size=(n, d)) - 0.6, 0).astype(np.float32)


def test_effects_and_ratios_are_those_of_the_means() -> None:
    a, b = some(31, seed=1), some(23, seed=2)
    found = differences(sparse(a), sparse(b))
    for j in range(a.shape[1]):
        x, y = a[:, j].astype(float).tolist(), b[:, j].astype(float).tolist()
        mean_x, mean_y = sum(x) / 31, sum(y) / 23
        var_x = sum((v - mean_x) ** 2 for v in x) / 30
        var_y = sum((v - mean_y) ** 2 for v in y) / 22
        assert found.effect[j] == pytest.approx((mean_y - mean_x) / math.sqrt((var_x + var_y) / 2), rel=1e-5)
        assert found.times[j] == pytest.approx(mean_y / mean_x, rel=1e-5)
        assert found.share_a[j] == pytest.approx(sum(v > 0 for v in x) / 31)
        error = math.sqrt(var_x / (31 * mean_x**2) + var_y / (23 * mean_y**2))
        assert found.times_high[j] == pytest.approx(mean_y / mean_x * math.exp(1.959964 * error), rel=1e-5)
        assert found.low[j] < found.effect[j] < found.high[j]


def test_p_is_that_of_welchs_test() -> None:
    stats = pytest.importorskip("scipy.stats")
    a, b = some(40, seed=3), some(25, seed=4)
    b[:, :3] += 0.4
    found = differences(sparse(a), sparse(b))
    expected = stats.ttest_ind(b.astype(float), a.astype(float), equal_var=False).pvalue
    assert found.p == pytest.approx(expected, rel=0.05)


def test_a_t_becomes_the_normal_deviate_of_its_tail() -> None:
    stats = pytest.importorskip("scipy.stats")
    for freedom in (9.0, 30.0, 400.0):
        for t in (0.5, 2.0, 4.0, 7.0):
            found = two_sided(normal_of(np.array([-t]), np.array([freedom])))[0]
            assert found == pytest.approx(2 * stats.t.sf(t, freedom), rel=0.1)


def test_the_intervals_hold_the_truth_nearly_always() -> None:
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(300):
        a, b = (np.maximum(rng.normal(shift, 1, (80, 1)), 0).astype(np.float32) for shift in (0, 0.5))
        found = differences(sparse(a), sparse(b))
        inside.append(found.times_low[0] <= 0.69796 / 0.39894 <= found.times_high[0])  # means of rectified normals
    assert 0.92 <= np.mean(inside) <= 0.98


def test_where_nothing_differs_hardly_ever_is_anything_named() -> None:
    named = [
        len(differences(sparse(some(100, 50, seed=i)), sparse(some(120, 50, seed=1000 + i))).named()) for i in range(60)
    ]
    assert sum(n > 0 for n in named) <= 8  # of 60 comparisons 3 are expected at 5 %


def test_rare_dimensions_are_not_named_by_chance() -> None:
    rng = np.random.default_rng(7)
    named = 0
    for _ in range(40):
        a, b = ((rng.random((300, 200)) < 0.01) * rng.random((300, 200)).astype(np.float32) for _ in range(2))
        named += len(differences(sparse(a), sparse(b)).named()) > 0
    assert named <= 6


def test_a_planted_shift_is_named_and_few_others_are() -> None:
    found = false = 0
    for seed in range(20):
        a, b = some(1000, 60, seed=seed), some(1000, 60, seed=500 + seed)
        b[:100, :3] += 1  # a tenth of the photos have more of three dimensions
        named = set(differences(sparse(unit(a)), sparse(unit(b))).named().tolist())
        found += len(named & {0, 1, 2})
        false += len(named - {0, 1, 2})
    assert found >= 54
    assert false <= 0.15 * (found + false)


def test_a_dimension_that_neither_has_differs_in_nothing_and_a_new_one_is_infinitely_stronger() -> None:
    a, b = some(20), some(20)
    a[:, 3] = b[:, 3] = 0
    a[:, 4], b[:, 4] = 0, 1 + np.arange(20) % 2
    found = differences(sparse(a), sparse(b))
    assert (found.effect[3], found.p[3], found.low[3], found.times[3]) == (0, 1, 0, 1)
    assert found.times[4] == found.times_low[4] == np.inf
    assert found.q[4] < 1e-6


def test_too_few_photos_are_refused() -> None:
    with pytest.raises(DataInvalid, match="the second collection has 9 photos"):
        differences(sparse(some(20)), sparse(some(9)))


def test_q_values_reject_what_the_step_up_rejects() -> None:
    p = np.random.default_rng(0).random(200) ** 3
    q = benjamini_hochberg(p)
    for bound in (0.01, 0.05, 0.2):
        ordered = sorted(p.tolist())
        passing = [i for i, value in enumerate(ordered, 1) if value <= bound * i / len(p)]
        cut = ordered[max(passing) - 1] if passing else -1
        assert (q <= bound).tolist() == (p <= cut).tolist()


def test_shares_of_a_stream_are_tested_as_two_proportions() -> None:
    then, now = np.array([0.1, 0.1, 0.0]), np.array([0.15, 0.1, 0.0])
    q = shares_differ(then, 1000, now, 400)
    z = 0.05 / np.sqrt((100 + 60) / 1400 * (1 - 160 / 1400) * (1 / 1000 + 1 / 400))
    assert q[0] == pytest.approx(3 * math.erfc(z / math.sqrt(2)), rel=1e-6)
    assert q[1:].tolist() == [1, 1]
