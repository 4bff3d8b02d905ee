"""Vectors without active dimensions, among others and alone, and counts beside each threshold, by slow versions."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from nonneg_core.shortening import shorten
from nonneg_vectors.evaluation.ranking import best
from nonneg_vectors.storage.csr import concatenate, from_dense, from_pairs, pick
from nonneg_vectors.storage.packing import pack_sparse, unpack_sparse

Floats = NDArray[np.float32]
GONE = st.sampled_from(["none", "first", "last", "half", "all"])


def vectors(rows: int, width: int, gone: str, seed: int = 0) -> Floats:
    """Small whole numbers, so that many are equal; some rows of zeros."""
    z = np.random.default_rng(seed).integers(0, 4, (rows, width)).astype(np.float32)
    z[
        {"none": [], "first": [0], "last": [rows - 1], "half": list(range(rows // 2)), "all": list(range(rows))}[gone]
    ] = 0
    return z


def shortened_slowly(row: Floats, dimensions: int, top_k: int | None) -> list[float]:
    values = [float(v) for v in row[:dimensions]]
    if top_k is not None:
        kept = sorted(range(len(values)), key=lambda i: (-values[i], i))[:top_k]
        values = [v if i in kept else 0.0 for i, v in enumerate(values)]
    length = math.sqrt(sum(v * v for v in values))
    return [v / length if length else 0.0 for v in values]


@settings(deadline=None, max_examples=150)
@given(rows=st.integers(1, 9), width=st.integers(1, 17), gone=GONE, off=st.integers(-1, 1), seed=st.integers(0, 99))
def test_they_are_shortened_beside_others_as_alone(rows: int, width: int, gone: str, off: int, seed: int) -> None:
    z = vectors(rows, width, gone, seed)
    active = int(np.count_nonzero(z, axis=1).max())
    for dimensions in {1, max(1, width - 1), width}:
        for top_k in {None, max(1, active + off), max(1, dimensions + off)}:
            found = shorten(z, dimensions, top_k)
            assert np.isfinite(found).all()
            np.testing.assert_allclose(found, [shortened_slowly(row, dimensions, top_k) for row in z], atol=1e-6)
            for row, one in zip(z, found, strict=True):
                np.testing.assert_array_equal(shorten(row, dimensions, top_k), one)


@settings(deadline=None, max_examples=80)
@given(count=st.integers(1, 12), width=st.integers(1, 40), gone=GONE, off=st.integers(-1, 1), seed=st.integers(0, 99))
def test_the_best_of_equal_scores_are_those_of_a_stable_sort(
    count: int, width: int, gone: str, off: int, seed: int
) -> None:
    scores = vectors(count, width, gone, seed)
    for depth in {1, min(width, max(1, width // 2 + off)), width}:
        slow = [sorted(range(width), key=lambda i: (-row[i], i))[:depth] for row in scores]
        np.testing.assert_array_equal([best(row, depth) for row in scores], slow)


@settings(deadline=None, max_examples=80)
@given(rows=st.integers(1, 9), width=st.sampled_from([1, 2, 127, 128, 129]), gone=GONE, seed=st.integers(0, 99))
def test_they_are_packed_joined_and_picked_as_rows_of_nothing(rows: int, width: int, gone: str, seed: int) -> None:
    z = vectors(rows, width, gone, seed)
    pairs = [(np.flatnonzero(row).astype(np.int32), row[row > 0]) for row in z]
    for (indices, values), row in zip(pairs, z, strict=True):
        found, read = unpack_sparse(pack_sparse(indices, values, width), width)
        np.testing.assert_array_equal(found, indices)
        np.testing.assert_allclose(read, values, rtol=0.01, atol=0.02 * float(row.max()))
    for held in (from_pairs(pairs), concatenate([from_dense(z[:1]), from_dense(z[1:])]), from_dense(z)):
        chosen = pick(held, np.arange(rows)[::-1])
        for i, (indices, values) in enumerate(reversed(pairs)):
            part = slice(chosen.indptr[i], chosen.indptr[i + 1])
            np.testing.assert_array_equal(chosen.indices[part], indices)
            np.testing.assert_array_equal(chosen.values[part], values)
