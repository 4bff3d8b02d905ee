"""The mutual information gap, on cases whose answer is known and against scikit-learn."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

from nonneg_core.errors import DataInvalid
from research.study.disentanglement import entropy, information_gap, matched_classes, mutual_information


def factors() -> np.ndarray:
    return np.stack(np.meshgrid(np.arange(3), np.arange(4), indexing="ij"), axis=-1).reshape(-1, 2).repeat(10, axis=0)


def test_mutual_information_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 5, 200), rng.integers(0, 3, 200)
    b[:100] = a[:100] % 3
    assert mutual_information(a, b) == pytest.approx(mutual_info_score(a, b))
    assert entropy(np.array([5, 5])) == pytest.approx(np.log(2))


def test_a_dimension_a_factor_has_the_whole_gap() -> None:
    v = factors()
    assert information_gap(np.c_[v, np.zeros(len(v))], v) == pytest.approx([1, 1])


def test_two_dimensions_that_know_the_same_have_none() -> None:
    v = factors()
    assert information_gap(np.c_[v[:, 0], 2.0 * v[:, 0], v[:, 1]], v) == pytest.approx([0, 1])


def test_one_row_of_factors_a_vector() -> None:
    with pytest.raises(DataInvalid, match="2 rows of factors for 3 vectors"):
        information_gap(np.ones((3, 2)), np.ones((2, 1)))


def test_matched_classes_is_the_best_of_all_ways_to_give_each_class_a_dimension() -> None:
    z, labels = np.random.default_rng(3).normal(size=(30, 5)), np.array([0] * 6 + [1] * 14 + [2] * 10)

    def share(dimension: int, label: int) -> float:
        count = int((labels == label).sum())
        largest = sorted(range(30), key=lambda i: -z[i, dimension])[:count]
        return sum(labels[i] == label for i in largest) / count

    ways = [np.mean([share(d, c) for c, d in enumerate(chosen)]) for chosen in permutations(range(5), 3)]
    assert matched_classes(z, labels) == pytest.approx(max(ways))
    assert matched_classes(np.eye(3)[labels], labels) == 1.0
