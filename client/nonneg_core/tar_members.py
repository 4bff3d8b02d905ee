"""A file inside a tar file: its place, found by the headers, so that it is read without opening the archive again."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nonneg_core.errors import DataInvalid
from nonneg_core.pixels.formats import OF_IMAGES


@dataclass(frozen=True)
class TarSpan:
    """So many bytes from there, in an archive that is not compressed."""

    archive: Path
    name: str
    offset: int
    size: int

    @property
    def is_image(self) -> bool:
        """Whether its name ends as an image's."""
        return PurePosixPath(self.name).suffix.lower() in OF_IMAGES

    def read(self) -> bytes:
        """Return the bytes; DataInvalid where the archive has fewer."""
        try:
            with self.archive.open("rb") as file:
                file.seek(self.offset)
                data = file.read(self.size)
        except OSError as error:
            raise DataInvalid(
                f"{self.archive}/{self.name} cannot be read ({error.strerror})", fix="check the archive"
            ) from error
        if len(data) != self.size:
            raise DataInvalid(f"{self.archive} breaks off within {self.name}", fix="copy the archive again")
        return data


def places(archive: Path) -> Iterator[TarSpan]:
    """Yield the files of an archive, in its order; errors are tarfile's and the system's."""
    with tarfile.open(archive, mode="r:") as tar:
        for entry in tar:
            if entry.isfile():
                yield TarSpan(archive, entry.name, entry.offset_data, entry.size)


def sample_of(name: str) -> tuple[str, str]:
    """Return the key that all files of one WebDataset sample share, and the rest of the name: `a/7.cls` -> a/7, cls."""
    folder, slash, last = name.rpartition("/")
    stem, _, suffix = last.partition(".")
    return f"{folder}{slash}{stem}", suffix.lower()
