"""Tar shards on a disk, as WebDataset writes them: key.jpg beside key.cls; read in place, a member at a time."""

import hashlib
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from nonneg_core.errors import DataInvalid
from nonneg_core.files.image_files import TarSpan, places, sample_of
from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.formats import OF_IMAGES
from nonneg_training.data.images import BrokenImages, Images

_BRACES = re.compile(r"\{(?:(\d+)\.\.(\d+)|([^{}]*,[^{}]*))\}")


def expand(pattern: str) -> list[str]:
    """Return every name, the last braces counting fastest; numbers are as wide as the first one is written."""
    brace = _BRACES.search(pattern)
    if brace is None:
        return [pattern]
    first, last, choices = brace.groups()
    if choices is not None:
        parts = choices.split(",")
    else:
        parts = [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    tails = expand(pattern[brace.end() :])
    return [pattern[: brace.start()] + part + tail for part in parts for tail in tails]


class Shards(Images):
    """Every image of every shard, in shard order; only names, places and labels are held in memory."""

    tolerance: BrokenImages

    def __init__(self, pattern: str, *, max_broken: int = 100) -> None:
        self.name, self.paths = pattern, existing(pattern)
        self.tolerance = BrokenImages(pattern, max_broken)
        self.members: list[TarSpan] = []
        labels: list[int] = []
        for path in self.paths:
            for member, label in _scan(path):
                self.members.append(member)
                labels.append(label)
        if not self.members:
            raise DataInvalid(f"{pattern} holds no images", fix="write them as key.jpg and key.cls", value=pattern)
        self.labels = np.asarray(labels, dtype=np.int64)
        self.classes = tuple(str(i) for i in range(int(self.labels.max()) + 1))

    def image(self, i: int) -> Image.Image:
        return self.tolerance.first(i, len(self.members), self._key, lambda j: decode(self.members[j].read()))

    def digest(self) -> str:
        digest = hashlib.sha256()
        for path in self.paths:
            stat = path.stat()
            digest.update(f"{path.name}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
        return digest.hexdigest()

    def _key(self, i: int) -> str:
        return f"{self.members[i].archive.name}:{self.members[i].name}"


def existing(pattern: str) -> list[Path]:
    """Find train-{000..009}.tar, train-*.tar or one file, as paths that exist."""
    if "*" in pattern:
        paths = sorted(Path(pattern).parent.glob(Path(pattern).name))
    else:
        paths = [Path(name) for name in expand(pattern)]
    absent = [path for path in paths if not path.is_file()]
    if absent or not paths:
        raise DataInvalid(f"{absent[0] if absent else pattern} does not exist", fix="check the path", value=pattern)
    return paths


def _scan(path: Path) -> Iterator[tuple[TarSpan, int]]:
    images: dict[str, TarSpan] = {}
    labels: dict[str, int] = {}
    try:
        for place in places(path):
            key, suffix = sample_of(place.name)
            if f".{suffix}" in OF_IMAGES:
                images[key] = place
            elif suffix == "cls":
                labels[key] = int(place.read())
    except (tarfile.TarError, OSError, ValueError) as error:
        raise DataInvalid(f"{path} is not a whole tar file ({error})", fix="write it again", value=str(path)) from error
    for key, member in images.items():
        yield member, labels.get(key, 0)
