"""A group: neighbouring images that become one shard, and how the bytes of each are read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from nonneg_client.data_set.addresses import Absent, Address
from nonneg_client.data_set.parquet_file import opened_parquet
from nonneg_core.errors import DataInvalid

T = TypeVar("T")
AT_ONCE = 16  # a store answers each request late, and many together as soon


class Reader(Protocol):
    """Gives the bytes of the images of one group."""

    threads: int  # that may read at once

    def read(self, i: int) -> bytes:
        """Return the bytes of its i-th image, or one of our errors."""


@dataclass(frozen=True)
class ImageGroup:
    """Some images in order; its name is made of their ids, so that the same images are the same shard."""

    ids: tuple[str, ...]
    reader: Reader

    @property
    def name(self) -> str:
        return hashlib.sha256(json.dumps(self.ids).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Files:
    """Images that are files of their own."""

    files: tuple[Address, ...]
    threads = AT_ONCE

    def read(self, i: int) -> bytes:
        return self.files[i].read()


@dataclass(frozen=True)
class Members:
    """Images inside a tar file, by place."""

    archive: Address
    places: tuple[tuple[int, int], ...]  # offset and size
    threads = AT_ONCE

    def read(self, i: int) -> bytes:
        offset, size = self.places[i]
        with still_there(self.archive), self.archive.open() as file:
            data: bytes = file.read_at(size, offset)
        if len(data) != size:
            raise DataInvalid(f"{self.archive} breaks off within an image", fix="copy the archive again")
        return data


@dataclass(frozen=True)
class ParquetImages:
    """Images in a column of a Parquet file; one row group of it is held at a time."""

    file: Address
    column: str
    places: tuple[tuple[int, int], ...]  # row group, and row in it
    threads = 1  # more would read a row group more than once
    _held: dict[int, Any] = field(default_factory=dict, repr=False, compare=False)

    def read(self, i: int) -> bytes:
        row_group, row = self.places[i]
        found = self._of(row_group)[row].as_py()
        data = found.get("bytes") if isinstance(found, dict) else found
        if not isinstance(data, bytes) or not data:
            raise DataInvalid(f"{self.file} holds no image in row {row} of row group {row_group}", fix="check the row")
        return data

    def _of(self, row_group: int) -> Any:
        if row_group not in self._held:
            self._held.clear()
            with still_there(self.file), opened_parquet(self.file) as file:
                self._held[row_group] = file.read_row_group(row_group, columns=[self.column]).column(0)
        return self._held[row_group]


class ContainerGone(DataInvalid):
    """A file with many images was there when it was listed, and is not any more: no fault of each of its images."""


@contextmanager
def still_there(container: Address) -> Iterator[None]:
    """Raise ContainerGone where a file with many images is gone."""
    try:
        yield
    except Absent as error:
        raise ContainerGone(
            f"{container} was listed and is gone now",
            fix="put it back and give the same command again, which goes on",
            value=str(container),
        ) from error


def cut(entries: Iterable[T], size: int, id_of: Callable[[T], str]) -> Iterator[list[T]]:
    """Yield groups of about `size`, at most twice as many, that end where an id's digest says so.

    One image more or less so changes the group that it falls into, and not all groups behind it.
    """
    least = max(1, size // 2)
    waiting: list[T] = []
    for entry in entries:
        waiting.append(entry)
        if len(waiting) >= 2 * size or (len(waiting) >= least and _number(id_of(entry)) % max(1, size - least) == 0):
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big")
