"""One dimension in a folder: the photos it is strongest in, what it goes together with, and how it drifts."""

from __future__ import annotations

from typing import Any

import numpy as np

from nonneg_runtime.manifest import Columns as Evidence
from nonneg_server.studio.cards import Cards
from nonneg_server.studio.collection import Collection

COMPANY = 8
STRONGEST = 48
EXEMPLARS = 3


def meaning(collection: Collection, j: int, evidence: Evidence, cards: Cards) -> dict[str, Any]:
    """What this folder says of a dimension, beside what its calibration said."""
    whole = collection.stored.whole
    active, strengths = whole.active(j), whole.strengths(j)
    order = np.argsort(-strengths, kind="stable")[:STRONGEST]
    here = len(active) / max(1, len(collection))
    mean = float(strengths.sum()) / max(1, len(collection))
    return {
        "photos": [
            {"photo": collection.ids[active[o]], "name": collection.names[active[o]], "value": float(strengths[o])}
            for o in order
        ],
        "count": len(active),
        "of": len(collection),
        "frequency": here,
        "mean": mean,
        "drift": {
            "frequency": _ratio(here, evidence.frequency[j]),
            "mean": _ratio(mean, evidence.expected_activation[j]),
        },
        "company": company(collection, j, cards),
    }


def strongest(collection: Collection, j: int, count: int) -> list[str]:
    """The ids of the photos in which a dimension is strongest."""
    whole = collection.stored.whole
    order = np.argsort(-whole.strengths(j), kind="stable")[:count]
    return [collection.ids[i] for i in whole.active(j)[order]]


def company(collection: Collection, j: int, cards: Cards) -> list[dict[str, Any]]:
    """The dimensions whose columns have the largest cosine with this one's."""
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
