"""Vectors in memory, by row and by column: an engine of `Index` that needs numpy alone and answers at every length.

Columns hold the rows in which a dimension is active, so that a query costs what its own dimensions cost. Each entry
also has its place in its row by size, so that `top_k` of any prefix is a comparison; nothing is ever made dense.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nonneg_core.shortening import Vectors
from nonneg_vectors.expressions.weightings import Unlike
from nonneg_vectors.search.attributes import holds
from nonneg_vectors.search.vector_engine import Description, Engine, EngineHit, Payload, SparseWeights, Where
from nonneg_vectors.storage.embeddings import Embeddings

Floats = NDArray[np.float32]
Integers = NDArray[np.int32]
Narrow = Integers | NDArray[np.uint16]
NOTHING: Mapping[int, float] = MappingProxyType({})
LENGTHS_IN_MEMORY = 6  # whose columns are not made again


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

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """In how many rows each dimension is active, (D,)."""
        return np.diff(self.starts)

    def scores(self, parts: Sequence[SparseWeights]) -> Floats:
        """Return the smallest of every row's inner products with the parts, divided by the row's length, (n,)."""
        products = [self._products(*part) for part in parts]
        return products[0] if len(products) == 1 else np.asarray(np.minimum.reduce(products), np.float32)

    def _products(self, indices: Integers, weights: Floats) -> Floats:
        sums = np.zeros(len(self.lengths), np.float32)
        for j, weight in zip(indices.tolist(), weights.tolist(), strict=True):
            sums[self.active(j)] += np.float32(weight) * self.strengths(j)  # a row is in a column once at most
        return np.asarray(sums / self.lengths, np.float32)

    def active(self, j: int) -> Integers:
        """Return the rows in which a dimension is active."""
        return self.rows[self.starts[j] : self.starts[j + 1]]

    def strengths(self, j: int) -> Floats:
        """Return how strong it is in each of these."""
        return self.values[self.starts[j] : self.starts[j + 1]]

    def strongest(self, j: int, count: int) -> tuple[Integers, Floats]:
        """Return the rows in which it is strongest and how strong it is there, the first among equals first."""
        strengths = self.strengths(j)
        order = largest_first(strengths, np.arange(len(strengths)), count)
        return self.active(j)[order], strengths[order]


class Matches(NamedTuple):
    """Every row's score, which rows may be answered, and those of them with the largest scores above 0."""

    scores: Floats  # (n,)
    allowed: NDArray[np.bool_]  # (n,)
    order: NDArray[np.intp]

    def count(self, least: float = 0.0) -> int:
        """Return how many rows that may be answered have a score of at least this, and above 0."""
        return int((self.allowed & (self.scores >= least) & (self.scores > 0)).sum())


