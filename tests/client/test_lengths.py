"""Lengths: what is stored of a vector, and what asks for it."""

from __future__ import annotations

import numpy as np
import pytest

from nonneg_client.commands.embedder_options import read_length
from nonneg_vectors.evaluation.retrieval import Length, RetrievalTask, as_queries, cut_to_length

Z = np.array([[4.0, 1.0, 3.0, 9.0], [0.0, 2.0, 1.0, 9.0]], dtype=np.float32)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("3", Length(3)),
        ("3:2", Length(3, 2)),
        ("3/2", Length(3, 2, asked_whole=True)),
        ("3/2+", Length(3, 2, True, True)),
    ],
)
def test_a_length_is_read_as_it_is_written(text: str, length: Length) -> None:
    assert read_length(text) == length
    assert str(length) == text


def test_what_is_stored_is_cut_and_what_asks_is_not() -> None:
    length = read_length("3/1")
    assert cut_to_length(Z, length).tolist() == [[4, 0, 0], [0, 2, 0]]
    assert as_queries(Z, length).tolist() == Z[:, :3].tolist()
    assert as_queries(Z, read_length("3:1")).tolist() == cut_to_length(Z, length).tolist()


def test_stored_cut_and_asked_whole_is_scored_as_a_slow_loop_says() -> None:
    g = np.random.default_rng(0)
    z = g.exponential(size=(40, 12)).astype(np.float32)
    labels = np.arange(40) % 4
    report, stored = RetrievalTask(z, labels).report(Length(12, 3, asked_whole=True), 10)
    hits = []
    for i in range(40):
        best = max((j for j in range(40) if j != i), key=lambda j: z[i] @ stored[j] / np.linalg.norm(stored[j]))
        hits.append(labels[best] == labels[i])
    assert report.precision[1].tolist() == hits
    assert (np.count_nonzero(stored, axis=1) == 3).all()


def test_re_ranked_by_whole_vectors_the_order_is_theirs() -> None:
    z = np.random.default_rng(2).exponential(size=(30, 12)).astype(np.float32)
    labels = np.arange(30) % 3
    again, stored = RetrievalTask(z, labels).report(Length(12, 2, asked_whole=True, reranked=True), 10)
    whole, _ = RetrievalTask(z, labels).report(Length(12), 10)  # of 30 all are among the first 200
    assert again.precision[1].tolist() == whole.precision[1].tolist()
    assert (np.count_nonzero(stored, axis=1) == 2).all()


@pytest.mark.parametrize("text", ["3+", "3:2+", "3/+", "3/2++"])
def test_what_is_not_a_length_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="int"):
        read_length(text)


def test_queries_apart_ask_whole_too() -> None:
    g = np.random.default_rng(1)
    gallery, queries = g.exponential(size=(20, 8)).astype(np.float32), g.exponential(size=(5, 8)).astype(np.float32)
    labels, theirs = np.arange(20) % 2, np.arange(5) % 2
    whole, stored = RetrievalTask(gallery, labels, queries, theirs).report(Length(8, 2, asked_whole=True), 5)
    best = [int(np.argmax(stored @ q / np.linalg.norm(stored, axis=1))) for q in queries]
    assert whole.precision[1].tolist() == [labels[j] == theirs[i] for i, j in enumerate(best)]
