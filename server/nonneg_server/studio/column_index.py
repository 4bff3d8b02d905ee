"""Vectors of a folder by row and by column: a search adds up the columns that its query has.

Rows hold their entries from the largest to the smallest, so that `top_k` is where a row is broken off; columns hold the
photos that a dimension is active in. Both are plain arrays; nothing is ever made dense.
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
class Columns:
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
        """The inner product of a weighting of some dimensions with every row, divided by the row's length."""
        found = np.zeros(len(self.lengths), np.float32)
        for j, weight in zip(indices.tolist(), weights.tolist(), strict=True):
            span = slice(self.starts[j], self.starts[j + 1])
            found[self.rows[span]] += np.float32(weight) * self.values[span]  # a row is in a column once at most
        return np.asarray(found / self.lengths, np.float32)

    def active(self, j: int) -> Integers:
        """The photos in which a dimension is active."""
        return self.rows[self.starts[j] : self.starts[j + 1]]

    def strengths(self, j: int) -> Floats:
        """How strong it is in each of these."""
        return self.values[self.starts[j] : self.starts[j + 1]]

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """In how many photos each dimension is active, (D,)."""
        return np.diff(self.starts)


class Stored:
    """All vectors of a folder: unit rows in compressed form, and their columns at any length."""

    def __init__(self, indptr: NDArray[np.int64], indices: Integers, values: Floats, dimensions: int) -> None:
        self.dimensions = dimensions
        self.indptr = np.asarray(indptr, np.int64)
        owner = np.repeat(np.arange(len(indptr) - 1, dtype=np.int64), np.diff(indptr))
        falling = np.uint32(0xFFFFFFFF) - np.asarray(values, np.float32).view(np.uint32)  # of what is > 0, bits order
        order = np.argsort((owner << 32) | falling, kind="stable")  # among equals the lower index comes first
        self.indices = np.asarray(indices, np.int32)[order]
        self.values = np.asarray(values, np.float32)[order]
        self._cuts: OrderedDict[tuple[int, int | None], Columns] = OrderedDict()
        self._cutting = Lock()

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @cached_property
    def whole(self) -> Columns:
        """The columns of the vectors as they are."""
        rows = np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.indptr))
        return _columns(rows, self.indices, self.values, len(self), self.dimensions)

    @cached_property
    def norms(self) -> Floats:
        """The norm of every column, (D,)."""
        squares = np.bincount(self.indices, self.values.astype(np.float64) ** 2, minlength=self.dimensions)
        return np.asarray(np.sqrt(squares), np.float32)

    @cached_property
    def means(self) -> Floats:
        """The mean of every column, (D,)."""
        sums = np.bincount(self.indices, self.values, minlength=self.dimensions)
        return np.asarray(sums / max(1, len(self)), np.float32)

    @cached_property
    def _longest(self) -> int:
        """Most entries of a row."""
        return int(np.diff(self.indptr).max(initial=0))

    def row(self, i: int) -> tuple[Integers, Floats]:
        """One photo's dimensions and values, the largest first."""
        span = slice(self.indptr[i], self.indptr[i + 1])
        return self.indices[span], self.values[span]

    def dense(self, i: int) -> Floats:
        """One photo's vector, (D,)."""
        found = np.zeros(self.dimensions, np.float32)
        indices, values = self.row(i)
        found[indices] = values
        return found

    def cut(self, dimensions: int, top_k: int | None) -> Columns:
        """The columns of the vectors shortened by the one rule: a prefix, then each row's largest."""
        key = (dimensions, None if top_k is None or top_k >= self._longest else top_k)
        with self._cutting:
            if key not in self._cuts:
                self._cuts[key] = self._prefix(dimensions) if key[1] is None else self._largest(dimensions, key[1])
                while len(self._cuts) > KEPT_CUTS:
                    self._cuts.popitem(last=False)
            self._cuts.move_to_end(key)
            return self._cuts[key]

    def _prefix(self, dimensions: int) -> Columns:
        """The first columns of the whole vectors, which need no copy."""
        whole = self.whole
        end = int(whole.starts[dimensions])
        rows, values = whole.rows[:end], whole.values[:end]
        return Columns(whole.starts[: dimensions + 1], rows, values, _lengths(rows, values, len(self)))

    def _largest(self, dimensions: int, top_k: int) -> Columns:
        """Each row's first entries that lie in the prefix: they are its largest."""
        sizes = np.diff(self.indptr)
        kept = self.indices < dimensions
        running = np.cumsum(kept, dtype=np.int32)
        before = np.concatenate([np.zeros(1, np.int32), running])[self.indptr[:-1]]
        kept &= running <= np.repeat(before + np.int32(top_k), sizes)
        places = np.flatnonzero(kept)
        rows = (np.searchsorted(self.indptr, places, side="right") - 1).astype(np.int32)
        return _columns(rows, self.indices[places], self.values[places], len(self), dimensions)


def _columns(rows: Integers, indices: Integers, values: Floats, count: int, dimensions: int) -> Columns:
    """Entries by row, sorted by column; within a column the rows rise."""
    order = np.argsort(_narrow(indices, dimensions), kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(indices, minlength=dimensions))])
    return Columns(starts, rows[order], values[order], _lengths(rows, values, count))


def _lengths(rows: Integers, values: Floats, count: int) -> Floats:
    """The norm of every row, 1 where it has no entry."""
    squares = np.bincount(rows, values * values, minlength=count)
    return np.sqrt(np.where(squares > 0, squares, 1)).astype(np.float32)


def _narrow(indices: Integers, dimensions: int) -> NDArray[np.uint16] | Integers:
    """In 16 bits, which numpy sorts by digits, in a tenth of the time."""
    return indices.astype(np.uint16) if dimensions <= 2**16 else indices
