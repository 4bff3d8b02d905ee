"""The data sets by name."""

import os
from pathlib import Path

from nonneg_core.errors import ConfigInvalid
from nonneg_training.data.image_folder import ImageFolder
from nonneg_training.data.images import Arrays, Captions, Images, ImageSubset, subset
from nonneg_training.data.named_data_sets import Sprites, cifar, digits, fashion_mnist, stl10
from nonneg_training.data.shard_stream import SCHEMES, Sample, SampledImages, ShardStream
from nonneg_training.data.tar_shards import Shards
from nonneg_training.setup.run_settings import Data

__all__ = [
    "NAMES",
    "Arrays",
    "Captions",
    "ImageFolder",
    "ImageSubset",
    "Images",
    "Sample",
    "SampledImages",
    "ShardStream",
    "Shards",
    "Sprites",
    "held_out",
    "open_data",
    "open_source",
    "subset",
    "unseen",
]

SPLIT = ("digits", "cifar10", "cifar100", "stl10", "fashion-mnist")  # those with test images of their own
HOME = "NONNEG_DATA"  # the variable with the folder of named data sets
NAMES = (*SPLIT, "dsprites", "a folder", "a captions.csv", "shards-{000..009}.tar")


def open_source(data: Data) -> Images | ShardStream:
    """Return what the settings name: images one can choose among, or a stream of them."""
    if data.source.startswith(SCHEMES):
        if data.limit or data.only:
            raise ConfigInvalid(
                "data.limit and data.only choose among images, which a stream cannot",
                fix="set data.images, the images of an epoch",
                field="data.limit" if data.limit else "data.only",
            )
        return ShardStream(
            data.source, data.images, classes=data.classes, shuffle=data.shuffle, max_broken=data.max_broken
        )
    if "://" in data.source or data.source.startswith("pipe:"):
        raise ConfigInvalid(
            f"data.source={data.source.partition(':')[0]}:... cannot be read: shards come from a disk, http:// or https://",
            fix="give an https address (many stores sign one), or mount the store",
            field="data.source",
        )
    whole = open_data(data.source, data.root, max_broken=data.max_broken)
    return subset(whole, limit=data.limit, only=data.only)


def unseen(data: Data) -> Images | None:
    """Return the test images of what the settings name, of the same classes; None if there are none."""
    whole = held_out(data.source, data.root)
    return None if whole is None else subset(whole, only=data.only)


def open_data(source: str, root: Path | None = None, *, split: str = "train", max_broken: int = 100) -> Images:
    """Open a named data set; a CSV of captions; tar shards; or a folder (its `train` or `test` folder if it has both).

    NAME:SPLIT names a split, whatever `split` says: cifar10:test. A folder or CSV that is not there is sought below
    `root` or $NONNEG_DATA.
    """
    name, _, named = source.partition(":")
    if name in SPLIT and named:
        if named not in ("train", "test", *(["unlabeled"] if name == "stl10" else [])):
            raise ConfigInvalid(
                f"{name} has no images called {named}", fix=f"{name}:train or {name}:test", field="data.source"
            )
        source, split = name, named
    if source == "digits":
        return digits(split)
    if source == "dsprites":
        return Sprites()
    if source in ("cifar10", "cifar100"):
        return cifar(source, _needed(source, root), split)
    if source == "stl10":
        return stl10(_needed(source, root), split)
    if source == "fashion-mnist":
        return fashion_mnist(_needed(source, root), split)
    if source.endswith(".csv"):
        return Captions(_located(source, root), max_broken=max_broken)
    if source.endswith(".tar"):
        return Shards(source, max_broken=max_broken)
    whole = _located(source, root)
    inside = whole / split
    return ImageFolder(inside if inside.is_dir() else whole, max_broken=max_broken)


def held_out(source: str, root: Path | None = None) -> Images | None:
    """Return the data set's test images, if it has any that `source` does not name itself."""
    name, _, named = source.partition(":")
    if name in SPLIT and named:
        return None if named == "test" else open_data(name, root, split="test")
    if source in SPLIT:
        return open_data(source, root, split="test")
    whole = _located(source, root)
    for split in ("test", "val"):
        if (whole / split).is_dir():
            return ImageFolder(whole / split)
    return None


def _located(source: str, root: Path | None) -> Path:
    """Return the path itself, or where it lies below the folder of named data."""
    path, home = Path(source), _home(root)
    return home / path if home is not None and not path.exists() and (home / path).exists() else path


def _home(root: Path | None) -> Path | None:
    return root or (Path(os.environ[HOME]) if os.environ.get(HOME) else None)


def _needed(source: str, root: Path | None) -> Path:
    root = _home(root)
    if root is None:
        raise ConfigInvalid(
            f"{source} needs to know where it lies",
            fix=f"give its folder: --root DIR (data.root), or set {HOME}",
            field="data.root",
        )
    return root


def __dir__() -> list[str]:
    return sorted(__all__)
