"""From sources to groups: folders, globs, tar files and Parquet files are listed as they are walked."""

from __future__ import annotations

import glob
import io
import os
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Any

from nonneg_client.data_set.addresses import Address, reading
from nonneg_client.data_set.groups import Files, ImageGroup, Members, ParquetImages, cut
from nonneg_client.storage.parquet import import_pyarrow
from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.image_files import leads_back
from nonneg_core.pixels.formats import OF_IMAGES

TAR, PARQUET = ".tar", ".parquet"
AT_ONCE = 2**20  # bytes of a tar file that are fetched to look for headers


@dataclass(frozen=True)
class Sources:
    """What is to be embedded, and into groups of what size."""

    names: tuple[str, ...]
    size: int
    column: str | None = None  # of images, in Parquet files; folders are searched for such files where it is named
    id_column: str | None = None

    def root(self) -> Address:
        """Return the folder that all sources have in common, within which images are named."""
        bases = [base(name) for name in self.names]
        if len({(found.scheme, found.here or found.path.partition("/")[0]) for found in bases}) > 1:
            raise ConfigInvalid("the sources lie in more than one store", fix="embed each into a data set of its own")
        for i, found in enumerate(bases):
            for other in bases[:i] + bases[i + 1 :]:
                if _plain(self.names[i]) and other.path.startswith(f"{found.path}/"):
                    raise ConfigInvalid(f"{other} lies within {found}", fix="name the outer one alone")
        return Address(bases[0].scheme, os.path.commonpath([found.path for found in bases]))


@dataclass(frozen=True)
class Container:
    """A file with many images in it, which is opened to be listed."""

    file: Address
    id: str


Piece = ImageGroup | Container


def pieces(sources: Sources) -> Iterator[Piece]:
    """Yield groups of images that are files, and files that hold many images."""
    root = sources.root()
    found = False
    for name in dict.fromkeys(sources.names):
        for piece in _of_source(name, sources, root):
            found = True
            yield piece
    if not found:
        raise DataInvalid(
            f"{', '.join(sources.names)}: no images",
            fix="name files, folders or globs of images or .tar files, or Parquet files with --column",
        )


def groups_of(piece: Piece, sources: Sources) -> Iterator[ImageGroup]:
    """Yield the groups of a piece; a container is opened and listed."""
    if isinstance(piece, ImageGroup):
        yield piece
    elif piece.file.name.lower().endswith(TAR):
        yield from _of_tar(piece, sources.size)
    else:
        yield from _of_parquet(piece, sources)


def groups(sources: Sources) -> Iterator[ImageGroup]:
    """Yield all groups, in order."""
    for piece in pieces(sources):
        yield from groups_of(piece, sources)


def base(name: str) -> Address:
    """Return the folder from which a source's images are found: itself, a file's, or a glob's last plain one."""
    address = Address.of(name)
    while glob.has_magic(address.path) and address.kind() == "nothing":
        address = address.parent
    kind = address.kind()
    if kind == "nothing":
        raise DataInvalid(f"{name} is not there", fix="check the path or address", value=name)
    folder = address if kind == "folder" else address.parent
    return Address("", os.path.realpath(folder.path)) if folder.here else folder


def _plain(name: str) -> bool:
    return not glob.has_magic(name)


def _of_source(name: str, sources: Sources, root: Address) -> Iterator[Piece]:
    place, typed = base(name), _typed_base(name)

    def named(address: Address) -> tuple[str, Address]:
        return (place / address.within(typed)).within(root), address

    for many, some in groupby(_found(name, sources), is_container):
        if many:
            yield from (Container(address, own) for own, address in map(named, some))
        else:
            for near in cut(map(named, some), sources.size, itemgetter(0)):
                ids, files = zip(*near, strict=True)
                yield ImageGroup(ids, Files(files))


def _typed_base(name: str) -> Address:
    """Return what `base` does, with links as they were typed."""
    address = Address.of(name)
    while glob.has_magic(address.path) and address.kind() == "nothing":
        address = address.parent
    return address if address.kind() == "folder" else address.parent


def _found(name: str, sources: Sources) -> Iterator[Address]:
    """Yield the files that a source stands for, in order."""
    address = Address.of(name)
    kind = address.kind()
    if kind == "folder":
        suffixes = {*OF_IMAGES, *([PARQUET] if sources.column else [])}
        yield from (file for file in walk(address, address) if PurePosixPath(file.name).suffix.lower() in suffixes)
    elif kind == "file":
        yield _readable(address)
    elif glob.has_magic(address.path):
        start = _typed_base(name)
        yield from map(_readable, matching(start, address.within(start).split("/")))
    else:
        raise DataInvalid(f"{name} is not there", fix="check the path or address", value=name)


