"""A folder with a folder of images a class (ImageFolder's layout); broken images are skipped and counted."""

import hashlib
from pathlib import Path

import numpy as np
from PIL import Image

from nonneg_core.errors import DataInvalid
from nonneg_core.files.image_files import find_images, label_of
from nonneg_core.pixels.decode import decode
from nonneg_training.data.images import BrokenImages, Images


class ImageFolder(Images):
    """`root/class/**/image`; without class folders all images are of one class."""

    tolerance: BrokenImages

    def __init__(self, root: Path, *, max_broken: int = 100) -> None:
        self.name, self.root = str(root), root
        self.tolerance = BrokenImages(str(root), max_broken)
        self.paths, owners = _list(root)
        self.classes = tuple(sorted(set(owners)))
        number = {name: i for i, name in enumerate(self.classes)}
        self.labels = np.asarray([number[owner] for owner in owners], dtype=np.int64)

    def image(self, i: int) -> Image.Image:
        return self.tolerance.first(
            i,
            len(self.paths),
            lambda j: str(self.paths[j].relative_to(self.root)),
            lambda j: decode(self.paths[j].read_bytes()),
        )

    def digest(self) -> str:
        """Hash names, sizes and times of change: to read a million photos would take as long as to use them."""
        digest = hashlib.sha256()
        for path in self.paths:
            stat = path.stat()
            digest.update(f"{path.relative_to(self.root)}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
        return digest.hexdigest()


def _list(root: Path) -> tuple[list[Path], list[str]]:
    if root.is_file():
        raise DataInvalid(
            f"{root} is a file of no kind that is known",
            fix="give a folder of images, a .csv with captions, or .tar shards, not compressed",
            value=str(root),
        )
    if not root.is_dir():
        raise DataInvalid(
            f"{root} does not exist",
            fix="check the path, or set NONNEG_DATA to the folder that it lies in",
            value=str(root),
        )
    paths = find_images(root)
    return paths, [label_of(path, root) or root.name for path in paths]
