"""Columns of vectors in memory, at every length, against the one rule of shortening."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from nonneg_core.errors import DataInvalid
from nonneg_core.shortening import Vectors, shorten
from nonneg_vectors.search.columns import ColumnEngine
from nonneg_vectors.search.index import Index
from nonneg_vectors.storage.embeddings import Embeddings


def engine_of(z: Vectors) -> ColumnEngine:
    return ColumnEngine(Embeddings.from_dense(z, fingerprint="f", ids=tuple(map(str, range(len(z))))))


def drawn(seed: int) -> Vectors:
    """Rows with many equal values, one of them zero."""
    rng = np.random.default_rng(seed)
    z = np.maximum(rng.integers(-3, 4, (9, 7)), 0).astype(np.float32)
    z[rng.integers(9)] = 0
    return z


def test_columns_hold_the_same_numbers_as_rows() -> None:
    z = drawn(3)
    engine = engine_of(z)
    assert np.array_equal(np.stack([engine.dense(i) for i in range(len(engine))]), z)
    assert engine.whole.counts.tolist() == (z > 0).sum(axis=0).tolist()
    assert engine.means == pytest.approx(z.mean(axis=0))
    assert engine.norms == pytest.approx(np.linalg.norm(z, axis=0))
    for j in range(z.shape[1]):
        assert np.array_equal(np.sort(engine.whole.active(j)), np.flatnonzero(z[:, j]))


@pytest.mark.parametrize("seed", range(3))
def test_every_cut_holds_what_the_one_rule_keeps_among_equal_values_too(seed: int) -> None:
    z = drawn(seed)
    engine = engine_of(z)
    for k, top_k in product(range(1, 8), (None, *range(1, 8))):
        columns = engine.cut(k, top_k)
        there = np.zeros((len(z), k), np.float32)
        for j in range(k):
            there[columns.active(j), j] = columns.strengths(j)
        assert there / columns.lengths[:, None] == pytest.approx(shorten(z, k, top_k), abs=1e-6), (k, top_k)


def test_the_strongest_rows_of_a_dimension_come_in_order_the_first_among_equals_first() -> None:
    columns = engine_of(np.array([[1], [3], [0], [3], [2]], np.float32)).whole
    for count in range(1, 7):
        rows, strengths = columns.strongest(0, count)
        assert rows.tolist() == [1, 3, 4, 0][:count]
        assert strengths.tolist() == [3, 3, 2, 1][:count]


def test_no_vectors_have_no_hits() -> None:
    none = engine_of(np.zeros((0, 8), np.float32))
    assert none.cut(8).scores([(np.array([3], np.int32), np.ones(1, np.float32))]).tolist() == []
    assert none.cut(4, 2).counts.tolist() == [0] * 4
    assert none.norms.tolist() == [0] * 8


def test_an_index_in_memory_takes_more_replaces_what_has_the_same_id_and_forgets() -> None:
    z = shorten(np.eye(4, 6, dtype=np.float32))
    rows = Embeddings.from_dense(z, fingerprint="f", ids=("a", "b", "c", "d"))
    index = Index.of(rows[:2], [{"year": 1}, {"year": 2}])
    index.add(rows[2:], [{"year": 3}, {"year": 4}])
    index.add(rows[3].named(["a"]), [{"year": 5}])
    index.delete(["b", "never there"])
    assert {name: payload["year"] for name, payload in index.engine.payloads().items()} == {"a": 5, "c": 3, "d": 4}
    assert sorted(hit.id for hit in index.search("dim:3", k=9)) == ["a", "d"]
    assert [hit.id for hit in index.search("dim:3", k=9, where={"year": {"gte": 5}})] == ["a"]
    assert [hit.id for hit in index.search("dim:3", k=9, exclude=["a"])] == ["d"]
    assert index.search("dim:3 !dim:3", k=9) == []
    with pytest.raises(DataInvalid, match="without ids"):
        Index.of(rows.named(None))
