"""Retrieval metrics, against trec_eval (through ir_measures) and against a slow, obvious version."""

from __future__ import annotations

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nonneg_core.errors import DataInvalid
from nonneg_vectors.evaluation import ranking
from nonneg_vectors.evaluation import ranking as metrics
from nonneg_vectors.evaluation.ranking import retrieval


def sparse_vectors(seed, rows, dimensions=24):
    rng = np.random.default_rng(seed)
    return np.maximum(rng.normal(size=(rows, dimensions)), 0).astype(np.float32)


def vectors_with_ties(seed, rows):
    """Four ones of twelve, or nothing: cosines are exact in float32 as in float64, and many are equal."""
    rng = np.random.default_rng(seed)
    z = np.zeros((rows, 12), np.float32)
    for i in np.flatnonzero(rng.random(rows) > 0.1):
        z[i, rng.choice(12, 4, replace=False)] = 1
    return z


def slow_lists(queries, gallery, alone):
    """Every list by Python's own sort."""
    for i, q in enumerate(queries):
        scored = []
        for j, g in enumerate(gallery):
            if alone and i == j:
                continue
            length = np.linalg.norm(q) * np.linalg.norm(g)
            scored.append((-(float(q @ g) / length if length else 0.0), j))
        yield [(j, -s) for s, j in sorted(scored)]


def slow_scores(found, relevant, k):
    head = found[:k]
    precisions = [sum(head[: i + 1]) / (i + 1) for i in range(len(head)) if head[i]]
    gains = [1 / np.log2(i + 2) for i in range(len(head)) if head[i]]
    ideal = sum(1 / np.log2(i + 2) for i in range(min(relevant, k)))
    return {
        "R-precision": sum(found[:relevant]) / relevant,
        f"mAP@{k}": sum(precisions) / min(relevant, k),
        f"recall@{k}": sum(head) / relevant,
        f"nDCG@{k}": sum(gains) / ideal,
    }


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.integers(4, 40), classes=st.integers(1, 4), k=st.integers(1, 60))
def test_every_metric_is_what_the_slow_version_says(seed, rows, classes, k):
    z = vectors_with_ties(seed, rows)
    labels = np.random.default_rng(seed).integers(0, classes, rows)
    labels[1] = labels[0]  # one query has something to find
    report = retrieval(z, labels, k=k)
    expected = {}
    for i, ranked in enumerate(slow_lists(z, z, alone=True)):
        relevant = int((labels == labels[i]).sum()) - 1
        if relevant:
            found = [labels[j] == labels[i] and s > 0 for j, s in ranked]
            expected[i] = slow_scores(found, relevant, k) | {"P@10": sum(found[:10]) / 10}
    assert report.queries.tolist() == list(expected)
    lists = list(slow_lists(z, z, alone=True))
    for row, i in enumerate(expected):  # the vectors have fewer rows than the lists are deep
        found = [labels[j] == labels[i] and s > 0 for j, s in lists[i]]
        assert report.heads.first[row] == (found.index(True) + 1 if any(found) else 0)
        order = [j for j, _ in lists[i]][: report.heads.nearest.shape[1]]
        assert report.heads.nearest[row, : len(order)].tolist() == order
    for name, values in report.scores().items():
        if name in next(iter(expected.values())):
            np.testing.assert_allclose(values, [e[name] for e in expected.values()], atol=1e-12, err_msg=name)


@pytest.mark.parametrize("k", [5, 20])
def test_they_agree_with_trec_eval(k):
    gallery, queries = sparse_vectors(1, 120), sparse_vectors(2, 30)
    labels, query_labels = np.arange(120) % 7, np.arange(30) % 7
    report = retrieval(gallery, labels, queries, query_labels, k=k)
    qrels = [
        ir_measures.Qrel(f"q{i}", f"d{j}", int(labels[j] == query_labels[i])) for i in range(30) for j in range(120)
    ]
    run = [
        ir_measures.ScoredDoc(f"q{i}", f"d{j}", -float(place))
        for i, ranked in enumerate(slow_lists(queries, gallery, alone=False))
        for place, (j, _) in enumerate(ranked)
    ]
    wanted = {
        "P@1": ir_measures.P @ 1,
        "P@10": ir_measures.P @ 10,
        "R-precision": ir_measures.Rprec,
        f"recall@{k}": ir_measures.R @ k,
        f"nDCG@{k}": ir_measures.nDCG @ k,
    }
    by_trec = ir_measures.calc_aggregate(wanted.values(), qrels, run)
    for name, measure in wanted.items():
        assert report.means()[name] == pytest.approx(by_trec[measure], abs=2e-4), name
    # trec_eval divides AP@k by R; ours by min(R, k). Undo it, query by query.
    relevant = np.bincount(labels)[query_labels]
    by_trec_ap = {m.query_id: m.value for m in ir_measures.iter_calc([ir_measures.AP @ k], qrels, run)}
    for i in range(30):
        undone = report.average_precision[i] * min(relevant[i], k) / relevant[i]
        assert undone == pytest.approx(by_trec_ap[f"q{i}"], abs=1e-4)


