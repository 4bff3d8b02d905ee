"""Each measure against a slow, obvious second version, and on cases whose answer is known."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from nonneg_core.errors import DataInvalid
from nonneg_vectors.evaluation.structure import (
    EncoderCodes,
    consistency,
    correlation,
    cut_columns,
    floors,
    live_dimensions,
    loose_sparsity,
    median_correlation,
    purity,
    rotation,
    separate_information,
    sepin,
    sepin_ranked,
    sparsity,
)


def vectors(n: int = 40, d: int = 9, seed: int = 0) -> np.ndarray:
    z = np.maximum(np.random.default_rng(seed).normal(size=(n, d)) - 0.3, 0).astype(np.float32)
    z[:, 4] = 0  # a dead dimension
    z[3] = 0  # a vector of nothing
    return z


def labels(n: int = 40) -> list[str]:
    return ["abc"[i % 3] for i in range(n)]


def test_sparsity_is_the_share_of_almost_nothing() -> None:
    z = vectors()
    count = 0
    for row in z.astype(np.float64):
        length = math.sqrt(sum(x * x for x in row))
        count += sum(abs(x / length if length else 0) < 1e-5 for x in row)
    assert sparsity(z) == pytest.approx(count / z.size)
    assert sparsity(np.array([[1.0, 5e-6]], np.float32)) == 0.5


def test_correlation_is_the_mean_cosine_of_pairs_of_live_columns() -> None:
    z = vectors().astype(np.float64)
    rows = [row / np.linalg.norm(row) for row in z if row.any()]
    columns = [column for column in np.array(rows).T if column.any()]
    pairs = [
        abs(float(a @ b) / (np.linalg.norm(a) * np.linalg.norm(b)))
        for i, a in enumerate(columns)
        for j, b in enumerate(columns)
        if i != j
    ]
    assert correlation(z) == pytest.approx(sum(pairs) / len(pairs), rel=1e-5)
    assert correlation(np.eye(5, dtype=np.float32)) == pytest.approx(0)
    assert correlation(np.zeros((5, 3), np.float32)) == 0


def test_the_authors_two_figures_depend_on_lengths_as_theirs_do() -> None:
    z = (30 * vectors()).astype(np.float64)
    assert loose_sparsity(z) == np.mean([abs(x) < 1e-2 for row in z for x in row])
    assert loose_sparsity(z / 1e6) == 1.0
    z[:, 0] *= -1
    columns = [column for column in z.T if sum(column) > 10]
    assert len(columns) == 7
    cosines = [
        abs(float(a @ b)) / (np.linalg.norm(a) * np.linalg.norm(b))
        for i, a in enumerate(columns)
        for b in columns[i + 1 :]
    ]
    assert median_correlation(z) == pytest.approx(np.median(cosines), rel=1e-5)
    assert median_correlation(z / 1e6) == 0.0, "no column adds up to 10"


def test_a_cut_keeps_as_many_entries_of_each_column_as_asked() -> None:
    z = np.random.default_rng(5).normal(size=(30, 4)).astype(np.float32)
    cut = cut_columns(z, [0, 1, 7, 30], of=20)
    for column, whole, count in zip(cut.T, z.T, [0, 1, 7, 20], strict=True):
        largest = sorted(range(20), key=lambda i, whole=whole: -whole[i])[:count]
        assert sorted(np.flatnonzero(column[:20])) == sorted(largest)
        rest = sorted(whole[:20].tolist(), reverse=True)[count:]
        if rest:
            np.testing.assert_allclose(column, np.maximum(whole - rest[0], 0), atol=1e-6)


def test_the_rotated_floor_is_of_unit_rows_live_dimensions_and_as_often_active_as_the_axes() -> None:
    z = vectors(60, 9, seed=3) * np.random.default_rng(4).uniform(0.1, 10, (60, 1)).astype(np.float32)
    found = floors(EncoderCodes(z))["rotated"].photos
    live = [j for j in range(9) if z[:, j].any()]
    q = rotation(len(live))
    expected = np.zeros_like(found)
    rows = [row / np.linalg.norm(row) if row.any() else row for row in z.astype(np.float64)]
    for place, j in enumerate(live):
        turned = [sum(row[k] * q[i, place] for i, k in enumerate(live)) for row in rows]
        count = int((z[:, j] > 0).sum())
        threshold = sorted(turned, reverse=True)[count]
        expected[:, j] = [max(value - threshold, 0) for value in turned]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_array_equal((found > 0).sum(axis=0), (z > 0).sum(axis=0))


def test_consistency_is_the_share_of_the_most_frequent_class() -> None:
    z, y = vectors(), labels()
    shares, weights = [], []
    for column in z.T:
        classes = [label for label, value in zip(y, column, strict=True) if value > 0]
        if classes:
            shares.append(max(Counter(classes).values()) / len(classes))
            weights.append(len(classes))
    found = consistency(z, y)
    assert found.unweighted == pytest.approx(sum(shares) / len(shares))
    assert found.weighted == pytest.approx(sum(s * w for s, w in zip(shares, weights, strict=True)) / sum(weights))


def test_one_class_a_dimension_is_perfectly_consistent_and_far_above_its_floor() -> None:
    y = np.repeat(np.arange(5), 20)
    found = consistency(np.eye(5, dtype=np.float32)[y], y)
    assert (found.weighted, found.unweighted) == (1, 1)
    assert found.weighted_floor < 0.5


def test_a_rare_dimension_flatters_the_unweighted_mean_and_its_floor() -> None:
    y = np.arange(100) % 10
    z = np.ones((100, 2), np.float32)
    z[1:, 1] = 0  # active on one image
    found = consistency(z, y)
    assert found.unweighted == pytest.approx((0.1 + 1) / 2)
    assert found.unweighted_floor == pytest.approx((0.1 + 1) / 2)
    assert found.weighted == pytest.approx(11 / 101)


def test_nothing_active_is_not_consistency() -> None:
    assert consistency(np.zeros((4, 2), np.float32), [0, 1, 0, 1]).weighted == 0


def test_labels_of_another_length_are_refused() -> None:
    with pytest.raises(DataInvalid, match="3 labels for 4 vectors"):
        consistency(np.zeros((4, 2), np.float32), [0, 1, 0])


def test_live_dimensions_are_counted() -> None:
    assert live_dimensions(vectors()) == 8


def info_nce(first: np.ndarray, second: np.ndarray, temperature: float) -> float:
    total = 0.0
    for j, u in enumerate(first):
        scores = []
        for v in second:
            lengths = np.linalg.norm(u) * np.linalg.norm(v)
            scores.append(float(u @ v) / lengths / temperature if lengths else 0.0)
        total += math.log(sum(math.exp(s) for s in scores)) - scores[j]
    return total / len(first)


def test_separate_information_is_the_loss_that_a_missing_dimension_costs() -> None:
    first = vectors(20, 6).astype(np.float64)
    second = np.maximum(first + np.random.default_rng(1).normal(size=first.shape, scale=0.1), 0)
    whole = info_nce(first, second, 0.2)
    expected = [info_nce(np.delete(first, i, 1), np.delete(second, i, 1), 0.2) - whole for i in range(6)]
    np.testing.assert_allclose(separate_information(first, second).mean(axis=0), expected, atol=1e-9)


def test_ranked_sepin_compares_a_pair_with_those_of_its_block() -> None:
    rng = np.random.default_rng(2)
    first = np.maximum(rng.normal(size=(1024, 3)), 0)
    second = np.maximum(first + rng.normal(size=first.shape, scale=0.1), 0)
    added = []  # by each dimension, to each half
    for half in (0, 1):
        parts = [slice(256 * i, 256 * (i + 1)) for i in range(half, 4, 2)]
        whole = np.mean([info_nce(first[p], second[p], 0.2) for p in parts])
        without = [
            np.mean([info_nce(np.delete(first[p], i, 1), np.delete(second[p], i, 1), 0.2) for p in parts])
            for i in range(3)
        ]
        added.append(np.array(without) - whole)
    best = np.mean([added[1 - half][added[half].argmax()] for half in (0, 1)])
    found = sepin_ranked(first, second)
    assert found["1"].mean == pytest.approx(best, abs=1e-9)
    assert found["all"].mean == pytest.approx(np.mean(added), abs=1e-9)


def test_a_dead_dimension_knows_nothing() -> None:
    z = vectors()
    assert not separate_information(z, z)[:, 4].any()


def test_sepin_is_the_mean_over_the_first_k() -> None:
    found = sepin(np.array([[4.0, 2.0, 0.0], [2.0, 0.0, 1.0]]), ks=(1, 2, 10))
    assert {k: values.tolist() for k, values in found.items()} == {"1": [4.0, 2.0], "2": [3.0, 1.0], "all": [2.0, 1.0]}


def test_every_dimension_of_signed_vectors_is_active_on_every_image() -> None:
    z, y = np.random.default_rng(0).normal(size=(50, 4)), np.arange(50) % 5
    assert live_dimensions(-np.abs(z)) == 4
    assert consistency(z, y).weighted == pytest.approx(0.2), "the share of the largest class, whatever the dimension"


def test_purity_is_the_share_of_the_most_frequent_class_among_the_largest() -> None:
    z, y = np.random.default_rng(1).normal(size=(200, 7)), np.arange(200) % 3
    expected = []
    for column in (z / np.linalg.norm(z, axis=1)[:, None]).T:
        largest = sorted(range(200), key=lambda i: -column[i])[:10]
        expected.append(Counter(y[largest].tolist()).most_common(1)[0][1] / 10)
    assert purity(z, y, share=0.05) == pytest.approx(np.mean(expected))


def test_purity_does_not_depend_on_how_long_vectors_are() -> None:
    rng = np.random.default_rng(1)
    z, y = rng.normal(size=(200, 7)), np.arange(200) % 3
    assert purity(z * rng.uniform(0.1, 10, (200, 1)), y) == purity(z, y)


def test_purity_does_not_count_a_dimension_that_fires_too_rarely() -> None:
    y = np.arange(100) % 10
    z = np.zeros((100, 2))
    z[0, 0] = 1.0  # one image is always of one class
    z[:, 1] = y == 3
    assert purity(z, y, share=0.05) == 1.0
    assert purity(z[:, :1], y, share=0.05) == 0.0


def test_ranked_sepin_is_chosen_and_measured_on_different_pairs() -> None:
    rng = np.random.default_rng(0)
    first = np.maximum(rng.normal(size=(60, 12)), 0)
    noise = np.maximum(rng.normal(size=(60, 12)), 0)
    found = sepin_ranked(first, noise)
    assert abs(found["1"].mean) < 0.1, (
        "pairs that have nothing in common: the largest of many estimates is not reported"
    )
    noise[:, 7] = first[:, 7]  # one dimension that both views share
    found = sepin_ranked(first, noise)
    assert found["1"].mean > found["all"].mean > 0
    assert found["1"].low < found["1"].mean < found["1"].high
