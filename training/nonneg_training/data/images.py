"""What a data set of labelled images is to the rest: a length, labels, and the upright RGB image number i."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nonneg_core.errors import DataInvalid
from nonneg_core.pixels.view import Pixels, View
from nonneg_training.data.broken_images import Tolerance


class Images(ABC):
    """Labelled images; `side` is their common height and width, or None when they differ."""

    name: str
    classes: tuple[str, ...]
    labels: NDArray[np.int64]  # (n,)
    side: int | None = None
    tolerance: Tolerance | None = None  # None where images lie in memory

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def broken(self) -> dict[str, str]:
        """The images that could not be read so far, and why."""
        return self.tolerance.broken if self.tolerance else {}

    @abstractmethod
    def image(self, i: int) -> Image.Image:
        """Return image i, upright RGB."""

    def factors(self, i: int) -> tuple[int, ...]:
        """Return what image i was rendered from, as numbers; nothing where that is not known."""
        return ()

    @abstractmethod
    def digest(self) -> str:
        """Name the images and their order."""

    def pixels(self, indices: Sequence[int], view: View) -> Pixels:
        """Return these images through the evaluation view: uint8 (batch, size, size, 3)."""
        return np.stack([view.apply(self.image(i)) for i in indices])


class Arrays(Images):
    """Images of one size that lie in memory."""

    def __init__(self, name: str, pixels: Pixels, labels: NDArray[np.int64], classes: tuple[str, ...]) -> None:
        if not len(pixels):
            raise DataInvalid(f"{name} holds no images", fix="check the path", value=name)
        self.name, self.labels, self.classes = name, labels.astype(np.int64), classes
        self.array = pixels  # (n, side, side, 3)
        self.side = pixels.shape[1]

    def image(self, i: int) -> Image.Image:
        return Image.fromarray(self.array[i])

    def digest(self) -> str:
        return hashlib.sha256(self.array.tobytes()).hexdigest()

    def pixels(self, indices: Sequence[int], view: View) -> Pixels:
        if view.size == self.side and view.crop == 1.0:  # the view would change nothing
            unchanged: Pixels = self.array[np.asarray(indices)]
            return unchanged
        return super().pixels(indices, view)
