"""Exact ranking of what a cheaper question found, for engines that cannot do it themselves."""

from __future__ import annotations

from dataclasses import replace

from nonneg_client.search.engine import Engine, Found, Where
from nonneg_client.search.weights import Weights, score


def reranked(engine: Engine, cut: Weights, query: Weights, among: int, limit: int, where: Where | None) -> list[Found]:
    """Fetch the vectors of the candidates and score them here."""
    candidates = engine.nearest(*cut, among, where)
    stored = engine.get([found.id for found in candidates])
    rows = dict(zip(stored.ids or (), stored, strict=True))
    exact = [replace(found, score=score(query, rows[found.id])) for found in candidates]
    return sorted(exact, key=lambda found: -found.score)[:limit]
