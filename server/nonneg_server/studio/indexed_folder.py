"""An indexed folder as the studio holds it: names and ids, vectors by row and by column, and its groups.

Rows hold their entries from the largest to the smallest, so that `top_k` is where a row is broken off; columns hold the
photos that a dimension is active in. Both are plain arrays; nothing is ever made dense. Entries are sorted once, when
the folder is opened: a length leaves some of them out, and their order stays.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Floats, Numbers
from nonneg_core.errors import NotFound

Integers = NDArray[np.int32]
KEPT_CUTS = 6  # lengths whose columns are held ready


@dataclass(frozen=True, eq=False)
class ColumnIndex:
    """Entries by dimension: column j is rows/values[starts[j]:starts[j + 1]]; `lengths` are the rows' norms."""

    starts: Numbers  # (D + 1,)
    rows: Integers
    values: Floats
    lengths: Floats  # (n,): of what is left of each row, 1 for one of which nothing is left

    @property
    def entries(self) -> float:
        """Mean number that is left of a row."""
        return len(self.rows) / max(1, len(self.lengths))

    def scores(self, indices: Integers, weights: Floats) -> Floats:
        """Return the inner product of a weighting of some dimensions with every row, divided by the row's length."""
        products = np.zeros(len(self.lengths), np.float32)
        for j, weight in zip(indices.tolist(), weights.tolist(), strict=True):
            span = slice(self.starts[j], self.starts[j + 1])
            products[self.rows[span]] += np.float32(weight) * self.values[span]  # a row is in a column once at most
        return np.asarray(products / self.lengths, np.float32)

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
    def counts(self) -> Numbers:
        """In how many photos each dimension is active, (D,)."""
        return np.diff(self.starts)


class StoredRows:
    """All vectors of a folder: unit rows in compressed form, and their columns at any length."""

    def __init__(self, indptr: Numbers, indices: Integers, values: Floats, dimensions: int) -> None:
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
        vector = np.zeros(self.dimensions, np.float32)
        indices, values = self.row(i)
        vector[indices] = values
        return vector

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
            entries = np.flatnonzero(self.ranks < top_k)
        else:
            entries = np.flatnonzero(self.ranks[:end] <= self._last(dimensions, top_k)[whole.rows[:end]])
        rows, values = whole.rows[entries], whole.values[entries]
        starts = np.searchsorted(entries, whole.starts[: dimensions + 1])
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


# An indexed folder as the studio holds it: the photos' names and ids, their vectors, and what was found in groups.

REMEMBERED = 64  # questions
FindGroups = Callable[[Callable[[int, int | None], None]], list[dict[str, Any]]]  # tells how far it is


@dataclass(frozen=True, eq=False)
class IndexedFolder:
    """Photos of one folder with their whole vectors, which are of one model."""

    root: Path  # names are paths within it
    names: Sequence[str]
    stored: StoredRows
    model: str
    fingerprint: str
    groups: FindGroups | None = None  # duplicates, clusters, outliers: found when they are asked for
    top_k: int | None = None  # entries of each vector that are stored, if not all
    _answers: dict[Hashable, frozenset[int]] = field(default_factory=dict, init=False)
    _remembering: Lock = field(default_factory=Lock, init=False)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def ids(self) -> list[str]:
        """What the photos are called in addresses: it says nothing of where they are."""
        return [id_of(name) for name in self.names]

    @cached_property
    def rows(self) -> dict[str, int]:
        """The photos by id."""
        return {name: i for i, name in enumerate(self.ids)}

    @cached_property
    def by_name(self) -> dict[str, int]:
        """The photos by their path within the folder."""
        return {name: i for i, name in enumerate(self.names)}

    def remembered(self, question: Hashable, find: Callable[[], frozenset[int]]) -> frozenset[int]:
        """Return what was found for one of the last questions, or is found now."""
        known = self._answers.get(question)
        if known is None:
            known = find()
            with self._remembering:
                self._answers[question] = known
                while len(self._answers) > REMEMBERED:
                    del self._answers[next(iter(self._answers))]
        return known

    def name_of(self, photo: str) -> str:
        """Return the path of a photo within the folder."""
        return self.names[self.row(photo)]

    def row(self, photo: str) -> int:
        """Return the place of a photo; NotFound where there is none of this id."""
        index = self.rows.get(photo)
        if index is None:
            raise NotFound(
                "no photo of this id is indexed here",
                fix="ask /studio/photos for those that are",
                field="photo",
                value=photo[:40],
            )
        return index


def id_of(name: str) -> str:
    """Return the id of a photo: the same for the same path, whenever the folder is indexed."""
    return hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


# The groups of an indexed folder: sought once, on a thread that the process does not wait for when it ends.

Sections = list[dict[str, Any]]


class Grouping:
    """One search for groups, begun when it is first asked for; after a failure the next request begins again."""

    def __init__(self, find: FindGroups) -> None:
        self._find = find
        self._asking = threading.Lock()
        self._sought: Future[Sections] | None = None
        self._done, self._of = 0, 0

    def sections(self) -> dict[str, Any]:
        """Return how far the search is, begun if it was not; and when it is done, what it found, or raise its error."""
        with self._asking:
            if self._sought is None:
                self._done = self._of = 0
                self._sought = self._begin()
            sought, done = self._sought, self._sought.done()
            if done and sought.exception() is not None:
                self._sought = None  # who asks now is told, who asks next begins again
        return {"found": done, "done": self._done, "of": self._of, "sections": sought.result() if done else []}

    def progress(self) -> dict[str, Any]:
        """Return how far the present step of the search is."""
        sought = self._sought
        return {"found": sought is not None and sought.done(), "done": self._done, "of": self._of}

    def _begin(self) -> Future[Sections]:
        future: Future[Sections] = Future()

        def run() -> None:
            try:
                sections = self._find(self._tell)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(sections)

        threading.Thread(target=run, name="groups", daemon=True).start()
        return future

    def _tell(self, done: int, of: int | None) -> None:
        self._done, self._of = done, of or 0
