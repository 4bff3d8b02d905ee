from __future__ import annotations

import numpy as np
import pytest

from nonneg_core.shortening import unit
from nonneg_vectors.evaluation.retrieval import as_emitted, by_chance, choose, falling, fit_pca


def vectors(n: int = 50, d: int = 12) -> np.ndarray:
    return np.maximum(np.random.default_rng(0).normal(size=(n, d)), 0).astype(np.float32)


def test_the_emitted_order_is_a_prefix() -> None:
    z = vectors()
    np.testing.assert_array_equal(choose(z, as_emitted(12), 5), z[:, :5])


def test_chance_is_a_permutation_that_its_seed_repeats() -> None:
    assert sorted(by_chance(12, 3)) == list(range(12))
    np.testing.assert_array_equal(by_chance(12, 3), by_chance(12, 3))
    assert (by_chance(12, 3) != by_chance(12, 4)).any()


def test_the_largest_comes_first_and_of_equals_the_lower_index() -> None:
    assert falling((1.0, 3.0, 2.0, 3.0)).tolist() == [1, 3, 2, 0]


def test_pca_agrees_with_singular_vectors() -> None:
    z = vectors(200, 12)
    pca = fit_pca(z)
    rows = unit(z).astype(np.float64)
    _, _, directions = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    found = pca.apply(z, 4)
    expected = (rows - rows.mean(axis=0)) @ directions[:4].T
    signs = np.sign((found * expected).sum(axis=0))
    np.testing.assert_allclose(found * signs, expected, atol=1e-4)


def test_pca_of_other_images_is_applied_without_looking_at_these() -> None:
    pca = fit_pca(vectors(200))
    z = vectors(30)
    np.testing.assert_allclose(pca.apply(z, 12)[:3], pca.apply(z[:3], 12), atol=1e-6)
    assert pca.apply(z, 12).shape == (30, 12)
    distances = np.linalg.norm(pca.apply(z, 12)[0] - pca.apply(z, 12)[1])
    assert distances == pytest.approx(np.linalg.norm(unit(z)[0] - unit(z)[1]), abs=1e-5)
