"""The factors of dSprites, rendered when they are asked for: 3 shapes, 6 scales, 40 angles, 32 x 32 places, 64 px."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nonneg_training.data.images import Images

SIDE = 64
FINE = 3  # samples a pixel's side, for smooth edges
COUNTS = (3, 6, 40, 32, 32)  # shape, scale, angle, x, y; the last changes fastest, as in the original's order
FACTORS = ("shape", "scale", "angle", "x", "y")
SHAPES = ("square", "ellipse", "heart")


class Sprites(Images):
    """737,280 white shapes on black; the label is the shape, `factors` are all five."""

    def __init__(self) -> None:
        self.name, self.classes, self.side = "dsprites", SHAPES, SIDE
        count = int(np.prod(COUNTS))
        self.labels = np.arange(count) // (count // COUNTS[0])

    def factors(self, i: int) -> tuple[int, ...]:
        """Return which shape, scale, angle, x and y image i has, each from 0."""
        return tuple(int(part) for part in np.unravel_index(i, COUNTS))

    def image(self, i: int) -> Image.Image:
        shape, scale, angle, x, y = self.factors(i)
        grey = render(SHAPES[shape], 0.5 + 0.1 * scale, 2 * np.pi * angle / 39, x / 31, y / 31)
        return Image.fromarray(grey).convert("RGB")

    def digest(self) -> str:
        return hashlib.sha256(f"dsprites {COUNTS} {SIDE} {FINE}".encode()).hexdigest()


def render(shape: str, scale: float, angle: float, x: float, y: float) -> NDArray[np.uint8]:
    """Return one sprite, uint8 (64, 64); x and y run from 0 to 1 over the places where the largest one still fits."""
    axis = (np.arange(SIDE * FINE) + 0.5) / FINE
    margin = 16.0
    across = axis[None, :] - (margin + x * (SIDE - 2 * margin))
    down = axis[:, None] - (margin + y * (SIDE - 2 * margin))
    u = (np.cos(angle) * across + np.sin(angle) * down) / (10 * scale)
    v = (-np.sin(angle) * across + np.cos(angle) * down) / (10 * scale)
    inside = _INSIDE[shape](u, v)
    share = inside.reshape(SIDE, FINE, SIDE, FINE).mean(axis=(1, 3))
    grey: NDArray[np.uint8] = np.rint(share * 255).astype(np.uint8)
    return grey


_INSIDE = {
    "square": lambda u, v: (np.abs(u) < 0.85) & (np.abs(v) < 0.85),
    "ellipse": lambda u, v: u**2 + (v / 0.55) ** 2 < 1,
    "heart": lambda u, v: (u**2 + v**2 - 0.6) ** 3 + u**2 * v**3 < 0,  # v grows downwards: the point is below
}
