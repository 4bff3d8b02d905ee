"""The k best for a query of several parts, of which a vector's worst counts, or of weights below zero; exactly.

Any engine gives the largest inner products with weights above zero. The positive weights alone of a part bound it from
above; and a vector that an engine has not listed for a part has no larger inner product with it than the last that it
has. So the lists grow until the k-th score is above what any vector outside of them can have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nonneg_client.search.connectors.engine import Engine, EngineHit, Where
from nonneg_client.search.sparse_vectors import SparseWeights

GROWTH = 4
FIRST = 64  # vectors of a part that are listed at first, at least

Keep = Callable[[str], bool]


def best(
    engine: Engine, parts: Sequence[SparseWeights], k: int, where: Where | None, without: Sequence[int], keep: Keep
) -> list[EngineHit]:
    """Find the k vectors with the largest smallest inner product with the parts, above zero, with nothing unwanted."""
    known: dict[str, EngineHit] = {}  # with their scores; zero for those that are unwanted
    asked = max(FIRST, GROWTH * k)
    while True:
        lists = [engine.nearest(*_positive(part), asked, where) for part in parts]
        fresh = {found.id: found for listed in lists for found in listed if found.id not in known}
        known |= _scored(engine, list(fresh.values()), parts, without)
        beyond = min((listed[-1].score if len(listed) >= asked else 0.0) for listed in lists)
        wanted = [found for found in known.values() if found.score > 0 and keep(found.id)]
        wanted.sort(key=lambda found: (-found.score, found.id))
        if not beyond or (len(wanted) >= k and wanted[k - 1].score >= beyond):
            return wanted[:k]
        asked *= GROWTH


def _positive(part: SparseWeights) -> SparseWeights:
    return part[0][part[1] > 0], part[1][part[1] > 0]


def _scored(
    engine: Engine, found: Sequence[EngineHit], parts: Sequence[SparseWeights], without: Sequence[int]
) -> dict[str, EngineHit]:
    """Return the same with the score that counts: of the worst part, or zero where something unwanted is active."""
    stored = engine.get([one.id for one in found])
    weights = np.zeros((engine.description.dimensions, len(parts)))
    for column, (indices, values) in enumerate(parts):
        weights[indices, column] = values
    unwanted = np.zeros(len(weights), dtype=bool)
    unwanted[list(without)] = True
    payloads = {one.id: one.payload for one in found}
    scored = {}
    for i, name in enumerate(stored.ids or ()):
        indices, values = stored.row(i)
        score = 0.0 if unwanted[indices].any() else float((values @ weights[indices]).min())
        scored[name] = EngineHit(name, score, payloads[name])
    return scored
