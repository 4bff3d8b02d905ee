"""Hits and the parts of their scores, where chance begins, what shortening loses, and the dimensions in common."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nonneg_core.arrays import Flags, Floats, Places
from nonneg_core.shortening import Vectors, unit
from nonneg_runtime.words.column_facts import chance_of
from nonneg_server.studio.folder_answers import Cards, bars
from nonneg_server.studio.indexed_folder import ColumnIndex, IndexedFolder, Integers
from nonneg_server.studio.photo_query import PhotoQuery, left_out_as_json
from nonneg_vectors.expressions.weightings import Resolved

SHOWN = 16
UNNAMED = 0.5  # what has a name says more


def facets(collection: IndexedFolder, result: Places, cards: Cards) -> list[dict[str, Any]]:
    """Return the dimensions whose mean in the result is the most standard deviations above that over all photos."""
    if not len(result):
        return []
    stored = collection.stored
    sums, inside = np.zeros(stored.dimensions), np.zeros(stored.dimensions, np.int64)
    for i in result:
        indices, values = stored.row(int(i))
        sums[indices] += values
        inside[indices] += 1
    variance = stored.norms.astype(np.float64) ** 2 / len(collection) - stored.means.astype(np.float64) ** 2
    telling = (sums / len(result) - stored.means) / np.sqrt(np.maximum(variance, 1e-12))
    telling[~cards.named[: stored.dimensions]] *= UNNAMED
    counts = stored.whole.counts
    order = np.argsort(-telling, kind="stable")[:SHOWN]
    return [
        {
            **cards(int(j)),
            "in_result": int(inside[j]),
            "of": len(result),
            "count": int(counts[j]),
        }
        for j in order
        if telling[j] > 0
    ]


REASONS = 6
ASKED = 12  # dimensions of the query that are told
COMPARED = 10  # hits that are compared with those of the whole vectors
FACETTED, FEWEST = 20, 6  # hits whose dimensions become facets: those above the line, but no fewer
BYTES = 4  # of an entry: index and value, two each; a dense one is a float32


@dataclass(frozen=True)
class SearchLength:
    """How much of each vector is used: of the query, and of what is stored."""

    dimensions: int
    top_k: int | None = None
    tenth: bool = False  # store each vector's largest tenth, ask with all that the length leaves of the query

    def stored(self, width: int) -> int | None:
        """Return `top_k` of what is stored."""
        if not self.tenth:
            return self.top_k
        tenth = max(1, round(width / 10))
        return tenth if self.top_k is None else min(tenth, self.top_k)


@dataclass(frozen=True)
class Page:
    """Which of the hits."""

    limit: int = 60
    offset: int = 0


def search(
    collection: IndexedFolder, query: PhotoQuery, itself: Sequence[int], length: SearchLength, page: Page, cards: Cards
) -> dict[str, Any]:
    """Find hits and figures; `itself` are the rows of the photos that are asked with, which are left out."""
    columns = collection.stored.cut(length.dimensions, length.stored(collection.stored.dimensions))
    weighting, left_out = query.at(length.dimensions, length.top_k)
    whole = columns is collection.stored.whole and length.top_k is None
    started = time.perf_counter()
    allowed = _allowed(collection, query.only, weighting.without, itself)
    scores = _scores(columns, weighting)
    order = _best(scores, allowed, max(page.offset + page.limit, FACETTED))
    took = time.perf_counter() - started
    line = chance_of(query.bundle, length.dimensions, length.stored(collection.stored.dimensions)).line(weighting.parts)
    above = int((allowed & (scores >= line) & (scores > 0)).sum())
    shown = order[page.offset : page.offset + page.limit]
    weights = _together(weighting, length.dimensions)
    return {
        "asked": bars(unit(weights), cards, ASKED),
        "left_out": left_out_as_json(left_out, query, cards.names),
        "hits": [_hit(collection, int(i), float(scores[i]), weights, columns, length, cards) for i in shown],
        "total": int((allowed & (scores > 0)).sum()),
        "above": above,
        "chance": line,
        "milliseconds": round(took * 1e3, 3),
        "bytes": round(min(BYTES * columns.entries, 4.0 * length.dimensions), 1),
        "whole_bytes": round(BYTES * collection.stored.whole.entries, 1),
        "agreement": _agreement(collection, query, itself, order[:COMPARED], whole),
        "facets": facets(collection, order[: min(FACETTED, max(above, FEWEST))], cards),
    }


def _scores(columns: ColumnIndex, weighting: Resolved) -> Floats:
    """Return the smallest of the cosines with all parts of the query."""
    cosines = [columns.scores(indices, values) for indices, values in weighting.parts]
    return cosines[0] if len(cosines) == 1 else np.asarray(np.minimum.reduce(cosines), np.float32)


def _together(weighting: Resolved, dimensions: int) -> Vectors:
    """Return the mean of the query's parts, (k,): what the reasons are parts of."""
    mean = np.zeros(dimensions, np.float32)
    for indices, values in weighting.parts:
        mean[indices] += values / np.float32(len(weighting.parts))
    return mean


