"""Columns along a classifier's classes: what they point at, that they are a basis, and what they replace."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from nonneg_core.errors import ConfigInvalid
from nonneg_core.shortening import unit
from nonneg_runtime.heads import head as head_module
from nonneg_runtime.heads.analytic_head import Basis, fit_basis
from nonneg_runtime.heads.head import analytic, choose_names, class_directions, first, roots, with_names
from nonneg_runtime.heads.moments import spread

CLASSES, FEATURES = 10, 24


@pytest.fixture(scope="module")
def pooled() -> NDArray[np.float32]:
    g = np.random.default_rng(4)
    return (g.exponential(size=(500, 20)) @ g.exponential(size=(20, FEATURES))).astype(np.float32)


@pytest.fixture(scope="module")
def classifier() -> NDArray[np.float32]:
    return np.random.default_rng(5).normal(size=(CLASSES, FEATURES)).astype(np.float32)


@pytest.fixture(scope="module")
def basis(pooled: NDArray[np.float32]) -> Basis:
    rows = roots(pooled)
    return fit_basis(rows, spread(rows), edges=(0, 8, FEATURES))


def test_a_class_direction_is_the_gradient_of_its_logit(
    basis: Basis, classifier: NDArray[np.float32], pooled: NDArray[np.float32]
) -> None:
    mean = pooled.mean(axis=0)
    directions = class_directions(basis, classifier, mean)
    step, at = 1e-3, np.sqrt(mean.astype(np.float64))
    logits = [((at + step * e) ** 2) @ classifier.T - mean @ classifier.T for e in np.eye(FEATURES)]
    slope = np.array(logits) / step  # (features, classes): by finite differences
    made = basis.matrix.astype(np.float64) @ directions  # the change of p . u with each root
    np.testing.assert_allclose(made / np.linalg.norm(made, axis=0), slope / np.linalg.norm(slope, axis=0), atol=2e-3)


def test_names_are_an_orthonormal_basis_close_to_their_classes(
    basis: Basis, classifier: NDArray[np.float32], pooled: NDArray[np.float32]
) -> None:
    directions = class_directions(basis, classifier, pooled.mean(axis=0))
    named = choose_names(directions, 6)
    np.testing.assert_allclose(named.directions.T @ named.directions, np.eye(6), atol=1e-9)
    assert (np.diff(named.classes) > 0).all()
    np.testing.assert_allclose(named.faithfulness, (named.directions * directions[:, named.classes]).sum(axis=0))
    assert named.faithfulness.min() > 0.5


def test_of_two_classes_that_are_the_same_one_is_less_true_and_left_out() -> None:
    directions = np.eye(6)[:, [0, 1, 2, 3, 3]].astype(np.float64)
    directions[4, 4] = 0.2
    directions /= np.linalg.norm(directions, axis=0)
    assert set(choose_names(directions, 3).classes.tolist()) == {0, 1, 2}


def test_a_head_with_names_is_its_front_then_names_within_512_then_all_by_expected_activation(
    basis: Basis, classifier: NDArray[np.float32], pooled: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_module, "PREFIX", 12)
    rows = roots(pooled)
    front = first(analytic(basis, rows, 40), 8)
    named = choose_names(class_directions(basis, classifier, pooled.mean(axis=0)), 6)
    columns = named.columns(basis)
    found, places = with_names(front, basis, columns, rows, 34)
    assert found.dimensions == 34
    np.testing.assert_array_equal(found.weight[:, :8], front.weight)
    np.testing.assert_array_equal(found.weight[:, places], columns.weight)
    expected = unit(found.embed(rows)).mean(axis=0)
    early = sorted(places.tolist(), key=lambda place: -expected[place])[:4]
    assert early == [8, 9, 10, 11]  # the four most active names
    assert (np.diff(expected[12:]) <= 1e-7).all()
    sides = [j for j in range(8, 34) if j not in places.tolist()]
    p = basis.coordinates(rows)
    shares = np.square(p / np.linalg.norm(p, axis=1, keepdims=True)).mean(axis=0)
    strongest = np.argsort(-shares)[:10]
    pairs = np.concatenate([p[:, strongest], -p[:, strongest]], axis=1)
    mine = rows @ found.weight[:, sides] + found.bias[sides]
    assert all(np.abs(mine - column[:, None]).max(axis=0).min() < 1e-4 for column in pairs.T)


@pytest.mark.parametrize("count", [0, 7, 11])
def test_more_names_than_classes_or_components_are_refused(count: int) -> None:
    with pytest.raises(ConfigInvalid, match=f"{count} names"):
        choose_names(np.random.default_rng(0).normal(size=(6, 10)), count)


@pytest.mark.parametrize("dimensions", [14, 15, 14 + 2 * FEATURES + 2])
def test_names_that_leave_no_room_for_pairs_are_refused(
    basis: Basis, classifier: NDArray[np.float32], pooled: NDArray[np.float32], dimensions: int
) -> None:
    rows = roots(pooled)
    named = choose_names(class_directions(basis, classifier, pooled.mean(axis=0)), 6)
    columns = named.columns(basis)
    with pytest.raises(ConfigInvalid, match=f"{dimensions} dimensions hold no whole pairs") as refused:
        with_names(first(analytic(basis, rows, 40), 8), basis, columns, rows, dimensions)
    assert refused.value.field == "head.names"
