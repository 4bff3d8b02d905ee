"""One dimension in a folder: the photos it is strongest in, what it goes together with, and how it drifts."""

from __future__ import annotations

from typing import Any

import numpy as np

from nonneg_runtime.manifest import Columns as Evidence
from nonneg_server.studio.collection import IndexedFolder
from nonneg_server.studio.dimension_cards import Cards

COMPANY = 8
STRONGEST = 48
EXEMPLARS = 3


def meaning(collection: IndexedFolder, j: int, evidence: Evidence, cards: Cards) -> dict[str, Any]:
    """Return what this folder says of a dimension, beside what its calibration said."""
    whole = collection.stored.whole
    count = int(whole.counts[j])
    here = count / max(1, len(collection))
    mean = float(whole.strengths(j).sum()) / max(1, len(collection))
    return {
        "photos": [
            {"photo": collection.ids[i], "name": collection.names[i], "value": float(value)}
            for i, value in zip(*whole.strongest(j, STRONGEST), strict=True)
        ],
        "count": count,
        "of": len(collection),
        "frequency": here,
        "mean": mean,
        "drift": {
            "frequency": _ratio(here, evidence.frequency[j]),
            "mean": _ratio(mean, evidence.expected_activation[j]),
        },
        "company": company(collection, j, cards),
    }


def strongest(collection: IndexedFolder, j: int, count: int) -> list[str]:
    """Return the ids of the photos in which a dimension is strongest."""
    photos, _ = collection.stored.whole.strongest(j, count)
    return [collection.ids[i] for i in photos]


def company(collection: IndexedFolder, j: int, cards: Cards) -> list[dict[str, Any]]:
    """Return the dimensions whose columns have the largest cosine with this one's."""
    stored, whole = collection.stored, collection.stored.whole
    strengths = np.zeros(len(collection), np.float32)
    strengths[whole.active(j)] = whole.strengths(j)
    weights = np.repeat(strengths, np.diff(stored.indptr)) * stored.values
    together = np.bincount(stored.indices, weights, minlength=stored.dimensions)
    lengths = stored.norms
    cosines = together / np.maximum(lengths * lengths[j], 1e-12)
    cosines[j] = 0
    order = np.argsort(-cosines, kind="stable")[:COMPANY]
    return [
        {
            **cards(int(o)),
            "cosine": float(cosines[o]),
            "exemplars": strongest(collection, int(o), EXEMPLARS),
        }
        for o in order
        if cosines[o]
    ]


def _ratio(here: float, there: float) -> float | None:
    return here / there if there > 0 else None
