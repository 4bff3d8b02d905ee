"""Hits with the parts that make their scores, where chance begins, and what is lost by shortening."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.shortening import Vectors, shorten
from nonneg_server.studio.collection import Collection
from nonneg_server.studio.column_index import Columns, Floats
from nonneg_server.studio.facets import facets
from nonneg_server.studio.query import Query

REASONS = 6
COMPARED = 10  # hits that are compared with those of the whole vectors
SAMPLE = 256  # photos whose pairs say what chance is
CHANCE = 0.99  # of these pairs share less than the line
BYTES = 4  # of an entry: index and value, two each; dense, a float32

Names = Mapping[int, str]


@dataclass(frozen=True)
class Length:
    """How much of each vector is used: of the query, and of what is stored."""

    dimensions: int
    top_k: int | None = None
    tenth: bool = False  # store each vector's largest tenth, ask with all that the length leaves of the query

    def stored(self, width: int) -> int | None:
        """`top_k` of what is stored."""
        if not self.tenth:
            return self.top_k
        tenth = max(1, round(width / 10))
        return tenth if self.top_k is None else min(tenth, self.top_k)


@dataclass(frozen=True)
class Page:
    """Which of the hits."""

    limit: int = 60
    offset: int = 0


def search(collection: Collection, query: Query, length: Length, page: Page, names: Names) -> dict[str, Any]:
    """The answer of /studio/search."""
    started = time.perf_counter()
    columns = collection.stored.cut(length.dimensions, length.stored(collection.stored.dimensions))
    asked = query.shortened(length.dimensions, length.top_k)
    scores = columns.scores(asked)
    allowed = _allowed(collection, query)
    order = _best(scores, allowed, page.offset + max(page.limit, COMPARED))
    took = time.perf_counter() - started
    shown = order[page.offset : page.offset + page.limit]
    return {
        "hits": [_hit(collection, int(i), float(scores[i]), asked, columns, length, names) for i in shown],
        "total": int((allowed & (scores > 0)).sum()),
        "above": _above(collection, query, length, scores, allowed),
        "chance": chance(collection, length) if query.by_photo else None,
        "milliseconds": round(took * 1e3, 3),
        "bytes": round(min(BYTES * columns.entries, 4.0 * length.dimensions), 1),
        "whole_bytes": round(BYTES * collection.stored.whole.entries, 1),
        "agreement": _agreement(collection, query, allowed, order[:COMPARED]),
        "facets": facets(collection, order[: COMPARED * 2], names),
    }


def _allowed(collection: Collection, query: Query) -> NDArray[np.bool_]:
    """The photos that fulfil the conditions, without the one that is asked with."""
    whole = collection.stored.whole
    found = np.ones(len(collection), bool)
    for j in query.only:
        active = np.zeros(len(collection), bool)
        active[whole.active(j)] = True
        found &= active
    for j in query.without:
        found[whole.active(j)] = False
    if query.itself is not None:
        found[query.itself] = False
    return found


def _best(scores: Floats, allowed: NDArray[np.bool_], count: int) -> NDArray[np.intp]:
    """The photos with the largest scores above 0, the first among equals first."""
    candidates = np.flatnonzero(allowed & (scores > 0))
    if len(candidates) > count:
        least = np.partition(scores[candidates], -count)[-count]
        candidates = candidates[scores[candidates] >= least]
    return candidates[np.argsort(-scores[candidates], kind="stable")][:count]


def _hit(
    collection: Collection, i: int, score: float, asked: Vectors, columns: Columns, length: Length, names: Names
) -> dict[str, Any]:
    indices, values = collection.stored.row(i)
    within = indices < length.dimensions
    indices, values = indices[within], values[within]
    kept = length.stored(collection.stored.dimensions)
    parts = asked[indices[:kept]] * values[:kept] / columns.lengths[i]
    order = [o for o in np.argsort(-parts, kind="stable") if parts[o] > 0]
    named = [o for o in order if int(indices[o]) in names][:REASONS]
    chosen = sorted({*order[:REASONS], *named}, key=lambda o: -parts[o])
    return {
        "photo": collection.ids[i],
        "name": collection.names[i],
        "score": score,
        "reasons": [
            {**card(int(indices[o]), names), "part": float(parts[o]), "share": float(parts[o]) / score} for o in chosen
        ],
    }


def card(j: int, names: Names) -> dict[str, Any]:
    """A dimension in a list of others."""
    return {"dimension": j, "name": names.get(j)}


def _above(
    collection: Collection, query: Query, length: Length, scores: Floats, allowed: NDArray[np.bool_]
) -> int | None:
    """How many hits are above the line."""
    line = chance(collection, length) if query.by_photo else None
    return None if line is None else int((allowed & (scores >= line)).sum())


@lru_cache(maxsize=64)
def chance(collection: Collection, length: Length) -> float | None:
    """The cosine that one random pair of these photos in a hundred reaches; None where there are too few photos."""
    if len(collection) < 3:
        return None
    stored, count = collection.stored, min(SAMPLE, len(collection))
    sample = np.random.default_rng(0).choice(len(collection), count, replace=False)
    z = np.stack([stored.dense(int(i)) for i in sample])  # (sample, D)
    held = shorten(z, length.dimensions, length.stored(stored.dimensions))
    asked = held if not length.tenth else shorten(z, length.dimensions, length.top_k)
    cosines = (asked @ held.T)[np.triu_indices(count, 1)]
    return float(np.quantile(cosines, CHANCE))


def _agreement(
    collection: Collection, query: Query, allowed: NDArray[np.bool_], found: Sequence[int] | NDArray[np.intp]
) -> float | None:
    """The share of the first hits that the whole vectors find first, too."""
    scores = collection.stored.whole.scores(query.shortened(collection.stored.dimensions, None))
    best = _best(scores, allowed, COMPARED)
    if not len(best):
        return None
    return len({int(i) for i in best} & {int(i) for i in found}) / len(best)
