"""How alike two grey thumbnails are, where one may be the other mirrored or cropped: the largest correlation.

A crop of a photo shows a window of it. The window's thumbnail is made from the whole photo's by interpolation and
compared with the other's, for windows of 80 to 100 % of the sides in nine places each; correlation does not see
brightness and contrast. The perceptual hash of the duplicates is this, with grey levels in place of bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.curation.pixel_checks import GRID

Thumbnails = NDArray[np.float32]  # (n, GRID, GRID), each of mean 0 and norm 1, or all 0 where it is flat

SCALES = (0.95, 0.9, 0.85, 0.8)
PLACES = (0.0, 0.5, 1.0)  # of a window: at the beginning, in the middle, at the end
COARSE = 8  # cells of the coarse form in each direction
LEAST_SPREAD = 2.0  # grey levels: below this a thumbnail is flat, and no sign of anything
AT_ONCE = 8192  # pairs, or thumbnails


def standardised(thumbnails: NDArray[np.uint8]) -> Thumbnails:
    """Bring thumbnails (n, GRID * GRID) to mean 0 and norm 1; flat ones become 0 and are like nothing."""
    z = np.empty((len(thumbnails), GRID, GRID), np.float32)
    for start in range(0, len(thumbnails), AT_ONCE):
        levels = thumbnails[start : start + AT_ONCE].reshape(-1, GRID, GRID).astype(np.float32)
        flat = levels.std(axis=(1, 2)) < LEAST_SPREAD
        some = z[start : start + AT_ONCE]
        some[:] = _unit(levels)
        some[flat] = 0
    return z


def coarse(thumbnails: Thumbnails) -> NDArray[np.float32]:
    """Shrink standardised thumbnails to a third of their sides, (n, COARSE * COARSE): what a crop changes little."""
    parts = thumbnails.reshape(-1, COARSE, GRID // COARSE, COARSE, GRID // COARSE)
    cells = np.asarray(parts.mean(axis=(2, 4)), np.float32)
    return _unit(cells).reshape(-1, COARSE * COARSE)


def mirrored(thumbnails: Thumbnails) -> Thumbnails:
    """Return the thumbnails with left and right exchanged."""
    return thumbnails[:, :, ::-1]


def likeness(
    thumbnails: Thumbnails, one: NDArray[np.intp], other: NDArray[np.intp], others: Thumbnails | None = None
) -> NDArray[np.float32]:
    """Return the largest correlation of each pair thumbnails[one[i]], others[other[i]] over mirror, window and side.

    others: without them pairs are of one collection.
    """
    partners = thumbnails if others is None else others
    best = np.full(len(one), -1, np.float32)
    for start in range(0, len(one), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        a, b = thumbnails[one[some]], partners[other[some]]
        for whole, part in ((a, b), (b, a)):
            for seen in _windows(whole):
                for turned in (part, mirrored(part)):
                    np.maximum(best[some], np.einsum("nij,nij->n", seen, turned), out=best[some])
    return best


def _windows(z: Thumbnails) -> Iterator[Thumbnails]:
    """Yield the thumbnails of every window of the pictures behind `z`, the whole first."""
    yield z
    for scale in SCALES:
        for top in PLACES:
            for left in PLACES:
                yield _unit(_window(top, scale) @ z @ _window(left, scale).T)


@cache
def _window(place: float, scale: float) -> NDArray[np.float32]:
    """Return weights (GRID, GRID) that interpolate a window's cells between those of the whole (Catmull and Rom)."""
    at = place * (1 - scale) * GRID + scale * (np.arange(GRID) + 0.5) - 0.5  # where the cells' centres lie
    below = np.floor(at).astype(int)
    t = at - below
    weights = np.zeros((GRID, GRID), np.float32)
    cubic = (
        (-1, (-t + 2 * t**2 - t**3) / 2),
        (0, (2 - 5 * t**2 + 3 * t**3) / 2),
        (1, (t + 4 * t**2 - 3 * t**3) / 2),
        (2, (-(t**2) + t**3) / 2),
    )
    for step, weight in cubic:
        np.add.at(weights, (np.arange(GRID), np.clip(below + step, 0, GRID - 1)), weight)
    return weights


def _unit(pictures: NDArray[Any]) -> NDArray[np.float32]:
    """Bring each picture to mean 0 and norm 1; a constant one becomes 0."""
    z = (pictures - pictures.mean(axis=(1, 2), keepdims=True)).astype(np.float32)
    norms = np.sqrt(np.einsum("nij,nij->n", z, z))[:, None, None]
    return np.asarray(np.divide(z, norms, out=np.zeros_like(z), where=norms > 1e-6))
