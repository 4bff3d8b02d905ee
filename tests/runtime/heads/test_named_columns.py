"""Columns along a classifier's classes: what they point at, that they are a basis, and what they replace."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from nonneg_core.errors import ConfigInvalid
from nonneg_runtime.heads.analytic_head import Basis, fit_basis
from nonneg_runtime.heads.head import analytic, choose_names, class_directions, roots, with_names
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


def test_named_columns_come_last_and_the_others_stay_as_they_were(
    basis: Basis, classifier: NDArray[np.float32], pooled: NDArray[np.float32]
) -> None:
    rows = roots(pooled)
    head = analytic(basis, rows, 40)
    named = choose_names(class_directions(basis, classifier, pooled.mean(axis=0)), 6)
    found = with_names(head, basis, named, rows, opposites=4)
    assert found.dimensions == 40
    assert (found.weight[:, :30] == head.weight[:, :30]).all()
    p = basis.coordinates(rows) @ named.directions.astype(np.float32)
    np.testing.assert_allclose(found.pressed(rows)[:, -6:], np.maximum(p, 0), atol=1e-4)
    energy = np.square(np.maximum(-p / np.linalg.norm(basis.coordinates(rows), axis=1, keepdims=True), 0)).mean(axis=0)
    mirrored = np.maximum(-p, 0)[:, np.argsort(-energy)[:4]]
    np.testing.assert_allclose(found.pressed(rows)[:, 30:34], mirrored, atol=1e-4)


@pytest.mark.parametrize("count", [0, 7, 11])
def test_more_names_than_classes_or_components_are_refused(count: int) -> None:
    with pytest.raises(ConfigInvalid, match=f"{count} names"):
        choose_names(np.random.default_rng(0).normal(size=(6, 10)), count)


def test_names_that_leave_no_unnamed_column_are_refused(
    basis: Basis, classifier: NDArray[np.float32], pooled: NDArray[np.float32]
) -> None:
    rows = roots(pooled)
    named = choose_names(class_directions(basis, classifier, pooled.mean(axis=0)), 6)
    with pytest.raises(ConfigInvalid, match="no room in 8 dimensions"):
        with_names(analytic(basis, rows, 8), basis, named, rows, opposites=2)
