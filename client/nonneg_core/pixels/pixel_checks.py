"""What a photo's pixels say without a model: size, sharpness, brightness, contrast, and how alike two thumbnails are.

All is measured on the photo in grey, shrunk until its longer side is at most 256 pixels: how sharp it looks, not how
sharp its file could be. The thumbnail of 24 x 24 pixels is what copies of one photo are recognised by.
"""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nonneg_core.arrays import Floats, Places

SIDE = 256  # pixels of the longer side at which a photo is measured
AMPLE = 2 * SIDE  # pixels of the shorter side from which a JPEG may be decoded smaller to be measured
GRID = 24  # cells of the thumbnail in each direction

TINY = 64  # pixels of the shorter side
ODD = 3.0  # the longer side in shorter ones
DARK = 0.2  # brightness of all but the brightest twentieth, 1 is white
FLAT = 0.03  # standard deviation of the grey levels, 1 is white
BLURRED = 0.012  # mean absolute Laplacian over the standard deviation and the number of neighbours
CHECKS = ("dark", "flat", "blurred", "tiny", "odd_ratio")


@dataclass(frozen=True)
class PixelChecks:
    """Measures of one photo; `thumbnail` is its grey picture of 24 x 24 pixels, rows from the top."""

    width: int
    height: int
    sharpness: float
    brightness: float
    contrast: float
    thumbnail: bytes

    @property
    def ratio(self) -> float:
        """The longer side in shorter ones."""
        return max(self.width, self.height) / max(1, min(self.width, self.height))

    def failed(self) -> list[str]:
        """Return the names of the checks that the photo fails."""
        outcomes = {
            "dark": self.brightness < DARK,
            "flat": self.contrast < FLAT,
            "blurred": self.sharpness < BLURRED and self.contrast >= FLAT,  # nothing of a flat photo could be sharp
            "tiny": min(self.width, self.height) < TINY,
            "odd_ratio": self.ratio > ODD,
        }
        return [name for name, failing in outcomes.items() if failing]


def check_pixels(image: Image.Image, size: tuple[int, int] | None = None) -> PixelChecks:
    """Measure an RGB image; `size` is the photo's own where this is a reduced version of it."""
    width, height = size or image.size
    step = max(1, -(-max(image.size) // SIDE))
    grey = (image.reduce(step) if step > 1 else image).convert("L")
    levels = np.asarray(grey, dtype=np.float32) / np.float32(255)  # (h, w)
    contrast = float(levels.std())
    return PixelChecks(
        width=width,
        height=height,
        sharpness=_sharpness(levels, contrast),
        brightness=float(np.percentile(levels, 95)),
        contrast=contrast,
        thumbnail=np.asarray(grey.resize((GRID, GRID), Image.Resampling.BOX), dtype=np.uint8).tobytes(),
    )


def as_text(thumbnail: bytes) -> str:
    """Return the thumbnail as base64, as a field of an index holds it."""
    return base64.b64encode(thumbnail).decode()


def from_text(text: str) -> NDArray[np.uint8] | None:
    """Return the thumbnail's pixels (GRID * GRID,); None where the text is not a thumbnail."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return np.frombuffer(data, np.uint8) if len(data) == GRID * GRID else None


def _sharpness(levels: Floats, contrast: float) -> float:
    """Return the mean absolute Laplacian, as a share of the contrast: a dim photo is not a blurred one."""
    if min(levels.shape) < 3 or contrast == 0:
        return 0.0
    inner = levels[1:-1, 1:-1]
    laplacian = 4 * inner - levels[:-2, 1:-1] - levels[2:, 1:-1] - levels[1:-1, :-2] - levels[1:-1, 2:]
    return float(np.abs(laplacian).mean() / (4 * contrast))


# How alike two grey thumbnails are, where one may be the other mirrored or cropped: the largest correlation.
#
# A crop of a photo shows a window of it. The window's thumbnail is made from the whole photo's by interpolation and
# compared with the other's, for windows of 80 to 100 % of the sides in nine places each; correlation does not see
# brightness and contrast. The perceptual hash of the duplicates is this, with grey levels in place of bits.

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


def coarse(thumbnails: Thumbnails) -> Floats:
    """Shrink standardised thumbnails to a third of their sides, (n, COARSE * COARSE): what a crop changes little."""
    parts = thumbnails.reshape(-1, COARSE, GRID // COARSE, COARSE, GRID // COARSE)
    cells = np.asarray(parts.mean(axis=(2, 4)), np.float32)
    return _unit(cells).reshape(-1, COARSE * COARSE)


def mirrored(thumbnails: Thumbnails) -> Thumbnails:
    """Return the thumbnails with left and right exchanged."""
    return thumbnails[:, :, ::-1]


def likeness(thumbnails: Thumbnails, one: Places, other: Places, others: Thumbnails | None = None) -> Floats:
    """Return the largest correlation of each pair thumbnails[one[i]], others[other[i]] over mirror, window and side.

    others: without them pairs are of one collection.
    """
    partners = thumbnails if others is None else others
    best = np.full(len(one), -1, np.float32)
    for start in range(0, len(one), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        a, b = thumbnails[one[some]], partners[other[some]]
        for whole, part in ((a, b), (b, a)):
            for window in _windows(whole):
                for turned in (part, mirrored(part)):
                    np.maximum(best[some], np.einsum("nij,nij->n", window, turned), out=best[some])
    return best


def _windows(z: Thumbnails) -> Iterator[Thumbnails]:
    """Yield the thumbnails of every window of the pictures behind `z`, the whole first."""
    yield z
    for scale in SCALES:
        for top in PLACES:
            for left in PLACES:
                yield _unit(_window(top, scale) @ z @ _window(left, scale).T)


@cache
def _window(place: float, scale: float) -> Floats:
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


def _unit(pictures: NDArray[Any]) -> Floats:
    """Bring each picture to mean 0 and norm 1; a constant one becomes 0."""
    z = (pictures - pictures.mean(axis=(1, 2), keepdims=True)).astype(np.float32)
    norms = np.sqrt(np.einsum("nij,nij->n", z, z))[:, None, None]
    return np.asarray(np.divide(z, norms, out=np.zeros_like(z), where=norms > 1e-6))
