"""The greedy subset against the rule followed slowly, and against the best subset of its size."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from sparse_photos import photos, sparse

from nonneg_vectors.curation.clusters import k_centres


def test_each_next_photo_is_the_farthest_from_those_chosen() -> None:
    z = photos(120)
    found = k_centres(sparse(z), 12)
    chosen = [int((z @ z.mean(axis=0)).argmax())]
    while len(chosen) < 12:
        nearest = [max(float(z[i] @ z[c]) for c in chosen) for i in range(len(z))]
        chosen.append(int(np.argmin(nearest)))
    assert found.chosen.tolist() == chosen
    assert found.cosine == pytest.approx((z @ z[chosen].T).max(axis=1), abs=1e-5)


def test_no_photo_is_left_farther_than_twice_the_best_subset_leaves_one() -> None:
    z = photos(16, 10, themes=4, seed=3)
    distance = np.sqrt(np.maximum(2 - 2 * z @ z.T, 0))
    best = min(distance[list(some)].min(axis=0).max() for some in combinations(range(16), 3))
    found = k_centres(sparse(z), 3)
    assert distance[found.chosen].min(axis=0).max() <= 2 * best + 1e-6


def test_copies_of_chosen_photos_are_not_chosen() -> None:
    z = np.repeat(photos(12)[:2], 10, axis=0)
    assert len(k_centres(sparse(z), 20).chosen) == 2
    assert len(k_centres(sparse(z[:1]), 5).chosen) == 1
    assert len(k_centres(sparse(z[:0]), 5).chosen) == 0
