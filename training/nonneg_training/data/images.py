"""What a data set of images is to the rest: labelled, captioned, or a part of another; broken images are skipped."""

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from nonneg_core.arrays import Numbers
from nonneg_core.errors import ConfigInvalid, DataInvalid, NonnegError
from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.view import Pixels, View
from nonneg_vectors.evaluation.caption_retrieval import read_pairs


class BrokenImages:
    """What of one data set was found broken so far, and why."""

    def __init__(self, data: str, most: int) -> None:
        self.data, self.most = data, most
        self.broken: dict[str, str] = {}

    def first(self, i: int, count: int, name: Callable[[int], str], read: Callable[[int], Image.Image]) -> Image.Image:
        """Return image i; in place of a broken one the next that can be read, always the same."""
        for step in range(count):
            j = (i + step) % count
            if name(j) in self.broken:
                continue
            try:
                return read(j)
            except (NonnegError, OSError) as error:
                self._count(name(j), getattr(error, "message", str(error)))
        raise DataInvalid(
            f"no image of {self.data} can be read: {self.report()}", fix="check the files", value=self.data
        )

    def report(self, most: int = 5) -> str:
        """Return the first few by name, and how many more."""
        named = [f"{name} ({why})" for name, why in list(self.broken.items())[:most]]
        return "; ".join(named) + (f"; and {len(self.broken) - most} more" if len(self.broken) > most else "")

    def _count(self, name: str, why: str) -> None:
        self.broken[name] = why
        if len(self.broken) > self.most:
            raise DataInvalid(
                f"more than {self.most} broken images in {self.data}: {self.report()}",
                fix="mend or remove them, or raise data.max_broken",
                field="data.max_broken",
                value=len(self.broken),
                limit=self.most,
            )


class Images(ABC):
    """Labelled images; `side` is their common height and width, or None when they differ."""

    name: str
    classes: tuple[str, ...]
    labels: Numbers  # (n,)
    side: int | None = None
    tolerance: BrokenImages | None = None  # None where images lie in memory

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

    def __init__(self, name: str, pixels: Pixels, labels: Numbers, classes: tuple[str, ...]) -> None:
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


# Images with captions, from a CSV with the columns `image` (a path, relative to the file) and `caption`.


class Captions(Images):
    """One pair a row. Rows with the same caption count as one class: what a kNN reading can go by."""

    tolerance: BrokenImages

    def __init__(self, path: Path, *, max_broken: int = 100) -> None:
        self.name, self.tolerance = str(path), BrokenImages(str(path), max_broken)
        pairs = read_pairs(path)
        self._hold([pair.image for pair in pairs], [pair.caption for pair in pairs])

    def _hold(self, paths: list[Path], captions: list[str]) -> None:
        self.paths, self.captions = paths, captions
        self.classes = tuple(sorted(set(self.captions)))
        number = {caption: i for i, caption in enumerate(self.classes)}
        self.labels = np.asarray([number[caption] for caption in self.captions], dtype=np.int64)

    def part(self, rows: Numbers) -> "Captions":
        """Return the pairs in these rows."""
        portion = copy.copy(self)
        portion._hold([self.paths[i] for i in rows], [self.captions[i] for i in rows])
        return portion

    def image(self, i: int) -> Image.Image:
        return self.tolerance.first(
            i, len(self.paths), lambda j: str(self.paths[j]), lambda j: decode(self.paths[j].read_bytes())
        )

    def digest(self) -> str:
        rows = zip(self.paths, self.captions, strict=True)
        return hashlib.sha256("\n".join(f"{path}\0{caption}" for path, caption in rows).encode()).hexdigest()


# Some of a data set's images: of some classes only, and no more than so many.


class ImageSubset(Images):
    """The images at `rows` of another data set, in that order; classes are numbered again."""

    def __init__(self, whole: Images, rows: Numbers, classes: Sequence[int] | None = None) -> None:
        self.whole, self.rows, self.side, self.tolerance = whole, rows, whole.side, whole.tolerance
        class_ids = list(range(len(whole.classes))) if classes is None else list(classes)
        self.name, self.classes = whole.name, tuple(whole.classes[c] for c in class_ids)
        number = np.full(len(whole.classes), -1, dtype=np.int64)
        number[class_ids] = np.arange(len(class_ids))
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
