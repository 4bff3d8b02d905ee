"""Tar shards as WebDataset writes them: key.jpg beside key.cls; read in place, a member at a time, never unpacked."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from nonneg_core.errors import DataInvalid
from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.formats import OF_IMAGES
from nonneg_training.data.images import Images
from nonneg_training.data.patterns import expand
from nonneg_training.data.tolerance import Tolerance


@dataclass(frozen=True)
class Member:
    """Where one image's bytes lie."""

    shard: Path
    key: str
    offset: int
    size: int


class Shards(Images):
    """Every image of every shard, in shard order; only names, places and labels are held in memory."""

    def __init__(self, pattern: str, *, max_broken: int = 100) -> None:
        self.name, self.paths = pattern, existing(pattern)
        self.tolerance = Tolerance(pattern, max_broken)
        self.members: list[Member] = []
        labels: list[int] = []
        for path in self.paths:
            for member, label in _scan(path):
                self.members.append(member)
                labels.append(label)
        if not self.members:
            raise DataInvalid(f"{pattern} holds no images", fix="write them as key.jpg and key.cls", value=pattern)
        self.labels = np.asarray(labels, dtype=np.int64)
        self.classes = tuple(str(i) for i in range(int(self.labels.max()) + 1))

    @property
    def broken(self) -> dict[str, str]:
        return self.tolerance.broken

    def image(self, i: int) -> Image.Image:
        return self.tolerance.first(i, len(self.members), self._key, lambda j: decode(self._bytes(j)))

    def digest(self) -> str:
        digest = hashlib.sha256()
        for path in self.paths:
            stat = path.stat()
            digest.update(f"{path.name}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
        return digest.hexdigest()

    def _key(self, i: int) -> str:
        return self.members[i].key

    def _bytes(self, i: int) -> bytes:
        member = self.members[i]
        with member.shard.open("rb") as file:
            file.seek(member.offset)
            return file.read(member.size)


def existing(pattern: str) -> list[Path]:
    """train-{000..009}.tar, train-*.tar or one file, as paths that exist."""
    if "*" in pattern:
        paths = sorted(Path(pattern).parent.glob(Path(pattern).name))
    else:
        paths = [Path(name) for name in expand(pattern)]
    absent = [path for path in paths if not path.is_file()]
    if absent or not paths:
        raise DataInvalid(f"{absent[0] if absent else pattern} does not exist", fix="check the path", value=pattern)
    return paths


def _scan(path: Path) -> Iterator[tuple[Member, int]]:
    images: dict[str, Member] = {}
    labels: dict[str, int] = {}
    try:
        with tarfile.open(path, "r:") as tar:
            for info in tar:
                folder, _, name = info.name.rpartition("/")
                key, _, suffix = name.partition(".")
                key = f"{folder}/{key}" if folder else key
                if f".{suffix.lower()}" in OF_IMAGES:
                    images[key] = Member(path, f"{path.name}:{info.name}", info.offset_data, info.size)
                elif suffix == "cls" and (file := tar.extractfile(info)):
                    labels[key] = int(file.read())
    except (tarfile.TarError, OSError, ValueError) as error:
        raise DataInvalid(f"{path} is no whole tar file ({error})", fix="write it again", value=str(path)) from error
    for key, member in images.items():
        yield member, labels.get(key, 0)
