"""The dimensions of a model as a list: filtered, sorted and cut into pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nonneg_runtime.bundle import Bundle
from nonneg_runtime.words.known_names import known_names, why_unnamed
from nonneg_runtime.words.names import Name
from nonneg_server.dimensions import naming, path_of
from nonneg_server.requests.parameters import Listing


def listed(bundle: Bundle, asked: Listing) -> dict[str, Any]:
    """Return the page that was asked for, and how many dimensions all pages have together."""
    manifest, names = bundle.manifest, known_names(bundle)
    frequency = manifest.columns.frequency
    chosen = [j for j in range(manifest.dimensions) if _wanted(names.get(j), asked)]
    chosen.sort(key=lambda j: _place(j, asked.sort, names, frequency))
    page = chosen[asked.offset : asked.offset + asked.limit]
    return {
        "model": manifest.name,
        "fingerprint": manifest.fingerprint,
        "named": len(names),
        "unnamed": why_unnamed(bundle) or None,
        "total": len(chosen),
        "offset": asked.offset,
        "dimensions": [
            {
                "dimension": j,
                **naming(names.get(j)),
                "frequency": frequency[j],
                "expected_activation": manifest.columns.expected_activation[j],
                "details": path_of(manifest, j),
            }
            for j in page
        ],
    }


def _wanted(name: Name | None, asked: Listing) -> bool:
    if name is None:
        return not asked.named and not asked.contains and asked.evidence is None
    has = {"precision": name.precision is not None, "rank": name.rank is not None}
    if asked.evidence is not None and not has[asked.evidence]:
        return False
    return (asked.contains or "").casefold() in f"{name.name}\n{name.common}".casefold()


def _place(j: int, sort: str, names: Mapping[int, Name], frequency: tuple[float, ...]) -> tuple[Any, ...]:
    """Return what a dimension is sorted by; equal ones stay in the order of the columns."""
    name = names.get(j)
    if sort == "frequency":
        return (-frequency[j], j)
    if sort == "name":
        return (name is None, name.name.casefold() if name else "", j)
    if sort == "evidence":
        return (*strength(name), j)
    return (j,)


def strength(name: Name | None) -> tuple[int, float]:
    """Return how good the evidence for a name is, the best first: precisions, then ranks, then names without either."""
    if name is None:
        return (3, 0.0)
    if name.precision is not None:
        return (0, -name.precision)
    return (2, 0.0) if name.rank is None else (1, float(name.rank))
