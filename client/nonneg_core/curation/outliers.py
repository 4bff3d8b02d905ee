"""Photos that are like no other: the mean cosine to the nearest few is far below what is usual here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nonneg_core.curation.sparse_rows import Floats, Places

NEAREST = 5
FAR = 3.0  # robust standard deviations below the median: about one in 700 of a normal distribution


@dataclass(frozen=True)
class Outliers:
    """The photos below the bound, the loneliest first, and every photo's mean cosine to its nearest."""

    photos: Places
    closeness: Floats  # (n,)
    bound: float


def outliers(cosines: Floats) -> Outliers:
    """From each photo's cosines to its nearest others, (n, k), the nearest first."""
    closeness = cosines[:, :NEAREST].mean(axis=1) if cosines.size else np.zeros(len(cosines), np.float32)
    if len(closeness) < 3:
        return Outliers(np.zeros(0, np.intp), closeness, 0.0)
    middle = float(np.median(closeness))
    below = closeness[closeness <= middle]
    spread = 1.4826 * float(np.median(middle - below))  # of the lower half: that above the median says nothing of it
    bound = middle - FAR * spread
    lonely = np.flatnonzero(closeness < bound)
    return Outliers(lonely[np.argsort(closeness[lonely], kind="stable")], closeness, bound)
