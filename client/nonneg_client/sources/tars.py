"""Images inside tar files, as img2dataset and WebDataset write them: found by their headers, read in place."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nonneg_client.errors import DataInvalid
from nonneg_client.sources.finding import EXTENSIONS

SUFFIX = ".tar"
PACKED = (".tar.gz", ".tgz", ".tar.zst", ".tar.xz", ".tar.bz2")


@dataclass(frozen=True)
class Member:
    """An image file inside a tar file: so many bytes from there."""

    archive: Path
    name: str
    offset: int
    size: int

    @property
    def id(self) -> str:
        return f"{self.archive}/{self.name}"

    def read(self) -> bytes:
        """The member's bytes, without opening the archive again."""
        try:
            with self.archive.open("rb") as file:
                file.seek(self.offset)
                data = file.read(self.size)
        except OSError as error:
            raise DataInvalid(f"{self.id} cannot be read ({error.strerror})", fix="check the archive") from error
        if len(data) != self.size:
            raise DataInvalid(f"{self.archive} breaks off within {self.name}", fix="copy the archive again")
        return data


def is_tar(path: Path) -> bool:
    """Whether a file name says tar; a compressed one is refused, since it cannot be read in place."""
    name = path.name.lower()
    if name.endswith(PACKED):
        raise DataInvalid(f"{path} is compressed", fix="unpack it to a plain .tar: images are compressed already")
    return name.endswith(SUFFIX)


def members(path: Path) -> Iterator[Member]:
    """The image files of a tar file, in its order."""
    try:
        with tarfile.open(path, mode="r:") as archive:
            for entry in archive:
                if entry.isfile() and PurePosixPath(entry.name).suffix.lower() in EXTENSIONS:
                    yield Member(path, entry.name, entry.offset_data, entry.size)
    except OSError as error:
        raise DataInvalid(f"{path} cannot be read ({error.strerror})", fix="check the path") from error
    except tarfile.TarError as error:
        raise DataInvalid(f"{path} is no tar file, or a broken one ({error})", fix="write it again") from error
