"""Images with captions, from a CSV with the columns `image` (a path, relative to the file) and `caption`."""

from __future__ import annotations

import copy
import csv
import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nonneg_core.errors import DataInvalid
from nonneg_core.pixels.decode import decode
from nonneg_training.data.broken_images import Tolerance
from nonneg_training.data.images import Images


class Captions(Images):
    """One pair a row. Rows with the same caption count as one class: what a kNN reading can go by."""

    def __init__(self, path: Path, *, max_broken: int = 100) -> None:
        self.name, self.tolerance = str(path), Tolerance(str(path), max_broken)
        rows = _rows(path)
        self._hold([path.parent / row["image"] for row in rows], [row["caption"] for row in rows])

    def _hold(self, paths: list[Path], captions: list[str]) -> None:
        self.paths, self.captions = paths, captions
        self.classes = tuple(sorted(set(self.captions)))
        number = {caption: i for i, caption in enumerate(self.classes)}
        self.labels = np.asarray([number[caption] for caption in self.captions], dtype=np.int64)

    def part(self, rows: NDArray[np.int64]) -> Captions:
        """The pairs in these rows."""
        found = copy.copy(self)
        found._hold([self.paths[i] for i in rows], [self.captions[i] for i in rows])
        return found

    @property
    def broken(self) -> dict[str, str]:
        return self.tolerance.broken

    def image(self, i: int) -> Image.Image:
        return self.tolerance.first(
            i, len(self.paths), lambda j: str(self.paths[j]), lambda j: decode(self.paths[j].read_bytes())
        )

    def digest(self) -> str:
        rows = zip(self.paths, self.captions, strict=True)
        return hashlib.sha256("\n".join(f"{path}\0{caption}" for path, caption in rows).encode()).hexdigest()


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if not {"image", "caption"} <= set(reader.fieldnames or ()):
                raise DataInvalid(f"{path} lacks the columns image and caption", fix="name them in its first line")
            rows = [row for row in reader if row["image"] and row["caption"]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataInvalid(
            f"{path} cannot be read ({error})", fix="check the path; captions are a CSV file in UTF-8", value=str(path)
        ) from error
    if not rows:
        raise DataInvalid(f"{path} holds no pair", fix="give at least one image and caption", value=str(path))
    return rows
