"""Differences of two collections against counting every pair of photos, and their error rates where nothing differs."""

from __future__ import annotations

import numpy as np
import pytest
from sparse_photos import sparse, unit

from nonneg_core.curation.differences import benjamini_hochberg, differences, shares_differ, times_as_often
from nonneg_core.errors import DataInvalid


def some(n: int, d: int = 12, seed: int = 0) -> np.ndarray:
    """Coarse values, so that there are ties above zero too."""
    rng = np.random.default_rng(seed)
    return (np.maximum(rng.normal(size=(n, d)) - 0.6, 0) * 4).round() / 4


def test_delta_is_the_share_of_pairs_won_less_those_lost() -> None:
    a, b = some(31, seed=1), some(23, seed=2)
    found = differences(sparse(a), sparse(b))
    for j in range(a.shape[1]):
        signs = [np.sign(y - x) for x in a[:, j] for y in b[:, j]]
        assert found.delta[j] == pytest.approx(np.mean(signs), abs=1e-9)
        assert found.share_a[j] == pytest.approx(np.mean(a[:, j] > 0))


def test_p_is_that_of_the_rank_sum_test_with_ties() -> None:
    stats = pytest.importorskip("scipy.stats")
    a, b = some(40, seed=3), some(55, seed=4)
    found = differences(sparse(a), sparse(b))
    for j in range(a.shape[1]):
        test = stats.mannwhitneyu(b[:, j], a[:, j], use_continuity=False, method="asymptotic")
        assert found.p[j] == pytest.approx(test.pvalue, rel=1e-6)


def test_the_interval_is_delongs() -> None:
    a, b = some(30, seed=5), some(20, seed=6)
    found = differences(sparse(a), sparse(b))
    for j in range(a.shape[1]):
        of_b = [np.mean([(y > x) + (y == x) / 2 for x in a[:, j]]) for y in b[:, j]]
        of_a = [np.mean([(y > x) + (y == x) / 2 for y in b[:, j]]) for x in a[:, j]]
        error = 2 * np.sqrt(np.var(of_b, ddof=1) / 20 + np.var(of_a, ddof=1) / 30)
        assert found.high[j] - found.delta[j] == pytest.approx(min(1.959964 * error, 1 - found.delta[j]), abs=1e-6)


def test_where_nothing_differs_hardly_ever_is_anything_named() -> None:
    named = [
        len(differences(sparse(some(100, 50, seed=i)), sparse(some(120, 50, seed=1000 + i))).named()) for i in range(60)
    ]
    assert sum(n > 0 for n in named) <= 8  # of 60 comparisons 3 are expected at 5 %


def test_a_planted_shift_is_named_and_few_others_are() -> None:
    found = false = 0
    for seed in range(20):
        a, b = some(1000, 60, seed=seed), some(1000, 60, seed=500 + seed)
        a[:, :3] *= a[:, :3] > 1  # three dimensions that few photos have
        b[:, :3] *= b[:, :3] > 1
        b[:100, :3] += 2  # and now a tenth more
        named = set(differences(sparse(unit(a)), sparse(unit(b))).named().tolist())
        found += len(named & {0, 1, 2})
        false += len(named - {0, 1, 2})
    assert found >= 57
    assert false <= 0.15 * (found + false)


def test_a_dimension_that_neither_has_differs_in_nothing() -> None:
    a, b = some(20), some(20)
    a[:, 3] = b[:, 3] = 0
    found = differences(sparse(a), sparse(b))
    assert (found.delta[3], found.p[3], found.low[3], found.high[3]) == (0, 1, 0, 0)


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
    then, now = np.array([0.1, 0.1, 0.0]), np.array([0.3, 0.1, 0.0])
    p, q = shares_differ(then, 1000, now, 400)
    z = 0.2 / np.sqrt((100 + 120) / 1400 * (1 - 220 / 1400) * (1 / 1000 + 1 / 400))
    assert p[0] == pytest.approx(2 * (1 - _normal(z)), rel=1e-3)
    assert (p[1], p[2]) == (1, 1)
    assert q[0] < 0.05 < q[1]


def test_the_ratio_of_shares_has_an_interval_around_it() -> None:
    ratio, low, high = times_as_often(0.05, 0.15, 1000, 1000)
    assert ratio == pytest.approx(3, rel=0.01)
    assert low < ratio < high
    assert low > 2
    assert times_as_often(0, 0.1, 1000, 1000)[0] > 50  # nothing then: large, not infinite


def _normal(z: float) -> float:
    from math import erf, sqrt

    return (1 + erf(z / sqrt(2))) / 2
