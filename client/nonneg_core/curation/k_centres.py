"""A diverse subset by greedy k-centre: each next photo is the one that is farthest from all chosen so far.

The largest distance that is left is at most twice that of the best subset of this size (Gonzalez 1985). The first is
the photo nearest to the mean; distance is 1 - cosine, whose order is the Euclidean one of unit vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nonneg_core.curation.sparse_rows import Floats, Places, SparseRows, column_means, count, dense, times


@dataclass(frozen=True)
class Subset:
    """The chosen photos in the order of choice; how near each photo is to the nearest of them, and which that is."""

    chosen: Places
    cosine: Floats  # (n,)
    nearest: Places  # (n,)


def k_centres(rows: SparseRows, n: int, moved: Callable[[int], object] | None = None) -> Subset:
    """Choose n photos, each the farthest from those before; fewer where only copies of chosen ones are left."""
    size = count(rows)
    cosine, nearest = np.full(size, -1, np.float32), np.full(size, -1)
    chosen: list[int] = []
    candidate = int(times(rows, column_means(rows)).argmax()) if size else 0
    while len(chosen) < min(n, size):
        near = times(rows, dense(rows, candidate, candidate + 1)[0])
        near[candidate] = 1
        closer = near > cosine
        cosine[closer], nearest[closer] = near[closer], candidate
        chosen.append(candidate)
        if moved is not None:
            moved(len(chosen))
        candidate = int(cosine.argmin())
        if cosine[candidate] >= 1 - 1e-5:
            break  # all that is left are copies
    return Subset(np.array(chosen, np.intp), cosine, nearest)
