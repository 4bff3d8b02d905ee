"""The dimensions that a result has in common and other photos lack, each counted over the whole index."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_server.studio.collection import IndexedFolder
from nonneg_server.studio.dimension_cards import Cards

SHOWN = 16
UNNAMED = 0.5  # what has a name says more


def facets(collection: IndexedFolder, result: NDArray[np.intp], cards: Cards) -> list[dict[str, Any]]:
    """Return the dimensions whose mean in the result is the most standard deviations above that over all photos."""
    if not len(result):
        return []
    stored = collection.stored
    sums, inside = np.zeros(stored.dimensions), np.zeros(stored.dimensions, np.int64)
    for i in result:
        indices, values = stored.row(int(i))
        sums[indices] += values
        inside[indices] += 1
    variance = stored.norms.astype(np.float64) ** 2 / len(collection) - stored.means.astype(np.float64) ** 2
    telling = (sums / len(result) - stored.means) / np.sqrt(np.maximum(variance, 1e-12))
    telling[~cards.named[: stored.dimensions]] *= UNNAMED
    counts = stored.whole.counts
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
