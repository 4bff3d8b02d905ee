"""How alike two encoders answer: cosines, and whether the same photos are found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_client.evaluation.ranking import rank
from nonneg_client.shortening import unit

NEIGHBOURS = 10


@dataclass(frozen=True)
class Likeness:
    """The changed encoder against the one it was made from, on the same photos."""

    photos: int
    mean_cosine: float
    least_cosine: float
    neighbours_kept: float  # of each photo's ten nearest, the share that is still among the ten


def likeness(before: NDArray[Any], after: NDArray[Any]) -> Likeness:
    """Rows of both encoders for the same photos; two zero vectors are alike."""
    a, b = unit(before), unit(after)
    cosines = np.where(a.any(axis=1) | b.any(axis=1), np.einsum("ij,ij->i", a, b), 1)
    depth = min(NEIGHBOURS, len(a) - 1)
    kept = (
        [
            len(set(x.order.tolist()) & set(y.order.tolist())) / depth
            for x, y in zip(_nearest(a, depth), _nearest(b, depth), strict=True)
        ]
        if depth
        else [1.0]
    )
    return Likeness(len(a), float(cosines.mean()), float(cosines.min()), float(np.mean(kept)))


def _nearest(z: NDArray[Any], depth: int) -> Any:
    return rank(z, z, np.full(len(z), depth), leave_one_out=True)
