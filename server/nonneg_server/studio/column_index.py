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
    entries: float  # mean number that is left of a row

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
        return self.cut(self.dimensions, None)

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
        key = (dimensions, None if top_k is None or top_k >= dimensions else top_k)
        with self._cutting:
            if key not in self._cuts:
                self._cuts[key] = self._made(*key)
                while len(self._cuts) > KEPT_CUTS:
                    self._cuts.popitem(last=False)
            self._cuts.move_to_end(key)
            return self._cuts[key]

    def _made(self, dimensions: int, top_k: int | None) -> Columns:
        kept = self.indices < dimensions
        if top_k is not None:
            running = np.cumsum(kept, dtype=np.int64)
            before = np.concatenate([[0], running])[self.indptr[:-1]]
            kept &= running - np.repeat(before, np.diff(self.indptr)) <= top_k
        rows = np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.indptr))[kept]
        indices, values = self.indices[kept], self.values[kept]
        squares = np.bincount(rows, values.astype(np.float64) ** 2, minlength=len(self))
        lengths = np.sqrt(np.where(squares > 0, squares, 1)).astype(np.float32)
        order = np.argsort(_narrow(indices, dimensions), kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(indices, minlength=dimensions))])
        return Columns(starts, rows[order], values[order], lengths, len(rows) / max(1, len(self)))


def _narrow(indices: Integers, dimensions: int) -> NDArray[np.uint16] | Integers:
    """In 16 bits, which numpy sorts by digits, in a tenth of the time."""
    return indices.astype(np.uint16) if dimensions <= 2**16 else indices
