"""Photos that are like no other."""

from __future__ import annotations

import numpy as np
from sparse_photos import photos, sparse, unit

from nonneg_vectors.curation.clusters import NEAREST, outliers
from nonneg_vectors.curation.neighbours import PairLimits, Scan, joined, scanned


def closeness(z: np.ndarray) -> np.ndarray:
    return joined(list(scanned(Scan(sparse(z), PairLimits(), k=NEAREST))))[2]


def test_planted_strangers_are_found_first_and_no_others_with_them() -> None:
    z = photos(200)
    strangers = np.zeros((3, z.shape[1] + 3), np.float32)
    strangers[np.arange(3), z.shape[1] + np.arange(3)] = 1  # each with a dimension that nothing else has
    z = unit(np.concatenate([np.pad(z, ((0, 0), (0, 3))), strangers]))
    found = outliers(closeness(z))
    assert set(found.photos[:3].tolist()) == {200, 201, 202}
    assert set(found.photos.tolist()) >= set(np.flatnonzero(found.closeness < found.bound).tolist())
    assert len(found.photos) <= 6
    assert (np.diff(found.closeness[found.photos]) >= 0).all()


def test_among_equals_and_among_two_none_is_an_outlier() -> None:
    assert len(outliers(closeness(np.repeat(photos(12)[:1], 30, axis=0))).photos) == 0
    assert len(outliers(closeness(photos(12)[:2])).photos) == 0
    assert len(outliers(np.zeros((0, 5), np.float32)).photos) == 0
