from __future__ import annotations

import numpy as np
import pytest

from nonneg_export.checks.quality import quality_by_length, sampled_task
from nonneg_runtime.bundle.evidence import QualityRow
from nonneg_vectors.evaluation.ranking import retrieval
from nonneg_vectors.evaluation.retrieval import Length, as_emitted, by_chance, cut_to_length, falling, fit_pca


def clustered(n: int = 60, d: int = 32, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(n) % classes
    centres = np.maximum(rng.normal(size=(classes, d)), 0)
    return np.maximum(centres[y] + rng.normal(size=(n, d), scale=0.6), 0).astype(np.float32), y


def table() -> dict[tuple[str, int, int | None], QualityRow]:
    z, y = clustered()
    orders = {
        "expected-activation": [as_emitted(32)],
        "random": [by_chance(32, seed) for seed in range(3)],
        "variance": [falling(tuple(z.var(axis=0)))],
    }
    rows = quality_by_length(sampled_task(z, y), orders, pca=fit_pca(z), lengths=(64, 16, 4), top_ks=(64, 4), k=10)
    return {(row.selection, row.dimensions, row.top_k): row for row in rows if row.asked == "cut"}


def test_every_selection_is_measured_at_every_length_there_is() -> None:
    expected = {(s, n, None) for s in ("expected-activation", "random", "variance", "pca") for n in (32, 16, 4)}
    assert set(table()) == expected | {("expected-activation", 32, 4)}


@pytest.mark.parametrize("length", [32, 16, 4])
def test_a_row_is_the_retrieval_of_the_shortened_vectors(length: int) -> None:
    z, y = clustered()
    row = table()["expected-activation", length, None]
    short = z[:, :length]
    means = retrieval(short, y, k=10).means()
    assert (row.p_at_1, row.p_at_10, row.map_at_k, row.knn) == pytest.approx(
        (means["P@1"], means["P@10"], means["mAP@10"], means["kNN"])
    )
    assert row.mean_nnz == pytest.approx((short > 0).sum(axis=1).mean())
    assert row.zero_share == pytest.approx((~short.any(axis=1)).mean())
    assert row.bytes == pytest.approx(min(4 * length, 4 * row.mean_nnz))


def test_all_columns_are_equally_good_in_every_order() -> None:
    rows = table()
    assert rows["random", 32, None].map_at_k == rows["expected-activation", 32, None].map_at_k


def test_random_is_the_mean_of_its_draws() -> None:
    z, y = clustered()
    each = [retrieval(z[:, by_chance(32, s)[:4]], y, k=10).precision[1].mean() for s in range(3)]
    assert table()["random", 4, None].p_at_1 == pytest.approx(np.mean(each))


def test_top_k_keeps_so_many_of_each_vector() -> None:
    assert table()["expected-activation", 32, 4].mean_nnz <= 4


def test_pca_vectors_are_dense_and_cost_as_much() -> None:
    row = table()["pca", 16, None]
    assert (row.mean_nnz, row.bytes) == (16, 64)


def test_of_many_images_a_sample_asks_the_rest() -> None:
    z, y = clustered()
    task = sampled_task(z, y, every=50, sample=20)
    assert task.queries is not None
    assert len(task.queries) == 20
    assert sorted(map(bytes, [*task.queries, *task.gallery])) == sorted(map(bytes, z))
    assert table()["expected-activation", 32, None].p_at_1 > 0.5


def test_of_few_images_each_asks_all_others() -> None:
    z, y = clustered()
    task = sampled_task(z, y)
    assert task.queries is None
    assert len(task.gallery) == 60


@pytest.mark.parametrize("n", [60, 300])
def test_what_is_stored_cut_is_also_asked_whole_and_re_ranked(n: int) -> None:
    z, y = clustered(n)
    task = sampled_task(z, y, every=100, sample=40)
    orders = {"expected-activation": [as_emitted(32)]}
    rows = quality_by_length(task, orders, lengths=(), top_ks=(4,), k=10)
    found = {(row.top_k, row.asked): row for row in rows if row.top_k}
    assert set(found) == {(4, "cut"), (3, "whole"), (3, "re-ranked"), (4, "whole"), (4, "re-ranked")}
    assert found[4, "whole"].mean_nnz <= 4
    gallery, labels, alone = task.gallery, np.asarray(task.labels), task.queries is None
    stored = cut_to_length(gallery, Length(32, 4))
    hits = []
    for i, query in enumerate(gallery if task.queries is None else task.queries):
        others = [j for j in range(len(gallery)) if not (alone and j == i)]
        scores = {j: query @ stored[j] / max(np.linalg.norm(stored[j]), 1e-9) for j in others}
        label = labels[i] if task.query_labels is None else task.query_labels[i]
        hits.append(labels[max(others, key=lambda j: scores[j])] == label)
    assert found[4, "whole"].p_at_1 == pytest.approx(np.mean(hits))
    exact, _ = task.report(Length(32), 10)
    if n <= 200:  # all of the others are re-ranked
        assert found[4, "re-ranked"].map_at_k == pytest.approx(float(exact.average_precision.mean()))
    assert found[4, "re-ranked"].map_at_k >= found[4, "whole"].map_at_k
