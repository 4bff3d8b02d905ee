"""What a photo's pixels say without a model: size, sharpness, brightness, contrast, and a small grey picture.

All is measured on the photo in grey, shrunk until its longer side is at most 256 pixels: how sharp it looks, not how
sharp its file could be. The thumbnail of 48 x 48 pixels is what copies of one photo are recognised by (`likeness`).
"""

import base64
import binascii
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nonneg_core.arrays import Floats

SIDE = 256  # pixels of the longer side at which a photo is measured
AMPLE = 2 * SIDE  # pixels of the shorter side from which a JPEG may be decoded smaller to be measured
GRID = 48  # cells of the thumbnail in each direction

TINY = 64  # pixels of the shorter side
ODD = 3.0  # the longer side in shorter ones
DARK = 0.2  # brightness of all but the brightest twentieth, 1 is white
FLAT = 0.03  # standard deviation of the grey levels, 1 is white
BLURRED = 0.012  # mean absolute Laplacian over the standard deviation and the number of neighbours
CHECKS = ("dark", "flat", "blurred", "tiny", "odd_ratio")


@dataclass(frozen=True)
class PixelChecks:
    """Measures of one photo; `thumbnail` is its grey picture of 48 x 48 pixels, rows from the top."""

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
