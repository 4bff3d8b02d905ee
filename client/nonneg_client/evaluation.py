"""Retrieval at several lengths: embedded once at full length, shortened here, scored at each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nonneg_client.embeddings import Embeddings
from nonneg_client.errors import DataInvalid
from nonneg_client.metrics import Report, retrieval
from nonneg_client.shortening import Vectors, check_dimensions, check_top_k, keep_largest

SPARSE_BYTES = 4  # an entry in a file: u16 index, f16 value
DENSE_BYTES = 4


@dataclass(frozen=True)
class Length:
    """What to keep of each vector."""

    dimensions: int
    top_k: int | None = None


@dataclass(frozen=True)
class Row:
    """Retrieval and cost at one length."""

    length: Length
    report: Report
    zero_share: float  # of the gallery's vectors
    mean_nnz: float
    live: int  # dimensions that are active on any image

    def record(self) -> dict[str, Any]:
        """The row as JSON and tables show it."""
        return {
            "dimensions": self.length.dimensions,
            "top_k": self.length.top_k,
            **self.report.means(),
            "live": self.live,
            "zero": self.zero_share,
            "nnz": self.mean_nnz,
            "sparse_bytes": SPARSE_BYTES * self.mean_nnz,
            "dense_bytes": DENSE_BYTES * self.length.dimensions,
        }


def grid(dimensions: int) -> list[Length]:
    """All dimensions, then the powers of two below, down to 32."""
    powers = [2**p for p in range(20, 4, -1) if 2**p < dimensions]
    return [Length(dimensions), *(Length(k) for k in powers)]


def evaluate(
    gallery: Embeddings,
    labels: Sequence[Any],
    queries: Embeddings | None = None,
    query_labels: Sequence[Any] | None = None,
    *,
    lengths: Sequence[Length | int] | None = None,
    k: int = 100,
) -> list[Row]:
    """Score retrieval at each length; without `queries` every image asks for all the others."""
    if not len(gallery):
        raise DataInvalid("there is no vector to evaluate", fix="embed some images first")
    if queries is not None:
        gallery.same_model(queries)
    lengths = grid(gallery.dimensions) if lengths is None else lengths
    wanted = [length if isinstance(length, Length) else Length(length) for length in lengths]
    for length in wanted:
        check_dimensions(length.dimensions, gallery.dimensions)
        check_top_k(length.top_k)
    z, q = gallery.numpy(), None if queries is None else queries.numpy()  # (batch, D)
    rows = []
    for length in wanted:
        short = cut(z, length)
        report = retrieval(short, labels, None if q is None else cut(q, length), query_labels, k=k)
        active = short > 0
        rows.append(
            Row(
                length,
                report,
                zero_share=float(1 - active.any(axis=1).mean()),
                mean_nnz=float(active.sum(axis=1).mean()),
                live=int(active.any(axis=0).sum()),
            )
        )
    return rows


def cut(z: Vectors, length: Length) -> Vectors:
    """The prefix, and of it the largest; not divided by the length, which cosines do by themselves."""
    z = z[:, : length.dimensions]  # a view: at full size a copy is what memory cannot hold
    return keep_largest(z, length.top_k) if length.top_k and length.top_k < length.dimensions else np.asarray(z)
