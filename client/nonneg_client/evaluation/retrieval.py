"""Retrieval at several lengths: embedded once at full length, shortened here, scored at each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_client.embeddings import Embeddings
from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.evaluation.lengths import DENSE_BYTES, SPARSE_BYTES, Length, asked, cut
from nonneg_core.evaluation.metrics import RetrievalReport, retrieval
from nonneg_core.evaluation.selection import by_chance, choose, falling, fit_pca
from nonneg_core.evaluation.uncertainty import interval
from nonneg_core.shortening import Vectors, check_dimensions, check_top_k, unit

SELECTIONS = ("prefix", "activation", "random", "variance", "pca")
ON_OTHERS = ("activation", "variance", "pca")  # measured on other images than those that are evaluated


@dataclass(frozen=True)
class LengthResult:
    """Retrieval and cost at one length."""

    length: Length
    report: RetrievalReport
    zero_share: float  # of the gallery's vectors
    mean_nnz: float
    live: int  # dimensions that are active on any image
    selection: str = "prefix"

    def record(self, *, intervals: bool = False) -> dict[str, Any]:
        """Return the row as JSON and tables show it."""
        scores = self.report.scores()
        found: dict[str, Any] = {
            "selection": self.selection,
            "dimensions": self.length.dimensions,
            "top_k": self.length.top_k,
            "asked": "re-ranked" if self.length.reranked else "whole" if self.length.asked_whole else "cut",
            **self.report.means(),
            "live": self.live,
            "zero": self.zero_share,
            "nnz": self.mean_nnz,
            "sparse_bytes": SPARSE_BYTES * self.mean_nnz,
            "dense_bytes": DENSE_BYTES * self.length.dimensions,
        }
        if intervals:
            bounds = {name: interval(values) for name, values in scores.items()}
            found["intervals"] = {name: [bound.low, bound.high] for name, bound in bounds.items()}
        return found


def grid(dimensions: int) -> list[Length]:
    """Return all dimensions, then the powers of two below, down to 32."""
    powers = [2**p for p in range(20, 4, -1) if 2**p < dimensions]
    return [Length(dimensions), *(Length(k) for k in powers)]


def check_lengths(lengths: Sequence[Length | int], dimensions: int) -> list[Length]:
    """Return the lengths; raises if one is not to be had of vectors with so many dimensions."""
    wanted = [length if isinstance(length, Length) else Length(length) for length in lengths]
    for length in wanted:
        check_dimensions(length.dimensions, dimensions)
        check_top_k(length.top_k)
    return wanted


def check_selections(selections: Sequence[str]) -> None:
    """Raise unless all of them are known."""
    for selection in selections:
        if selection not in SELECTIONS:
            raise ConfigInvalid(
                f"{selection!r} is not a selection", fix=f"choose among {', '.join(SELECTIONS)}", field="selections"
            )


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
    wanted = check_lengths(grid(gallery.dimensions) if lengths is None else lengths, gallery.dimensions)
    faces = [gallery.numpy()] + ([] if queries is None else [queries.numpy()])  # (batch, D) each
    rows = []
    for selection in selections:
        faced = [turned(z, selection, others, seed) for z in faces]
        fitting = [length for length in wanted if selection != "pca" or length.top_k is None]  # signed: no top_k
        rows += [_row(length, selection, faced, labels, query_labels, k) for length in fitting]
    return rows


def _row(length: Length, selection: str, faces: list[Vectors], labels: Any, query_labels: Any, k: int) -> LengthResult:
    report, stored = scored(length, faces, labels, query_labels, k)
    active = stored != 0
    return LengthResult(
        length,
        report,
        zero_share=float(1 - active.any(axis=1).mean()),
        mean_nnz=float(active.sum(axis=1).mean()),
        live=int(active.any(axis=0).sum()),
        selection=selection,
    )


def scored(
    length: Length, faces: Sequence[Vectors], labels: Any, query_labels: Any, k: int
) -> tuple[RetrievalReport, Vectors]:
    """Return retrieval at a length, and what is stored then; one face asks itself, of two the second asks the first."""
    stored = cut(faces[0], length)
    alone = len(faces) == 1
    queries = asked(faces[-1], length) if length.asked_whole or not alone else None
    whole = faces[0][:, : length.dimensions] if length.reranked else None
    same = alone and queries is not None
    return retrieval(stored, labels, queries, query_labels, k=k, same=same, whole=whole), stored


def apart(n: int, share: float = 0.2, *, seed: int = 0) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the images to evaluate, and a share of others to measure variance and components on."""
    order = np.random.default_rng(seed).permutation(n)
    size = int(n * share)
    return np.sort(order[size:]), np.sort(order[:size])


def turned(z: Vectors, selection: str, others: Embeddings | None, seed: int = 0) -> Vectors:
    """Return the columns in the order that a selection takes them in."""
    width = z.shape[1]
    if selection == "prefix":
        return z
    if selection == "random":
        return choose(z, by_chance(width, seed), width)
    if selection not in SELECTIONS:
        raise ConfigInvalid(f"selection={selection} is not known", fix=f"choose of {', '.join(SELECTIONS)}")
    if others is None or len(others) < 2:
        raise DataInvalid(f"{selection} is measured on other images", fix="give others=, at least two images")
    if selection in ("activation", "variance"):
        rows = unit(others.numpy())
        return choose(z, falling(rows.mean(axis=0) if selection == "activation" else rows.var(axis=0)), width)
    return fit_pca(others.numpy()).apply(z, width)
