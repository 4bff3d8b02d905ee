"""Quality by length: what retrieval costs when vectors are shortened, for several ways to choose the dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.shortening import Vectors
from nonneg_runtime.bundle.evidence import Asking, QualityRow, Selection
from nonneg_vectors.evaluation.ranking import RetrievalReport, retrieval
from nonneg_vectors.evaluation.retrieval import DENSE_BYTES, PCA, SPARSE_BYTES, Length, Order, choose, cut_to_length

LENGTHS = (2048, 1024, 512, 256, 128, 64, 32)
TOP_KS = (128, 64, 32, 16)
EVERY_QUERY = 5000  # up to so many images each is a query against all others; above, a sample against the rest
SAMPLE = 2000
WHOLE: tuple[Asking, ...] = ("whole", "re-ranked")


@dataclass(frozen=True, eq=False)
class Split:
    """Which images are the gallery and which the queries: leave-one-out when `queries` is None."""

    gallery: NDArray[np.int64]
    queries: NDArray[np.int64] | None

    @property
    def query_count(self) -> int:
        """How many queries there are."""
        return len(self.gallery if self.queries is None else self.queries)

    def score(
        self,
        z: Vectors,
        labels: NDArray[Any],
        k: int,
        neighbours: int,
        *,
        asks: Vectors | None = None,
        rerank: bool = False,
    ) -> RetrievalReport:
        """Measure retrieval of equally labelled images; `asks`: vectors as queries, which may also order lists."""
        ask = z if asks is None else asks
        if self.queries is None:
            whole = ask if rerank else None
            return retrieval(z, labels, asks, k=k, neighbours=neighbours, same=asks is not None, whole=whole)
        return retrieval(
            z[self.gallery],
            labels[self.gallery],
            ask[self.queries],
            labels[self.queries],
            k=k,
            neighbours=neighbours,
            whole=ask[self.gallery] if rerank else None,
        )


def split(images: int, *, seed: int = 0, every: int = EVERY_QUERY, sample: int = SAMPLE) -> Split:
    """Choose which images ask: every one; of more than `every` images a sample, which asks the rest."""
    if images <= every:
        return Split(np.arange(images), None)
    order = np.random.default_rng(seed).permutation(images)
    return Split(np.sort(order[sample:]), np.sort(order[:sample]))


def quality_by_length(
    z: NDArray[Any],
    labels: Sequence[Any] | NDArray[Any],
    orders: Mapping[Selection, Sequence[Order]],
    *,
    pca: PCA | None = None,
    lengths: Sequence[int] = LENGTHS,
    top_ks: Sequence[int] = TOP_KS,
    k: int = 100,
    neighbours: int = 20,
    parts: Split | None = None,
) -> list[QualityRow]:
    """Return one row a selection and length; a selection with several orders (random draws) gets their mean.

    parts: the gallery and the queries, if they are not those of `split`.

    `top_ks` are measured on the first selection at full width: what each vector's m largest entries keep, asked by
    vectors that are cut likewise. These and a tenth of all also asked by whole vectors, and re-ranked by them.
    """
    z = np.asarray(z, dtype=np.float32)
    labels = np.asarray(labels)
    parts = parts or split(len(z))
    full = z.shape[1]
    grid = [full, *(n for n in lengths if n < full)]
    turned = pca.apply(z, full) if pca is not None else None
    names: list[Selection] = [*orders, "pca"] if pca else [*orders]
    cases = [(name, n) for name in names for n in grid]
    cuts = [m for m in top_ks if m < full]

    def measure(name: Selection, n: int, top_k: int | None, variants: Iterable[Vectors]) -> QualityRow:
        return _mean([_row(name, n, top_k, z, parts.score(z, labels, k, neighbours)) for z in variants])

    rows: list[QualityRow] = []
    for name, n in cases:
        if turned is not None and name == "pca":
            rows.append(measure(name, n, None, [turned[:, :n]]))
        elif n == full and rows:  # all of the columns in another order are the same vectors
            rows.append(rows[0].model_copy(update={"selection": name}))
        else:
            rows.append(measure(name, n, None, (choose(z, order, n) for order in orders[name])))
    for m in cuts:
        rows.append(measure(rows[0].selection, full, m, [cut_to_length(z, Length(full, m))]))
    for m in dict.fromkeys([max(1, round(full / 10)), *cuts]):
        rows += _of_whole_queries(
            rows[0].selection, m, z, partial(parts.score, labels=labels, k=k, neighbours=neighbours)
        )
    return rows


def _of_whole_queries(name: Selection, m: int, z: Vectors, score: Callable[..., RetrievalReport]) -> list[QualityRow]:
    """Measure the m largest entries of each vector, asked by whole vectors, and re-ranked by them."""
    stored, full = cut_to_length(z, Length(z.shape[1], m)), z.shape[1]
    reports = [(how, score(stored, asks=z, rerank=how == "re-ranked")) for how in WHOLE]
    return [_row(name, full, m, stored, report, how) for how, report in reports]


def as_they_are(
    rows: NDArray[Any], labels: Sequence[Any] | NDArray[Any], name: Selection, *, k: int = 100, neighbours: int = 20
) -> QualityRow:
    """Return retrieval by dense vectors at their full length: what others are compared with."""
    rows = np.asarray(rows, dtype=np.float32)
    report = split(len(rows)).score(rows, np.asarray(labels), k, neighbours)
    row = _row(name, rows.shape[1], None, rows, report)
    return row.model_copy(update={"bytes": float(DENSE_BYTES * rows.shape[1])})


def _row(
    name: Selection, n: int, top_k: int | None, z: Vectors, report: RetrievalReport, query_form: Asking = "cut"
) -> QualityRow:
    nnz = np.count_nonzero(z, axis=1)
    return QualityRow(
        selection=name,
        dimensions=n,
        top_k=top_k,
        p_at_1=float(report.precision[1].mean()),
        p_at_10=float(report.precision[10].mean()),
        map_at_k=float(report.average_precision.mean()),
        knn=float(report.knn.mean()),
        zero_share=float((nnz == 0).mean()),
        mean_nnz=float(nnz.mean()),
        bytes=min(DENSE_BYTES * n, SPARSE_BYTES * float(nnz.mean())) if name != "pca" else DENSE_BYTES * n,
        asked=query_form,
    )


def _mean(rows: Sequence[QualityRow]) -> QualityRow:
    numbers = ("p_at_1", "p_at_10", "map_at_k", "knn", "zero_share", "mean_nnz", "bytes")
    return rows[0].model_copy(update={name: float(np.mean([getattr(r, name) for r in rows])) for name in numbers})
