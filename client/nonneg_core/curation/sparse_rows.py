"""What the mathematics of curation needs of sparse vectors: their compressed rows, dense blocks, inner products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Places = NDArray[np.intp]

ENTRIES = 4_000_000  # entries of rows that are multiplied at a time


class SparseRows(Protocol):
    """Compressed rows of length one (or zero): row i is indices/values[indptr[i]:indptr[i + 1]]."""

    @property
    def indptr(self) -> NDArray[np.int64]: ...
    @property
    def indices(self) -> NDArray[np.int32]: ...
    @property
    def values(self) -> Floats: ...
    @property
    def dimensions(self) -> int: ...


def count(rows: SparseRows) -> int:
    """How many rows there are."""
    return len(rows.indptr) - 1


def dense(rows: SparseRows, start: int, stop: int) -> Floats:
    """The rows from `start` to `stop`, (stop - start, D)."""
    return picked(rows, np.arange(start, min(stop, count(rows))))


def picked(rows: SparseRows, chosen: Places) -> Floats:
    """The chosen rows, (chosen, D)."""
    found = np.zeros((len(chosen), rows.dimensions), np.float32)
    where, owner = entries(rows, chosen)
    found[owner, rows.indices[where]] = rows.values[where]
    return found


def entries(rows: SparseRows, chosen: Places) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the entries of the chosen rows lie in `indices`, and to which of the chosen each belongs."""
    lengths = np.diff(rows.indptr)[chosen]
    owner = np.repeat(np.arange(len(chosen)), lengths)
    begins = np.repeat(rows.indptr[:-1][chosen] - (np.cumsum(lengths) - lengths), lengths)
    return begins + np.arange(len(owner)), owner


def against(block: Floats, one: Places, rows: SparseRows, other: Places) -> Floats:
    """Inner products block[one[i]] . rows[other[i]], summed in double precision."""
    at_once = max(1, ENTRIES * count(rows) // max(1, len(rows.indices)))  # pairs
    parts = []
    for start in range(0, len(one), at_once):
        where, owner = entries(rows, other[start : start + at_once])
        products = block[one[start : start + at_once][owner], rows.indices[where]] * rows.values[where]
        parts.append(np.bincount(owner, products, minlength=len(other[start : start + at_once])).astype(np.float32))
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def times(rows: SparseRows, weights: NDArray[np.float32], most: int = ENTRIES) -> Floats:
    """Inner products of every row with one weighting of the dimensions (D,); about `most` entries at a time."""
    sums = np.zeros(count(rows), np.float32)
    filled = np.flatnonzero(np.diff(rows.indptr))  # `reduceat` knows no empty spans
    at_once = max(1, most * count(rows) // max(1, len(rows.indices)))  # rows
    for start in range(0, len(filled), at_once):
        some = filled[start : start + at_once]
        first, last = rows.indptr[some[0]], rows.indptr[some[-1] + 1]
        products = rows.values[first:last] * weights[rows.indices[first:last]]
        sums[some] = np.add.reduceat(products, rows.indptr[some] - first)
    return sums


def column_means(rows: SparseRows) -> Floats:
    """The mean of every dimension, (D,)."""
    return (summed(rows, lambda values: values) / max(1, count(rows))).astype(np.float32)


def shares(rows: SparseRows) -> Floats:
    """On which share of the rows each dimension is active, (D,)."""
    return (summed(rows, np.ones_like) / max(1, count(rows))).astype(np.float32)


def summed(rows: SparseRows, of: Callable[[Floats], NDArray[Any]], most: int = ENTRIES) -> NDArray[np.float64]:
    """The sum over every dimension's entries of what `of` makes of their values, (D,); `most` entries at a time."""
    sums = np.zeros(rows.dimensions)
    for start in range(0, len(rows.indices), most):
        some = slice(start, start + most)
        sums += np.bincount(rows.indices[some], of(rows.values[some]), minlength=rows.dimensions)
    return sums
