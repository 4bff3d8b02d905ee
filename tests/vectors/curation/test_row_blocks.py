"""Sums and products over sparse rows, some entries at a time, beside dense ones."""

from __future__ import annotations

import numpy as np
import pytest
from sparse_photos import photos, sparse

from nonneg_vectors.curation.row_blocks import column_means, shares, summed, times


@pytest.mark.parametrize("at_once", [1, 7, 100, 10**6])
def test_any_number_of_entries_at_a_time_gives_the_dense_sums(at_once: int) -> None:
    z = photos(40, 12)
    z[[0, 17, 39]] = 0
    weights = np.random.default_rng(3).random(12, dtype=np.float32)
    np.testing.assert_allclose(times(sparse(z), weights, at_once), z @ weights, rtol=1e-5)
    np.testing.assert_allclose(summed(sparse(z), np.square, at_once), (z**2).sum(axis=0), rtol=1e-5)


def test_means_and_shares_are_those_of_the_dense_columns() -> None:
    z = photos(40, 12)
    np.testing.assert_allclose(column_means(sparse(z)), z.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(shares(sparse(z)), (z > 0).mean(axis=0), rtol=1e-6)