def test_ap_at_the_gallerys_size_is_trec_evals_ap():
    gallery, queries = sparse_vectors(3, 80), sparse_vectors(4, 10)
    labels, query_labels = np.arange(80) % 5, np.arange(10) % 5
    report = retrieval(gallery, labels, queries, query_labels, k=80)
    qrels = [ir_measures.Qrel(str(i), str(j), int(labels[j] == query_labels[i])) for i in range(10) for j in range(80)]
    run = [
        ir_measures.ScoredDoc(str(i), str(j), -float(place))
        for i, ranked in enumerate(slow_lists(queries, gallery, alone=False))
        for place, (j, _) in enumerate(ranked)
    ]
    assert report.means()["mAP@80"] == pytest.approx(
        ir_measures.calc_aggregate([ir_measures.AP], qrels, run)[ir_measures.AP], abs=1e-4
    )


def test_average_precision_divides_by_what_could_have_been_found():
    hits = np.array([[False, True, False]])
    assert metrics.average_precision(hits, np.array([3]), k=3) == pytest.approx(0.5 / 3)
    assert metrics.average_precision(hits, np.array([1]), k=3) == pytest.approx(0.5)


def test_a_perfect_list_scores_one_everywhere():
    z = np.repeat(np.eye(4, dtype=np.float32), 3, axis=0)
    report = retrieval(z, np.repeat(np.arange(4), 3), k=2, precision_at=(1, 2))
    assert all(value == 1 for value in report.means().values())


def test_a_zero_query_finds_nothing():
    z = np.zeros((4, 8), dtype=np.float32)
    report = retrieval(z, [0, 0, 1, 1])
    assert all(value == 0 for value in report.means().values())


def test_an_item_that_shares_no_dimension_is_never_found():
    z = np.eye(3, dtype=np.float32)
    assert retrieval(z, ["a", "a", "a"], precision_at=(1,)).means()["P@1"] == 0


def test_equal_scores_are_listed_by_index_whatever_the_block():
    gallery = np.tile(np.float32([[1, 2, 0], [0, 1, 1]]), (20, 1))
    depths = np.full(5, 30)
    wide = [r.order.tolist() for r in ranking.rank(gallery[:5], gallery, depths)]
    assert [r.order.tolist() for r in ranking.rank(gallery[:5], gallery, depths, block_bytes=1)] == wide
    assert wide[0] == [*range(0, 40, 2), *range(1, 21, 2)]


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30), st.integers(0, 35))
def test_best_is_a_stable_sort(values, depth):
    scores = np.array(values, dtype=np.float32)
    assert ranking.best(scores, depth).tolist() == sorted(range(len(values)), key=lambda i: (-values[i], i))[:depth]


def test_a_prefix_is_ranked_as_its_copy_is():
    z = sparse_vectors(5, 50, 64)
    labels = np.arange(50) % 5
    assert retrieval(z[:, :16], labels).means() == retrieval(z[:, :16].copy(), labels).means()


def test_queries_without_anything_to_find_are_left_out():
    report = retrieval(sparse_vectors(6, 5), ["a", "a", "lonely", "b", "b"])
    assert report.queries.tolist() == [0, 1, 3, 4]


def test_nothing_to_find_at_all_is_said():
    with pytest.raises(DataInvalid, match="no query has anything to find"):
        retrieval(sparse_vectors(7, 3), ["a", "b", "c"])


def test_labels_of_another_length_are_refused():
    with pytest.raises(DataInvalid, match="2 labels for 3 vectors"):
        retrieval(sparse_vectors(8, 3), ["a", "b"])


def test_the_nearest_neighbours_vote_by_their_cosines():
    assert metrics.vote(np.array([1, 0, 0]), np.array([0.9, 0.4, 0.4])) == 1
    assert metrics.vote(np.array([1, 0, 0]), np.array([0.7, 0.4, 0.4])) == 0
    assert metrics.vote(np.array([2, 1]), np.array([0.5, 0.5])) == 1
    assert metrics.vote(np.array([2, 1]), np.array([0.0, 0.0])) == -1
