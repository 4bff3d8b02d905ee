"""A head adapted to photos against a slow second version of its recipe, and what must hold of any of its kind."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from nonneg_core.shortening import unit
from nonneg_runtime.heads.analytic_head import fit_basis, random_rotation, within
from nonneg_runtime.heads.feature_head import Weights, adapted_basis, adapted_head, passing
from nonneg_runtime.heads.head import Head, analytic, first, roots, taken
from nonneg_runtime.heads.moments import spread, streamed, within_classes

Rows = NDArray[np.float32]


def drawn(seed: int, rows: int = 400) -> Rows:
    """Roots of correlated, skewed, non-negative features, as a pooled ReLU gives them."""
    g = np.random.default_rng(seed)
    return roots((g.exponential(size=(rows, 20)) ** 2 @ g.exponential(size=(20, 24))).astype(np.float32))


@pytest.fixture(scope="module")
def ordinary() -> Rows:
    return drawn(0)


@pytest.fixture(scope="module")
def own() -> Rows:
    return drawn(1)


def slow_power(matrix: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    """A symmetric matrix to a power, its eigenvalues raised by a fiftieth of their mean."""
    values, axes = np.linalg.eigh(matrix)
    return sum(
        (value + 0.02 * values.mean()) ** exponent * np.outer(axis, axis)
        for value, axis in zip(values, axes.T, strict=True)
    )


def test_the_basis_is_that_of_the_recipe_word_by_word(ordinary: Rows, own: Rows) -> None:
    weights = Weights(mean=0.7, covariance=0.2, emphasis=0.15)
    basis = adapted_basis(spread(own), spread(ordinary), own, weights)
    white = slow_power(np.cov(ordinary.T.astype(np.float64)), -0.42)
    mean = 0.7 * own.mean(axis=0, dtype=np.float64) + 0.3 * ordinary.mean(axis=0, dtype=np.float64)
    blended = 0.2 * np.cov(own.T.astype(np.float64)) + 0.8 * np.cov(ordinary.T.astype(np.float64))
    seen = white @ blended @ white
    x = (own - mean) @ white
    values, axes = np.linalg.eigh(seen)
    found = []
    for i in np.argsort(-values):
        axis = axes[:, i] * np.sign(axes[np.argmax(np.abs(axes[:, i])), i])
        found.append(x @ axis * (values[i] + 0.02 * values.mean()) ** 0.15)
    p = np.array(found).T
    for begin, end in pairwise(within((0, 64, 128, 256, 512, 1024), 24)):
        p[:, begin:end] = p[:, begin:end] @ random_rotation(end - begin, 0)
    np.testing.assert_allclose(basis.coordinates(own), p / np.sqrt((p**2).mean()), atol=2e-3)


def test_with_labels_rows_are_whitened_by_the_spread_within_classes(ordinary: Rows, own: Rows) -> None:
    one, other = spread(own), spread(ordinary)
    by_labels = adapted_basis(one, other, own, Weights(labels=1.0), spread(drawn(2)))
    instead = adapted_basis(one, spread(drawn(2)), own, Weights(mean=1.0, covariance=1.0))
    again = adapted_basis(one, other, own, Weights(labels=1.0, mean=1.0, covariance=1.0), spread(drawn(2)))
    np.testing.assert_allclose(again.matrix, instead.matrix, rtol=1e-4, atol=1e-5)
    assert not np.allclose(by_labels.matrix, adapted_basis(one, other, own, Weights(labels=0.0)).matrix)


def test_named_columns_stay_as_they_are_at_the_end(ordinary: Rows, own: Rows) -> None:
    shipped = analytic(fit_basis(ordinary, spread(ordinary), edges=(0, 8, 24)), ordinary, 48)
    basis = adapted_basis(spread(own), spread(ordinary), own, Weights())
    head = adapted_head(basis, own, 48, named=taken(shipped, np.array([3, 17, 40])))
    assert head.dimensions == 48
    np.testing.assert_array_equal(head.weight[:, 45:], shipped.weight[:, [3, 17, 40]])
    np.testing.assert_array_equal(head.weight[:, :45], adapted_head(basis, own, 45).weight)


def test_a_front_that_is_kept_is_only_scaled(ordinary: Rows, own: Rows) -> None:
    shipped = first(analytic(fit_basis(ordinary, spread(ordinary), edges=(0, 8, 24)), ordinary, 48), 6)
    basis = adapted_basis(spread(own), spread(ordinary), own, Weights())
    head = adapted_head(basis, own, 40, front=shipped)
    assert head.dimensions == 40
    one, other = unit(head.embed(own)[:, :6]), unit(shipped.embed(own))
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_fewer_photos_count_less() -> None:
    many, few = Weights().of(10**6), Weights().of(50)
    assert many.mean == pytest.approx(1, abs=1e-3)
    assert (few.mean, few.covariance, few.labels) == (
        Weights().mean / 2, Weights().covariance / 2, Weights().labels / 2,
    )  # fmt: skip
    assert few.emphasis == many.emphasis


def test_a_passing_head_gives_the_rows_back(own: Rows) -> None:
    like = Head(np.zeros((24, 30), np.float32), np.zeros(30, np.float32))
    powers = passing(24, like).embed(own)
    np.testing.assert_allclose(powers[:, :24] ** (1 / like.power), own, rtol=1e-5)
    assert not powers[:, 24:].any()


def test_statistics_read_in_pieces_are_those_of_the_whole(own: Rows) -> None:
    found = streamed(lambda: (own[i : i + 7] for i in range(0, len(own), 7)))
    np.testing.assert_allclose(found.covariance, np.cov(own.T.astype(np.float64)), rtol=1e-9)
    np.testing.assert_allclose(found.mean, own.mean(axis=0, dtype=np.float64), rtol=1e-12)
    assert found.count == len(own)


def test_the_spread_within_classes_is_the_one_of_a_loop(own: Rows) -> None:
    labels = np.random.default_rng(0).integers(-1, 5, len(own))
    labels[7] = 5  # a class of one photo says nothing
    total, free = np.zeros((24, 24)), 0
    for label in range(6):
        members = own[labels == label].astype(np.float64)
        for row in members:
            total += np.outer(row - members.mean(axis=0), row - members.mean(axis=0))
        free += len(members) - 1
    found = within_classes(lambda: ((own[i : i + 9], labels[i : i + 9]) for i in range(0, len(own), 9)), 6)
    assert found is not None
    np.testing.assert_allclose(found.covariance, total / free, rtol=1e-9)
    assert within_classes(lambda: [(own[:2], np.array([0, 1]))], 2) is None
