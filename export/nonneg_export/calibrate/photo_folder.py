"""The images of a folder: found in one order on every machine, decoded and viewed as the server does it."""

import hashlib
import os
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from nonneg_core.errors import DataInvalid
from nonneg_core.files.image_files import label_of, labels_of, walk_images
from nonneg_core.pixels.view import Pixels, View
from nonneg_runtime.seeing.preprocess import Preprocessor


class PathList(Sequence[Path]):
    """Paths below one folder, kept as the bytes of their names; each is made when it is asked for."""

    def __init__(self, folder: Path, paths: Iterable[Path]) -> None:
        """Keep `paths`, all of them below `folder`, as bytes."""
        self._folder, self._names, self._ends = folder, bytearray(), array("Q", [0])
        for path in paths:
            self._names += os.fsencode(path.relative_to(folder))
            self._ends.append(len(self._names))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, place: int) -> Path: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Path, ...]: ...
    def __getitem__(self, place: int | slice) -> Path | tuple[Path, ...]:
        if isinstance(place, slice):
            return tuple(self[i] for i in range(*place.indices(len(self))))
        return self._folder / os.fsdecode(self.name(place))

    def name(self, place: int) -> bytes:
        """Return the path within the folder, as the system writes it."""
        place = range(len(self))[place]
        return bytes(self._names[self._ends[place] : self._ends[place + 1]])


@dataclass(frozen=True)
class Photos:
    """Image files below one folder, sorted by their path within it."""

    folder: Path
    paths: Sequence[Path]

    def __len__(self) -> int:
        return len(self.paths)

    def label(self, path: Path) -> str:
        """Return the class of an image; empty where it lies directly in the folder."""
        return label_of(path, self.folder)

    def labels(self, paths: Sequence[Path]) -> tuple[str, ...]:
        """Return the class of each image; every image must have one."""
        return labels_of(paths, self.folder)

    def every(self, limit: int | None) -> "Photos":
        """Return at most `limit` of the photos, spread evenly over all."""
        if limit is None or limit >= len(self):
            return self
        chosen = [self.paths[i * len(self) // limit] for i in range(limit)]
        return Photos(self.folder, tuple(chosen))


def find_photos(folder: str | os.PathLike[str]) -> Photos:
    """Return every image file below `folder`, in one order on every machine."""
    root = Path(folder)
    if not root.is_dir():
        raise DataInvalid(f"{root} is not a folder", fix="point to a folder of images", value=str(root))
    return Photos(root, PathList(root, walk_images(root)))


def load_pixels(path: Path, view: View, *, exact: bool = False) -> tuple[Pixels, str]:
    """Return an image as the encoder sees it, and the sha256 of its file."""
    data = path.read_bytes()
    return preprocessed(data, view, exact=exact), hashlib.sha256(data).hexdigest()


def preprocessed(data: bytes, view: View, *, exact: bool = False) -> Pixels:
    """Return a file's bytes as the encoder sees them, as the server does it: by default, or with `--decode exact`."""
    return Preprocessor(view, decode="exact" if exact else "fast").pixels(data)


def digest_of(digests: Iterable[str]) -> str:
    """Return one digest for many images, in order."""
    checksum = hashlib.sha256()
    for number, digest in enumerate(digests):
        checksum.update(f"\n{digest}".encode() if number else digest.encode())
    return checksum.hexdigest()
