"""An expression in a model's terms: weightings of its dimensions, and the dimensions that must not be active."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from nonneg_core.expressions.expression import Expression, Photo
from nonneg_core.expressions.resolve import Resolved
from nonneg_core.shortening import Vectors, check_dimensions
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.column_statistics import chance_of
from nonneg_runtime.expression_rows import resolved
from nonneg_runtime.known_names import names_of
from nonneg_runtime.manifest import Manifest


class Queried(NamedTuple):
    """An expression and what it stands for."""

    manifest: Manifest
    expression: Expression
    dimensions: int
    resolved: Resolved
    names: Mapping[int, str]
    chance: float  # the score that few random photos reach


def queried(bundle: Bundle, expression: Expression, dimensions: int | None, photos: Mapping[Photo, Vectors]) -> Queried:
    """What an expression stands for; `photos`: their vectors of that length."""
    length = check_dimensions(dimensions, bundle.manifest.dimensions)
    found = resolved(bundle, expression, length, photos)
    chance = chance_of(bundle, length).line(found.parts)
    return Queried(bundle.manifest, expression, length, found, names_of(bundle), chance)


def as_json(found: Queried) -> dict[str, Any]:
    """The answer of POST /query."""
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
