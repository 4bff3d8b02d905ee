"""Vectors of a folder by row and by column: a search adds up the columns that its query has.

Rows hold their entries from the largest to the smallest, so that `top_k` is where a row is broken off; columns hold the
photos that a dimension is active in. Both are plain arrays; nothing is ever made dense. Entries are sorted once, when
the folder is opened: a length leaves some of them out, and their order stays.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Integers = NDArray[np.int32]
KEPT_CUTS = 6  # lengths whose columns are held ready


@dataclass(frozen=True, eq=False)
class ColumnIndex:
    """Entries by dimension: column j is rows/values[starts[j]:starts[j + 1]]; `lengths` are the rows' norms."""

    starts: NDArray[np.int64]  # (D + 1,)
    rows: Integers
    values: Floats
    lengths: Floats  # (n,): of what is left of each row, 1 for one of which nothing is left

    @property
    def entries(self) -> float:
        """Mean number that is left of a row."""
        return len(self.rows) / max(1, len(self.lengths))

    def scores(self, indices: Integers, weights: Floats) -> Floats:
        """Return the inner product of a weighting of some dimensions with every row, divided by the row's length."""
        found = np.zeros(len(self.lengths), np.float32)
        for j, weight in zip(indices.tolist(), weights.tolist(), strict=True):
            span = slice(self.starts[j], self.starts[j + 1])
            found[self.rows[span]] += np.float32(weight) * self.values[span]  # a row is in a column once at most
        return np.asarray(found / self.lengths, np.float32)

    def active(self, j: int) -> Integers:
        """Return the photos in which a dimension is active."""
        return self.rows[self.starts[j] : self.starts[j + 1]]

    def strengths(self, j: int) -> Floats:
        """Return how strong it is in each of these."""
        return self.values[self.starts[j] : self.starts[j + 1]]

    def strongest(self, j: int, count: int) -> tuple[Integers, Floats]:
        """Return the photos in which it is strongest and how strong it is there, the first among equals first."""
        strengths = self.strengths(j)
        places = np.arange(len(strengths))
        if len(strengths) > count:
            places = np.flatnonzero(strengths >= np.partition(strengths, -count)[-count])
        order = places[np.argsort(-strengths[places], kind="stable")][:count]
        return self.active(j)[order], strengths[order]

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """In how many photos each dimension is active, (D,)."""
        return np.diff(self.starts)


class StoredRows:
    """All vectors of a folder: unit rows in compressed form, and their columns at any length."""

    def __init__(self, indptr: NDArray[np.int64], indices: Integers, values: Floats, dimensions: int) -> None:
        self.dimensions = dimensions
        self.indptr = np.asarray(indptr, np.int64)
        owner = np.repeat(np.arange(len(indptr) - 1, dtype=np.int64), np.diff(indptr))
        falling = np.uint32(0xFFFFFFFF) - np.asarray(values, np.float32).view(np.uint32)  # of what is > 0, bits order
        order = np.argsort((owner << 32) | falling, kind="stable")  # among equals the lower index comes first
        self.indices = np.asarray(indices, np.int32)[order]
        self.values = np.asarray(values, np.float32)[order]
        self.whole, self.ranks = self._by_column()
        self.norms, self.means = self._moments()
        self._cuts: OrderedDict[tuple[int, int | None], ColumnIndex] = OrderedDict()
        self._cutting = Lock()

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @cached_property
    def _longest(self) -> int:
        """Most entries of a row."""
        return int(np.diff(self.indptr).max(initial=0))

    def row(self, i: int) -> tuple[Integers, Floats]:
        """Return one photo's dimensions and values, the largest first."""
        span = slice(self.indptr[i], self.indptr[i + 1])
        return self.indices[span], self.values[span]

    def dense(self, i: int) -> Floats:
        """Return one photo's vector, (D,)."""
        found = np.zeros(self.dimensions, np.float32)
        indices, values = self.row(i)
        found[indices] = values
        return found

    def cut(self, dimensions: int, top_k: int | None) -> ColumnIndex:
        """Return the columns of the vectors shortened by the one rule: a prefix, then each row's largest."""
        key = (dimensions, None if top_k is None or top_k >= self._longest else top_k)
        with self._cutting:
            if key not in self._cuts:
                self._cuts[key] = self._prefix(dimensions) if key[1] is None else self._largest(dimensions, key[1])
                while len(self._cuts) > KEPT_CUTS:
                    self._cuts.popitem(last=False)
            self._cuts.move_to_end(key)
            return self._cuts[key]

    def _by_column(self) -> tuple[ColumnIndex, Integers | NDArray[np.uint16]]:
        """Return the columns of the vectors as they are, and the place of each of their entries in its row."""
        order = np.argsort(_narrow(self.indices, self.dimensions), kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.indices, minlength=self.dimensions))])
        rows = np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.indptr))[order]
        values = self.values[order]
        ranks = _narrow((order - self.indptr[rows]).astype(np.int32), self.dimensions)
        return ColumnIndex(starts, rows, values, _lengths(rows, values, len(self))), ranks

    def _moments(self) -> tuple[Floats, Floats]:
        """Return the norm and the mean of every column, (D,) each."""
        squares = np.bincount(self.indices, self.values.astype(np.float64) ** 2, minlength=self.dimensions)
        sums = np.bincount(self.indices, self.values, minlength=self.dimensions)
        return np.sqrt(squares).astype(np.float32), (sums / max(1, len(self))).astype(np.float32)

    def _prefix(self, dimensions: int) -> ColumnIndex:
        """Return the first columns of the whole vectors, which need no copy."""
        whole = self.whole
        if dimensions == self.dimensions:
            return whole
        end = int(whole.starts[dimensions])
        rows, values = whole.rows[:end], whole.values[:end]
        return ColumnIndex(whole.starts[: dimensions + 1], rows, values, _lengths(rows, values, len(self)))

    def _largest(self, dimensions: int, top_k: int) -> ColumnIndex:
        """Find a prefix's entries whose place in their row is not behind that of the `top_k`-th of the prefix."""
        whole = self.whole
        end = int(whole.starts[dimensions])
        if dimensions == self.dimensions:
            kept = np.flatnonzero(self.ranks < top_k)
        else:
            kept = np.flatnonzero(self.ranks[:end] <= self._last(dimensions, top_k)[whole.rows[:end]])
        rows, values = whole.rows[kept], whole.values[kept]
        starts = np.searchsorted(kept, whole.starts[: dimensions + 1])
        return ColumnIndex(starts, rows, values, _lengths(rows, values, len(self)))

    def _last(self, dimensions: int, top_k: int) -> Integers | NDArray[np.uint16]:
        """Return the place in each row of its `top_k`-th entry in a prefix, or of its last one there."""
        within = np.flatnonzero(self.indices < dimensions)
        if not len(within):
            return np.zeros(len(self), np.int32)
        begins = np.searchsorted(within, self.indptr)
        nth = np.minimum(begins[:-1] + top_k, begins[1:]) - 1
        return _narrow((within[nth] - self.indptr[:-1]).astype(np.int32), self.dimensions)


def _lengths(rows: Integers, values: Floats, count: int) -> Floats:
    """Return the norm of every row, 1 where it has no entry."""
    squares = np.bincount(rows, values * values, minlength=count)
    return np.sqrt(np.where(squares > 0, squares, 1)).astype(np.float32)


def _narrow(numbers: Integers, below: int) -> NDArray[np.uint16] | Integers:
    """Return numbers `below` a bound in 16 bits if they fit: numpy sorts those in a tenth of the time."""
    return numbers.astype(np.uint16) if below <= 2**16 else numbers