class ColumnEngine(Engine):
    """Vectors of length one in this process; the order of their rows is that in which they were given."""

    noun = "collection"

    def __init__(self, vectors: Embeddings, payloads: Sequence[Payload] = (), *, root: str = "") -> None:
        self._making = Lock()
        self.description = Description(vectors.fingerprint, vectors.dimensions, vectors.model, root)
        unit = vectors if vectors.normalized else vectors.shorten()
        self._hold(unit, list(payloads) or [{}] * len(unit))

    def __len__(self) -> int:
        return len(self.vectors)

    def _hold(self, vectors: Embeddings, payloads: list[Payload]) -> None:
        self.vectors, self._payloads = vectors, payloads
        self._places = {name: i for i, name in enumerate(vectors.ids or ())}
        dimensions, indptr = vectors.dimensions, vectors.indptr
        owner = np.repeat(np.arange(len(vectors), dtype=np.int64), vectors.nnz)
        falling = np.uint32(0xFFFFFFFF) - vectors.values.view(np.uint32)  # of what is above 0, bits say the order
        by_size = np.argsort((owner << 32) | falling, kind="stable")  # among equals the lower index comes first
        self._by_size = vectors.indices[by_size]  # each row's dimensions, the largest first
        ranks = np.empty(len(owner), np.int32)
        ranks[by_size] = np.arange(len(owner)) - indptr[owner]
        order = np.argsort(_narrow(vectors.indices, dimensions), kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(vectors.indices, minlength=dimensions))])
        rows, values = owner[order].astype(np.int32), vectors.values[order]
        self._ranks = _narrow(ranks[order], dimensions)
        self.whole = Columns(starts, rows, values, _lengths(rows, values, len(vectors)))
        self._cuts: OrderedDict[tuple[int, int | None], Columns] = OrderedDict()

    @cached_property
    def norms(self) -> Floats:
        """The norm of every column, (D,)."""
        squares = np.bincount(
            self.vectors.indices, self.vectors.values.astype(np.float64) ** 2, self.vectors.dimensions
        )
        return np.sqrt(squares).astype(np.float32)

    @cached_property
    def means(self) -> Floats:
        """The mean of every column, (D,)."""
        sums = np.bincount(self.vectors.indices, self.vectors.values, self.vectors.dimensions)
        return (sums / max(1, len(self))).astype(np.float32)

    def dense(self, i: int) -> Vectors:
        """Return one row with its zeros, (D,)."""
        z = np.zeros(self.vectors.dimensions, np.float32)
        indices, values = self.vectors.row(i)
        z[indices] = values
        return z

    def cut(self, dimensions: int, top_k: int | None = None) -> Columns:
        """Return the columns of the vectors shortened by the one rule: a prefix, then each row's largest."""
        longest = int(self.vectors.nnz.max(initial=0))
        key = (dimensions, None if top_k is None or top_k >= longest else top_k)
        with self._making:
            if key not in self._cuts:
                self._cuts[key] = self._prefix(dimensions) if key[1] is None else self._largest(dimensions, key[1])
                while len(self._cuts) > LENGTHS_IN_MEMORY:
                    self._cuts.popitem(last=False)
            self._cuts.move_to_end(key)
            return self._cuts[key]

    def matches(
        self,
        columns: Columns,
        parts: Sequence[SparseWeights],
        most: int,
        *,
        only: Mapping[int, float] = NOTHING,
        without: Iterable[int] = (),
        exclude: Sequence[int] = (),
        unlike: Iterable[Unlike] = (),
    ) -> Matches:
        """Return the best rows by the vectors in `columns`, where none of `without` is active.

        only: dimensions, and from which value on each must be there.
        exclude: rows that are left out. unlike: what is below its line in them. Conditions are about the whole
        vectors, at whatever length is searched.
        """
        allowed = np.ones(len(self), bool)
        for j, line in only.items():
            shows = np.zeros(len(self), bool)
            shows[self.whole.active(j)[self.whole.strengths(j) >= line]] = True
            allowed &= shows
        for j in without:
            allowed[self.whole.active(j)] = False
        for one in unlike:
            allowed &= self.whole.scores([one.row]) < one.line
        allowed[list(exclude)] = False
        scores = columns.scores(parts)
        return Matches(scores, allowed, largest_first(scores, np.flatnonzero(allowed & (scores > 0)), most))

    # What an `Index` needs.

    def upsert(self, embeddings: Embeddings, payloads: Sequence[Payload]) -> None:
        new = set(embeddings.ids or ())
        rows = [i for name, i in self._places.items() if name not in new]
        vectors = Embeddings.concatenate([self.vectors[rows], embeddings])
        self._hold(vectors, [*(self._payloads[i] for i in rows), *payloads])

    def delete(self, ids: Sequence[str]) -> None:
        gone = set(ids)
        rows = [i for name, i in self._places.items() if name not in gone]
        self._hold(self.vectors[rows], [self._payloads[i] for i in rows])

    def nearest(
        self, indices: Integers, values: Floats, limit: int, where: Where | None, *, exact: bool = True
    ) -> list[EngineHit]:
        return self.best([(indices, values)], limit, where, exact=exact)

    def best(
        self,
        parts: Sequence[SparseWeights],
        k: int,
        where: Where | None = None,
        without: Sequence[int] = (),
        exclude: Collection[str] = (),
        unlike: Sequence[Unlike] = (),
        *,
        exact: bool = True,
    ) -> list[EngineHit]:
        ids = self.vectors.ids or ()
        rows = [self._places[name] for name in exclude if name in self._places]
        if where:
            rows += [i for i, name in enumerate(ids) if not holds({**self._payloads[i], "id": name}, where)]
        matches = self.matches(self.whole, parts, k, without=without, exclude=rows, unlike=unlike)
        return [EngineHit(ids[i], float(matches.scores[i]), self._payloads[i]) for i in matches.order.tolist()]

    def get(self, ids: Sequence[str]) -> Embeddings:
        return self.vectors[[self._places[name] for name in ids if name in self._places]]

    def payloads(self) -> dict[str, Payload]:
        return {name: self._payloads[i] for name, i in self._places.items()}

    def count(self) -> int:
        return len(self)

    def _held(self) -> Description:
        return self.description

    def _create(self, made_for: Description) -> None:
        self.description = made_for

    def _prefix(self, dimensions: int) -> Columns:
        """Return the first columns of the whole vectors, which need no copy."""
        whole = self.whole
        if dimensions == self.vectors.dimensions:
            return whole
        end = int(whole.starts[dimensions])
        rows, values = whole.rows[:end], whole.values[:end]
        return Columns(whole.starts[: dimensions + 1], rows, values, _lengths(rows, values, len(self)))

    def _largest(self, dimensions: int, top_k: int) -> Columns:
        """Return a prefix's entries whose place in their row is not behind that of the prefix's `top_k`-th."""
        whole = self.whole
        end = int(whole.starts[dimensions])
        if dimensions == self.vectors.dimensions:
            entries = np.flatnonzero(self._ranks < top_k)
        else:
            entries = np.flatnonzero(self._ranks[:end] <= self._last(dimensions, top_k)[whole.rows[:end]])
        rows, values = whole.rows[entries], whole.values[entries]
        starts = np.searchsorted(entries, whole.starts[: dimensions + 1])
        return Columns(starts, rows, values, _lengths(rows, values, len(self)))

    def _last(self, dimensions: int, top_k: int) -> Narrow:
        """Return the place in each row of its `top_k`-th entry in a prefix, or of its last one there."""
        within = np.flatnonzero(self._by_size < dimensions)
        if not len(within):
            return np.zeros(len(self), np.int32)
        begins = np.searchsorted(within, self.vectors.indptr)
        nth = np.minimum(begins[:-1] + top_k, begins[1:]) - 1
        return _narrow((within[nth] - self.vectors.indptr[:-1]).astype(np.int32), self.vectors.dimensions)


def largest_first(values: Floats, places: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """Return those of the places that hold the `count` largest values, falling; the first among equals first."""
    if len(places) > count:
        places = places[values[places] >= np.partition(values[places], -count)[-count]]
    return places[np.argsort(-values[places], kind="stable")][:count]


def _lengths(rows: Integers, values: Floats, count: int) -> Floats:
    """Return the norm of every row, 1 where it has no entry."""
    squares = np.bincount(rows, values * values, minlength=count)
    return np.sqrt(np.where(squares > 0, squares, 1)).astype(np.float32)


def _narrow(numbers: Integers, below: int) -> Narrow:
    """Return numbers `below` a bound in 16 bits if they fit: numpy sorts those in a tenth of the time."""
    return numbers.astype(np.uint16) if below <= 2**16 else numbers
