"""The dimensions that a result has in common and other photos lack, each counted over the whole index."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_server.studio.cards import Cards
from nonneg_server.studio.collection import Collection

SHOWN = 16


def facets(collection: Collection, result: NDArray[np.intp], cards: Cards) -> list[dict[str, Any]]:
    """By how much more often a dimension is active in the result than in all photos, weighted by its rarity."""
    if not len(result):
        return []
    counts = collection.stored.whole.counts
    inside = np.zeros(len(counts))
    for i in result:
        inside[collection.stored.row(int(i))[0]] += 1
    share, everywhere = inside / len(result), counts / len(collection)
    telling = (share - everywhere) * np.log(1 / np.clip(everywhere, 1 / len(collection), 1))
    telling[[j for j in range(len(counts)) if j not in cards]] *= 0.5  # what has a name says more
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
