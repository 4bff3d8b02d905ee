"""Photos that are like no other: the mean cosine to the nearest few, the smallest first.

Below the bound of three robust standard deviations under the median it is unusual; a collection may have no such photo.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nonneg_core.curation.sparse_rows import Floats, Places

NEAREST = 5
SHARE = 0.01  # of the photos are always listed
FAR = 3.0  # robust standard deviations below the median: about one in 700 of a normal distribution


@dataclass(frozen=True)
class Outliers:
    """Photos, the loneliest first, and every photo's mean cosine to its nearest."""

    photos: Places
    closeness: Floats  # (n,)
    bound: float  # below it a mean cosine is unusual


def outliers(cosines: Floats) -> Outliers:
    """Return the loneliest hundredth of the photos, and all whose mean cosine is unusually low.

    cosines: of each photo to its nearest others, (n, k), the nearest first.
    """
    closeness = cosines[:, :NEAREST].mean(axis=1) if cosines.size else np.zeros(len(cosines), np.float32)
    if len(closeness) < 3:
        return Outliers(np.zeros(0, np.intp), closeness, 0.0)
    middle = float(np.median(closeness))
    below = closeness[closeness <= middle]
    spread = 1.4826 * float(np.median(middle - below))  # of the lower half: that above the median says nothing of it
    bound = middle - FAR * spread
    order = np.argsort(closeness, kind="stable")
    lonely = max(round(len(order) * SHARE), int((closeness < bound).sum()))
    return Outliers(order[:lonely], closeness, bound)
