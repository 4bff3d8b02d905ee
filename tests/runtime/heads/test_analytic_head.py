"""The analytic head against a slow second version of its recipe, and what must hold of any head of its kind."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.shortening import unit
from nonneg_runtime.heads.analytic_head import fit_basis, polar, random_rotation, rotation, strongest
from nonneg_runtime.heads.head import analytic, roots
from nonneg_runtime.heads.moments import spread, unpacked

EDGES = (0, 4, 8, 16)


@pytest.fixture(scope="module")
def rows() -> NDArray[np.float32]:
    """Roots of correlated, skewed, non-negative features, as a pooled ReLU gives them."""
    g = np.random.default_rng(0)
    mixed = g.exponential(size=(400, 20)) ** 2 @ g.exponential(size=(20, 24))
    return roots(mixed.astype(np.float32))


def slow_head(rows: NDArray[np.float32], dimensions: int) -> NDArray[np.float64]:
    """The recipe word by word: components by SVD of the rows, polar factors by eigenvectors, energies by loops."""
    x = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    _, singular, axes = np.linalg.svd(x, full_matrices=False)
    values = singular**2 / (len(x) - 1)
    floor = 0.02 * values.mean()
    found = []
    for value, axis in zip(values, axes, strict=True):
        sign = np.sign(axis[np.argmax(np.abs(axis))])
        found.append(sign * axis / (value + floor) ** 0.42)
    s = np.array(found).T[:, : EDGES[-1]]
    p = x @ s
    unit = np.array([row / np.sqrt((row**2).sum()) for row in p])
    for first, last in pairwise(EDGES):
        q, r = np.linalg.qr(np.random.default_rng(0).normal(size=(last - first, last - first)))
        turn = q * np.sign(np.diag(r))
        block = unit[:, first:last]
        for _ in range(30):
            m = block.T @ np.where(block @ turn > 0, block @ turn, 0)
            squares, vectors = np.linalg.eigh(m.T @ m)
            turn = m @ (vectors / np.sqrt(squares)) @ vectors.T
        s[:, first:last] = s[:, first:last] @ turn
    p = x @ s
    unit = np.array([row / np.sqrt((row**2).sum()) for row in p])
    sides = [(sign, c) for sign in (1, -1) for c in range(p.shape[1])]
    energies = [np.mean([max(sign * row[c], 0) ** 2 for row in unit]) for sign, c in sides]
    order = sorted(range(len(sides)), key=lambda i: -energies[i])[:dimensions]
    scale = np.sqrt(np.mean(p**2))
    columns = [np.maximum(sides[i][0] * p[:, sides[i][1]] / scale, 0) ** 0.6 for i in order]
    return np.array(columns).T


@pytest.mark.parametrize("dimensions", [32, 20])
def test_the_head_is_what_the_slow_version_of_the_recipe_answers(rows: NDArray[np.float32], dimensions: int) -> None:
    basis = fit_basis(rows, spread(rows), edges=EDGES)
    fast = analytic(basis, rows, dimensions).embed(rows)
    np.testing.assert_allclose(fast, slow_head(rows, dimensions), atol=2e-3)


def test_spread_is_numpys_mean_and_covariance_however_many_pieces_it_takes() -> None:
    rows = np.random.default_rng(1).normal(3, 1, (9001, 5)).astype(np.float32)
    found = spread(rows)
    np.testing.assert_allclose(found.mean, rows.mean(axis=0, dtype=np.float64))
    np.testing.assert_allclose(found.covariance, np.cov(rows.T.astype(np.float64)), atol=1e-9)


def test_a_packed_spread_gives_the_same_similarities(rows: NDArray[np.float32]) -> None:
    of = spread(rows)
    kept = unpacked(of.packed())
    assert kept.count == len(rows)
    np.testing.assert_allclose(kept.covariance, of.covariance, atol=2e-3 * np.diag(of.covariance).max())
    before, after = (unit(fit_basis(rows, x, edges=(0, 24)).coordinates(rows)) for x in (of, kept))
    np.testing.assert_allclose(before @ before.T, after @ after.T, atol=0.02)


def test_blending_moves_the_mean_and_the_covariance_by_their_own_shares(rows: NDArray[np.float32]) -> None:
    mine, theirs = spread(rows), spread(rows[:50] * 2)
    mixed = mine.blended(theirs, mean=1, covariance=0.5)
    np.testing.assert_allclose(mixed.mean, theirs.mean)
    np.testing.assert_allclose(mixed.covariance, (mine.covariance + theirs.covariance) / 2)


def test_one_photo_has_no_covariance() -> None:
    with pytest.raises(DataInvalid, match="1 images"):
        spread(np.ones((1, 4), dtype=np.float32))


def test_every_round_of_turning_raises_the_energy_of_the_positive_part() -> None:
    points = np.random.default_rng(2).exponential(size=(300, 6)).astype(np.float32) - 1

    def energy(turn: NDArray[np.float32]) -> float:
        return float(np.square(np.maximum(points @ turn, 0)).sum())

    steps = [energy(rotation(points, rounds)) for rounds in range(12)]
    assert all(later >= earlier * (1 - 1e-6) for earlier, later in pairwise(steps))
    assert steps[-1] > 1.02 * steps[0]


def test_a_turn_is_orthogonal_and_the_polar_factor_is_the_nearest_one() -> None:
    g = np.random.default_rng(3)
    matrix = g.normal(size=(7, 4))
    nearest = polar(matrix)
    np.testing.assert_allclose(nearest.T @ nearest, np.eye(4), atol=1e-12)
    others = [np.linalg.qr(nearest + 0.1 * g.normal(size=(7, 4)))[0] for _ in range(50)]
    signed = [q * np.sign((q * nearest).sum(axis=0)) for q in others]
    assert all(np.linalg.norm(matrix - nearest) < np.linalg.norm(matrix - q) for q in signed)


def test_half_whitening_leaves_each_component_its_eigenvalue_to_the_power_that_is_left(
    rows: NDArray[np.float32],
) -> None:
    of = spread(rows)
    basis = fit_basis(rows, of, edges=(0, 6), rounds=0)  # turned at random, and only inside the block
    turned = np.sort(np.linalg.eigvalsh(np.cov(basis.coordinates(rows).T.astype(np.float64))))[::-1] * basis.scale**2
    values = np.sort(np.linalg.eigvalsh(of.covariance))[::-1]
    np.testing.assert_allclose(turned, (values / (values + 0.02 * values.mean()) ** 0.84)[:6], rtol=1e-3)


def test_prefixes_hold_the_strongest_columns(rows: NDArray[np.float32]) -> None:
    basis = fit_basis(rows, spread(rows), edges=EDGES)
    p = basis.coordinates(rows)
    shares = analytic(basis, rows, 32).embed(rows) ** (1 / 0.6) / np.linalg.norm(p, axis=1, keepdims=True)
    energy = np.square(shares).mean(axis=0)
    assert (np.diff(energy) <= 1e-6).all()
    assert len(set(strongest(p, np.ones((len(p), 1), np.float32), 32).tolist())) == 32


def test_more_columns_than_both_sides_of_the_components_are_refused(rows: NDArray[np.float32]) -> None:
    basis = fit_basis(rows, spread(rows), edges=(0, 4))
    with pytest.raises(ConfigInvalid, match="9 dimensions") as refused:
        analytic(basis, rows, 9)
    assert refused.value.limit == 8


def test_the_same_seed_turns_alike_and_another_one_otherwise() -> None:
    first, again, other = (random_rotation(5, seed) for seed in (0, 0, 1))
    assert (first == again).all()
    assert not np.allclose(first, other)
    np.testing.assert_allclose(first @ first.T, np.eye(5), atol=1e-6)
