"""Groups of neighbouring images that become one shard, and files that hold many images: tar and Parquet."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import tarfile
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Any, Protocol, TypeVar

from nonneg_client.sources.image_sources import Item, fetch
from nonneg_core.errors import DataInvalid
from nonneg_core.files.atomic import storage_error
from nonneg_core.files.image_files import path_text, read_image
from nonneg_core.pixels.formats import OF_IMAGES
from nonneg_vectors.storage.addresses import Absent, Address, reading
from nonneg_vectors.storage.parquet import import_pyarrow


@contextmanager
def opened_parquet(address: Address) -> Iterator[Any]:
    """Open a Parquet file to read row groups from."""
    pyarrow = import_pyarrow()
    with address.open() as source, reading(address):
        try:
            with pyarrow.parquet.ParquetFile(source) as file:
                yield file
        except pyarrow.ArrowInvalid as error:
            raise DataInvalid(f"{address} is not a Parquet file, or a broken one ({error})", fix="check it") from error


# A group: neighbouring images that become one shard, and how the bytes of each are read.

T = TypeVar("T")
AT_ONCE = 16  # a store answers each request late, and many together as soon


class Reader(Protocol):
    """Gives the bytes of the images of one group."""

    threads: int  # that may read at once

    def place(self, i: int) -> Address | None:
        """Return the file that the i-th image lies in."""

    def read(self, i: int) -> bytes:
        """Return the bytes of its i-th image, or one of our errors."""


@dataclass(frozen=True)
class ImageGroup:
    """Some images in order; its name is made of their ids, so that the same images are the same shard."""

    ids: tuple[str, ...]
    reader: Reader
    rows: tuple[int, ...] | None = None  # of the reader, where it has more images than this group

    @property
    def name(self) -> str:
        return hashlib.sha256(json.dumps(self.ids).encode()).hexdigest()[:32]

    def items(self) -> Iterator[Item]:
        """Yield the images, none of which is read yet."""
        for i, own in zip(self.rows or range(len(self.ids)), self.ids, strict=True):
            place = self.reader.place(i)
            path = Path(place.path) if place is not None and place.here else None
            yield Item(own, partial(self.reader.read, i), path=path)

    def without(self, ids: Set[str]) -> "ImageGroup":
        """Return the images that have none of these ids."""
        rows = tuple(i for i, own in enumerate(self.ids) if own not in ids)
        return ImageGroup(tuple(self.ids[i] for i in rows), self.reader, rows)


@dataclass(frozen=True)
class Files:
    """Images that are files of their own."""

    files: tuple[Address, ...]
    threads = AT_ONCE

    def place(self, i: int) -> Address:
        return self.files[i]

    def read(self, i: int) -> bytes:
        file = self.files[i]
        return read_image(Path(file.path)) if file.here else file.read()


@dataclass(frozen=True)
class Links:
    """Images behind URLs."""

    urls: tuple[str, ...]
    threads = AT_ONCE

    def place(self, _: int) -> None:
        return None

    def read(self, i: int) -> bytes:
        return fetch(self.urls[i])


@dataclass(frozen=True)
class Archive:
    """A tar file; a compressed one cannot be read in place, and is unpacked where it is read."""

    file: Address
    _unpacked: "list[Unpacked]" = field(default_factory=list, repr=False, compare=False)

    def __reduce__(self) -> "tuple[type[Archive], tuple[Address]]":
        return Archive, (self.file,)  # another machine unpacks it again

    def plain(self) -> Address:
        """Return where its bytes lie uncompressed: in the file itself, or in a temporary one."""
        unpack = next((PACKED[suffix] for suffix in PACKED if self.file.name.lower().endswith(suffix)), None)
        if unpack is None:
            return self.file
        if not self._unpacked:
            self._unpacked.append(_unpack(self.file, unpack))
        return Address("", str(self._unpacked[0].path))


class Unpacked:
    """A temporary file that is removed when nothing refers to it any more, at the latest when the process ends."""

    def __init__(self) -> None:
        handle, name = tempfile.mkstemp(prefix="nonneg-", suffix=TAR)
        os.close(handle)
        self.path = Path(name)
        weakref.finalize(self, self.path.unlink, missing_ok=True)


def _unpack(file: Address, unpack: Callable[[Any], Any]) -> Unpacked:
    unpacked = Unpacked()
    with file.open() as raw, reading(file), unpack(raw) as packed, unpacked.path.open("wb") as plain:
        while block := packed.read(HEADER_BYTES):
            try:
                plain.write(block)
            except OSError as error:
                raise storage_error(unpacked.path, error) from error
    return unpacked


@dataclass(frozen=True)
class Members:
    """Images inside a tar file, by place."""

    archive: Archive
    places: tuple[tuple[int, int], ...]  # offset and size
    threads = AT_ONCE

    def place(self, _: int) -> Address:
        return self.archive.file

    def read(self, i: int) -> bytes:
        offset, size = self.places[i]
        with still_there(self.archive.file), self.archive.plain().open() as file:
            file.seek(offset)
            data: bytes = file.read(size)
        if len(data) != size:
            raise DataInvalid(f"{self.archive.file} breaks off within an image", fix="copy the archive again")
        return data


@dataclass(frozen=True)
class ParquetImages:
    """Images in a column of a Parquet file; one row group of it is held at a time."""

    file: Address
    column: str
    places: tuple[tuple[int, int], ...]  # row group, and row in it
    threads = 1  # more would read a row group more than once
    _held: list[tuple[int, Any]] = field(default_factory=list, repr=False, compare=False)

    def place(self, _: int) -> Address:
        return self.file

    def read(self, i: int) -> bytes:
        row_group, row = self.places[i]
        cell = self._of(row_group)[row].as_py()
        data = cell.get("bytes") if isinstance(cell, dict) else cell
        if not isinstance(data, bytes) or not data:
            raise DataInvalid(f"{self.file} holds no image in row {row} of row group {row_group}", fix="check the row")
        return data

    def _of(self, row_group: int) -> Any:
        for number, rows in tuple(self._held):
            if number == row_group:
                return rows
        with still_there(self.file), opened_parquet(self.file) as file:
            rows = file.read_row_group(row_group, columns=[self.column]).column(0)
        self._held[:] = [(row_group, rows)]
        return rows


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


# Files that hold many images: a tar file's members are found by their headers, a Parquet file's rows are counted.

TAR, PARQUET = ".tar", ".parquet"
PACKED: dict[str, Callable[[Any], Any]] = {
    ".tar.gz": gzip.open,
    ".tgz": gzip.open,
    ".tar.bz2": bz2.open,
    ".tar.xz": lzma.open,
}
REFUSED = (".tar.zst", ".tar.lz4")
HEADER_BYTES = 2**20  # bytes of a tar file that are fetched to look for headers


@dataclass(frozen=True)
class Container:
    """A file with many images in it, which is opened to be listed."""

    file: Address
    id: str


def is_tar(name: str) -> bool:
    """Return whether a file name says tar, compressed or not; what Python cannot unpack is refused."""
    if name.lower().endswith(REFUSED):
        raise DataInvalid(
            f"{name} is compressed in a way that is not read", fix=f"unpack it, or write {', '.join(PACKED)}"
        )
    return name.lower().endswith((TAR, *PACKED))


def of_tar(piece: Container, size: int) -> Iterator[ImageGroup]:
    """Yield the images of a tar file, found by their headers."""
    archive = Archive(piece.file)
    for some in cut(_members(archive), size, lambda member: member[0]):
        ids = tuple(f"{piece.id}/{path_text(Path(name))}" for name, _, _ in some)
        yield ImageGroup(ids, Members(archive, tuple((offset, length) for _, offset, length in some)))


def _members(source: Archive) -> Iterator[tuple[str, int, int]]:
    """Yield name, offset and size of each image of a tar file."""
    archive = source.file
    try:
        with source.plain().open() as file, reading(archive):
            plain: Any = io.BufferedReader(file, HEADER_BYTES)
            with tarfile.open(fileobj=plain, mode="r:") as tar:
                names: set[str] = set()
                for entry in tar:
                    if entry.isfile() and PurePosixPath(entry.name).suffix.lower() in OF_IMAGES:
                        yield _once(entry.name, names, archive), entry.offset_data, entry.size
    except (tarfile.TarError, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
        raise DataInvalid(f"{archive} is not a tar file, or a broken one ({error})", fix="write it again") from error


def of_parquet(piece: Container, size: int, column: str | None, id_column: str | None) -> Iterator[ImageGroup]:
    """Yield the images of a Parquet file's column."""
    with opened_parquet(piece.file) as file:
        image_column = _column(file, piece.file, column)
        if id_column is not None:
            _present(file, piece.file, id_column)
        for some in cut(_rows(file, piece, id_column), size, itemgetter(0)):
            yield ImageGroup(
                tuple(row[0] for row in some), ParquetImages(piece.file, image_column, tuple(row[1:] for row in some))
            )


