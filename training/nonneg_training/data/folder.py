"""A folder with a folder of images a class (ImageFolder's layout); broken images are skipped and counted."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
from PIL import Image

from nonneg_client.decode import decode
from nonneg_client.errors import DataInvalid, NonnegError
from nonneg_training.data.images import Images

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif", ".ppm", ".pgm", ".jp2"}


class Folder(Images):
    """`root/class/**/image`; without class folders all images are of one class."""

    def __init__(self, root: Path, *, max_broken: int = 100) -> None:
        self.name, self.root, self.max_broken = str(root), root, max_broken
        self.broken: dict[Path, str] = {}
        self.paths, owners = _list(root)
        self.classes = tuple(sorted(set(owners)))
        number = {name: i for i, name in enumerate(self.classes)}
        self.labels = np.asarray([number[owner] for owner in owners], dtype=np.int64)

    def image(self, i: int) -> Image.Image:
        """Image i; in place of a broken one the next of its kind that can be read, always the same."""
        for step in range(len(self.paths)):
            path = self.paths[(i + step) % len(self.paths)]
            if path in self.broken:
                continue
            try:
                return decode(path.read_bytes())
            except (NonnegError, OSError) as error:
                self._skip(path, error)
        raise DataInvalid(
            f"no image of {self.root} can be read: {self._report()}", fix="check the files", value=self.name
        )

    def digest(self) -> str:
        """By names, sizes and times of change: to read a million photos would take as long as to use them."""
        digest = hashlib.sha256()
        for path in self.paths:
            stat = path.stat()
            digest.update(f"{path.relative_to(self.root)}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
        return digest.hexdigest()

    def _skip(self, path: Path, error: Exception) -> None:
        self.broken[path] = getattr(error, "message", str(error))
        if len(self.broken) > self.max_broken:
            raise DataInvalid(
                f"more than {self.max_broken} broken images in {self.root}: {self._report()}",
                fix="mend or remove them, or raise data.max_broken",
                field="data.max_broken",
                value=len(self.broken),
                limit=self.max_broken,
            )

    def _report(self, most: int = 5) -> str:
        named = [f"{path.relative_to(self.root)} ({why})" for path, why in list(self.broken.items())[:most]]
        return "; ".join(named) + (f"; and {len(self.broken) - most} more" if len(self.broken) > most else "")


def _list(root: Path) -> tuple[list[Path], list[str]]:
    if not root.is_dir():
        raise DataInvalid(f"{root} does not exist or is no folder", fix="give a folder of images", value=str(root))
    paths: list[Path] = []
    owners: list[str] = []
    for folder, below, files in os.walk(root, onerror=_unreadable, followlinks=True):
        below.sort()
        place = Path(folder)
        for name in sorted(files):
            if Path(name).suffix.lower() in SUFFIXES and not name.startswith("."):
                paths.append(place / name)
                owners.append(place.relative_to(root).parts[0] if place != root else root.name)
    if not paths:
        raise DataInvalid(
            f"{root} holds no images ({', '.join(sorted(SUFFIXES))})",
            fix="give a folder that has a folder of images for each class",
            value=str(root),
        )
    return paths, owners


def _unreadable(error: OSError) -> None:
    raise DataInvalid(
        f"{error.filename} cannot be read ({error.strerror})", fix="check the permissions", value=str(error.filename)
    )