def _allowed(collection: IndexedFolder, only: Iterable[int], without: Iterable[int], itself: Sequence[int]) -> Flags:
    """Return the photos in which all of `only` and none of `without` is active; not those that are asked with."""
    whole = collection.stored.whole
    mask = np.ones(len(collection), bool)
    for j in only:
        active = np.zeros(len(collection), bool)
        active[whole.active(j)] = True
        mask &= active
    for j in without:
        mask[whole.active(j)] = False
    mask[list(itself)] = False
    return mask


def _best(scores: Floats, allowed: Flags, count: int) -> Places:
    """Return the photos with the largest scores above 0, the first among equals first."""
    candidates = np.flatnonzero(allowed & (scores > 0))
    if len(candidates) > count:
        least = np.partition(scores[candidates], -count)[-count]
        candidates = candidates[scores[candidates] >= least]
    return candidates[np.argsort(-scores[candidates], kind="stable")][:count]


def _hit(
    collection: IndexedFolder,
    i: int,
    score: float,
    weights: Vectors,
    columns: ColumnIndex,
    length: SearchLength,
    cards: Cards,
) -> dict[str, Any]:
    indices, values = collection.stored.row(i)
    within = indices < length.dimensions
    indices, values = indices[within], values[within]
    count = length.stored(collection.stored.dimensions)
    parts = weights[indices[:count]] * values[:count] / columns.lengths[i]
    reasons = _reasons(indices[:count], parts, cards)
    return {"photo": collection.ids[i], "name": collection.names[i], "score": score, "reasons": reasons}


def _reasons(indices: Integers, parts: Floats, cards: Cards) -> list[dict[str, Any]]:
    """Return the largest parts of a score, and the largest of those whose dimension has a name."""
    total = float(parts.sum()) or 1.0
    order = np.argsort(-parts, kind="stable")[: np.count_nonzero(parts > 0)]
    named = order[cards.named[indices[order]]][:REASONS]
    chosen = sorted({*order[:REASONS].tolist(), *named.tolist()}, key=lambda o: -parts[o])
    return [{**cards(int(indices[o])), "part": float(parts[o]), "share": float(parts[o]) / total} for o in chosen]


def _agreement(
    collection: IndexedFolder, query: PhotoQuery, itself: Sequence[int], hits: Places, whole: bool
) -> float | None:
    """Return the share of the first hits that the whole vectors find first, too; `found` are theirs if `whole`."""
    first = frozenset(hits.tolist())
    find = partial(_best_whole, collection, query, itself)
    best = collection.remembered((str(query.expression), *query.only), (lambda: first) if whole else find)
    return len(best & first) / len(best) if best else None


def _best_whole(collection: IndexedFolder, query: PhotoQuery, itself: Sequence[int]) -> frozenset[int]:
    """Return the first hits of the whole vectors."""
    weighting = query.resolved(collection.stored.dimensions, None)
    allowed = _allowed(collection, query.only, weighting.without, itself)
    return frozenset(_best(_scores(collection.stored.whole, weighting), allowed, COMPARED).tolist())
