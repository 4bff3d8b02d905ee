"""What is searched for: a weighting of the dimensions, and which of them must or must not be active."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nonneg_core.errors import ParameterInvalid
from nonneg_core.shortening import Vectors, shorten


@dataclass(frozen=True, eq=False)
class Query:
    """`weights` (D,) are not shortened yet; `itself` is the photo that is asked with, if it is indexed."""

    weights: Vectors
    without: Sequence[int] = ()
    only: Sequence[int] = ()
    itself: int | None = None
    by_photo: bool = False  # whether its scores can be compared with those of random pairs

    def shortened(self, dimensions: int, top_k: int | None) -> Vectors:
        """What is asked with: a prefix, its largest, length one."""
        return shorten(self.weights, dimensions, top_k)


def weighted(vector: Vectors | None, more: Mapping[int, float], dimensions: int) -> Vectors:
    """A photo's vector and some dimensions more; these alone where there is no photo."""
    weights = np.zeros(dimensions, np.float32) if vector is None else shorten(vector)
    for j, weight in more.items():
        weights[j] += np.float32(weight)
    return weights


def check_there(dimensions: Sequence[int], width: int, field: str) -> None:
    """Raise ParameterInvalid for a dimension that the model does not have."""
    for j in dimensions:
        if not 0 <= j < width:
            raise ParameterInvalid(
                f"there is no dimension {j}", fix=f"ask for 0 to {width - 1}", field=field, value=j, limit=width - 1
            )
