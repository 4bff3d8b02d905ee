"""Exact rankings of a gallery for many queries, in blocks that fit memory, and the metrics of how good they are.

The order is by cosine, falling; among equals the lower gallery index comes first. A cosine of exactly zero means
that two non-negative vectors share no dimension: such an item may fill a place in the list but is never found.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Doubles, Floats, Numbers
from nonneg_core.errors import DataInvalid

BLOCK_BYTES = 64 * 2**20  # of scores at a time


@dataclass(frozen=True)
class Ranked:
    """The head of one query's list."""

    query: int
    order: Numbers  # (depth,) gallery indices, best first
    scores: Floats  # (depth,) their cosines


def rank(
    queries: NDArray[Any],
    gallery: NDArray[Any],
    depths: NDArray[Any],
    *,
    leave_one_out: bool = False,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[Ranked]:
    """Yield for each query the `depths[i]` best of the gallery; with `leave_one_out` item i does not answer query i.

    So many queries are scored at a time that their scores take about `block_bytes`.
    """
    queries, gallery = _float32(queries), _float32(gallery)  # (q, d), (g, d)
    inverse = _inverse_lengths(gallery)
    rows = max(1, block_bytes // (4 * max(1, len(gallery))))
    for start in range(0, len(queries), rows):
        block = queries[start : start + rows] * _inverse_lengths(queries[start : start + rows])[:, None]
        scores = block @ gallery.T  # (rows, g)
        scores *= inverse
        if leave_one_out:
            own = np.arange(len(block))
            scores[own, start + own] = -np.inf
        for i, row in enumerate(scores):
            depth = min(int(depths[start + i]), len(gallery) - leave_one_out)
            order = best(row, depth)
            yield Ranked(start + i, order, row[order])


def reranked(lists: Iterable[Ranked], queries: NDArray[Any], whole: NDArray[Any], first: int) -> Iterator[Ranked]:
    """Yield the lists with their first entries in the order of the cosines to the gallery's `whole` vectors."""
    queries, whole = _float32(queries), _float32(whole)
    inverse, query_inverse = _inverse_lengths(whole), _inverse_lengths(queries)
    for ranking in lists:
        head, rest = ranking.order[:first], ranking.order[first:]
        scores = whole[head] @ queries[ranking.query] * inverse[head] * query_inverse[ranking.query]
        places = np.argsort(-scores, kind="stable")
        yield Ranked(
            ranking.query,
            np.concatenate([head[places], rest]),
            np.concatenate([scores[places], ranking.scores[first:]]),
        )


def best(scores: Floats, depth: int) -> Numbers:
    """Return the indices of the `depth` largest scores, falling; among equals the lower index first."""
    if depth <= 0:
        return np.zeros(0, dtype=np.int64)
    candidates = np.flatnonzero(scores > 0)  # selecting among thousands of equal zeros is ten times slower
    if len(candidates) < depth:
        candidates = np.arange(len(scores))
    values = scores[candidates]
    if depth < len(candidates):
        threshold = np.partition(values, len(values) - depth)[len(values) - depth]
        above = np.flatnonzero(values >= threshold)
        candidates, values = candidates[above], values[above]
    return candidates[np.argsort(-values, kind="stable")][:depth]


def _float32(z: NDArray[Any]) -> Floats:
    """Return rows as float32; a prefix of columns stays a view, which BLAS reads without a copy."""
    return np.atleast_2d(np.asarray(z, dtype=np.float32))


def _inverse_lengths(z: Floats) -> Floats:
    """Return 1 / |row|, 0 for a zero row: cosines come from dividing scores, not from copying a gallery."""
    lengths = np.sqrt(np.einsum("ij,ij->i", z, z, dtype=np.float64))
    return np.asarray(np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0), dtype=np.float32)


# How good a ranking is: P@k, R-precision, AP@k, recall@k, nDCG@k, kNN accuracy; per query, averaged by the caller.
#
# R is the number of relevant items in the gallery. The denominators, which differ between libraries, are these:
#
#     P@k    hits in the first k / k
#     R-prec hits in the first R / R
#     AP@k   sum of the precisions at the hits in the first k / min(R, k)
#     recall hits in the first k / R
#     nDCG@k sum of 1/log2(1 + place) over the hits in the first k / the same for min(R, k) hits at the top
#
# A query without any relevant item (R = 0) has no score and is left out of every mean; `Report.queries` says how many
# remained. The "mAP@10" of the NCL authors' evaluation is P@10.

HEAD = 5  # places of each list that are kept
RERANKED = 200  # of each list, where it is put in order by whole vectors
Hits = NDArray[np.bool_]  # (queries, depth): is the item at this place relevant?


@dataclass(frozen=True)
class ListHeads:
    """What the lists of the queries begin with."""

    nearest: Numbers  # (n, HEAD): items of the gallery, -1 where the list is shorter
    cosines: Doubles  # (n, HEAD)
    first: Numbers  # (n,) the place of the first relevant one, from 1; 0 where none was found


@dataclass(frozen=True)
class RetrievalReport:
    """Scores of every query that has something to find; the rows of each array are the same queries."""

    k: int  # of average_precision, recall and ndcg
    precision: dict[int, Doubles]  # P@k for several k
    r_precision: Doubles
    average_precision: Doubles
    recall: Doubles
    ndcg: Doubles
    knn: Doubles  # 1 where the neighbours' vote is the query's label
    queries: Numbers = field(repr=False)  # (n,) which queries these are
    heads: ListHeads = field(repr=False)

    def scores(self) -> dict[str, Doubles]:
        """Return every metric by its name, one number a query."""
        return {
            **{f"P@{k}": values for k, values in self.precision.items()},
            "R-precision": self.r_precision,
            f"mAP@{self.k}": self.average_precision,
            f"recall@{self.k}": self.recall,
            f"nDCG@{self.k}": self.ndcg,
            "kNN": self.knn,
        }

    def means(self) -> dict[str, float]:
        """Return every metric by its name, averaged over the queries."""
        return {name: float(values.mean()) for name, values in self.scores().items()}


def retrieval(
    gallery: NDArray[Any],
    labels: Sequence[Any] | NDArray[Any],
    queries: NDArray[Any] | None = None,
    query_labels: Sequence[Any] | NDArray[Any] | None = None,
    *,
    k: int = 100,
    precision_at: Sequence[int] = (1, 10),
    neighbours: int = 20,
    same: bool = False,
    whole: NDArray[Any] | None = None,
) -> RetrievalReport:
    """Score the retrieval of equally labelled images; without `queries` every image asks for all the others.

    same: queries[i] is another form of image i, for example its whole vector where the gallery is cut; it does not find
    itself. whole: the gallery's whole vectors, by which the first RERANKED of each list are put in order.
    """
    alone = queries is None or same
    queries = gallery if queries is None else queries
    names, codes = np.unique(np.concatenate([labels, labels if alone else _given(query_labels)]), return_inverse=True)
    of_gallery, of_queries = codes[: len(labels)], codes[len(labels) :]
    _check(gallery, of_gallery, "labels")
    _check(queries, of_queries, "query_labels")

    relevant = np.bincount(of_gallery, minlength=len(names))[of_queries] - int(alone)  # (q,): R
    query_rows = np.flatnonzero(relevant > 0)
    if not len(query_rows):
        raise DataInvalid("no query has anything to find", fix="give at least two images of one label")
    relevant = relevant[query_rows]
    deepest = max(k, neighbours, *precision_at)
    depths = np.zeros(len(queries), dtype=np.int64)
    depths[query_rows] = np.maximum(relevant, deepest if whole is None else max(deepest, RERANKED))
    lists = rank(queries, gallery, depths, leave_one_out=alone)
    if whole is not None:
        lists = reranked(lists, queries, whole, RERANKED)
    hits, r_precision, knn, heads = _judged(
        lists, of_gallery, of_queries, query_rows, relevant, max(deepest, 1), neighbours
    )
    return RetrievalReport(
        k=k,
        precision={n: precision(hits, n) for n in precision_at},
        r_precision=r_precision,
        average_precision=average_precision(hits, relevant, k),
        recall=recall(hits, relevant, k),
        ndcg=ndcg(hits, relevant, k),
        knn=knn,
        queries=query_rows,
        heads=heads,
    )


def _judged(
    lists: Iterable[Ranked],
    of_gallery: NDArray[Any],
    of_queries: NDArray[Any],
    query_rows: NDArray[Any],
    relevant: NDArray[Any],
    depth: int,
    neighbours: int,
) -> tuple[Hits, Doubles, Doubles, ListHeads]:
    """Return the hits, R-precision, vote and first neighbours of the queries, each with so many `relevant` ones."""
    hits = np.zeros((len(query_rows), depth), dtype=bool)
    r_precision, knn = np.zeros(len(query_rows)), np.zeros(len(query_rows))
    heads = ListHeads(
        np.full((len(query_rows), HEAD), -1), np.zeros((len(query_rows), HEAD)), np.zeros(len(query_rows), np.int64)
    )
    place = {query: i for i, query in enumerate(query_rows.tolist())}
    for ranked in lists:
        i = place.get(ranked.query)
        if i is None:
            continue
        matches = (of_gallery[ranked.order] == of_queries[ranked.query]) & (ranked.scores != 0)
        r_precision[i] = matches[: relevant[i]].sum() / relevant[i]
        knn[i] = vote(of_gallery[ranked.order[:neighbours]], ranked.scores[:neighbours]) == of_queries[ranked.query]
        hits[i, : min(depth, len(matches))] = matches[:depth]
        heads.nearest[i, : len(matches[:HEAD])] = ranked.order[:HEAD]
        heads.cosines[i, : len(matches[:HEAD])] = ranked.scores[:HEAD]
        heads.first[i] = matches.argmax() + 1 if matches.any() else 0
    return hits, r_precision, knn, heads


def precision(hits: Hits, k: int) -> Doubles:
    """Return P@k."""
    return np.asarray(hits[:, :k].sum(axis=1) / k, dtype=np.float64)


def recall(hits: Hits, relevant: NDArray[Any], k: int) -> Doubles:
    """Return Recall@k."""
    return np.asarray(hits[:, :k].sum(axis=1) / relevant, dtype=np.float64)


def average_precision(hits: Hits, relevant: NDArray[Any], k: int) -> Doubles:
    """Return AP@k, divided by min(R, k): 1 exactly when the list begins with as many hits as it can."""
    head = hits[:, :k]
    at_hits = np.cumsum(head, axis=1) / np.arange(1, head.shape[1] + 1) * head  # (queries, k)
    return np.asarray(at_hits.sum(axis=1) / np.minimum(relevant, k), dtype=np.float64)


def ndcg(hits: Hits, relevant: NDArray[Any], k: int) -> Doubles:
    """Return nDCG@k with gains 0 and 1."""
    gains = 1 / np.log2(np.arange(2, k + 2))  # (k,)
    ideal = np.cumsum(gains)[np.minimum(relevant, k) - 1]
    return np.asarray((hits[:, :k] * gains[: hits.shape[1]]).sum(axis=1) / ideal, dtype=np.float64)


def vote(labels: NDArray[Any], scores: NDArray[Any]) -> int:
    """Return the label with the largest sum of cosines among the neighbours; the lower of equals, -1 without any."""
    labels, scores = labels[scores > 0], scores[scores > 0]
    return int(np.bincount(labels, weights=scores).argmax()) if len(labels) else -1


def _given(labels: Sequence[Any] | NDArray[Any] | None) -> Sequence[Any] | NDArray[Any]:
    if labels is None:
        raise DataInvalid("queries without query_labels", fix="give one label a query")
    return labels


def _check(z: NDArray[Any], labels: NDArray[Any], name: str) -> None:
    if len(z) != len(labels):
        raise DataInvalid(f"{len(labels)} {name} for {len(z)} vectors", fix="give one label a vector", field=name)
