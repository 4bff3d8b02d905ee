"""Retrieval at several lengths: embedded once at full length, shortened here in several ways, scored at each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Places
from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.shortening import Vectors, check_dimensions, check_top_k, keep_largest, unit
from nonneg_vectors.evaluation.ranking import RetrievalReport, retrieval
from nonneg_vectors.evaluation.uncertainty import interval
from nonneg_vectors.storage.embeddings import Embeddings

SPARSE_BYTES = 4  # an entry in a file: u16 index, f16 value
DENSE_BYTES = 4


@dataclass(frozen=True)
class Length:
    """What to keep of each vector.

    asked_whole: of each stored one, and ask with all `dimensions` of the query. reranked: and put the first of each
    answer in order by whole vectors.
    """

    dimensions: int
    top_k: int | None = None
    asked_whole: bool = False
    reranked: bool = False

    def __str__(self) -> str:
        between = "/" if self.asked_whole else ":"
        end = "+" if self.reranked else ""
        return str(self.dimensions) if self.top_k is None else f"{self.dimensions}{between}{self.top_k}{end}"


def as_queries(z: Vectors, length: Length) -> Vectors:
    """Return the vectors as they ask those that `cut` leaves."""
    return np.asarray(z[:, : length.dimensions]) if length.asked_whole else cut_to_length(z, length)


def cut_to_length(z: Vectors, length: Length) -> Vectors:
    """Return the prefix, and of it the largest; not divided by the length, which cosines do by themselves."""
    z = z[:, : length.dimensions]  # a view: at full size a copy is what memory cannot hold
    return keep_largest(z, length.top_k) if length.top_k and length.top_k < length.dimensions else np.asarray(z)


# Ways to choose k of D dimensions: the bundle's own order, chance, variance, and PCA as the dense yardstick.
#
# A choice is an order of the columns, of which the first k are kept; PCA turns the vectors and does not choose
# columns: its vectors are dense and signed, so it shows what sparse, non-negative prefixes are up against.

Order = NDArray[np.int64]


def as_emitted(dimensions: int) -> Order:
    """Return the columns as the encoder emits them: by expected activation, or by what the bundle was ranked by."""
    return np.arange(dimensions)


def by_chance(dimensions: int, seed: int) -> Order:
    """Return a random order, the same for the same seed."""
    return np.random.default_rng(seed).permutation(dimensions)


def falling(values: NDArray[Any] | tuple[float, ...]) -> Order:
    """Return the columns with the largest value first (a variance, a frequency); among equals the lower index."""
    return np.argsort(-np.asarray(values, dtype=np.float64), kind="stable")


def choose(z: NDArray[Any], order: Order, k: int) -> Vectors:
    """Return the first k columns of an order."""
    return np.ascontiguousarray(np.asarray(z, dtype=np.float32)[:, order[:k]])


@dataclass(frozen=True, eq=False)
class PCA:
    """Principal components of the row-normalised vectors of other images."""

    mean: Vectors  # (D,)
    components: Vectors  # (D, r), largest variance first

    def apply(self, z: NDArray[Any], k: int) -> Vectors:
        """Return the first k components of each vector."""
        return np.asarray((unit(np.asarray(z, dtype=np.float32)) - self.mean) @ self.components[:, :k], np.float32)


def fit_pca(z: NDArray[Any]) -> PCA:
    """Return the principal components of `z` (images, D), by its covariance."""
    rows: NDArray[Any] = unit(np.asarray(z, dtype=np.float32))
    mean = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    centred = rows - mean
    vectors: NDArray[Any] = np.linalg.eigh(centred.T @ centred)[1]  # (D, D), smallest variance first
    return PCA(mean, np.ascontiguousarray(vectors[:, ::-1]))


SELECTIONS = ("prefix", "activation", "random", "variance", "pca")
DENSE = ("pca", "features")  # selections of which no entry is zero
ON_OTHERS = ("activation", "variance", "pca")  # measured on other images than those that are evaluated
Choice = Callable[[Vectors, int], Vectors]  # vectors, k -> k columns of each


def in_order(order: Order) -> Choice:
    """Return the choice of the first columns of an order."""
    return lambda z, k: choose(z, order, k)


def check_selections(selections: Sequence[str]) -> None:
    """Raise unless all of them are known."""
    for selection in selections:
        if selection not in SELECTIONS:
            raise ConfigInvalid(
                f"selection={selection} is not known",
                fix=f"choose among {', '.join(SELECTIONS)}",
                field="selections",
                value=selection,
            )


def choice(selection: str, dimensions: int, others: NDArray[Any] | None = None, seed: int = 0) -> Choice:
    """Return how a selection chooses among so many columns; `others`: vectors of the images that it is measured on."""
    check_selections([selection])
    if selection == "prefix":
        return lambda z, k: np.asarray(z[:, :k])
    if selection == "random":
        order = by_chance(dimensions, seed)
    elif others is None or len(others) < 2:
        raise DataInvalid(f"{selection} is measured on other images", fix="give others=, at least two images")
    elif selection == "pca":
        return fit_pca(others).apply
    else:
        rows = unit(others)
        order = falling(rows.mean(axis=0) if selection == "activation" else rows.var(axis=0))
    return in_order(order)


# Retrieval at several lengths: embedded once at full length, shortened here, scored at each.


@dataclass(frozen=True)
class LengthResult:
    """Retrieval and cost at one length."""

    length: Length
    report: RetrievalReport
    zero_share: float  # of the gallery's vectors
    mean_nnz: float
    live: int  # dimensions that are active on any image
    selection: str = "prefix"

    @property
    def query_form(self) -> Literal["cut", "whole", "re-ranked"]:
        """How the queries are cut."""
        return "re-ranked" if self.length.reranked else "whole" if self.length.asked_whole else "cut"

    @property
    def bytes(self) -> float:
        """What a vector takes in a file: of dense selections every entry, of others the smaller form."""
        return bytes_of(self.length.dimensions, self.length.dimensions if self.selection in DENSE else self.mean_nnz)

    def record(self, *, intervals: bool = False) -> dict[str, Any]:
        """Return the row as JSON and tables show it."""
        scores = self.report.scores()
        fields: dict[str, Any] = {
            "selection": self.selection,
            "dimensions": self.length.dimensions,
            "top_k": self.length.top_k,
            "asked": self.query_form,
            **self.report.means(),
            "live": self.live,
            "zero": self.zero_share,
            "nnz": self.mean_nnz,
            "sparse_bytes": SPARSE_BYTES * self.mean_nnz,
            "dense_bytes": DENSE_BYTES * self.length.dimensions,
        }
        if intervals:
            bounds = {name: interval(values) for name, values in scores.items()}
            fields["intervals"] = {name: [bound.low, bound.high] for name, bound in bounds.items()}
        return fields


def bytes_of(dimensions: int, nnz: float) -> float:
    """Return the bytes of a vector in a file, sparse or dense, whichever are fewer."""
    return min(SPARSE_BYTES * nnz, DENSE_BYTES * dimensions)


@dataclass(frozen=True, eq=False)
class RetrievalTask:
    """Labelled vectors to find and others to find them by; without `queries` every image asks for all the others."""

    gallery: Vectors
    labels: Sequence[Any] | NDArray[Any]
    queries: Vectors | None = None
    query_labels: Sequence[Any] | NDArray[Any] | None = None

    def chosen(self, columns: Choice, k: int | None = None) -> RetrievalTask:
        """Return the same task with the first k columns of a choice, or all of them in its order."""
        k = self.gallery.shape[1] if k is None else k
        queries = None if self.queries is None else columns(self.queries, k)
        return replace(self, gallery=columns(self.gallery, k), queries=queries)

    def report(self, length: Length, k: int, neighbours: int = 20) -> tuple[RetrievalReport, Vectors]:
        """Return retrieval at a length, and what is stored then."""
        stored, queries = cut_to_length(self.gallery, length), self.queries
        if queries is not None or length.asked_whole:
            queries = as_queries(self.gallery if queries is None else queries, length)
        whole = self.gallery[:, : length.dimensions] if length.reranked else None
        same = self.queries is None and queries is not None
        return retrieval(
            stored, self.labels, queries, self.query_labels, k=k, neighbours=neighbours, same=same, whole=whole
        ), stored

    def result(self, length: Length, k: int, *, neighbours: int = 20, selection: str = "prefix") -> LengthResult:
        """Score retrieval at a length, and count what is stored."""
        report, stored = self.report(length, k, neighbours)
        active = stored != 0
        return LengthResult(
            length,
            report,
            zero_share=float(1 - active.any(axis=1).mean()),
            mean_nnz=float(active.sum(axis=1).mean()),
            live=int(active.any(axis=0).sum()),
            selection=selection,
        )


def grid(dimensions: int) -> list[Length]:
    """Return all dimensions, then the powers of two below, down to 32."""
    powers = [2**p for p in range(20, 4, -1) if 2**p < dimensions]
    return [Length(dimensions), *(Length(k) for k in powers)]


def check_lengths(lengths: Sequence[Length | int], dimensions: int) -> list[Length]:
    """Return the lengths; raises if one is not to be had of vectors with so many dimensions."""
    typed_lengths = [length if isinstance(length, Length) else Length(length) for length in lengths]
    for length in typed_lengths:
        check_dimensions(length.dimensions, dimensions)
        check_top_k(length.top_k)
    return typed_lengths


def by_length(
    gallery: Embeddings,
    labels: Sequence[Any] | NDArray[Any],
    queries: Embeddings | None = None,
    query_labels: Sequence[Any] | NDArray[Any] | None = None,
    *,
    lengths: Sequence[Length | int] | None = None,
    k: int = 100,
    selections: Sequence[str] = ("prefix",),
    others: Embeddings | None = None,
    seed: int = 0,
) -> list[LengthResult]:
    """Score retrieval at each length; without `queries` every image asks for all the others.

    selections: which dimensions a length keeps: the bundle's first ones (prefix), those of the largest expected
        activation, random ones, those of the largest variance, or principal components (pca); all but prefix and
        random are measured on `others`, images that are not evaluated.
    """
    if not len(gallery):
        raise DataInvalid("the gallery holds 0 vectors", fix="embed some images first")
    if queries is not None:
        gallery.same_form(queries)
    all_lengths = check_lengths(grid(gallery.dimensions) if lengths is None else lengths, gallery.dimensions)
    task = RetrievalTask(gallery.numpy(), labels, None if queries is None else queries.numpy(), query_labels)
    rows = []
    for selection in selections:
        chosen = task.chosen(choice(selection, gallery.dimensions, None if others is None else others.numpy(), seed))
        fitting = [length for length in all_lengths if selection != "pca" or length.top_k is None]  # signed: no top_k
        rows += [chosen.result(length, k, selection=selection) for length in fitting]
    return rows


def split_off(n: int, share: float = 0.2, *, seed: int = 0) -> tuple[Places, Places]:
    """Return the images to evaluate, and a share of others to measure variance and components on."""
    order = np.random.default_rng(seed).permutation(n)
    size = int(n * share)
    return np.sort(order[size:]), np.sort(order[:size])
