"""Quality by length: what retrieval costs when vectors are shortened, for several ways to choose the dimensions."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_runtime.bundle.evidence import QualityRow, Selection
from nonneg_vectors.evaluation.retrieval import PCA, Length, Order, RetrievalTask, in_order

LENGTHS = (2048, 1024, 512, 256, 128, 64, 32)
TOP_KS = (128, 64, 32, 16)
EVERY_QUERY = 5000  # up to so many images each is a query against all others; above, a sample against the rest
SAMPLE = 2000


def sampled_task(
    z: NDArray[Any],
    labels: Sequence[Any] | NDArray[Any],
    *,
    seed: int = 0,
    every: int = EVERY_QUERY,
    sample: int = SAMPLE,
) -> RetrievalTask:
    """Choose which images ask: every one; of more than `every` images a sample, which asks the rest."""
    z, labels = np.asarray(z, dtype=np.float32), np.asarray(labels)
    if len(z) <= every:
        return RetrievalTask(z, labels)
    order = np.random.default_rng(seed).permutation(len(z))
    gallery, queries = np.sort(order[sample:]), np.sort(order[:sample])
    return RetrievalTask(z[gallery], labels[gallery], z[queries], labels[queries])


def quality_by_length(
    task: RetrievalTask,
    orders: Mapping[Selection, Sequence[Order]],
    *,
    pca: PCA | None = None,
    lengths: Sequence[int] = LENGTHS,
    top_ks: Sequence[int] = TOP_KS,
    k: int = 100,
    neighbours: int = 20,
) -> list[QualityRow]:
    """Return one row a selection and length; a selection with several orders (random draws) gets their mean.

    `top_ks` are measured on the first selection at full width: what each vector's m largest entries keep, asked by
    vectors that are cut likewise. These and a tenth of all also asked by whole vectors, and re-ranked by them.
    """
    full = task.gallery.shape[1]
    widths = [full, *(n for n in lengths if n < full)]
    score = partial(_row, k=k, neighbours=neighbours)
    rows: list[QualityRow] = []
    for name, draws in orders.items():
        if rows:  # all of the columns in another order are the same vectors
            rows.append(rows[0].model_copy(update={"selection": name}))
        for n in widths[bool(rows) :]:
            tasks = (task.chosen(in_order(order), n) for order in draws)
            rows.append(_mean([score(one, name, Length(n)) for one in tasks]))
    if pca is not None:
        components = task.chosen(pca.apply)
        rows += [score(components, "pca", Length(n)) for n in widths]
    first, cuts = rows[0].selection, [m for m in top_ks if m < full]
    rows += [score(task, first, Length(full, m)) for m in cuts]
    for m in dict.fromkeys([max(1, round(full / 10)), *cuts]):
        rows += [score(task, first, Length(full, m, asked_whole=True, reranked=again)) for again in (False, True)]
    return rows


def as_they_are(task: RetrievalTask, name: Selection, *, k: int = 100, neighbours: int = 20) -> QualityRow:
    """Return retrieval by dense vectors at their full length: what others are compared with."""
    return _row(task, name, Length(task.gallery.shape[1]), k=k, neighbours=neighbours)


def _row(task: RetrievalTask, name: Selection, length: Length, *, k: int, neighbours: int) -> QualityRow:
    result = task.result(length, k, neighbours=neighbours, selection=name)
    means = result.report.means()
    return QualityRow(
        selection=name,
        dimensions=length.dimensions,
        top_k=length.top_k,
        p_at_1=means["P@1"],
        p_at_10=means["P@10"],
        map_at_k=means[f"mAP@{k}"],
        knn=means["kNN"],
        zero_share=result.zero_share,
        mean_nnz=result.mean_nnz,
        bytes=result.bytes,
        asked=result.query_form,
    )


def _mean(rows: Sequence[QualityRow]) -> QualityRow:
    numbers = ("p_at_1", "p_at_10", "map_at_k", "knn", "zero_share", "mean_nnz", "bytes")
    return rows[0].model_copy(update={name: float(np.mean([getattr(r, name) for r in rows])) for name in numbers})
