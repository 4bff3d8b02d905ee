"""Whether two grey thumbnails show one photo: how well they agree in the part where they agree least.

One may be the other mirrored, or a crop of it. The window of the one that shows most of the other is searched for on a
coarse grid, then moved and resized until they correlate best. Then each patch of the two is compared. Two moments of
one scene correlate as well as a crop and its photo do, but what has moved agrees in no patch.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Floats, Places
from nonneg_core.pixels.pixel_checks import GRID

Thumbnails = NDArray[np.uint8]  # (n, GRID * GRID)

COARSE = 8  # cells of the form that a crop changes little, in each direction
SEARCHED = 12  # cells at which windows are searched for
COMPARED = 24  # cells at which they are fitted and compared
PATCHES = 6  # in each direction
SCALES = (0.95, 0.9, 0.8, 0.7)  # of a window's sides to the whole's
PLACES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of a window: from the beginning to the end
NEAR = 0.7  # correlation of the coarse grids from which a window is worth fitting
STEPS = (0.05, 0.025, 0.025, 0.0125, 0.0125, 0.00625, 0.00625)  # of the sides, by which a window is moved and resized
MOVES = ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 1), (-0.5, -0.5, 1, 1), (0, 0, 1, 0), (0, 0, 0, 1))
LEAST_SPREAD = 2.0  # grey levels: below this a thumbnail is flat, and no sign of anything
FLOOR = 0.25  # of a photo's spread: differences are compared with at least so much detail in each patch
LEAST_DETAIL = 1.0  # grey levels
AT_ONCE = 2048  # pairs


def likeness(thumbnails: Thumbnails, one: Places, other: Places, others: Thumbnails | None = None) -> Floats:
    """Return how well each pair thumbnails[one[i]], others[other[i]] agrees in its worst patch: 1 entirely, 0 not.

    others: without them pairs are of one collection.
    """
    partners = thumbnails if others is None else others
    agreement = np.zeros(len(one), np.float32)
    for start in range(0, len(one), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        whole, part, boxes, correlation = _nearest(_pictures(thumbnails[one[some]]), _pictures(partners[other[some]]))
        near = np.flatnonzero(correlation >= NEAR)
        agreement[start + near] = _agreement(whole[near], part[near], boxes[near])
    return agreement


def coarse(thumbnails: Thumbnails) -> Floats:
    """Shrink thumbnails to a sixth of their sides, (n, COARSE * COARSE), of length one: what a crop changes little."""
    return np.concatenate(
        [_unit(_reduced(_pictures(some), COARSE), LEAST_SPREAD) for some in _slices(thumbnails)]
    ).reshape(-1, COARSE * COARSE)


def mirrored(thumbnails: Thumbnails) -> Thumbnails:
    """Return the thumbnails with left and right exchanged."""
    return thumbnails.reshape(-1, GRID, GRID)[:, :, ::-1].reshape(-1, GRID * GRID)


def _slices(thumbnails: Thumbnails) -> list[Thumbnails]:
    return [thumbnails[start : start + AT_ONCE] for start in range(0, max(1, len(thumbnails)), AT_ONCE)]


def _pictures(thumbnails: Thumbnails) -> Floats:
    return thumbnails.reshape(-1, GRID, GRID).astype(np.float32)


def _nearest(a: Floats, b: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return of each pair the whole, the part, the window of the whole that is most like it, and their correlation."""
    small = _unit(_reduced(a, SEARCHED), LEAST_SPREAD), _unit(_reduced(b, SEARCHED), LEAST_SPREAD)
    best = np.full(len(a), -1, np.float32)
    place = np.zeros(len(a), np.intp)
    swapped, turned = np.zeros((2, len(a), 1, 1), bool)
    for swap, (whole, part) in enumerate((small, small[::-1])):
        for number, box in enumerate(_windows()):
            shown = _unit(_shown(whole, box[None], SEARCHED))
            for turn, other in enumerate((part, part[:, :, ::-1])):
                correlation = np.einsum("nij,nij->n", shown, other)
                better = correlation > best
                best[better], place[better] = correlation[better], number
                swapped[better], turned[better] = swap, turn
    whole, part = np.where(swapped, b, a), np.where(swapped, a, b)
    return whole, np.where(turned, part[:, :, ::-1], part), _windows()[place], best


