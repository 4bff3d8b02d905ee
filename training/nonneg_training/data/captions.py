"""Images with captions, from a CSV with the columns `image` (a path, relative to the file) and `caption`."""

from __future__ import annotations

import copy
import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nonneg_core.evaluation.captions import read_pairs
from nonneg_core.pixels.decode import decode
from nonneg_training.data.broken_images import Tolerance
from nonneg_training.data.images import Images


class Captions(Images):
    """One pair a row. Rows with the same caption count as one class: what a kNN reading can go by."""

    tolerance: Tolerance

    def __init__(self, path: Path, *, max_broken: int = 100) -> None:
        self.name, self.tolerance = str(path), Tolerance(str(path), max_broken)
        pairs = read_pairs(path)
        self._hold([pair.image for pair in pairs], [pair.caption for pair in pairs])

    def _hold(self, paths: list[Path], captions: list[str]) -> None:
        self.paths, self.captions = paths, captions
        self.classes = tuple(sorted(set(self.captions)))
        number = {caption: i for i, caption in enumerate(self.classes)}
        self.labels = np.asarray([number[caption] for caption in self.captions], dtype=np.int64)

    def part(self, rows: NDArray[np.int64]) -> Captions:
        """Return the pairs in these rows."""
        found = copy.copy(self)
        found._hold([self.paths[i] for i in rows], [self.captions[i] for i in rows])
        return found

    def image(self, i: int) -> Image.Image:
        return self.tolerance.first(
            i, len(self.paths), lambda j: str(self.paths[j]), lambda j: decode(self.paths[j].read_bytes())
        )

    def digest(self) -> str:
        rows = zip(self.paths, self.captions, strict=True)
        return hashlib.sha256("\n".join(f"{path}\0{caption}" for path, caption in rows).encode()).hexdigest()