def _rows(file: Any, piece: Container, id_column: str | None) -> Iterator[tuple[str, int, int]]:
    """Yield id, row group and row in it of every row; without a column of ids, rows are numbered."""
    first = 0
    known_ids: set[str] = set()
    for row_group in range(file.num_row_groups):
        rows = file.metadata.row_group(row_group).num_rows
        if id_column is None:
            yield from ((f"{piece.id}/{first + row}", row_group, row) for row in range(rows))
        else:
            ids = file.read_row_group(row_group, columns=[id_column]).column(0).to_pylist()
            if None in ids:
                raise DataInvalid(
                    f"{piece.file} has no id in row {first + ids.index(None)} of the column {id_column!r}",
                    fix="fill the column, or leave --id-column out: rows are numbered then",
                    field="id_column",
                )
            yield from ((_once(str(own), known_ids, piece.file), row_group, row) for row, own in enumerate(ids))
        first += rows


def _once(own: str, ids: set[str], file: Address) -> str:
    """Return an id that was not seen in this file before, and note it."""
    if own in ids:
        raise DataInvalid(
            f"{file} holds {own!r} twice", fix="write it with each id once: an id has one vector", value=own
        )
    ids.add(own)
    return own


def _column(file: Any, address: Address, column: str | None) -> str:
    """Return the column of images: what is asked for, else the only one of bytes, or of a struct with `bytes`."""
    import pyarrow

    if column is not None:
        return _present(file, address, column)
    columns = [field.name for field in file.schema_arrow if _of_bytes(pyarrow, field.type)]
    if len(columns) != 1:
        raise DataInvalid(
            f"{address} has {len(columns)} columns of bytes ({', '.join(columns) or 'none'})",
            fix=f"name the one with images by --column; there are {', '.join(file.schema_arrow.names)}",
            field="column",
        )
    return str(columns[0])


def _present(file: Any, address: Address, name: str) -> str:
    if name not in file.schema_arrow.names:
        raise DataInvalid(
            f"{address} has no column {name!r}", fix=f"there are {', '.join(file.schema_arrow.names)}", field="column"
        )
    return name


def _of_bytes(pyarrow: Any, kind: Any) -> bool:
    types = pyarrow.types
    if types.is_struct(kind):
        return any(field.name == "bytes" and _of_bytes(pyarrow, field.type) for field in kind)
    return bool(types.is_binary(kind) or types.is_large_binary(kind))
