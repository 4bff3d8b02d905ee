"""Sparse rows in dense blocks: the best few columns of each, and shorter rows whose products bound the full ones."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Doubles, Floats, Numbers, Places

ENTRIES = 4_000_000  # entries of rows that are multiplied at a time
PRODUCTS = 250_000  # and of pairs of rows, which are looked up one by one: as many as fit a core's cache


class SparseRows(Protocol):
    """Compressed rows of length one (or zero): row i is indices/values[indptr[i]:indptr[i + 1]]."""

    @property
    def indptr(self) -> Numbers: ...
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
    matrix = np.zeros((len(chosen), rows.dimensions), np.float32)
    where, owner = entries(rows, chosen)
    matrix[owner, rows.indices[where]] = rows.values[where]
    return matrix


def entries(rows: SparseRows, chosen: Places) -> tuple[Numbers, Numbers]:
    """Return where the entries of the chosen rows lie in `indices`, and to which of the chosen each belongs."""
    where, lengths = spans(rows, chosen)
    return where, np.repeat(np.arange(len(chosen)), lengths)


def spans(rows: SparseRows, chosen: Places) -> tuple[Numbers, Numbers]:
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


def times(rows: SparseRows, weights: Floats, most: int = ENTRIES) -> Floats:
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


def summed(rows: SparseRows, of: Callable[[Floats], NDArray[Any]], most: int = ENTRIES) -> Doubles:
    """Sum what `of` makes of the values of each dimension's entries, (D,), `most` entries at a time."""
    sums = np.zeros(rows.dimensions)
    for start in range(0, len(rows.indices), most):
        some = slice(start, start + most)
        sums += np.bincount(rows.indices[some], of(rows.values[some]), minlength=rows.dimensions)
    return sums


# The best few columns of every row, gathered from tiles of scores in any order.

ScoredPlaces = tuple[Places, Places, Floats]  # row, column and score of each entry


class TopKAccumulator:
    """The columns with the largest scores of each row, over tiles, in order."""

    def __init__(self, rows: int, most: int) -> None:
        self._most = most
        self._least = np.full(rows, -np.inf, np.float32)  # what a column must reach to be among the best
        self.columns = np.full((rows, most), -1, np.int32)
        self.scores = np.full((rows, most), -np.inf, np.float32)

    def entries(self, start: int, stop: int | None = None) -> ScoredPlaces:
        """Return what is held of the rows from `start` on: row, column and score of each entry."""
        partners = self.columns[start:stop]
        rows, ranks = np.nonzero(partners >= 0)
        return rows + start, partners[rows, ranks].astype(np.intp), self.scores[rows + start, ranks]

    def add(self, tile: Floats, start: int, left: int) -> None:
        """Take those of a tile, of rows from start and columns from left, that are among the best of its rows."""
        least = self._least[start : start + len(tile)]
        new = np.isneginf(least)
        if tile.shape[1] > self._most and new.any():
            least[new] = np.partition(tile[new], -self._most, axis=1)[:, -self._most]
        rows, columns = np.nonzero((tile >= least[:, None]) & (tile > -1))
        self.take(rows + start, columns + left, tile[rows, columns])

    def add_columns(self, tile: Floats, start: int, left: int) -> None:
        """Take the same of a transposed tile: its columns are rows from left on, its rows are columns from start on."""
        least = self._least[left : left + tile.shape[1]]
        new = np.isneginf(least)
        if len(tile) > self._most and new.any():
            least[new] = np.partition(tile[:, new], -self._most, axis=0)[-self._most]
        rows, columns = np.nonzero(tile >= least)
        self.take(columns + left, rows + start, tile[rows, columns])

    def take(self, rows: Places, columns: Places, scores: Floats) -> None:
        """Put entries among those that are held, each of which is new."""
        touched = np.unique(rows)
        partners = self.columns[touched]
        there = partners >= 0
        rows = np.concatenate([np.repeat(touched, there.sum(axis=1)), rows])
        columns = np.concatenate([partners[there], columns])
        scores = np.concatenate([self.scores[touched][there], scores])
        rows, columns, scores, rank = ranked(rows, columns, scores)
        leading = rank < self._most
        self.columns[rows[leading], rank[leading]] = columns[leading]
        self.scores[rows[leading], rank[leading]] = scores[leading]
        full = rank == self._most - 1
        self._least[rows[full]] = scores[full]


def ranked(rows: Places, columns: Places, scores: Floats) -> tuple[Places, Places, Floats, Places]:
    """Sort entries by row, largest score first, then lowest column; return them and each one's place in its row."""
    order = np.lexsort((columns, -scores, rows))
    rows, columns, scores = rows[order], columns[order], scores[order]
    begins = np.searchsorted(rows, rows, side="left")
    return rows, columns, scores, np.arange(len(rows)) - begins


# A shorter form of vectors that bounds their inner products from above, so that few need to be computed in full.
#
# With Q (D, r) of orthonormal columns, a = Q Q'a + rest, and by Cauchy and Schwarz
#
#     a . b  <=  (Q'a) . (Q'b) + |rest of a| |rest of b|.
#
# The row [Q'a, |rest of a|] of r + 1 numbers therefore has an inner product that is never below a . b. Q holds the
# directions of most energy among the vectors themselves, so that little is left over.

SAMPLE = 8192  # rows that the directions are found on
BLOCK = 2048
EXACT = 20_000  # up to so many rows nothing is projected: all pairs are computed in full
KEPT = 0.9  # of the energy: what is left over bounds little, and beyond it nearly all pairs would be computed twice


def bounding(
    rows: SparseRows, others: SparseRows | None = None, *, exact: int = EXACT, share: float = KEPT
) -> tuple[Floats, Floats] | None:
    """Return short forms of `rows` and `others` (or `rows` twice) whose inner products bound those of the full rows.

    None where these are computed in full: for at most `exact` rows, or where it takes half of the
    directions to keep this share of the energy.
    """
    total = count(rows) + (0 if others is None else count(others))
    basis = None if total <= exact else directions(rows, share)
    if basis is None:
        return None
    first = projected(rows, basis)
    return first, first if others is None else projected(others, basis)


def directions(rows: SparseRows, share: float) -> Floats | None:
    """Return the fewest orthonormal directions (D, r) with this share of a sample's energy; None if over half of D."""
    step = max(1, count(rows) // SAMPLE)
    energy = np.zeros((rows.dimensions, rows.dimensions), np.float32)
    for start in range(0, count(rows), BLOCK):
        z = dense(rows, start, start + BLOCK)[-start % step :: step]
        energy += z.T @ z
    energies, vectors = np.linalg.eigh(energy)  # rising
    shares = np.cumsum(energies[::-1]) / max(float(energies.sum()), 1e-30)
    rank = int(np.searchsorted(shares, share)) + 1
    return None if rank > rows.dimensions // 2 else np.ascontiguousarray(vectors[:, ::-1][:, :rank])


def projected(rows: SparseRows, basis: Floats) -> Floats:
    """Return [Q'a, |rest of a|] for every row a, (n, r + 1), where Q is the basis."""
    short = np.empty((count(rows), basis.shape[1] + 1), np.float32)
    for start in range(0, count(rows), BLOCK):
        z = dense(rows, start, start + BLOCK)
        coordinates = z @ basis
        energy = np.einsum("ij,ij->i", z, z) - np.einsum("ij,ij->i", coordinates, coordinates)
        short[start : start + len(z), :-1] = coordinates
        short[start : start + len(z), -1] = np.sqrt(np.maximum(energy, 0))
    return short
