"""The data sets by name."""

from __future__ import annotations

from pathlib import Path

from nonneg_client.errors import ConfigInvalid
from nonneg_training.data.cifar import cifar
from nonneg_training.data.digits import digits
from nonneg_training.data.folder import Folder
from nonneg_training.data.images import Arrays, Images

__all__ = ["NAMES", "Arrays", "Folder", "Images", "held_out", "open_data"]

NAMES = ("digits", "cifar10", "cifar100")


def open_data(source: str, root: Path | None = None, *, split: str = "train", max_broken: int = 100) -> Images:
    """A named data set, or the folder of that path (its `train` or `test` folder if it has both)."""
    if source == "digits":
        return digits(split)
    if source in ("cifar10", "cifar100"):
        return cifar(source, _needed(source, root), split)
    folder = Path(source)
    inside = folder / split
    return Folder(inside if inside.is_dir() else folder, max_broken=max_broken)


def held_out(source: str, root: Path | None = None) -> Images | None:
    """The data set's test images, if it has any."""
    if source in NAMES:
        return open_data(source, root, split="test")
    for split in ("test", "val"):
        if (Path(source) / split).is_dir():
            return Folder(Path(source) / split)
    return None


def _needed(source: str, root: Path | None) -> Path:
    if root is None:
        raise ConfigInvalid(
            f"{source} needs to know where it lies", fix="give its folder: --root DIR (data.root)", field="data.root"
        )
    return root
