"""Clusters: planted ones are found, and told by the dimensions that were planted."""

from __future__ import annotations

import numpy as np
import pytest
from sparse_photos import photos, sparse, unit

from nonneg_vectors.curation.clusters import clusters, usual_number


def planted(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three themes of 40, 30 and 20 photos, each with two dimensions of its own beside ten that all have."""
    rng = np.random.default_rng(seed)
    theme = np.repeat([0, 1, 2], [40, 30, 20])
    z = np.zeros((90, 16))
    z[:, :10] = rng.random((90, 10))
    for i, t in enumerate(theme):
        z[i, 10 + 2 * t : 12 + 2 * t] = 1 + rng.random(2)
    return unit(z.astype(np.float32)), theme


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_planted_themes_are_the_clusters(seed: int) -> None:
    z, theme = planted()
    found = clusters(sparse(z), 3, seed=seed)
    assert [sorted(c.members.tolist()) for c in found] == [np.flatnonzero(theme == t).tolist() for t in range(3)]


def test_a_cluster_is_told_by_what_its_photos_share_and_others_lack() -> None:
    z, _ = planted()
    largest = clusters(sparse(z), 3)[0]
    assert {shared.dimension for shared in largest.shared[:2]} == {10, 11}
    assert largest.shared[0].inside == 1
    assert largest.shared[0].outside == 0
    assert (np.diff(largest.cosines) <= 0).all()


def test_every_photo_is_in_exactly_one_cluster_and_the_same_seed_gives_the_same() -> None:
    z = sparse(photos(150))
    first, second = clusters(z, 9, seed=5), clusters(z, 9, seed=5)
    assert sorted(i for c in first for i in c.members) == list(range(150))
    assert [c.members.tolist() for c in first] == [c.members.tolist() for c in second]


def test_equal_photos_are_one_cluster_and_nothing_is_none() -> None:
    assert len(clusters(sparse(np.repeat(photos(12)[:1], 20, axis=0)), 5)) == 1
    assert clusters(sparse(photos(12)[:0]), 5) == []
    assert [usual_number(n) for n in (0, 1, 2, 200, 10**6)] == [1, 1, 2, 10, 60]
