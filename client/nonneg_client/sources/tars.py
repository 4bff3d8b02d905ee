"""Images inside tar files, as img2dataset and WebDataset write them: found by their headers, read in place.

A compressed one cannot be read in place: it is unpacked into a temporary file first, which goes with its last member.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tarfile
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nonneg_core.atomic import storage_error
from nonneg_core.errors import DataInvalid
from nonneg_core.tar_members import TarSpan, places

SUFFIX = ".tar"
PACKED: dict[str, Callable[[Path], Any]] = {
    ".tar.gz": gzip.open,
    ".tgz": gzip.open,
    ".tar.bz2": bz2.open,
    ".tar.xz": lzma.open,
}
REFUSED = (".tar.zst", ".tar.lz4")
AT_ONCE = 2**20  # bytes unpacked


@dataclass(frozen=True)
class Member:
    """An image file inside a tar file, which may have been unpacked."""

    archive: Path
    place: TarSpan  # in the tar file itself, or in what it was unpacked into
    held: object = field(default=None, repr=False)  # as long as it lives, the unpacked file is there

    @property
    def id(self) -> str:
        return f"{self.archive}/{self.place.name}"

    def read(self) -> bytes:
        """Return the member's bytes, without opening the archive again."""
        return self.place.read()


def is_tar(path: Path) -> bool:
    """Return whether a file name says tar, compressed or not; what Python cannot unpack is refused."""
    name = path.name.lower()
    if name.endswith(REFUSED):
        raise DataInvalid(
            f"{path} is compressed in a way that is not read", fix=f"unpack it, or write {', '.join(PACKED)}"
        )
    return name.endswith((SUFFIX, *PACKED))


def members(path: Path) -> Iterator[Member]:
    """Yield the image files of a tar file, in its order."""
    try:
        plain, held = _plain(path)
        yield from (Member(path, place, held) for place in places(plain) if place.is_image)
    except (tarfile.TarError, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
        raise DataInvalid(f"{path} is not a tar file, or a broken one ({error})", fix="write it again") from error
    except OSError as error:
        raise DataInvalid(f"{path} cannot be read ({error.strerror or error})", fix="check the path") from error


def _plain(path: Path) -> tuple[Path, object]:
    """Return where its bytes lie uncompressed, and what keeps that file alive."""
    unpack = next((unpack for suffix, unpack in PACKED.items() if path.name.lower().endswith(suffix)), None)
    if unpack is None:
        return path, None
    unpacked = Unpacked()
    with unpack(path) as packed, unpacked.path.open("wb") as plain:
        while block := packed.read(AT_ONCE):
            try:
                plain.write(block)
            except OSError as error:
                raise storage_error(unpacked.path, error) from error
    return unpacked.path, unpacked


class Unpacked:
    """A temporary file that is removed when nothing refers to it any more, at the latest when the process ends."""

    def __init__(self) -> None:
        handle, name = tempfile.mkstemp(prefix="nonneg-", suffix=SUFFIX)
        os.close(handle)
        self.path = Path(name)
        weakref.finalize(self, self.path.unlink, missing_ok=True)
