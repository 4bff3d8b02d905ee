"""Hits with the parts that make their scores, where chance begins, and what is lost by shortening."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.expressions.resolve import Resolved
from nonneg_core.shortening import Vectors, unit
from nonneg_runtime.column_statistics import chance_of
from nonneg_server.studio.collection import IndexedFolder
from nonneg_server.studio.column_index import ColumnIndex, Floats, Integers
from nonneg_server.studio.comparison import bars
from nonneg_server.studio.dimension_cards import Cards
from nonneg_server.studio.facets import facets
from nonneg_server.studio.query import PhotoQuery, left_out_as_json

REASONS = 6
ASKED = 12  # dimensions of the query that are told
COMPARED = 10  # hits that are compared with those of the whole vectors
FACETTED, FEWEST = 20, 6  # hits whose dimensions become facets: those above the line, but no fewer
BYTES = 4  # of an entry: index and value, two each; a dense one is a float32

Chosen = NDArray[np.bool_]


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
    asked, left_out = query.at(length.dimensions, length.top_k)
    whole = columns is collection.stored.whole and length.top_k is None
    started = time.perf_counter()
    allowed = _allowed(collection, query.only, asked.without, itself)
    scores = _scores(columns, asked)
    order = _best(scores, allowed, max(page.offset + page.limit, FACETTED))
    took = time.perf_counter() - started
    line = chance_of(query.bundle, length.dimensions, length.stored(collection.stored.dimensions)).line(asked.parts)
    above = int((allowed & (scores >= line) & (scores > 0)).sum())
    shown = order[page.offset : page.offset + page.limit]
    weights = _together(asked, length.dimensions)
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


def _scores(columns: ColumnIndex, asked: Resolved) -> Floats:
    """Return the smallest of the cosines with all parts of the query."""
    found = [columns.scores(indices, values) for indices, values in asked.parts]
    return found[0] if len(found) == 1 else np.asarray(np.minimum.reduce(found), np.float32)


def _together(asked: Resolved, dimensions: int) -> Vectors:
    """Return the mean of the query's parts, (k,): what the reasons are parts of."""
    found = np.zeros(dimensions, np.float32)
    for indices, values in asked.parts:
        found[indices] += values / np.float32(len(asked.parts))
    return found


def _allowed(collection: IndexedFolder, only: Iterable[int], without: Iterable[int], itself: Sequence[int]) -> Chosen:
    """Return the photos in which all of `only` and none of `without` is active; not those that are asked with."""
    whole = collection.stored.whole
    found = np.ones(len(collection), bool)
    for j in only:
        active = np.zeros(len(collection), bool)
        active[whole.active(j)] = True
        found &= active
    for j in without:
        found[whole.active(j)] = False
    found[list(itself)] = False
    return found


def _best(scores: Floats, allowed: Chosen, count: int) -> NDArray[np.intp]:
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
    kept = length.stored(collection.stored.dimensions)
    parts = weights[indices[:kept]] * values[:kept] / columns.lengths[i]
    reasons = _reasons(indices[:kept], parts, cards)
    return {"photo": collection.ids[i], "name": collection.names[i], "score": score, "reasons": reasons}


def _reasons(indices: Integers, parts: Floats, cards: Cards) -> list[dict[str, Any]]:
    """Return the largest parts of a score, and the largest of those whose dimension has a name."""
    total = float(parts.sum()) or 1.0
    order = np.argsort(-parts, kind="stable")[: np.count_nonzero(parts > 0)]
    named = order[cards.named[indices[order]]][:REASONS]
    chosen = sorted({*order[:REASONS].tolist(), *named.tolist()}, key=lambda o: -parts[o])
    return [{**cards(int(indices[o])), "part": float(parts[o]), "share": float(parts[o]) / total} for o in chosen]


def _agreement(
    collection: IndexedFolder, query: PhotoQuery, itself: Sequence[int], found: NDArray[np.intp], whole: bool
) -> float | None:
    """Return the share of the first hits that the whole vectors find first, too; `found` are theirs if `whole`."""
    first = frozenset(found.tolist())
    find = partial(_best_whole, collection, query, itself)
    best = collection.remembered((str(query.expression), *query.only), (lambda: first) if whole else find)
    return len(best & first) / len(best) if best else None


def _best_whole(collection: IndexedFolder, query: PhotoQuery, itself: Sequence[int]) -> frozenset[int]:
    """Return the first hits of the whole vectors."""
    asked = query.resolved(collection.stored.dimensions, None)
    allowed = _allowed(collection, query.only, asked.without, itself)
    return frozenset(_best(_scores(collection.stored.whole, asked), allowed, COMPARED).tolist())