def _agreement(whole: Floats, part: Floats, boxes: Floats) -> Floats:
    """Return one minus the largest difference of a patch, squared, in the details that the part has there."""
    target = _reduced(part, COMPARED)
    target -= target.mean(axis=(1, 2), keepdims=True)
    shown = _shown(whole, _fitted(whole, target, boxes), COMPARED)
    shown -= shown.mean(axis=(1, 2), keepdims=True)
    gain = (shown * target).sum(axis=(1, 2)) / np.maximum((shown * shown).sum(axis=(1, 2)), 1e-6)
    differences = np.sqrt((_patches(target - gain[:, None, None] * shown) ** 2).mean(axis=(2, 4)))
    floor = np.maximum(FLOOR * target.std(axis=(1, 2)), LEAST_DETAIL)[:, None, None]
    worst = (differences / (_patches(target).std(axis=(2, 4)) + floor)).max(axis=(1, 2), initial=0)
    return np.asarray(np.maximum(1 - worst**2, 0), np.float32)


def _fitted(whole: Floats, target: Floats, boxes: Floats) -> Floats:
    """Move and resize each window, in smaller and smaller steps, as long as it correlates better with the target."""
    boxes, aim = boxes.copy(), _unit(target)
    best = np.einsum("nij,nij->n", _unit(_shown(whole, boxes, COMPARED)), aim)
    for step in STEPS:
        for move in MOVES:
            for sign in (step, -step):
                tried = boxes + np.float32(sign) * np.array(move, np.float32)
                tried[:, 2:] = np.clip(tried[:, 2:], 0.5, 1)
                tried[:, :2] = np.clip(tried[:, :2], 0, 1 - tried[:, 2:])
                correlation = np.einsum("nij,nij->n", _unit(_shown(whole, tried, COMPARED)), aim)
                better = correlation > best
                best[better], boxes[better] = correlation[better], tried[better]
    return boxes


@cache
def _windows() -> Floats:
    """Return the windows that are searched, (w, 4): top, left, height and width as shares; the whole first."""
    cut = [(top * (1 - s), left * (1 - s), s, s) for s in SCALES for top in PLACES for left in PLACES]
    return np.array([(0, 0, 1, 1), *cut], np.float32)


def _shown(pictures: Floats, boxes: Floats, cells: int) -> Floats:
    """Return what windows show of pictures, (n, cells, cells): each cell is the mean of what it covers."""
    rows, columns = (_weights(boxes[:, i], boxes[:, i + 2], pictures.shape[-1], cells) for i in (0, 1))
    return np.asarray(rows @ pictures @ columns.transpose(0, 2, 1), np.float32)


def _weights(begin: Floats, size: Floats, of: int, cells: int) -> Floats:
    """Return which share each of a side's `of` cells has in each of a window's `cells`, (n, cells, of)."""
    edges = of * (begin[:, None] + size[:, None] * np.linspace(0, 1, cells + 1, dtype=np.float32))
    start, stop, at = edges[:, :-1, None], edges[:, 1:, None], np.arange(of, dtype=np.float32)
    covered = np.clip(np.minimum(stop, at + 1) - np.maximum(start, at), 0, None)
    return np.asarray(covered / covered.sum(axis=2, keepdims=True), np.float32)


def _reduced(pictures: Floats, cells: int) -> Floats:
    """Return the means of square blocks, (n, cells, cells)."""
    step = pictures.shape[-1] // cells
    return np.asarray(pictures.reshape(-1, cells, step, cells, step).mean(axis=(2, 4)), np.float32)


def _patches(pictures: Floats) -> Floats:
    side = pictures.shape[-1] // PATCHES
    return pictures.reshape(-1, PATCHES, side, PATCHES, side)


def _unit(pictures: NDArray[Any], spread: float = 0.0) -> Floats:
    """Bring each picture to mean 0 and norm 1; one of less spread becomes 0 and is like nothing."""
    z = (pictures - pictures.mean(axis=(1, 2), keepdims=True)).astype(np.float32)
    norms = np.sqrt(np.einsum("nij,nij->n", z, z))[:, None, None]
    return np.asarray(np.divide(z, norms, out=np.zeros_like(z), where=norms > max(1e-6, spread * pictures.shape[-1])))
