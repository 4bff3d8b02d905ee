"""Some of a data set's images: of some classes only, and no more than so many."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nonneg_core.errors import ConfigInvalid
from nonneg_core.pixels.view import Pixels, View
from nonneg_training.data.captions import Captions
from nonneg_training.data.images import Images


class ImageSubset(Images):
    """The images at `rows` of another data set, in that order; classes are numbered again."""

    def __init__(self, whole: Images, rows: NDArray[np.int64], classes: Sequence[int] | None = None) -> None:
        self.whole, self.rows, self.side, self.tolerance = whole, rows, whole.side, whole.tolerance
        kept = list(range(len(whole.classes))) if classes is None else list(classes)
        self.name, self.classes = whole.name, tuple(whole.classes[c] for c in kept)
        number = np.full(len(whole.classes), -1, dtype=np.int64)
        number[kept] = np.arange(len(kept))
        self.labels = number[whole.labels[rows]]

    def image(self, i: int) -> Image.Image:
        return self.whole.image(int(self.rows[i]))

    def factors(self, i: int) -> tuple[int, ...]:
        return self.whole.factors(int(self.rows[i]))

    def digest(self) -> str:
        return hashlib.sha256(self.whole.digest().encode() + self.rows.tobytes()).hexdigest()

    def pixels(self, indices: Sequence[int], view: View) -> Pixels:
        return self.whole.pixels([int(self.rows[i]) for i in indices], view)


def subset(images: Images, *, limit: int | None = None, only: Sequence[str] = ()) -> Images:
    """Return the images of the classes `only`, and of these `limit`, drawn by chance and always the same."""
    if limit is None and not only:
        return images
    unknown = [name for name in only if name not in images.classes]
    if unknown:
        raise ConfigInvalid(
            f"{images.name} has no class {unknown[0]}",
            fix=f"choose of {', '.join(images.classes[:20])}{', ...' if len(images.classes) > 20 else ''}",
            field="data.only",
            value=unknown[0],
        )
    classes = [images.classes.index(name) for name in only] if only else None
    rows = np.arange(len(images)) if classes is None else np.flatnonzero(np.isin(images.labels, classes))
    if limit is not None and limit < len(rows):
        rows = np.sort(np.random.default_rng(0).choice(rows, limit, replace=False))
    return images.part(rows) if isinstance(images, Captions) else ImageSubset(images, rows, classes)
