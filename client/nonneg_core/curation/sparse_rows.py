"""What the mathematics of curation needs of sparse vectors: their compressed rows, dense blocks, inner products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Places = NDArray[np.intp]

ENTRIES = 4_000_000  # entries of rows that are multiplied at a time
PRODUCTS = 250_000  # and of pairs of rows, which are looked up one by one: as many as fit a core's cache


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
    """Return how many rows there are."""
    return len(rows.indptr) - 1


def dense(rows: SparseRows, start: int, stop: int) -> Floats:
    """Return the rows from `start` to `stop` with their zeros, (stop - start, D)."""
    return picked(rows, np.arange(start, min(stop, count(rows))))


def picked(rows: SparseRows, chosen: Places) -> Floats:
    """Return the chosen rows with their zeros, (chosen, D)."""
    found = np.zeros((len(chosen), rows.dimensions), np.float32)
    where, owner = entries(rows, chosen)
    found[owner, rows.indices[where]] = rows.values[where]
    return found


def entries(rows: SparseRows, chosen: Places) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the entries of the chosen rows lie in `indices`, and to which of the chosen each belongs."""
    where, lengths = spans(rows, chosen)
    return where, np.repeat(np.arange(len(chosen)), lengths)


def spans(rows: SparseRows, chosen: Places) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the entries of the chosen rows lie in `indices`, row after row, and how many each row has."""
    lengths = np.diff(rows.indptr)[chosen]
    begins = np.repeat(rows.indptr[:-1][chosen] - (np.cumsum(lengths) - lengths), lengths)
    return begins + np.arange(len(begins)), lengths


def against(block: Floats, one: Places, rows: SparseRows, other: Places) -> Floats:
    """Return the inner products block[one[i]] . rows[other[i]], summed in double precision."""
    at_once = max(1, PRODUCTS * count(rows) // max(1, len(rows.indices)))  # pairs
    products = np.zeros(len(one), np.float32)
    for start in range(0, len(one), at_once):
        some = slice(start, start + at_once)
        where, lengths = spans(rows, other[some])
        places = np.repeat(one[some] * rows.dimensions, lengths) + rows.indices.take(where)
        filled = np.flatnonzero(lengths)  # `reduceat` knows no empty spans
        begins = (np.cumsum(lengths) - lengths)[filled]
        if len(filled):
            terms = block.reshape(-1).take(places) * rows.values.take(where)
            products[start + filled] = np.add.reduceat(terms, begins, dtype=np.float64)
    return products


def times(rows: SparseRows, weights: NDArray[np.float32], most: int = ENTRIES) -> Floats:
    """Return the inner products of all rows with weights of the dimensions (D,), about `most` entries at a time."""
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
    """Return the mean of every dimension, (D,)."""
    return (summed(rows, lambda values: values) / max(1, count(rows))).astype(np.float32)


def shares(rows: SparseRows) -> Floats:
    """Return the share of the rows on which each dimension is active, (D,)."""
    return (summed(rows, np.ones_like) / max(1, count(rows))).astype(np.float32)


def summed(rows: SparseRows, of: Callable[[Floats], NDArray[Any]], most: int = ENTRIES) -> NDArray[np.float64]:
    """Sum what `of` makes of the values of each dimension's entries, (D,), `most` entries at a time."""
    sums = np.zeros(rows.dimensions)
    for start in range(0, len(rows.indices), most):
        some = slice(start, start + most)
        sums += np.bincount(rows.indices[some], of(rows.values[some]), minlength=rows.dimensions)
    return sums