def is_container(address: Address) -> bool:
    """Return whether a file holds many images."""
    return address.name.lower().endswith((TAR, PARQUET))


def _readable(address: Address) -> Address:
    packed = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tar.lz4")
    if address.name.lower().endswith(packed):
        raise DataInvalid(f"{address} is compressed, and is not read in parts", fix="unpack it to .tar")
    return address


def walk(folder: Address, root: Address) -> Iterator[Address]:
    """Yield every file below a folder, folder by folder, each in the order of names."""
    for entry in folder.entries():
        address = folder / entry.name
        if entry.is_folder:
            if not (address.here and leads_back(Path(address.path), Path(root.path))):
                yield from walk(address, root)
        elif entry.is_file:
            yield address


def matching(folder: Address, parts: Sequence[str]) -> Iterator[Address]:
    """Yield the files below a folder whose path matches a glob's parts; `**` stands for any number of folders."""
    head, rest = parts[0], parts[1:]
    if head == "**":
        yield from matching(folder, rest or ["*"])
    for entry in folder.entries():
        address = folder / entry.name
        if head == "**":
            if entry.is_folder:
                yield from matching(address, parts)
        elif fnmatchcase(entry.name, head):
            if rest and entry.is_folder:
                yield from matching(address, rest)
            elif not rest and entry.is_file:
                yield address


def _of_tar(piece: Container, size: int) -> Iterator[ImageGroup]:
    for some in cut(_members(piece.file), size, lambda member: member[0]):
        ids = tuple(f"{piece.id}/{name}" for name, _, _ in some)
        yield ImageGroup(ids, Members(piece.file, tuple((offset, length) for _, offset, length in some)))


def _members(archive: Address) -> Iterator[tuple[str, int, int]]:
    """Yield name, offset and size of each image of a tar file."""
    try:
        with archive.open() as file, reading(archive):
            plain: Any = io.BufferedReader(file, AT_ONCE)
            with tarfile.open(fileobj=plain, mode="r:") as tar:
                for entry in tar:
                    if entry.isfile() and PurePosixPath(entry.name).suffix.lower() in OF_IMAGES:
                        yield entry.name, entry.offset_data, entry.size
    except (tarfile.TarError, EOFError) as error:
        raise DataInvalid(f"{archive} is not a tar file, or a broken one ({error})", fix="write it again") from error


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


def _of_parquet(piece: Container, sources: Sources) -> Iterator[ImageGroup]:
    with opened_parquet(piece.file) as file:
        column = _column(file, piece.file, sources.column)
        if sources.id_column is not None:
            _present(file, piece.file, sources.id_column)
        for some in cut(_rows(file, piece.id, sources.id_column), sources.size, itemgetter(0)):
            yield ImageGroup(
                tuple(row[0] for row in some), ParquetImages(piece.file, column, tuple(row[1:] for row in some))
            )


def _rows(file: Any, name: str, id_column: str | None) -> Iterator[tuple[str, int, int]]:
    """Yield id, row group and row in it of every row; without a column of ids, rows are numbered."""
    first = 0
    for row_group in range(file.num_row_groups):
        rows = file.metadata.row_group(row_group).num_rows
        if id_column is None:
            yield from ((f"{name}/{first + row}", row_group, row) for row in range(rows))
        else:
            ids = file.read_row_group(row_group, columns=[id_column]).column(0).to_pylist()
            yield from ((str(own), row_group, row) for row, own in enumerate(ids))
        first += rows


def _column(file: Any, address: Address, asked: str | None) -> str:
    """Return the column of images: what is asked for, else the only one of bytes, or of a struct with `bytes`."""
    import pyarrow

    if asked is not None:
        return _present(file, address, asked)
    found = [field.name for field in file.schema_arrow if _of_bytes(pyarrow, field.type)]
    if len(found) != 1:
        raise DataInvalid(
            f"{address} has {len(found)} columns of bytes ({', '.join(found) or 'none'})",
            fix=f"name the one with images by --column; there are {', '.join(file.schema_arrow.names)}",
            field="column",
        )
    return str(found[0])


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
