"""Groups around one photo that is kept: each other member is paired with it, so no chains of look-alikes arise.

The best photo that is in no group yet takes all that are paired with it and in no group yet (a star; greedy, best
first). A photo that is only linked through others starts a group of its own or stays alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nonneg_core.curation.sparse_rows import Places


@dataclass(frozen=True)
class Star:
    """A group: the photo that is kept, and for each of the others the number of the pair that links them."""

    keep: int
    members: tuple[int, ...]
    pairs: tuple[int, ...]


def stars(one: Places, other: Places, order: Sequence[int] | NDArray[np.intp]) -> list[Star]:
    """Group the paired photos around the best ones; `order` has all photos, the best first."""
    pairs = np.concatenate([np.arange(len(one)), np.arange(len(one))])
    near, far = np.concatenate([one, other]), np.concatenate([other, one])
    sorting = np.argsort(near, kind="stable")
    near, far, pairs = near[sorting], far[sorting], pairs[sorting]
    taken = np.zeros(len(order), bool)
    found = []
    for keep in np.asarray(order)[np.isin(order, near)]:
        if taken[keep]:
            continue
        span = slice(*np.searchsorted(near, [keep, keep + 1]))
        free = ~taken[far[span]]
        members, links = far[span][free], pairs[span][free]
        if len(members):
            taken[members] = taken[keep] = True
            by_number = np.argsort(members, kind="stable")
            found.append(Star(int(keep), tuple(members[by_number].tolist()), tuple(links[by_number].tolist())))
    return sorted(found, key=lambda star: (-len(star.members), star.keep))
