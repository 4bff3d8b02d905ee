"""An expression in a model's terms: weightings of its dimensions, and the dimensions that must not be active."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from nonneg_core.expressions.expression import Expression
from nonneg_core.expressions.resolve import Resolved
from nonneg_core.shortening import check_dimensions
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.column_statistics import chance_of
from nonneg_runtime.manifest import Manifest
from nonneg_runtime.words.expression_rows import Given, resolved
from nonneg_runtime.words.known_names import names_of


class Queried(NamedTuple):
    """An expression and what it stands for."""

    manifest: Manifest
    expression: Expression
    dimensions: int
    resolved: Resolved
    names: Mapping[int, str]
    chance: float  # the score that few random photos reach


def queried(bundle: Bundle, expression: Expression, dimensions: int | None, given: Given) -> Queried:
    """Return what an expression stands for; `given`: the vectors of its photos, and of texts that were embedded."""
    length = check_dimensions(dimensions, bundle.manifest.dimensions)
    found = resolved(bundle, expression, length, given)
    chance = chance_of(bundle, length).line(found.parts)
    return Queried(bundle.manifest, expression, length, found, names_of(bundle), chance)


def as_json(found: Queried) -> dict[str, Any]:
    """Return the answer of POST /query."""
    parts = [
        {"indices": indices.tolist(), "values": values.tolist(), "nnz": len(indices)}
        for indices, values in found.resolved.parts
    ]
    return {
        "model": found.manifest.name,
        "fingerprint": found.manifest.fingerprint,
        "dimensions": found.dimensions,
        "expression": str(found.expression),
        "parts": parts,
        "chance": found.chance,
        "without": [{"dimension": j, "name": found.names.get(j)} for j in found.resolved.without],
    }
